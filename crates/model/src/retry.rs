//! When to ask again, after how long, and when not.
//!
//! A request that left nothing behind may be asked again without harm. It is worth it when the failure is
//! likely to pass by itself: a broken connection, a provider that is overloaded. It is not when the provider
//! has understood and said no.

use std::future::Future;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::{Answer, Delta, ErrorKind, Model, ModelError, Request, Sink};

/// How often to ask, and how long to wait in between.
///
/// By default five times, with pauses of about 1, 3, 9 and 15 seconds. Most failures are a lost connection,
/// for which one second is plenty. The rest are restarts and overloads, which take ten to thirty seconds; who
/// waits longer than that without a word thinks that the program hangs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// How often to ask in all. Zero counts as one.
    pub attempts: u32,
    /// The first pause.
    pub first_pause: Duration,
    /// Each pause is so many times as long as the one before.
    pub factor: u32,
    /// No pause is longer, unless the provider asks for it.
    pub longest_pause: Duration,
    /// A provider that asks for more than this is not waited for: whoever wants an answer should know now.
    pub longest_retry_after: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            attempts: 5,
            first_pause: Duration::from_secs(1),
            factor: 3,
            longest_pause: Duration::from_secs(15),
            longest_retry_after: Duration::from_secs(60),
        }
    }
}

impl Policy {
    /// How long to wait after this failure of the given attempt, counted from 1; `None` when it was the last.
    ///
    /// `random` is from 0 to 1, and spreads the attempts of many sessions that failed at the same moment: a
    /// pause is between half and all of its nominal length. What a provider asks for is never shortened, but
    /// stretched by up to a tenth. One that asks for less than the first pause (`Retry-After: 0`) has asked for
    /// nothing: the pauses grow as if it had been silent, or all sessions would hammer at it at once.
    #[must_use]
    pub fn pause_after(&self, error: &ModelError, attempt: u32, random: f64) -> Option<Duration> {
        if attempt >= self.attempts || !may_pass(error) {
            return None;
        }
        let random = random.clamp(0.0, 1.0);
        let own_pause = self.nominal_pause(attempt).mul_f64(0.5 + random / 2.0);
        match error.retry_after {
            Some(wait) if wait > self.longest_retry_after => None,
            Some(wait) if wait >= self.first_pause => Some(wait.mul_f64(1.0 + random / 10.0)),
            Some(wait) => Some(own_pause.max(wait)),
            None => Some(own_pause),
        }
    }

    fn nominal_pause(&self, attempt: u32) -> Duration {
        let times = self.factor.saturating_pow(attempt.saturating_sub(1));
        self.first_pause.saturating_mul(times).min(self.longest_pause)
    }
}

/// Whether a failure is likely to pass by itself within a minute.
fn may_pass(error: &ModelError) -> bool {
    match error.kind {
        ErrorKind::Network | ErrorKind::Stalled | ErrorKind::Server => true,
        ErrorKind::RateLimited => !lasts_for_days(error.code.as_deref().unwrap_or_default()),
        ErrorKind::Auth
        | ErrorKind::Quota
        | ErrorKind::BadRequest
        | ErrorKind::NotFound
        | ErrorKind::ContextTooLong
        | ErrorKind::Certificate
        | ErrorKind::Protocol
        | ErrorKind::Filtered => false,
    }
}

/// A limit such as `user_weekly_rate_limited` does not pass, whatever its Retry-After says: another model is
/// needed.
fn lasts_for_days(code: &str) -> bool {
    ["daily", "weekly", "monthly"].iter().any(|period| code.contains(period))
}

/// The two things that tests want to control.
pub trait Pauses: Send + Sync {
    /// Waits.
    fn sleep(&self, time: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;

    /// A number from 0 to 1.
    fn random(&self) -> f64;
}

/// The real time, and real chance.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealPauses;

impl Pauses for RealPauses {
    fn sleep(&self, time: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(tokio::time::sleep(time))
    }

