//! Ending a process tree: SIGTERM, a grace period, SIGKILL.
//!
//! The end of a process is an event: a process descriptor (`pidfd`) becomes readable. Without descriptors (an old kernel,
//! a sandbox, another system) the process table is polled, at first every millisecond and then less often.

use std::sync::Mutex;
use std::time::Duration;

use process_wrap::tokio::ChildWrapper;
use tokio::time::{Instant, sleep, timeout};

use crate::lock;
use crate::table::ProcessIdentity;
use crate::tree::{KILL_ROUNDS, Tree};

/// How often the table is read while members of the tree are running. A member may start a process that leaves the group
/// and clears its environment; it is found only while its parent exists.
const RESCAN: Duration = Duration::from_millis(20);
/// First pause before the table is read again, where no event announces the end of a process.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
/// How long killed processes may take to end.
const KILL_PATIENCE: Duration = Duration::from_millis(500);

/// Ends a tree: SIGTERM to all members, SIGKILL to those that are left after `grace`. Reaps `child`, the leader. Returns
/// whether no process is left.
///
/// `tree` is locked for one scan of `/proc` at a time, some milliseconds without disk I/O (at worst the wait for a
/// program that is being loaded), which is why this may run on the runtime's workers.
pub(crate) async fn end(tree: &Mutex<Tree>, child: &mut dyn ChildWrapper, grace: Duration) -> bool {
    // Most programs end by themselves and leave no processes.
    if child.id().is_none() && lock(tree).is_empty() {
        return true;
    }
    lock(tree).terminate();
    let mut wait = Wait { tree, child, pause: FIRST_PAUSE };
    let deadline = Instant::now() + grace;
    while Instant::now() < deadline {
        if wait.is_over(deadline).await {
            return true;
        }
    }
    let (mut rounds, deadline) = (0, Instant::now() + KILL_PATIENCE);
    while rounds < KILL_ROUNDS || Instant::now() < deadline {
        lock(tree).kill_once();
        if wait.is_over(Instant::now() + RESCAN).await {
            return true;
        }
        rounds += 1;
    }
    false
}

/// Waiting for the end of all members.
struct Wait<'a> {
    tree: &'a Mutex<Tree>,
    child: &'a mut dyn ChildWrapper,
    /// Next pause before the table is read again, where no event announces the end of a process.
    pause: Duration,
}

impl Wait<'_> {
    /// Waits until the known members have ended, at most until the next scan is due, and returns whether there are none.
    async fn is_over(&mut self, deadline: Instant) -> bool {
        let limit = RESCAN.min(deadline.saturating_duration_since(Instant::now()));
        let ended = timeout(limit, self.all_ended()).await;
        if lock(self.tree).is_empty() {
            // A leader that ended after the wait is a zombie, which does not count; it is reaped at once.
            let _ = timeout(RESCAN, self.child.wait()).await;
            return true;
        }
        if ended.is_ok() {
            // There are new members, or no event was available.
            sleep(self.pause.min(limit)).await;
            self.pause = RESCAN.min(self.pause * 2);
        }
        false
    }

    /// Waits for the end of the leader, then of all known members.
    async fn all_ended(&mut self) {
        if self.child.id().is_some() {
            let _ = self.child.wait().await;
            lock(self.tree).leader_reaped();
        }
        let members = lock(self.tree).known();
        for member in members {
            ended(member).await;
        }
    }
}

/// Waits for the end of a process. Returns at once where that is not possible.
#[cfg(target_os = "linux")]
async fn ended(process: ProcessIdentity) {
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;
    let Ok(Some(descriptor)) = crate::table::descriptor(process) else { return };
    #[expect(
        deprecated,
        reason = "unsound for types that misreport their descriptor, which `OwnedFd` does not"
    )]
    let watched = AsyncFd::with_interest(descriptor, Interest::READABLE);
    if let Ok(watched) = watched {
        let _ = watched.readable().await;
    }
}

