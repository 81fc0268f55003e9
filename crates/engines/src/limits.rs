//! How long a program may take, and the clock that knows.
//!
//! Time in which a person is waited for, or another run of the same conversation, is not the program's.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// How long a program may take. None: as long as it likes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// From its start until it says something.
    pub startup: Option<Duration>,
    /// Between two things that it says.
    pub silence: Option<Duration>,
    /// For one prompt.
    pub total: Option<Duration>,
}

impl Default for Limits {
    /// Generous: a command may be silent for long, and a run may take a night. Still, all of them end.
    fn default() -> Self {
        Self {
            startup: Some(Duration::from_secs(60)),
            silence: Some(Duration::from_secs(30 * 60)),
            total: Some(Duration::from_secs(12 * 3600)),
        }
    }
}

/// What has taken too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overdue {
    Startup(Duration),
    Silence(Duration),
    Total(Duration),
    /// It was asked to stop, or had said its last word, and did not end.
    Farewell,
}

/// The clock of one turn.
#[derive(Debug)]
pub(crate) struct Clock {
    limits: Limits,
    begun: Instant,
    last_heard: Instant,
    has_spoken: bool,
    paused: Option<Instant>,
    farewell: Option<Instant>,
}

impl Clock {
    /// `has_spoken`: the program is there already, or says nothing before the model does.
    pub(crate) fn start(limits: Limits, has_spoken: bool) -> Self {
        let now = Instant::now();
        Self { limits, begun: now, last_heard: now, has_spoken, paused: None, farewell: None }
    }

    /// The program has said something.
    pub(crate) fn heard(&mut self) {
        self.last_heard = Instant::now();
        self.has_spoken = true;
    }

    /// Whether something else than the program is waited for.
    pub(crate) fn pause(&mut self, paused: bool) {
        match (self.paused, paused) {
            (None, true) => self.paused = Some(Instant::now()),
            (Some(since), false) => {
                self.begun += since.elapsed();
                self.last_heard = Instant::now();
                self.paused = None;
            }
            _ => {}
        }
    }

    /// It should end now.
    pub(crate) fn say_farewell(&mut self, patience: Duration) {
        self.farewell.get_or_insert_with(|| Instant::now() + patience);
    }

    /// Waits until something has taken too long.
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
        let farewell = self.farewell.map(|when| (when, Overdue::Farewell));
        if self.paused.is_some() {
            return farewell;
        }
        let speak = if self.has_spoken {
            self.limits.silence.map(|limit| (self.last_heard + limit, Overdue::Silence(limit)))
        } else {
            self.limits.startup.map(|limit| (self.last_heard + limit, Overdue::Startup(limit)))
        };
        let total = self.limits.total.map(|limit| (self.begun + limit, Overdue::Total(limit)));
        [farewell, speak, total].into_iter().flatten().min_by_key(|(when, _)| *when)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn clock(has_spoken: bool) -> Clock {
        let limits =
            Limits { startup: Some(seconds(1)), silence: Some(seconds(10)), total: Some(seconds(100)) };
        Clock::start(limits, has_spoken)
    }

    #[tokio::test(start_paused = true)]
    async fn each_limit_counts_from_its_own_beginning() {
        let mut clock = clock(false);
        assert_eq!(clock.overdue().await, Overdue::Startup(seconds(1)));
        clock.heard();
        assert_eq!(clock.overdue().await, Overdue::Silence(seconds(10)));
        for _ in 0..11 {
            advance(seconds(8)).await;
            clock.heard();
        }
        assert_eq!(clock.overdue().await, Overdue::Total(seconds(100)));
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_for_somebody_else_does_not_count() {
        let mut clock = clock(true);
        advance(seconds(5)).await;
        clock.pause(true);
        clock.pause(true);
        assert_eq!(clock.next(), None);
        advance(seconds(1000)).await;
        clock.pause(false);
        let begun = Instant::now();
        assert_eq!(clock.overdue().await, Overdue::Silence(seconds(10)));
        assert_eq!(begun.elapsed().as_secs(), 10);
        clock.heard();
        clock.limits.silence = None;
        assert_eq!(clock.overdue().await, Overdue::Total(seconds(100)));
        assert_eq!(begun.elapsed().as_secs(), 95);
    }

    #[tokio::test(start_paused = true)]
    async fn farewells_are_short_even_while_somebody_is_waited_for() {
        let mut clock = clock(true);
        clock.pause(true);
        clock.say_farewell(seconds(2));
        advance(seconds(1)).await;
        clock.say_farewell(seconds(2));
        let begun = Instant::now();
        assert_eq!(clock.overdue().await, Overdue::Farewell);
        assert_eq!(begun.elapsed().as_secs(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn no_limit_is_no_limit() {
        let none = Limits { startup: None, silence: None, total: None };
        assert_eq!(Clock::start(none, false).next(), None);
    }
}