    fn random(&self) -> f64 {
        // The standard library seeds its hash maps by chance. For spreading retries that is as good as a
        // generator.
        let bits = RandomState::new().build_hasher().finish();
        f64::from((bits >> 32) as u32) / f64::from(u32::MAX)
    }
}

/// A policy, and the means to follow it.
#[derive(Clone)]
pub struct Retries {
    /// How often, how long.
    pub policy: Policy,
    /// Waiting and chance.
    pub pauses: Arc<dyn Pauses>,
}

impl Default for Retries {
    fn default() -> Self {
        Self { policy: Policy::default(), pauses: Arc::new(RealPauses) }
    }
}

/// Asks until there is an answer, or no hope.
///
/// `on_failure` is told of every failed attempt, counted from 1, and how long the pause will be before the
/// next; `None` with the last failure, which is also what is returned. When pieces of an answer had already
/// been handed on, `sink` receives [`Delta::Restart`] before the pause.
///
/// # Errors
/// With the failure of the last attempt.
pub async fn ask_with_retries(
    retries: &Retries,
    model: &dyn Model,
    request: &Request,
    sink: Sink<'_>,
    mut on_failure: impl FnMut(&ModelError, u32, Option<Duration>),
) -> Result<Answer, ModelError> {
    let mut attempt = 1;
    loop {
        let mut begun = false;
        let mut watching = |delta: Delta| {
            begun |= !matches!(delta, Delta::Progress { .. });
            sink(delta);
        };
        let error = match model.ask(request, &mut watching).await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        let pause = retries.policy.pause_after(&error, attempt, retries.pauses.random());
        on_failure(&error, attempt, pause);
        let Some(pause) = pause else { return Err(error) };
        if begun {
            sink(Delta::Restart);
        }
        retries.pauses.sleep(pause).await;
        attempt += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Mutex;

    use super::*;
    use crate::Asking;

    /// A model that answers from a list, and says `piece` each time.
    struct Scripted(Mutex<VecDeque<Result<Answer, ModelError>>>);

    impl Model for Scripted {
        fn ask<'a>(&'a self, _: &'a Request, sink: Sink<'a>) -> Asking<'a> {
            sink(Delta::Text("piece".to_owned()));
            let next = self.0.lock().unwrap().pop_front().expect("asked more often than expected");
            Box::pin(async { next })
        }

        fn endpoint(&self) -> &'static str {
            "/scripted"
        }
    }

    /// Remembers how long it would have slept.
    #[derive(Default)]
    struct Instant(Mutex<Vec<Duration>>);

    impl Pauses for Instant {
        fn sleep(&self, time: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
            self.0.lock().unwrap().push(time);
            Box::pin(async {})
        }

        fn random(&self) -> f64 {
            1.0
        }
    }

    fn error(kind: ErrorKind) -> ModelError {
        ModelError::new(kind, "host", "failed")
    }

    fn limited(retry_after: u64) -> ModelError {
        ModelError { retry_after: Some(Duration::from_secs(retry_after)), ..error(ErrorKind::RateLimited) }
    }

    /// Runs a script of failures, then an answer; returns the slept seconds, the deltas and whether it was
    /// answered.
    async fn run(failures: Vec<ModelError>) -> (Vec<f64>, Vec<Delta>, bool) {
        let expected_calls = failures.len();
        let script = failures.into_iter().map(Err).chain([Ok(Answer::default())]).collect();
        let pauses = Arc::new(Instant::default());
        let retries = Retries { policy: Policy::default(), pauses: pauses.clone() };
        let (mut deltas, mut told) = (Vec::new(), Vec::new());
        let result = ask_with_retries(
            &retries,
            &Scripted(Mutex::new(script)),
            &Request::default(),
            &mut |delta| deltas.push(delta),
            |_, attempt, pause| told.push((attempt, pause)),
        )
        .await;
        let slept: Vec<Duration> = pauses.0.lock().unwrap().clone();
        let pauses_told: Vec<Duration> = told.iter().filter_map(|(_, pause)| *pause).collect();
        assert_eq!(pauses_told, slept, "the pauses that were told are those that were made");
        assert!(told.len() <= expected_calls && told.iter().map(|(n, _)| *n).eq(1..=told.len() as u32));
        (slept.iter().map(Duration::as_secs_f64).collect(), deltas, result.is_ok())
    }

    #[tokio::test]
    async fn tries_again_with_growing_pauses_and_gives_up_after_five_attempts() {
        let failures = |n| vec![error(ErrorKind::Network); n];
        assert_eq!(run(failures(4)).await.0, [1.0, 3.0, 9.0, 15.0]);
        assert!(run(failures(4)).await.2);
        let (slept, _, answered) = run(failures(5)).await;
        assert_eq!((slept.len(), answered), (4, false));
    }

    #[tokio::test]
    async fn only_what_may_pass_is_tried_again() {
        for kind in [ErrorKind::Network, ErrorKind::Stalled, ErrorKind::Server, ErrorKind::RateLimited] {
            assert!(run(vec![error(kind)]).await.2, "{kind}");
        }
        for kind in [
            ErrorKind::Auth,
            ErrorKind::Quota,
            ErrorKind::BadRequest,
            ErrorKind::NotFound,
            ErrorKind::ContextTooLong,
            ErrorKind::Certificate,
            ErrorKind::Protocol,
            ErrorKind::Filtered,
        ] {
            assert!(!run(vec![error(kind)]).await.2, "{kind}");
        }
        let weekly = ModelError { code: Some("user_weekly_rate_limited".into()), ..limited(1) };
        assert!(!run(vec![weekly]).await.2);
    }

    #[tokio::test]
    async fn a_provider_that_asks_for_time_gets_it_within_reason() {
        assert_eq!(run(vec![limited(20)]).await.0, [22.0]);
        let (slept, _, answered) = run(vec![limited(61)]).await;
        assert_eq!((slept.len(), answered), (0, false));
    }

    #[tokio::test]
    async fn retry_after_zero_still_backs_off() {
        assert_eq!(run(vec![limited(0); 4]).await.0, [1.0, 3.0, 9.0, 15.0]);
        let soon = ModelError { retry_after: Some(Duration::from_millis(900)), ..limited(0) };
        let pause = Policy::default().pause_after(&soon, 1, 0.0);
        assert_eq!(pause, Some(Duration::from_millis(900)), "what is asked for is never shortened");
    }

    #[tokio::test]
    async fn pieces_of_a_failed_attempt_are_taken_back() {
        let piece = || Delta::Text("piece".to_owned());
        let (_, deltas, _) = run(vec![error(ErrorKind::Network)]).await;
        assert_eq!(deltas, [piece(), Delta::Restart, piece()]);
        let (_, deltas, _) = run(vec![error(ErrorKind::Auth)]).await;
        assert_eq!(deltas, [piece()], "nothing is taken back when nothing follows");
    }

    #[test]
    fn chance_stretches_pauses_between_half_and_all() {
        let policy = Policy::default();
        let pause = |random| policy.pause_after(&error(ErrorKind::Server), 2, random).unwrap().as_secs_f64();
        assert_eq!((pause(0.0), pause(1.0)), (1.5, 3.0));
        assert_eq!(policy.pause_after(&limited(10), 1, 0.0), Some(Duration::from_secs(10)));
        let far = Policy { attempts: u32::MAX, ..policy };
        assert_eq!(
            far.pause_after(&error(ErrorKind::Server), u32::MAX - 1, 1.0),
            Some(Duration::from_secs(15))
        );
        assert!((0..100).all(|_| (0.0..=1.0).contains(&RealPauses.random())));
    }
}
