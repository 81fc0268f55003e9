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

    /// Waits until a limit is exceeded.
    pub(crate) async fn overdue(&self) -> Overdue {
        match self.next() {
            Some((when, what)) => {
                sleep_until(when).await;
                what
            }
            None => std::future::pending().await,
        }
    }

    fn next(&self) -> Option<(Instant, Overdue)> {
        let exit = self.exit_deadline.map(|when| (when, Overdue::Exit));
        if self.paused.is_some() {
            return exit;
        }
        let output = if self.has_output {
            self.limits.silence.map(|limit| (self.last_output + limit, Overdue::Silence(limit)))
        } else {
            self.limits.startup.map(|limit| (self.last_output + limit, Overdue::Startup(limit)))
        };
        let total = self.limits.total.map(|limit| (self.started + limit, Overdue::Total(limit)));
        [exit, output, total].into_iter().flatten().min_by_key(|(when, _)| *when)
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

    #[tokio::test(start_paused = true)]
    async fn each_limit_has_its_own_start() {
        let mut clock = clock(false);
        assert_eq!(clock.overdue().await, Overdue::Startup(seconds(1)));
        clock.output_received();
        assert_eq!(clock.overdue().await, Overdue::Silence(seconds(10)));
        for _ in 0..11 {
            advance(seconds(8)).await;
            clock.output_received();
        }
        assert_eq!(clock.overdue().await, Overdue::Total(seconds(100)));
    }

    #[tokio::test(start_paused = true)]
    async fn paused_time_does_not_count() {
        let mut clock = clock(true);
        advance(seconds(5)).await;
        clock.pause(true);
        clock.pause(true);
        assert_eq!(clock.next(), None);
        advance(seconds(1000)).await;
        clock.pause(false);
        let start = Instant::now();
        assert_eq!(clock.overdue().await, Overdue::Silence(seconds(10)));
        assert_eq!(start.elapsed().as_secs(), 10);
        clock.output_received();
        clock.limits.silence = None;
        assert_eq!(clock.overdue().await, Overdue::Total(seconds(100)));
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
        assert_eq!(clock.overdue().await, Overdue::Exit);
        assert_eq!(start.elapsed().as_secs(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn without_limits_nothing_is_overdue() {
        let none = TimeLimits { startup: None, silence: None, total: None };
        assert_eq!(Clock::start(none, false).next(), None);
    }
}
