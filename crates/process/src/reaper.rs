//! Ending the processes of servers that were killed (promise P6: no process is left running).
//!
//! All processes of a session carry a unique tag in their environment, and each program is started in its own session
//! (of the operating system's kind). A server writes tags and leaders to its [`ledger`]. A server that stops ends its
//! processes and removes its ledger. A server that is killed leaves it behind, and the next one on the same home ends
//! the processes that still carry one of its tags or are in one of its sessions. Other processes are never signalled: a
//! pid may be reused, a tag is not; [`leftovers`] explains which processes of a session are certainly ours.
//!
//! [`leftovers`]: crate::leftovers
#![expect(clippy::disallowed_methods, reason = "blocking by design; callers run it on a blocking thread")]

use std::fs;
use std::path::Path;

use crate::ledger::{self, Entries};
use crate::leftovers::{Unrecorded, end_leftovers};
use crate::{Instance, ProcessIdentity};

/// Ends the processes of killed servers on this home. Blocks. Returns how many processes there were.
pub fn reap(home: &Path) -> usize {
    let Ok(entries) = fs::read_dir(ledger::directory(home)) else { return 0 };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let paths = paths.filter(|path| path.extension().is_some_and(|extension| extension == "running"));
    paths.map(|path| reap_ledger(&path)).sum()
}

/// Ends the processes of one server on this host that others have declared dead. Blocks. Returns how many processes there
/// were. The server itself may only be paused: it is left alone, and so is its ledger.
pub fn reap_server(home: &Path, server: &str) -> usize {
    let path = ledger::directory(home).join(format!("{server}.running"));
    let text = fs::read_to_string(&path).unwrap_or_default();
    let Some((owner, entries)) = Entries::parse(&text) else { return 0 };
    if owner.server != server || !owner.is_of_this_boot() {
        return 0;
    }
    let ended = end_all(&owner, &entries);
    if !owner.is_alive() {
        let _ = fs::remove_file(path);
    }
    ended
}

fn reap_ledger(path: &Path) -> usize {
    let text = fs::read_to_string(path).unwrap_or_default();
    let Some((owner, entries)) = Entries::parse(&text) else { return 0 };
    if owner.is_alive() {
        return 0;
    }
    let mut ended = 0;
    if owner.is_of_this_boot() {
        ended = end_all(&owner, &entries);
    }
    let _ = fs::remove_file(path);
    ended
}

