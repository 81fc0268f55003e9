//! Ending what a server left running that is no more.
//!
//! The tag finds every process that kept its environment. One that cleared it (`env -i`) is found by the session that its
//! command was started in: a session has the number of its leader, and the kernel gives that number to nobody else while a
//! process of the session, or its leader, is there. So a process with the session number of one of our leaders is ours
//! for certain
//!
//! * if our leader is still there (same number, same start time);
//! * if it started when our leader is known to have been there: it has its session from its birth;
//! * if it was seen as ours, or another process that is ours for certain is in the same session: the number has never
//!   been free.
//!
//! Anything else with that number may be a stranger whose session came to have it later, and is left alone.
#![allow(clippy::disallowed_methods, reason = "blocking by design; callers run it on a blocking thread")]

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use rustix::process::Signal;

use super::process_table::{self, Identity, Process};
use super::tree::TAG_VARIABLE;

/// Killing is repeated because a process may be starting another just then.
const ROUNDS: usize = 25;

/// A group of processes that a server started, as far as its notes tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// The first process; its pid is also the number of its process group and of its session.
    pub leader: Identity,
    /// When the leader was last known to be there, in clock ticks since the machine started.
    pub seen: u64,
    /// Processes that were seen as part of the group when its leader had ended.
    pub members: Vec<Identity>,
}

/// Ends all processes that carry one of these tags or belong to one of these groups, and their descendants; returns how
/// many were found. Blocks for a moment. Nobody else's process is touched.
///
/// All of it must be from this run of the machine: numbers and start times begin anew with each.
pub fn end_leftovers(tags: &[String], groups: &[Leftover]) -> usize {
    let tags: HashSet<&str> = tags.iter().map(String::as_str).collect();
    let mut found: HashSet<Identity> = HashSet::new();
    for _ in 0..ROUNDS {
        let now = find(&tags, groups, &found);
        if now.is_empty() {
            break;
        }
        // Stopped first, until looking again finds nothing new: one that ends while it starts another would leave that
        // one without anybody by whom to know it.
        let is_new = now.iter().any(|process| !found.contains(process));
        let signal = if is_new { Signal::STOP } else { Signal::KILL };
        now.iter().for_each(|process| process_table::signal(*process, signal));
        found.extend(now);
        if !is_new {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    found.len()
}

/// The living processes that are ours for certain.
fn find(tags: &HashSet<&str>, groups: &[Leftover], known: &HashSet<Identity>) -> Vec<Identity> {
    let all: Vec<Process> = process_table::all().collect();
    let ours = certain(&all, groups, known, |process| {
        !tags.is_empty() && process.entry(TAG_VARIABLE).is_some_and(|value| is_tagged(&value, tags))
    });
    // Never ourselves, whoever started us with somebody's tag.
    let us = i32::try_from(std::process::id()).unwrap_or(0);
    ours.into_iter().filter(|process| process.pid != us).collect()
}

/// Whether a value begins with one of these tags. Each tag ends with a slash, or is the whole value.
fn is_tagged(value: &str, tags: &HashSet<&str>) -> bool {
    tags.contains(value) || value.match_indices('/').any(|(at, _)| tags.contains(&value[..=at]))
}

fn certain(
    all: &[Process],
    groups: &[Leftover],
    known: &HashSet<Identity>,
    is_marked: impl Fn(&Process) -> bool,
) -> HashSet<Identity> {
    let by_number: HashMap<i32, &Leftover> = groups.iter().map(|group| (group.leader.pid, group)).collect();
    let present: HashSet<Identity> = all.iter().map(|process| process.id).collect();
    let members: HashSet<Identity> = groups.iter().flat_map(|group| group.members.iter().copied()).collect();
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
    let mut found: HashSet<Identity> = HashSet::new();
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

    const LEADER: Identity = Identity { pid: 100, start_time: 1000 };

    fn group(members: &[Identity]) -> Vec<Leftover> {
        vec![Leftover { leader: LEADER, seen: 2000, members: members.to_vec() }]
    }

    fn id(pid: i32, start_time: u64) -> Identity {
        Identity { pid, start_time }
    }

    fn process(id: Identity, parent: i32, session: i32) -> Process {
        Process::for_test(id, parent, session)
    }

    fn ours(all: &[Process], groups: &[Leftover]) -> Vec<i32> {
        let found = certain(all, groups, &HashSet::new(), |_| false);
        let mut pids: Vec<i32> = found.into_iter().map(|id| id.pid).collect();
        pids.sort_unstable();
        pids
    }

    #[test]
    fn session_of_a_living_leader_is_ours_whenever_its_processes_started() {
        let all = [process(LEADER, 1, 100), process(id(101, 1500), 1, 100), process(id(102, 9000), 1, 100)];
        assert_eq!(ours(&all, &group(&[])), [100, 101, 102]);
    }

    #[test]
    fn process_born_while_the_leader_was_there_is_ours_and_so_is_its_session() {
        let child = process(id(101, 1500), 1, 100);
        assert_eq!(ours(&[process(id(101, 1500), 1, 100)], &group(&[])), [101]);
        let later = process(id(102, 9000), 1, 100);
        assert_eq!(ours(&[child, later], &group(&[])), [101, 102], "the number was never free");
    }

    #[test]
    fn stranger_whose_session_has_the_number_later_is_left_alone() {
        // Its leader has our leader's number, and is another process.
        let reused = [process(id(100, 5000), 1, 100), process(id(101, 5001), 100, 100)];
        assert_eq!(ours(&reused, &group(&[])), Vec::<i32>::new());
        // Its leader has ended.
        assert_eq!(ours(&[process(id(101, 5001), 1, 100)], &group(&[])), Vec::<i32>::new());
        // It is older than our leader, or in another session.
        assert_eq!(ours(&[process(id(101, 900), 1, 100)], &group(&[])), Vec::<i32>::new());
        assert_eq!(ours(&[process(id(101, 1500), 1, 101)], &group(&[])), Vec::<i32>::new());
    }

    #[test]
    fn member_that_was_seen_is_ours_with_its_descendants_and_a_namesake_is_not() {
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
