//! Named places at which a test can have the server die, as by `kill -9`. Nobody else names one.

use std::sync::atomic::{AtomicU32, Ordering};

/// A place in the life of a session's shell. The core has none: it does nothing that could be half done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say what has and what has not happened yet")]
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
    /// All of them.
    pub const ALL: [Self; 21] = [
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

    /// The name by which tests know it, such as `before_append`.
    #[must_use]
    pub fn name(self) -> String {
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

/// Where and when to die.
#[derive(Debug)]
pub struct CrashPlan {
    point: CrashPoint,
    /// How often the place may still be passed.
    left: AtomicU32,
}

impl CrashPlan {
    /// Reads a plan such as `after_append:3`: die when that place is passed for the third time.
    ///
    /// # Errors
    /// When there is no such place, or no such number.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, count) = text.split_once(':').unwrap_or((text, "1"));
        let known = || CrashPoint::ALL.map(CrashPoint::name).join(", ");
        let point = CrashPoint::ALL.into_iter().find(|point| point.name() == name);
        let point = point.ok_or_else(|| format!("no crash point {name:?}; there are {}", known()))?;
        let count: u32 = count.parse().map_err(|_| format!("{count:?} is not a number of times"))?;
        Ok(Self { point, left: AtomicU32::new(count.max(1)) })
    }

    /// Passes a place; dies if the plan says so. Killed, not ended: nothing is flushed, closed or said.
    pub fn pass(&self, point: CrashPoint) {
        if self.point == point && self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
            // The signal is on its way; nothing may happen until it arrives.
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
    fn plans_are_read_and_mistakes_are_named() {
        let plan = CrashPlan::parse("after_append:3").unwrap();
        assert_eq!((plan.point, plan.left.into_inner()), (CrashPoint::AfterAppend, 3));
        assert!(CrashPlan::parse("nowhere").unwrap_err().contains("before_append"));
        assert!(CrashPlan::parse("after_append:x").is_err());
    }
}
