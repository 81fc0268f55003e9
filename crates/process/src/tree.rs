//! The process tree of a supervised program.
//!
//! A process belongs to the tree if it is in the leader's process group or session, if it carries the tree's tag in its
//! environment, or if its parent belongs. The first finds the children of a shell, the second daemons that moved to
//! another session, the third processes with an empty environment. Only a process that does all of this *and* outlives
//! its parent escapes.
//!
//! Pids are reused, so no process is signalled by its pid alone. Until the leader is reaped, its pid is taken, and so are
//! the ids of its group and session. Afterwards a process is identified by pid and start time, checked on a descriptor
//! that cannot come to mean a later process.
//!
//! Without `/proc` (that is, not on Linux) only the process group is found.
//!
//! Why not `PR_SET_PDEATHSIG`: it reaches the first process only, it fires when the *thread* that started it ends, which
//! in a thread pool is any time, and setting it needs `unsafe`. Processes of a killed server are ended by the next one:
//! see [`reap`](crate::reap).

use std::collections::HashSet;
use std::time::Duration;

use baton_sandbox::Control;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::table::{self, Process, ProcessIdentity};

/// Environment variable with the tag of the tree that a process belongs to.
pub const TAG_VARIABLE: &str = "BATON_SHELL";

/// Killing is repeated because a process may be starting a child at that moment. A process that survives all rounds
/// hangs in the kernel, and waiting longer would only hang this server too.
pub(crate) const KILL_ROUNDS: usize = 25;
const FREEZE_ROUNDS: usize = 10;

/// A process tree.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) leader: ProcessIdentity,
    /// Value of [`TAG_VARIABLE`]. It finds processes that left the group, and is a better proof of identity than any pid:
    /// no other process has it.
    tag: String,
    leader_reaped: bool,
    /// The way to the helper inside, if the program is in a sandbox. Its processes are in a PID namespace, which ends as a whole.
    control: Option<Control>,
    /// Processes found earlier: they stay members when they change group or lose their parent.
    known: HashSet<ProcessIdentity>,
}

impl Tree {
    pub(crate) fn new(leader: ProcessIdentity, tag: String, control: Option<Control>) -> Self {
        Self { leader, tag, leader_reaped: false, control, known: HashSet::new() }
    }

    /// Records that the leader has been waited for. Must be called at once: from now on its pid may be reused.
    pub(crate) fn leader_reaped(&mut self) {
        // The members of the group at this moment are remembered one by one. Mostly there are none, which one system call
        // tells; processes that moved to another group have the tag.
        if !self.leader_reaped && self.group_exists() {
            self.look();
        }
        self.leader_reaped = true;
    }

    /// Returns the members found by the last scan.
    pub(crate) fn known(&self) -> Vec<ProcessIdentity> {
        self.known.iter().copied().collect()
    }

    /// Whether the last scan found members.
    pub(crate) fn has_known(&self) -> bool {
        !self.known.is_empty()
    }

    /// Whether the process group has members. One system call; misses processes that moved away.
    fn group_exists(&self) -> bool {
        self.group().is_some_and(|leader| rustix::process::test_kill_process_group(leader).is_ok())
    }

    /// Scans for members, and returns whether there are none.
    pub(crate) fn is_empty(&mut self) -> bool {
        if cfg!(not(target_os = "linux")) {
            return !self.group_exists();
        }
        self.look();
        self.known.is_empty()
    }

    /// Sends SIGINT to the process group, as Ctrl+C would.
    pub(crate) fn interrupt(&self) {
        match &self.control {
            Some(control) => control.interrupt(),
            None => self.signal_group(Signal::INT),
        }
    }

    /// Sends SIGTERM to all members.
    pub(crate) fn terminate(&mut self) {
        if let Some(control) = &self.control {
            return control.terminate();
        }
        self.freeze();
        self.signal(Signal::TERM);
        self.signal(Signal::CONT);
    }

