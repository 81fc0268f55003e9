//! Which processes a command has started, and ending all of them.
//!
//! A process belongs to a command if it is in the command's process group or session, if it carries the
//! command's tag in its environment, or if its parent belongs. The first catches what a shell starts, the
//! second what calls itself a daemon and moves away, the third what runs with an empty environment. Only a
//! process that does all of that *and* outlives its parent gets away.
//!
//! Numbers of processes are used again, so no process is signalled by its number alone. While the leader has
//! not been reaped, its number is taken, and so are those of its group and session. Later, a process is known
//! by number and start time, checked on a descriptor that cannot come to mean another process.
//!
//! Without `/proc` (that is, not on Linux) only the process group is seen.
//!
//! Why not `PR_SET_PDEATHSIG`: it reaches the first process only, it fires when the *thread* that started it
//! ends, which in a thread pool is any time, and setting it needs `unsafe`. What a killed server leaves
//! behind is found by the next one through [`ProcessLog`](super::ProcessLog) and
//! [`end_leftovers`](super::end_leftovers).

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use process_wrap::tokio::ChildWrapper;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::time::{Instant, sleep, timeout};

use super::process_log::StartedGroup;
use super::process_table::{self, Identity, Process};

/// The variable that marks the processes of a command.
pub const TAG_VARIABLE: &str = "BATON_SHELL";

const POLL: Duration = Duration::from_millis(20);
/// Killing is repeated because a process may be starting another just then. One that does not go even so
/// hangs in the kernel, and waiting longer would only hang us too.
const KILL_ROUNDS: usize = 25;
const FREEZE_ROUNDS: usize = 10;

/// The processes of one command.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) group: StartedGroup,
    leader_reaped: bool,
    /// Processes seen as ours, so that they stay so when they change group or lose their parent.
    known: HashSet<Identity>,
}

impl Tree {
    pub(crate) fn new(group: StartedGroup) -> Self {
        Self { group, leader_reaped: false, known: HashSet::new() }
    }

    /// To be told at once when the leader has been waited for: from now on its number may be another's.
    pub(crate) fn leader_reaped(&mut self) {
        // Whatever is in the group at this moment is remembered one by one. Mostly there is nothing, which is
        // cheap to know; what has moved to another group has the tag.
        if self.group_exists() {
            self.known.extend(self.members());
        }
        self.leader_reaped = true;
    }

    /// The processes that were seen when the leader had ended.
    pub(crate) fn known(&self) -> Vec<Identity> {
        self.known.iter().copied().collect()
    }

    /// Whether processes were seen when the leader had ended.
    pub(crate) fn has_known(&self) -> bool {
        !self.known.is_empty()
    }

    /// Whether any process is left in the group. One system call, so it misses processes that moved away.
    fn group_exists(&self) -> bool {
        self.leader().is_some_and(|leader| rustix::process::test_kill_process_group(leader).is_ok())
    }

    /// Whether no process is left.
    pub(crate) fn is_empty(&mut self) -> bool {
        if cfg!(not(target_os = "linux")) {
            return !self.group_exists();
        }
        self.known = self.members().into_iter().collect();
        self.known.is_empty()
    }

    /// Tells the command to interrupt what it does, as Ctrl+C would.
    pub(crate) fn interrupt(&self) {
        self.signal_group(Signal::INT);
    }

    /// Asks everything to end.
    fn terminate(&mut self) {
        self.freeze();
        self.signal(Signal::TERM);
        self.signal(Signal::CONT);
    }

    /// Ends everything that can be seen now.
    fn kill_once(&mut self) {
        self.freeze();
        self.signal(Signal::KILL);
    }

    /// Ends everything now. Blocks for a moment.
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

    /// Stops everything, until looking again finds nothing new. Otherwise a process could start another and
    /// end between the look and the signal, and the other would have no parent by which to know it.
    fn freeze(&mut self) {
        self.signal(Signal::STOP);
        for _ in 0..FREEZE_ROUNDS {
            let now: HashSet<Identity> = self.members().into_iter().collect();
            now.difference(&self.known).for_each(|process| process_table::signal(*process, Signal::STOP));
            let nothing_new = now.is_subset(&self.known);
            self.known = now;
            if nothing_new {
                return;
            }
        }
    }

