//! Processes that a test has caused: found by a marker of their own, whatever became of their parents.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// A word that is in the command line or the environment of all processes that belong to it. What still lives when it is
/// dropped is killed, by number, so that a failing test leaves nothing behind.
#[derive(Debug)]
pub struct Marker(String);

impl Marker {
    /// A word that nothing else contains.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "two of them are never the same")]
    pub fn new() -> Self {
        let nanos = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos());
        Self(format!("marker{}x{nanos}", std::process::id()))
    }

    /// The word.
    #[must_use]
    pub fn word(&self) -> &str {
        &self.0
    }

    /// The living processes that carry it: their numbers and command lines.
    #[must_use]
    pub fn alive(&self) -> Vec<(i32, String)> {
        let processes = std::fs::read_dir("/proc").expect("a list of processes").flatten();
        let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        numbers.filter_map(|pid| Some((pid, self.carried_by(pid)?))).collect()
    }

    fn carried_by(&self, pid: i32) -> Option<String> {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let variables = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let word = self.0.as_bytes();
        let carries = |bytes: &[u8]| bytes.windows(word.len()).any(|window| window == word);
        // A process that has ended and only waits to be noticed has no command line.
        let found = !line.is_empty() && (carries(&line) || carries(&variables));
        found.then(|| String::from_utf8_lossy(&line).replace('\0', " "))
    }

    /// Waits until so many processes carry it. Processes that are not ours send no event at their start.
    pub async fn until_at_least(&self, count: usize) {
        let found = self.poll(Duration::from_secs(10), |alive| alive >= count).await;
        assert!(found, "{count} processes should have started, there are {:?}", self.alive());
    }

    /// Waits until no process carries it any more.
    pub async fn until_gone(&self, after: &str) {
        let gone = self.poll(Duration::from_secs(10), |alive| alive == 0).await;
        assert!(gone, "after {after} these are left running: {:?}", self.alive());
    }

    async fn poll(&self, patience: Duration, enough: impl Fn(usize) -> bool) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < patience {
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
