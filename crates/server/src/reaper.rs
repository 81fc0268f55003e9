//! Nothing is left running, not even by a server that was killed (P6).
//!
//! All processes of a session carry a tag in their environment that nobody else has, and each command is started in a
//! session (of the system's kind) of its own. A server writes tags and leaders to its [`ledger`]. One that ends in order
//! ends its processes and removes its ledger. One that was killed leaves it behind, and the next to start on the same
//! directory ends what still carries one of its tags, or is still in one of its sessions. A stranger is never mistaken for
//! one of ours: a pid may be used again, a tag is not; and which processes of a session are ours for certain is argued in
//! [`end_leftovers`].
#![expect(clippy::disallowed_methods, reason = "blocking by design; callers run it on a blocking thread")]

use std::fs;
use std::path::Path;

use baton_agent::tools::shell::end_leftovers;

use crate::ledger::{self, Notes};
use crate::owner;

/// Ends what servers left behind that are no more. Blocks; returns how many processes there were.
pub(crate) fn reap(home: &Path) -> usize {
    let Ok(entries) = fs::read_dir(ledger::directory(home)) else { return 0 };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let paths = paths.filter(|path| path.extension().is_some_and(|extension| extension == "running"));
    paths.map(|path| reap_ledger(&path)).sum()
}

fn reap_ledger(path: &Path) -> usize {
    let text = fs::read_to_string(path).unwrap_or_default();
    let Some((owner, notes)) = Notes::read(&text) else { return 0 };
    if owner::is_alive(&owner) {
        return 0;
    }
    let mut ended = 0;
    if owner::is_of_this_boot(&owner) {
        let tags: Vec<String> = notes.tags.iter().cloned().collect();
        ended = end_leftovers(&tags, &notes.leftovers());
    }
    let _ = fs::remove_file(path);
    ended
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Ledger;
    use baton_agent::tools::shell::{Identity, ProcessLog, StartedGroup, TAG_VARIABLE};
    use baton_store::Owner;
    use std::io::Read;
    use std::process::{Child, Command, Stdio};

    fn tagged(tag: &str) -> Child {
        Command::new("sleep")
            .arg("600")
            .env(TAG_VARIABLE, format!("{tag}1/"))
            .stdin(Stdio::null())
            .spawn()
            .unwrap()
    }

    fn dead_owner() -> Owner {
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        Owner { pid: child.id(), started: 1, ..owner::this_process() }
    }

    #[test]
    fn what_a_dead_server_left_is_ended_and_nothing_else() {
        let home = tempfile::tempdir().unwrap();
        let (left, strange) = (uuid::Uuid::new_v4(), uuid::Uuid::new_v4());
        Ledger::new(home.path(), dead_owner()).note(&format!("{left}/"));
        let (mut orphan, mut stranger) = (tagged(&format!("{left}/")), tagged(&format!("{strange}/")));
        assert_eq!(reap(home.path()), 1);
        assert!(!orphan.wait().unwrap().success(), "it was ended");
        assert!(stranger.try_wait().unwrap().is_none(), "a stranger was not");
        stranger.kill().unwrap();
        stranger.wait().unwrap();
        assert_eq!(reap(home.path()), 0, "the ledger is gone");
    }

    #[test]
    fn the_processes_of_a_living_server_are_left_alone() {
        let home = tempfile::tempdir().unwrap();
        let tag = format!("{}/", uuid::Uuid::new_v4());
        let ledger = Ledger::new(home.path(), owner::this_process());
        ledger.note(&tag);
        let mut child = tagged(&tag);
        assert_eq!(reap(home.path()), 0);
        assert!(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
        ledger.close();
        assert_eq!(fs::read_dir(home.path().join("running")).unwrap().count(), 0);
    }

    /// A command in a session of its own whose leader ends at once and leaves a process without any environment. Returns
    /// the leader, not yet waited for, and the pid of what it left.
    fn left_without_environment() -> (Child, Identity, i32) {
        let mut leader = Command::new("setsid")
            .args(["bash", "-c", "(env -i sleep 600 >/dev/null & echo $!)"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let identity = Identity::of(leader.id().cast_signed());
        let mut said = String::new();
        leader.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        (leader, identity, said.trim().parse().unwrap())
    }

    fn is_there(pid: i32) -> bool {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
    }

    #[test]
    fn process_without_environment_is_ended_by_the_session_of_its_leader() {
        for leader_is_there in [true, false] {
            let home = tempfile::tempdir().unwrap();
            let (mut leader, identity, left) = left_without_environment();
            let group = StartedGroup { leader: identity, tag: "t/1/".into() };
            let ledger = Ledger::new(home.path(), dead_owner());
            ledger.started(&group);
            if !leader_is_there {
                leader.wait().unwrap();
                ledger.left(&group, &[Identity::of(left)]);
            }
            assert!(is_there(left));
            assert!(reap(home.path()) > 0);
            while is_there(left) {
                std::thread::yield_now();
            }
            drop(leader.wait());
        }
    }

    #[test]
    fn two_thousand_tags_are_one_look() {
        let home = tempfile::tempdir().unwrap();
        let ledger = Ledger::new(home.path(), dead_owner());
        let tags: Vec<String> = (0..2000).map(|_| format!("{}/", uuid::Uuid::new_v4())).collect();
        tags.iter().for_each(|tag| ledger.note(tag));
        let mut orphan = tagged(tags.last().unwrap());
        let begun = std::time::Instant::now();
        assert_eq!(reap(home.path()), 1);
        eprintln!("2,000 tags took {:?}", begun.elapsed());
        assert!(!orphan.wait().unwrap().success());
    }
}