fn end_all(owner: &Instance, entries: &Entries) -> usize {
    let tags: Vec<String> = entries.tags.iter().cloned().collect();
    let server =
        ProcessIdentity { pid: i32::try_from(owner.pid).unwrap_or_default(), start_time: owner.started };
    let unrecorded = entries.starting_since().map(|since| Unrecorded { server, since });
    end_leftovers(&tags, &entries.leftovers(), unrecorded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::now_in_ticks;
    use crate::{Ledger, TAG_VARIABLE};
    use std::io::{BufRead, BufReader, Read, Write};
    use std::process::{Child, Command, Stdio};

    fn tagged(tag: &str) -> Child {
        Command::new("sleep")
            .arg("600")
            .env(TAG_VARIABLE, format!("{tag}1/"))
            .stdin(Stdio::null())
            .spawn()
            .unwrap()
    }

    fn dead_owner() -> Instance {
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        Instance { pid: child.id(), started: 1, ..Instance::current() }
    }

    #[test]
    fn only_processes_of_a_dead_server_are_ended() {
        let home = tempfile::tempdir().unwrap();
        let (ours, other) = (uuid::Uuid::new_v4(), uuid::Uuid::new_v4());
        Ledger::new(home.path(), dead_owner()).note(&format!("{ours}/"));
        let (mut orphan, mut stranger) = (tagged(&format!("{ours}/")), tagged(&format!("{other}/")));
        assert_eq!(reap(home.path()), 1);
        assert!(!orphan.wait().unwrap().success(), "the orphan was killed");
        assert!(stranger.try_wait().unwrap().is_none(), "the stranger was not");
        stranger.kill().unwrap();
        stranger.wait().unwrap();
        assert_eq!(reap(home.path()), 0, "the ledger was removed");
    }

    #[test]
    fn processes_of_a_server_that_was_declared_dead_are_ended() {
        let home = tempfile::tempdir().unwrap();
        let (tag, owner) = (format!("{}/", uuid::Uuid::new_v4()), Instance::current());
        let ledger = Ledger::new(home.path(), owner.clone());
        ledger.note(&tag);
        let mut child = tagged(&tag);
        assert_eq!(reap_server(home.path(), "another"), 0);
        assert!(child.try_wait().unwrap().is_none());
        assert_eq!(reap_server(home.path(), &owner.server), 1);
        assert!(!child.wait().unwrap().success());
        assert_eq!(fs::read_dir(home.path().join("running")).unwrap().count(), 1, "it may only be paused");
        ledger.close();
    }

    /// A paused server that has started two programs without environment, one before and one after its announcement.
    #[test]
    fn program_that_a_paused_server_did_not_record_is_ended() {
        let home = tempfile::tempdir().unwrap();
        let script =
            "setsid env -i sleep 600 & echo $!; read -r _; setsid env -i sleep 601 & echo $!; kill -STOP $$";
        let mut server = Command::new("bash")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
        let mut pid = || lines.next().unwrap().unwrap().trim().parse::<i32>().unwrap();
        let earlier = pid();
        let owner = Instance {
            pid: server.id(),
            started: ProcessIdentity::of(server.id().cast_signed()).start_time,
            ..Instance::current()
        };
        // Start times are counted in hundredths of a second.
        let began = now_in_ticks();
        while now_in_ticks() < began + 3 {
            std::thread::yield_now();
        }
        let ledger = Ledger::new(home.path(), owner.clone());
        let starting = ledger.starting();
        server.stdin.take().unwrap().write_all(b"go\n").unwrap();
        let unrecorded = pid();
        assert_eq!(reap_server(home.path(), &owner.server), 1);
        while is_alive(unrecorded) {
            std::thread::yield_now();
        }
        assert!(is_alive(earlier), "a program that was there before the announcement");
        drop(starting);
        assert_eq!(reap_server(home.path(), &owner.server), 0);
        for pid in [earlier, server.id().cast_signed()] {
            crate::table::signal(ProcessIdentity::of(pid), rustix::process::Signal::KILL);
        }
        server.wait().unwrap();
    }

    #[test]
    fn processes_of_a_living_server_are_left_alone() {
        let home = tempfile::tempdir().unwrap();
        let tag = format!("{}/", uuid::Uuid::new_v4());
        let ledger = Ledger::new(home.path(), Instance::current());
        ledger.note(&tag);
        let mut child = tagged(&tag);
        assert_eq!(reap(home.path()), 0);
        assert!(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
        ledger.close();
        assert_eq!(fs::read_dir(home.path().join("running")).unwrap().count(), 0);
    }

    /// Runs a program in its own session that exits at once and leaves a process without environment. Returns the
    /// program, not yet waited for, and the pid of that process.
    fn left_without_environment() -> (Child, ProcessIdentity, i32) {
        let mut leader = Command::new("setsid")
            .args(["bash", "-c", "(env -i sleep 600 >/dev/null & echo $!)"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let identity = ProcessIdentity::of(leader.id().cast_signed());
        let mut output = String::new();
        leader.stdout.take().unwrap().read_to_string(&mut output).unwrap();
        (leader, identity, output.trim().parse().unwrap())
    }

    fn is_alive(pid: i32) -> bool {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
    }

    #[test]
    fn process_without_environment_is_found_by_its_session() {
        for leader_exists in [true, false] {
            let home = tempfile::tempdir().unwrap();
            let (mut leader, identity, left) = left_without_environment();
            let ledger = Ledger::new(home.path(), dead_owner());
            ledger.started(identity);
            if !leader_exists {
                leader.wait().unwrap();
                ledger.left(identity, &[ProcessIdentity::of(left)]);
            }
            assert!(is_alive(left));
            assert!(reap(home.path()) > 0);
            while is_alive(left) {
                std::thread::yield_now();
            }
            drop(leader.wait());
        }
    }

    #[test]
    fn process_is_found_among_two_thousand_tags() {
        let home = tempfile::tempdir().unwrap();
        let ledger = Ledger::new(home.path(), dead_owner());
        let tags: Vec<String> = (0..2000).map(|_| format!("{}/", uuid::Uuid::new_v4())).collect();
        tags.iter().for_each(|tag| ledger.note(tag));
        let mut orphan = tagged(tags.last().unwrap());
        assert_eq!(reap(home.path()), 1);
        assert!(!orphan.wait().unwrap().success());
    }
}
