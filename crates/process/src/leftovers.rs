//! Ending the processes of a server that was killed.
//!
//! The tag finds every process that still has its environment. A process that cleared it (`env -i`) is found by the
//! session in which its program was started: the id of a session is the pid of its leader, and the kernel does not
//! reuse it while the leader or any process of the session exists. So a process whose session has the id of one of our
//! leaders is certainly ours
//!
//! * if our leader still exists (same pid, same start time);
//! * if it started while our leader is known to have existed: a process inherits its session at its start;
//! * if it was recorded as a member, or shares the session with a process that is certainly ours: the id has never been
//!   free.
//!
//! Any other process with that session id may belong to a later session, and is left alone.
//!
//! A server that is paused or killed while it starts a program has announced the start, and may not have recorded the
//! leader. Of a paused server, every child since the announcement is a leader: nobody else can start children of it. Those
//! of a killed server have another parent now; the table is read for a while longer, until a program that was just being
//! loaded shows its tag.
#![allow(clippy::disallowed_methods, reason = "blocking by design; callers run it on a blocking thread")]

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use rustix::process::Signal;

use crate::table::{self, Process, ProcessIdentity};
use crate::tree::TAG_VARIABLE;

/// Killing is repeated because a process may be starting a child at that moment.
const ROUNDS: usize = 25;

/// How often, and how far apart, the table is read again for a program that may just be loaded.
const LOADING_ROUNDS: usize = 10;
const LOADING_PAUSE: Duration = Duration::from_millis(10);

/// A process group that a server started, as recorded in its ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Leftover {
    /// First process; its pid is also the id of the group and of the session.
    pub(crate) leader: ProcessIdentity,
    /// When the leader was last seen, in clock ticks since the boot.
    pub(crate) seen: u64,
    /// Processes of the group that were still running when its leader had ended.
    pub(crate) members: Vec<ProcessIdentity>,
}

/// A server that may have started a program without recording it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unrecorded {
    /// The server itself.
    pub(crate) server: ProcessIdentity,
    /// Earliest time of the start.
    pub(crate) since: u64,
}