    /// Sends SIGKILL to all members that are found now.
    pub(crate) fn kill_once(&mut self) {
        if let Some(control) = &self.control {
            control.end();
        }
        self.freeze();
        self.signal(Signal::KILL);
    }

    /// Kills all members. Blocks for some milliseconds.
    #[expect(clippy::disallowed_methods, reason = "a few milliseconds; it has to work in `Drop`")]
    pub(crate) fn kill(&mut self) {
        for _ in 0..KILL_ROUNDS {
            self.kill_once();
            if self.is_empty() {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Stops all members, until a new scan finds nothing new. Otherwise a process could start a child and end between
    /// the scan and the signal, and the child would have no parent by which to find it.
    fn freeze(&mut self) {
        self.signal(Signal::STOP);
        let mut stopped = self.known.clone();
        for _ in 0..FREEZE_ROUNDS {
            let members = self.members();
            // The signal has reached the whole group at one instant, so most trees need one scan only.
            let running =
                members.iter().filter(|member| !self.is_in_group(member) && stopped.insert(member.id));
            let running = running.map(|member| table::signal(member.id, Signal::STOP)).count();
            self.known = members.iter().map(|member| member.id).collect();
            if running == 0 {
                return;
            }
        }
    }

    fn signal(&self, signal: Signal) {
        self.signal_group(signal);
        self.known.iter().for_each(|process| table::signal(*process, signal));
    }

    fn signal_group(&self, signal: Signal) {
        if let (true, Some(leader)) = (self.owns_group(), self.group()) {
            // Reaches the whole group at one instant.
            let _ = kill_process_group(leader, signal);
        }
    }

    fn group(&self) -> Option<Pid> {
        Pid::from_raw(self.leader.pid)
    }

    /// Whether the id of the group is certainly not reused.
    fn owns_group(&self) -> bool {
        !self.leader_reaped || cfg!(not(target_os = "linux"))
    }

    fn is_in_group(&self, process: &Process) -> bool {
        self.owns_group() && process.group == self.leader.pid
    }

    fn members(&self) -> Vec<Process> {
        let leader = self.leader;
        let mark = format!("{TAG_VARIABLE}={}", self.tag);
        find(leader.start_time, |process| {
            let in_group = process.group == leader.pid || process.session == leader.pid;
            (in_group && !self.leader_reaped)
                || self.known.contains(&process.id)
                || process.is_marked(mark.as_bytes())
        })
    }

    fn look(&mut self) {
        self.known = self.members().iter().map(|member| member.id).collect();
    }
}

/// Kills all processes whose tag begins with `tag`. Blocks for some milliseconds.
#[expect(clippy::disallowed_methods, reason = "a few milliseconds; it has to work in `Drop`")]
pub fn end_tagged(tag: &str) {
    let mark = format!("{TAG_VARIABLE}={tag}");
    for _ in 0..KILL_ROUNDS {
        let left = find(0, |process| process.is_marked(mark.as_bytes()));
        if left.is_empty() {
            return;
        }
        left.iter().for_each(|process| table::signal(process.id, Signal::KILL));
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Returns the living processes, started at or after `since`, for which `belongs` holds, and their descendants.
fn find(since: u64, belongs: impl Fn(&Process) -> bool) -> Vec<Process> {
    // Never this process, even if it was started with a tag.
    let us = i32::try_from(std::process::id()).unwrap_or(0);
    let candidates = table::all().filter(|process| process.alive && process.id.start_time >= since);
    let mut rest: Vec<Process> = candidates.filter(|process| process.id.pid != us).collect();
    let mut found: Vec<Process> = rest.extract_if(.., |process| belongs(process)).collect();
    let mut at = 0;
    while let Some(parent) = found.get(at).map(|process| process.id.pid) {
        found.extend(rest.extract_if(.., |process| process.parent == parent));
        at += 1;
    }
    found
}
