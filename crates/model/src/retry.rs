//! Decides which failures are retried, and after which pause.
//!
//! A request without side effects can be repeated safely. A retry is useful when the failure is likely to be
//! temporary: a broken connection, an overloaded provider. It is useless when the provider understood the
//! request and refused it.

use std::future::Future;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::{Delta, ErrorKind, Model, ModelError, ModelResponse, Request, Sink};

/// Number of attempts, and the pauses between them.
///
/// By default five attempts, with pauses of about 1, 3, 9 and 15 seconds. Most failures are lost connections,
/// for which one second is plenty. The rest are restarts and overloads, which take ten to thirty seconds;
/// after a longer silence users assume that the program hangs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Maximum number of attempts. Zero counts as one.
    pub attempts: u32,
    /// The first pause.
    pub first_pause: Duration,
    /// Factor from one pause to the next.
    pub factor: u32,
    /// Longest pause, unless the provider asks for more.
    pub longest_pause: Duration,
    /// If the provider asks for a longer pause than this, the request fails at once: the caller should know
    /// now.
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
    /// Returns the pause after this failure of the given attempt, counted from 1; `None` if it was the last.
    ///
    /// `random` is between 0 and 1, and spreads the attempts of many sessions that failed at the same moment:
    /// a pause is between half and all of its nominal length. A pause that the provider asks for is never
    /// shortened, but stretched by up to a tenth. A request for less than the first pause (`Retry-After: 0`)
    /// is ignored: the pauses grow as usual, or all sessions would retry at once.
    #[must_use]
    pub fn pause_after(&self, error: &ModelError, attempt: u32, random: f64) -> Option<Duration> {
        if attempt >= self.attempts || !is_temporary(error) {
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

/// Whether a failure is likely to be gone within a minute.
fn is_temporary(error: &ModelError) -> bool {
    match error.kind {
        ErrorKind::Network | ErrorKind::Stalled | ErrorKind::Server => true,
        ErrorKind::RateLimited => !lasts_for_days(error.code.as_deref().unwrap_or_default()),
        ErrorKind::Auth
        | ErrorKind::Quota
        | ErrorKind::BadRequest
        | ErrorKind::NotFound
        | ErrorKind::ContextTooLong
        | ErrorKind::NotRunning
        | ErrorKind::Certificate
        | ErrorKind::Protocol
        | ErrorKind::Filtered => false,
    }
}

/// Whether a limit lasts for days, such as `user_weekly_rate_limited`, whatever its Retry-After says: the turn
/// then needs a fallback model.
fn lasts_for_days(code: &str) -> bool {
    ["daily", "weekly", "monthly"].iter().any(|period| code.contains(period))
}

/// Sleep and randomness, which tests replace.
pub trait Pauses: Send + Sync {
    /// Sleeps.
    fn sleep(&self, time: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;

    /// Returns a number between 0 and 1.
    fn random(&self) -> f64;
}

/// The real clock and real randomness.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealPauses;

impl Pauses for RealPauses {
    fn sleep(&self, time: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(tokio::time::sleep(time))
    }

    fn random(&self) -> f64 {
        // The standard library seeds its hash maps randomly, which is good enough for spreading retries.
        let bits = RandomState::new().build_hasher().finish();
        f64::from((bits >> 32) as u32) / f64::from(u32::MAX)
    }
}

/// A policy, with the clock and randomness to apply it.
#[derive(Clone)]
pub struct Retries {
    /// Number of attempts and pauses.
    pub policy: Policy,
    /// Clock and randomness.
    pub pauses: Arc<dyn Pauses>,
}

impl Default for Retries {
    fn default() -> Self {
        Self { policy: Policy::default(), pauses: Arc::new(RealPauses) }
    }
}

/// Asks a model, retrying by the policy.
///
/// `on_failure` is called for every failed attempt, counted from 1, with the pause before the next one; with
/// `None` for the last failure, which is also returned. If parts of an answer were already passed on, `sink`
/// receives [`Delta::Restart`] before the pause.
///
/// # Errors
/// With the failure of the last attempt.
pub async fn ask_with_retries(
    retries: &Retries,
    model: &dyn Model,
    request: &Request,
    sink: Sink<'_>,
    mut on_failure: impl FnMut(&ModelError, u32, Option<Duration>),
) -> Result<ModelResponse, ModelError> {
    let mut attempt = 1;
    loop {
        let mut has_parts = false;
        let mut watching = |delta: Delta| {
            has_parts |= !matches!(delta, Delta::Progress { .. });
            sink(delta);
        };
        let error = match model.respond(request, &mut watching).await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        let pause = retries.policy.pause_after(&error, attempt, retries.pauses.random());
        on_failure(&error, attempt, pause);
        let Some(pause) = pause else { return Err(error) };
        if has_parts {
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
    use crate::Responding;

    /// A model that answers from a list, and sends `piece` each time.
    struct Scripted(Mutex<VecDeque<Result<ModelResponse, ModelError>>>);

    impl Model for Scripted {
        fn respond<'a>(&'a self, _: &'a Request, sink: Sink<'a>) -> Responding<'a> {
            sink(Delta::Text("piece".to_owned()));
            let next = self.0.lock().unwrap().pop_front().expect("more attempts than expected");
            Box::pin(async { next })
        }

        fn endpoint(&self) -> &'static str {
            "/scripted"
        }
    }

    /// Records pauses instead of sleeping.
    #[derive(Default)]
    struct RecordedPauses(Mutex<Vec<Duration>>);

    impl Pauses for RecordedPauses {
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

    /// Runs a script of failures, then an answer. Returns the pauses in seconds, the deltas, and whether
    /// there was an answer.
    async fn run(failures: Vec<ModelError>) -> (Vec<f64>, Vec<Delta>, bool) {
        let expected_calls = failures.len();
        let script = failures.into_iter().map(Err).chain([Ok(ModelResponse::default())]).collect();
        let pauses = Arc::new(RecordedPauses::default());
        let retries = Retries { policy: Policy::default(), pauses: pauses.clone() };
        let (mut deltas, mut failures_seen) = (Vec::new(), Vec::new());
        let result = ask_with_retries(
            &retries,
            &Scripted(Mutex::new(script)),
            &Request::default(),
            &mut |delta| deltas.push(delta),
            |_, attempt, pause| failures_seen.push((attempt, pause)),
        )
        .await;
        let slept: Vec<Duration> = pauses.0.lock().unwrap().clone();
        let reported: Vec<Duration> = failures_seen.iter().filter_map(|(_, pause)| *pause).collect();
        assert_eq!(reported, slept, "reported pauses match the actual ones");
        assert!(
            failures_seen.len() <= expected_calls
                && failures_seen.iter().map(|(n, _)| *n).eq(1..=failures_seen.len() as u32)
        );
        (slept.iter().map(Duration::as_secs_f64).collect(), deltas, result.is_ok())
    }

    #[tokio::test]
    async fn pauses_grow_and_the_fifth_failure_is_final() {
        let failures = |n| vec![error(ErrorKind::Network); n];
        assert_eq!(run(failures(4)).await.0, [1.0, 3.0, 9.0, 15.0]);
        assert!(run(failures(4)).await.2);
        let (slept, _, answered) = run(failures(5)).await;
        assert_eq!((slept.len(), answered), (4, false));
    }

    #[tokio::test]
    async fn only_temporary_failures_are_retried() {
        for kind in [ErrorKind::Network, ErrorKind::Stalled, ErrorKind::Server, ErrorKind::RateLimited] {
            assert!(run(vec![error(kind)]).await.2, "{kind}");
        }
        for kind in [
            ErrorKind::Auth,
            ErrorKind::Quota,
            ErrorKind::BadRequest,
            ErrorKind::NotFound,
            ErrorKind::ContextTooLong,
            ErrorKind::NotRunning,
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
    async fn requested_pause_is_respected_up_to_a_limit() {
        assert_eq!(run(vec![limited(20)]).await.0, [22.0]);
        let (slept, _, answered) = run(vec![limited(61)]).await;
        assert_eq!((slept.len(), answered), (0, false));
    }

    #[tokio::test]
    async fn retry_after_zero_still_backs_off() {
        assert_eq!(run(vec![limited(0); 4]).await.0, [1.0, 3.0, 9.0, 15.0]);
        let soon = ModelError { retry_after: Some(Duration::from_millis(900)), ..limited(0) };
        let pause = Policy::default().pause_after(&soon, 1, 0.0);
        assert_eq!(pause, Some(Duration::from_millis(900)), "a requested pause is never shortened");
    }

    #[tokio::test]
    async fn parts_of_a_failed_attempt_are_discarded() {
        let piece = || Delta::Text("piece".to_owned());
        let (_, deltas, _) = run(vec![error(ErrorKind::Network)]).await;
        assert_eq!(deltas, [piece(), Delta::Restart, piece()]);
        let (_, deltas, _) = run(vec![error(ErrorKind::Auth)]).await;
        assert_eq!(deltas, [piece()], "nothing is discarded after the last attempt");
    }

    #[test]
    fn jitter_keeps_pauses_between_half_and_full_length() {
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
