//! Time limits of programs, and the clock that applies them.
//!
//! The clock does not run while the program waits for the user, or for another run of the same conversation.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// Time limits of a program. None means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeLimits {
    /// From the start of the process to its first output.
    pub startup: Option<Duration>,
    /// Between two lines of output.
    pub silence: Option<Duration>,
    /// For one prompt.
    pub total: Option<Duration>,
}

impl Default for TimeLimits {
    /// Returns generous limits: a command may be silent for long, and a run may take a night. Still, every run ends.
    fn default() -> Self {
        Self {
            startup: Some(Duration::from_secs(60)),
            silence: Some(Duration::from_secs(30 * 60)),
            total: Some(Duration::from_secs(12 * 3600)),
        }
    }
}

/// The limit that was exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overdue {
    Startup(Duration),
    Silence(Duration),
    Total(Duration),
    /// The program was asked to stop, or had reported its result, and did not exit.
    Exit,
}

/// The clock of one prompt.
#[derive(Debug)]
pub(crate) struct Clock {
    limits: TimeLimits,
    started: Instant,
    last_output: Instant,
    has_output: bool,
    paused: Option<Instant>,
    exit_deadline: Option<Instant>,
}

impl Clock {
    /// `has_output`: the program runs already, or prints nothing before its model answers. The startup limit does not
    /// apply then.
    pub(crate) fn start(limits: TimeLimits, has_output: bool) -> Self {
        let now = Instant::now();
        Self { limits, started: now, last_output: now, has_output, paused: None, exit_deadline: None }
    }

    /// Records output of the program.
    pub(crate) fn output_received(&mut self) {
        self.last_output = Instant::now();
        self.has_output = true;
    }

    /// Stops the clock while the program waits for something else, or resumes it.
    pub(crate) fn pause(&mut self, paused: bool) {
        match (self.paused, paused) {
            (None, true) => self.paused = Some(Instant::now()),
            (Some(since), false) => {
                self.started += since.elapsed();
                self.last_output = Instant::now();
                self.paused = None;
            }
            _ => {}
        }
    }

    /// Sets the deadline for the exit of the program, unless there is one.
    pub(crate) fn expect_exit_within(&mut self, limit: Duration) {
        self.exit_deadline.get_or_insert_with(|| Instant::now() + limit);
    }

    /// Waits until a deadline passes that output does not move: for the exit of the program, or for the prompt.
    pub(crate) async fn expired(&self) -> Overdue {
        reached(self.deadline()).await
    }

    /// Waits until the program has been silent for too long.
    pub(crate) async fn silent(&self) -> Overdue {
        reached(self.silence()).await
    }

    fn deadline(&self) -> Option<(Instant, Overdue)> {
        let exit = self.exit_deadline.map(|when| (when, Overdue::Exit));
        let limit = self.limits.total.filter(|_| self.paused.is_none());
        let total = limit.map(|limit| (self.started + limit, Overdue::Total(limit)));
        [exit, total].into_iter().flatten().min_by_key(|(when, _)| *when)
    }

    fn silence(&self) -> Option<(Instant, Overdue)> {
        let (limit, overdue): (_, fn(Duration) -> Overdue) = match self.has_output {
            true => (self.limits.silence, Overdue::Silence),
            false => (self.limits.startup, Overdue::Startup),
        };
        let limit = limit.filter(|_| self.paused.is_none())?;
        Some((self.last_output + limit, overdue(limit)))
    }
}

async fn reached(limit: Option<(Instant, Overdue)>) -> Overdue {
    match limit {
        Some((when, what)) => {
            sleep_until(when).await;
            what
        }
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn clock(has_output: bool) -> Clock {
        let limits =
            TimeLimits { startup: Some(seconds(1)), silence: Some(seconds(10)), total: Some(seconds(100)) };
        Clock::start(limits, has_output)
    }

    /// Waits for the first limit, as a run does.
    async fn overdue(clock: &Clock) -> Overdue {
        tokio::select! {
            overdue = clock.expired() => overdue,
            overdue = clock.silent() => overdue,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn each_limit_has_its_own_start() {
        let mut clock = clock(false);
        assert_eq!(overdue(&clock).await, Overdue::Startup(seconds(1)));
        clock.output_received();
        assert_eq!(overdue(&clock).await, Overdue::Silence(seconds(10)));
        for _ in 0..11 {
            advance(seconds(8)).await;
            clock.output_received();
        }
        assert_eq!(overdue(&clock).await, Overdue::Total(seconds(100)));
    }

    #[tokio::test(start_paused = true)]
    async fn paused_time_does_not_count() {
        let mut clock = clock(true);
        advance(seconds(5)).await;
        clock.pause(true);
        clock.pause(true);
        assert_eq!((clock.deadline(), clock.silence()), (None, None));
        advance(seconds(1000)).await;
        clock.pause(false);
        let start = Instant::now();
        assert_eq!(overdue(&clock).await, Overdue::Silence(seconds(10)));
        assert_eq!(start.elapsed().as_secs(), 10);
        clock.output_received();
        clock.limits.silence = None;
        assert_eq!(overdue(&clock).await, Overdue::Total(seconds(100)));
        assert_eq!(start.elapsed().as_secs(), 95);
    }

    #[tokio::test(start_paused = true)]
    async fn exit_deadline_applies_while_paused_and_is_not_extended() {
        let mut clock = clock(true);
        clock.pause(true);
        clock.expect_exit_within(seconds(2));
        advance(seconds(1)).await;
        clock.expect_exit_within(seconds(2));
        let start = Instant::now();
        assert_eq!(overdue(&clock).await, Overdue::Exit);
        assert_eq!(start.elapsed().as_secs(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn without_limits_nothing_is_overdue() {
        let none = TimeLimits { startup: None, silence: None, total: None };
        let clock = Clock::start(none, false);
        assert_eq!((clock.deadline(), clock.silence()), (None, None));
    }
}