    fn signal(&self, signal: Signal) {
        self.signal_group(signal);
        self.known.iter().for_each(|process| process_table::signal(*process, signal));
    }

    fn signal_group(&self, signal: Signal) {
        let group_is_ours = !self.leader_reaped || cfg!(not(target_os = "linux"));
        if let (true, Some(leader)) = (group_is_ours, self.leader()) {
            // Reaches all of the group at one instant.
            let _ = kill_process_group(leader, signal);
        }
    }

    fn leader(&self) -> Option<Pid> {
        Pid::from_raw(self.group.leader.pid)
    }

    fn members(&self) -> Vec<Identity> {
        let leader = self.group.leader;
        let mark = format!("{TAG_VARIABLE}={}", self.group.tag);
        find(leader.start_time, |process| {
            let in_group = process.group == leader.pid || process.session == leader.pid;
            (in_group && !self.leader_reaped)
                || self.known.contains(&process.id)
                || process.is_marked(mark.as_bytes())
        })
    }
}

/// Ends the tree, politely at first, and says whether it is gone. `child` is its leader, which is waited for. `grace` is
/// how long processes may take to end by themselves after being asked to.
///
/// `tree` is locked for a look at `/proc` at a time, some milliseconds without any waiting on a disk (at most for a
/// program that is being loaded just then), which is why this runs among asynchronous tasks.
pub(crate) async fn end(
    tree: &std::sync::Mutex<Tree>,
    child: &mut dyn ChildWrapper,
    grace: Duration,
) -> bool {
    let tree = || crate::tools::lock(tree);
    // Most programs end by themselves and leave nothing behind: there is nothing to ask, and nothing to wait for.
    if child.id().is_none() && tree().is_empty() {
        return true;
    }
    tree().terminate();
    let patience = Instant::now() + grace;
    while Instant::now() < patience {
        if wait_a_moment(child).await {
            tree().leader_reaped();
        }
        if tree().is_empty() {
            return true;
        }
    }
    for _ in 0..KILL_ROUNDS {
        tree().kill_once();
        if wait_a_moment(child).await {
            tree().leader_reaped();
        }
        if tree().is_empty() {
            return true;
        }
    }
    false
}

/// Waits for `child`, briefly; says whether it has ended just now.
async fn wait_a_moment(child: &mut dyn ChildWrapper) -> bool {
    if child.id().is_none() {
        sleep(POLL).await;
        return false;
    }
    timeout(POLL, child.wait()).await.is_ok()
}

/// Ends every process whose tag begins with `tag`, at once. For a session that ends. Blocks for a moment.
#[expect(clippy::disallowed_methods, reason = "a few milliseconds; it has to work in `Drop`")]
pub fn end_tagged(tag: &str) {
    let mark = format!("{TAG_VARIABLE}={tag}");
    for _ in 0..KILL_ROUNDS {
        let left = find(0, |process| process.is_marked(mark.as_bytes()));
        if left.is_empty() {
            return;
        }
        left.iter().for_each(|process| process_table::signal(*process, Signal::KILL));
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The living processes, started at or after `since`, for which `belongs` holds, and their descendants.
fn find(since: u64, belongs: impl Fn(&Process) -> bool) -> Vec<Identity> {
    let alive: Vec<Process> =
        process_table::all().filter(|process| process.alive && process.id.start_time >= since).collect();
    let mut children: HashMap<i32, Vec<&Process>> = HashMap::new();
    for process in &alive {
        children.entry(process.parent).or_default().push(process);
    }
    let mut todo: Vec<&Process> = alive.iter().filter(|process| belongs(process)).collect();
    let mut found: HashSet<Identity> = HashSet::new();
    while let Some(process) = todo.pop() {
        if found.insert(process.id) {
            todo.extend(children.get(&process.id.pid).into_iter().flatten());
        }
    }
    // Never ourselves, whoever started us with somebody's tag.
    let us = i32::try_from(std::process::id()).unwrap_or(0);
    found.into_iter().filter(|process| process.pid != us).collect()
}