/// Ends all processes that carry one of these tags or belong to one of these groups, and their descendants; returns how
/// many there were. Blocks for some milliseconds. No other process is signalled.
///
/// The records must be of this boot: pids and start times are reused after a reboot.
pub(crate) fn end_leftovers(tags: &[String], groups: &[Leftover], unrecorded: Option<Unrecorded>) -> usize {
    let tags: HashSet<&str> = tags.iter().map(String::as_str).collect();
    let mut found: HashSet<ProcessIdentity> = HashSet::new();
    let mut quiet = if unrecorded.is_some() { LOADING_ROUNDS } else { 0 };
    for _ in 0..ROUNDS + LOADING_ROUNDS {
        let now = find(&tags, groups, unrecorded, &found);
        if now.is_empty() {
            if quiet == 0 {
                break;
            }
            quiet -= 1;
            std::thread::sleep(LOADING_PAUSE);
        }
        // Stop first, until a new scan finds nothing new: a process that ends right after it has started a child would
        // leave no parent by which to find that child.
        let is_new = now.iter().any(|process| !found.contains(process));
        let signal = if is_new { Signal::STOP } else { Signal::KILL };
        now.iter().for_each(|process| table::signal(*process, signal));
        found.extend(&now);
        if !is_new && !now.is_empty() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    found.len()
}

/// Returns the living processes that are certainly ours.
fn find(
    tags: &HashSet<&str>,
    groups: &[Leftover],
    unrecorded: Option<Unrecorded>,
    known: &HashSet<ProcessIdentity>,
) -> Vec<ProcessIdentity> {
    let all: Vec<Process> = table::all().collect();
    let mut groups = groups.to_vec();
    groups.extend(unrecorded.iter().flat_map(|unrecorded| children(&all, *unrecorded)));
    let ours = certain(&all, &groups, known, |process| {
        !tags.is_empty() && process.variable(TAG_VARIABLE).is_some_and(|value| is_tagged(&value, tags))
    });
    // Never this process, even if it was started with a tag.
    let us = i32::try_from(std::process::id()).unwrap_or(0);
    ours.into_iter().filter(|process| process.pid != us).collect()
}

/// Returns the programs that a server has started since an announcement, ended ones too. None if the server is gone.
fn children(all: &[Process], unrecorded: Unrecorded) -> impl Iterator<Item = Leftover> {
    let Unrecorded { server, since } = unrecorded;
    let exists = all.iter().any(|process| process.id == server);
    let started = all.iter().filter(move |process| {
        exists && process.parent == server.pid && process.id.start_time >= since.saturating_sub(1)
    });
    started.map(|process| Leftover {
        leader: process.id,
        seen: process.id.start_time,
        members: vec![process.id],
    })
}

/// Whether a value begins with one of these tags, which end with a slash, or is one of them.
fn is_tagged(value: &str, tags: &HashSet<&str>) -> bool {
    tags.contains(value) || value.match_indices('/').any(|(at, _)| tags.contains(&value[..=at]))
}

fn certain(
    all: &[Process],
    groups: &[Leftover],
    known: &HashSet<ProcessIdentity>,
    is_marked: impl Fn(&Process) -> bool,
) -> HashSet<ProcessIdentity> {
    let by_number: HashMap<i32, &Leftover> = groups.iter().map(|group| (group.leader.pid, group)).collect();
    let present: HashSet<ProcessIdentity> = all.iter().map(|process| process.id).collect();
    let members: HashSet<ProcessIdentity> =
        groups.iter().flat_map(|group| group.members.iter().copied()).collect();
    let is_certain = |process: &&Process| {
        let id = process.id;
        let from_birth = |number: i32| {
            by_number.get(&number).is_some_and(|group| {
                let since = group.leader.start_time;
                let was_there = since > 0 && (since..=group.seen).contains(&id.start_time);
                present.contains(&group.leader) || (id.pid != number && was_there)
            })
        };
        known.contains(&id) || members.contains(&id) || from_birth(process.session) || is_marked(process)
    };
    let alive: Vec<&Process> = all.iter().filter(|process| process.alive).collect();
    let mut found: HashSet<ProcessIdentity> = HashSet::new();
    let mut todo: Vec<&Process> = alive.iter().copied().filter(is_certain).collect();
    while let Some(process) = todo.pop() {
        if !found.insert(process.id) {
            continue;
        }
        let same_session = by_number.contains_key(&process.session).then_some(process.session);
        todo.extend(alive.iter().copied().filter(|other| {
            other.parent == process.id.pid || same_session.is_some_and(|number| other.session == number)
        }));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEADER: ProcessIdentity = ProcessIdentity { pid: 100, start_time: 1000 };

    fn group(members: &[ProcessIdentity]) -> Vec<Leftover> {
        vec![Leftover { leader: LEADER, seen: 2000, members: members.to_vec() }]
    }

    fn id(pid: i32, start_time: u64) -> ProcessIdentity {
        ProcessIdentity { pid, start_time }
    }

    fn process(id: ProcessIdentity, parent: i32, session: i32) -> Process {
        Process::for_test(id, parent, session)
    }

    fn ours(all: &[Process], groups: &[Leftover]) -> Vec<i32> {
        let found = certain(all, groups, &HashSet::new(), |_| false);
        let mut pids: Vec<i32> = found.into_iter().map(|id| id.pid).collect();
        pids.sort_unstable();
        pids
    }

    #[test]
    fn session_of_a_living_leader_is_ours() {
        let all = [process(LEADER, 1, 100), process(id(101, 1500), 1, 100), process(id(102, 9000), 1, 100)];
        assert_eq!(ours(&all, &group(&[])), [100, 101, 102]);
    }

    #[test]
    fn process_started_before_the_leader_was_last_seen_is_ours_with_its_session() {
        let child = process(id(101, 1500), 1, 100);
        assert_eq!(ours(&[process(id(101, 1500), 1, 100)], &group(&[])), [101]);
        let later = process(id(102, 9000), 1, 100);
        assert_eq!(ours(&[child, later], &group(&[])), [101, 102], "the id was never free");
    }

    #[test]
    fn later_session_with_the_same_id_is_left_alone() {
        // Its leader has the pid of ours, and started later.
        let reused = [process(id(100, 5000), 1, 100), process(id(101, 5001), 100, 100)];
        assert_eq!(ours(&reused, &group(&[])), Vec::<i32>::new());
        // Its leader has ended.
        assert_eq!(ours(&[process(id(101, 5001), 1, 100)], &group(&[])), Vec::<i32>::new());
        // It is older than our leader, or in another session.
        assert_eq!(ours(&[process(id(101, 900), 1, 100)], &group(&[])), Vec::<i32>::new());
        assert_eq!(ours(&[process(id(101, 1500), 1, 101)], &group(&[])), Vec::<i32>::new());
    }

    #[test]
    fn recorded_member_is_ours_with_its_descendants() {
        let seen = id(101, 3000);
        let all = [process(seen, 1, 101), process(id(102, 9000), 101, 102)];
        assert_eq!(ours(&all, &group(&[seen])), [101, 102]);
        assert_eq!(ours(&[process(id(101, 3001), 1, 101)], &group(&[seen])), Vec::<i32>::new());
    }

    #[test]
    fn tag_matches_whole_parts_only() {
        let tags = HashSet::from(["a/"]);
        assert!(is_tagged("a/", &tags) && is_tagged("a/1/", &tags));
        assert!(!is_tagged("ab/", &tags) && !is_tagged("b/a/", &tags) && !is_tagged("a", &tags));
    }
}
