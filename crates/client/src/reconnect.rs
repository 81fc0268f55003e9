//! Reconnecting to a server that is away, alike in all commands: when the next attempt is due, and what is asked of a server that
//! is back.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Client, RequestFailure};

/// Delays before attempts to reconnect; the last one repeats.
const DELAYS: [Duration; 4] =
    [Duration::from_millis(200), Duration::from_millis(500), Duration::from_secs(1), Duration::from_secs(3)];

/// Attempts to reconnect since a connection was lost.
#[derive(Debug, Default)]
pub struct Attempts {
    failures: usize,
    since: Option<Instant>,
}

impl Attempts {
    /// Counts a failure. Returns the delay before the next attempt.
    pub fn fail(&mut self) -> Duration {
        let delay = DELAYS[self.failures.min(DELAYS.len() - 1)];
        self.failures += 1;
        self.since.get_or_insert_with(Instant::now);
        delay
    }

    /// Returns the time since the first failure.
    #[must_use]
    pub fn duration(&self) -> Duration {
        self.since.map(|since| since.elapsed()).unwrap_or_default()
    }
}

impl Client {
    /// Asks a restarted server to continue the pending work of a session.
    ///
    /// # Errors
    /// When the server cannot be reached.
    pub async fn resume(&self, session: &str) -> Result<(), RequestFailure> {
        match self.post::<Value>(&format!("/api/sessions/{session}/resume"), &json!({}), None).await {
            // Another process holds the session, and continues it.
            Ok(_) | Err(RequestFailure::Refused { .. }) => Ok(()),
            Err(lost) => Err(lost),
        }
    }
}