#[cfg(not(target_os = "linux"))]
async fn ended(_: ProcessIdentity) {}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::process::Stdio;

    use tokio::io::{AsyncBufReadExt, BufReader, Lines};
    use tokio::process::{ChildStdout, Command};

    use super::*;
    use crate::{Ledger, Supervised, table};

    const GRACE: Duration = Duration::from_secs(60);

    fn start(script: &str) -> (Supervised, Ledger, Lines<BufReader<ChildStdout>>) {
        let mut command = Command::new("bash");
        command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::piped());
        let ledger = Ledger::default();
        let tag = format!("{}/", uuid::Uuid::new_v4());
        let mut program = Supervised::spawn(command, tag, ledger.clone()).unwrap();
        let stdout = program.pipes().1.unwrap();
        (program, ledger, BufReader::new(stdout).lines())
    }

    /// Reads the pids that a script prints, one on each line, up to an empty line.
    async fn pids(lines: &mut Lines<BufReader<ChildStdout>>) -> Vec<u32> {
        let mut pids = Vec::new();
        while let Some(line) = lines.next_line().await.unwrap().filter(|line| !line.is_empty()) {
            pids.push(line.parse().unwrap());
        }
        pids
    }

    #[tokio::test]
    async fn end_returns_when_the_last_process_has_ended() {
        for script in [
            "sleep 1000 & echo $!; sleep 1000 & echo $!; echo; wait",
            // A daemon.
            "setsid sleep 1000 & echo $!; echo; wait",
            // A child that ends later than its parent.
            "bash -c 'trap \"sleep 0.1; exit\" TERM; echo $$; echo; while :; do sleep 0.01; done' & wait",
            // A cleanup handler that starts a process.
            "trap 'sleep 0.05 & exit' TERM; echo $$; echo; while :; do sleep 0.01; done",
        ] {
            let (mut program, ledger, mut lines) = start(script);
            let leader = program.leader();
            let pids = pids(&mut lines).await;
            assert!(!pids.is_empty() && pids.iter().all(|pid| table::start_time(*pid).is_some()), "{script}");
            assert!(program.end(GRACE).await, "{script}");
            assert!(pids.iter().all(|pid| table::start_time(*pid).is_none()), "{script}");
            assert!(!leader.exists(), "the leader was reaped: {script}");
            assert_eq!(ledger.running(), [], "{script}");
        }
    }

    #[tokio::test]
    async fn tree_whose_leader_has_exited_is_ended() {
        let (mut program, ledger, mut lines) = start("sleep 1000 & echo $!; echo");
        let pids = pids(&mut lines).await;
        program.wait().await.unwrap();
        assert!(program.has_leftovers(false));
        assert_eq!(ledger.running(), [program.leader()]);
        assert!(program.end(GRACE).await);
        assert!(pids.iter().all(|pid| table::start_time(*pid).is_none()));
        assert!(!program.has_leftovers(true));
    }

    #[tokio::test]
    async fn processes_that_ignore_sigterm_are_killed_after_the_grace_period() {
        let (mut program, _, mut lines) = start("trap '' TERM; (sleep 1000) & echo $!; echo $$; echo; wait");
        let pids = pids(&mut lines).await;
        assert_eq!(pids.len(), 2);
        assert!(program.end(Duration::from_millis(1)).await);
        assert!(pids.iter().all(|pid| table::start_time(*pid).is_none()));
    }

    #[tokio::test]
    async fn end_of_a_process_is_an_event() {
        let mut child = Command::new("sleep").arg("1000").kill_on_drop(true).spawn().unwrap();
        let process = ProcessIdentity::of(child.id().unwrap().cast_signed());
        let waiting = tokio::spawn(ended(process));
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        child.start_kill().unwrap();
        waiting.await.unwrap();
        assert_eq!(table::start_time(process.pid.cast_unsigned()), None);
        child.wait().await.unwrap();
        ended(process).await;
    }

    #[tokio::test]
    async fn dropping_a_program_kills_its_tree() {
        let (program, _, mut lines) = start("trap '' TERM; setsid sleep 1000 & echo $!; echo; wait");
        let pids = pids(&mut lines).await;
        let processes: Vec<ProcessIdentity> =
            pids.iter().map(|pid| ProcessIdentity::of(pid.cast_signed())).collect();
        drop(program);
        for process in processes {
            ended(process).await;
        }
    }
}
