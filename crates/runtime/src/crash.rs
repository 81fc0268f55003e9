//! Crash points: named points in the code at which a test kills the server, as `kill -9` would. Without a [`CrashPlan`]
//! they do nothing.

use std::sync::atomic::{AtomicU32, Ordering};

/// A crash point. All of them are in the runtime: the core has no side effects that a crash could interrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "each name states what has and what has not happened yet")]
pub enum CrashPoint {
    BeforeMigration,
    DuringMigration,
    AfterMigration,
    BeforeCreate,
    AfterCreate,
    AfterAcquire,
    BeforeAppend,
    AfterAppend,
    AfterPublish,
    BeforeReply,
    AfterReply,
    BeforeStart,
    AfterStart,
    WorkReturned,
    BeforeStop,
    AfterStop,
    BeforeRelease,
    AfterRelease,
    BeforeDelete,
    AfterDelete,
    DuringImport,
}

impl CrashPoint {
    /// All crash points.
    pub(crate) const ALL: [Self; 21] = [
        Self::BeforeMigration,
        Self::DuringMigration,
        Self::AfterMigration,
        Self::BeforeCreate,
        Self::AfterCreate,
        Self::AfterAcquire,
        Self::BeforeAppend,
        Self::AfterAppend,
        Self::AfterPublish,
        Self::BeforeReply,
        Self::AfterReply,
        Self::BeforeStart,
        Self::AfterStart,
        Self::WorkReturned,
        Self::BeforeStop,
        Self::AfterStop,
        Self::BeforeRelease,
        Self::AfterRelease,
        Self::BeforeDelete,
        Self::AfterDelete,
        Self::DuringImport,
    ];

    /// Returns the name that tests use, such as `before_append`.
    #[must_use]
    pub(crate) fn name(self) -> String {
        let mut name = String::new();
        for c in format!("{self:?}").chars() {
            if c.is_uppercase() && !name.is_empty() {
                name.push('_');
            }
            name.extend(c.to_lowercase());
        }
        name
    }
}

/// The crash point at which to kill the server, and the number of the pass.
#[derive(Debug)]
pub struct CrashPlan {
    point: CrashPoint,
    /// Passes left, including the one that kills.
    left: AtomicU32,
}

impl CrashPlan {
    /// Parses a plan such as `after_append:3`: kill the server when it passes that point for the third time.
    ///
    /// # Errors
    /// When the name or the number is not valid; the message lists the names.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, count) = text.split_once(':').unwrap_or((text, "1"));
        let known = || CrashPoint::ALL.map(CrashPoint::name).join(", ");
        let point = CrashPoint::ALL.into_iter().find(|point| point.name() == name);
        let point = point.ok_or_else(|| format!("no crash point {name:?}; there are {}", known()))?;
        let count: u32 = count
            .parse()
            .map_err(|_| format!("invalid crash count {count:?}; use a number such as after_append:3"))?;
        Ok(Self { point, left: AtomicU32::new(count.max(1)) })
    }

    /// Passes a crash point, and kills the process if the plan names it: nothing is flushed, closed or logged.
    pub fn pass(&self, point: CrashPoint) {
        if self.point == point && self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
            // Nothing may happen before the signal arrives.
            loop {
                std::thread::park();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_parsed_and_errors_list_the_crash_points() {
        let plan = CrashPlan::parse("after_append:3").unwrap();
        assert_eq!((plan.point, plan.left.into_inner()), (CrashPoint::AfterAppend, 3));
        assert!(CrashPlan::parse("nowhere").unwrap_err().contains("before_append"));
        assert!(CrashPlan::parse("after_append:x").is_err());
    }
}
