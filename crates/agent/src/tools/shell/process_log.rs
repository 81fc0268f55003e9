//! Who is told which processes run, so that a later server can end what a dead one left behind.

use std::sync::{Arc, Mutex};

use super::process_table::Identity;
use crate::tools::lock;

/// A group of processes that was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartedGroup {
    /// The first process; its pid is also the id of its process group and of its session.
    pub leader: Identity,
    /// The value of [`TAG_VARIABLE`](super::TAG_VARIABLE) in the environment of all its processes. It finds
    /// those that left the group, and is a better proof of identity than any number: no stranger has it.
    pub tag: String,
}

/// Is told of every group of processes at its start and at its end.
///
/// Called from asynchronous code; an implementation that writes to a disk should hand over and return.
pub trait ProcessLog: Send + Sync {
    /// A group was started.
    fn started(&self, group: &StartedGroup);
    /// The leader of the group has ended, and left these running.
    fn left(&self, group: &StartedGroup, members: &[Identity]);
    /// No process of the group is left.
    fn ended(&self, group: &StartedGroup);
}

/// A log that can be handed on.
#[derive(Clone)]
pub struct Processes(pub Arc<dyn ProcessLog>);

impl Default for Processes {
    fn default() -> Self {
        Self(Arc::new(NoProcessLog))
    }
}

impl std::fmt::Debug for Processes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Processes")
    }
}

/// For those who do not care what is left after a crash.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProcessLog;

impl ProcessLog for NoProcessLog {
    fn started(&self, _: &StartedGroup) {}
    fn left(&self, _: &StartedGroup, _: &[Identity]) {}
    fn ended(&self, _: &StartedGroup) {}
}

/// Remembers which groups run now.
#[derive(Debug, Default)]
pub struct MemoryProcessLog(Mutex<Vec<StartedGroup>>);

impl MemoryProcessLog {
    /// The groups that run now.
    #[must_use]
    pub fn running(&self) -> Vec<StartedGroup> {
        lock(&self.0).clone()
    }
}

impl ProcessLog for MemoryProcessLog {
    fn started(&self, group: &StartedGroup) {
        lock(&self.0).push(group.clone());
    }

    fn left(&self, _: &StartedGroup, _: &[Identity]) {}

    fn ended(&self, group: &StartedGroup) {
        lock(&self.0).retain(|running| running != group);
    }
}
