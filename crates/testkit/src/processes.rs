//! Processes started by a test, found by a marker, whatever happened to their parents.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// A unique text in the command line or environment of all processes of a test. Processes that still run when
/// it is dropped are killed by process id, so that a failing test leaves none behind.
#[derive(Debug)]
pub struct Marker(String);

impl Marker {
    /// Creates a unique text.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "each value is different")]
    pub fn new() -> Self {
        let nanos = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos());
        Self(format!("marker{}x{nanos}", std::process::id()))
    }

    /// Returns the text.
    #[must_use]
    pub fn word(&self) -> &str {
        &self.0
    }

    /// Returns the ids and command lines of the running processes that contain it.
    #[must_use]
    pub fn alive(&self) -> Vec<(i32, String)> {
        let processes = std::fs::read_dir("/proc").expect("/proc is readable").flatten();
        let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        numbers.filter_map(|pid| Some((pid, self.carried_by(pid)?))).collect()
    }

    fn carried_by(&self, pid: i32) -> Option<String> {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let variables = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let word = self.0.as_bytes();
        let carries = |bytes: &[u8]| bytes.windows(word.len()).any(|window| window == word);
        // A zombie has no command line.
        let found = !line.is_empty() && (carries(&line) || carries(&variables));
        found.then(|| String::from_utf8_lossy(&line).replace('\0', " "))
    }

    /// Waits until this many processes contain it. Other programs' processes do not notify us of their start.
    pub async fn until_at_least(&self, count: usize) {
        let found = self.poll(Duration::from_secs(10), |alive| alive >= count).await;
        assert!(found, "expected {count} processes, found {:?}", self.alive());
    }

    /// Waits until no process contains it.
    pub async fn until_gone(&self, after: &str) {
        let gone = self.poll(Duration::from_secs(10), |alive| alive == 0).await;
        assert!(gone, "still running after {after}: {:?}", self.alive());
    }

    async fn poll(&self, limit: Duration, enough: impl Fn(usize) -> bool) -> bool {
        let started = Instant::now();
        while started.elapsed() < limit {
            if enough(self.alive().len()) {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        false
    }
}

impl Drop for Marker {
    fn drop(&mut self) {
        for (pid, _) in self.alive() {
            if let Some(pid) = Pid::from_raw(pid) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}
