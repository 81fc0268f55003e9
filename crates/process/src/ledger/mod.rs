//! The processes that a server runs, recorded for the next server in case this one is killed (see [`crate::reap`]).
//!
//! One small file for each server. It holds the tags of its sessions, written before any process is started under them, and
//! the leader of each process group. A start is announced before it happens, because the server may be paused or killed
//! between the start and the entry of the leader. Entries of ended processes are removed, so that the size of the file
//! depends on what runs now, not on everything that ever ran. Every second, while anything runs, the time at which each
//! leader was last seen is updated: once a leader has ended, only processes that started before that time certainly belong
//! to its session.
//!
//! The page cache survives the death of a process, and after the death of the machine there is nothing to reap: nothing
//! is synced.
#![allow(clippy::disallowed_methods, reason = "blocking by design; callers run it on a blocking thread")]

mod entries;

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Serialize;

use crate::table::{ProcessIdentity, now_in_ticks};
use crate::{Instance, lock};
pub(crate) use entries::Entries;
use entries::{Line, identity, pair};

/// How often the leaders are checked.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// With this many obsolete lines the file is rewritten.
const SPARE_LINES: usize = 256;

/// The running process groups of one server. Clones share the record.
///
/// The default ledger has no file: for tests, and for short runs such as probes.
#[derive(Clone, Default)]
pub struct Ledger(Arc<Shared>);

#[derive(Default)]
struct Shared {
    file: Option<Location>,
    state: Mutex<State>,
    last_start: AtomicU64,
}

/// A program that is about to start. Dropping it ends its announcement.
pub(crate) struct Starting<'a> {
    ledger: &'a Ledger,
    number: u64,
}

impl Starting<'_> {
    /// Records the process group of the program, which has started.
    pub(crate) fn started(self, leader: ProcessIdentity) {
        self.ledger.started(leader);
    }
}

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        self.ledger.0.write(&Line::EndedStart { number: self.number });
    }
}

/// The file of a ledger, and its owner.
struct Location {
    owner: Instance,
    directory: PathBuf,
}

#[derive(Default)]
struct State {
    entries: Entries,
    file: Option<File>,
    /// Number of lines of the file.
    lines: usize,
    /// Ends the heartbeat's thread when it is dropped.
    heartbeat: Option<Sender<()>>,
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger").field("path", &self.0.path()).finish_non_exhaustive()
    }
}

impl Ledger {
    /// Creates the ledger of a server. Its file, below `home`, is created with the first entry.
    #[must_use]
    pub fn new(home: &Path, owner: Instance) -> Self {
        let file = Some(Location { owner, directory: directory(home) });
        Self(Arc::new(Shared { file, ..Shared::default() }))
    }

    /// Records a tag. To be called before a process is started under it. Blocks.
    pub fn note(&self, tag: &str) {
        self.0.write(&Line::Tag(tag.to_owned()));
    }

    /// Removes a tag that no process carries any more. Blocks.
    pub fn forget(&self, tag: &str) {
        self.0.write(&Line::EndedTag(tag.to_owned()));
    }

    /// Removes the file, after the server has ended all its processes. Blocks.
    pub fn close(&self) {
        let mut state = lock(&self.0.state);
        state.heartbeat = None;
        state.entries = Entries::default();
        if let (Some(_), Some(path)) = (state.file.take(), self.0.path()) {
            let _ = fs::remove_file(path);
        }
    }

    /// Returns the leaders of the process groups that run now, or were not seen to end.
    #[must_use]
    pub fn running(&self) -> Vec<ProcessIdentity> {
        lock(&self.0.state).entries.groups.keys().copied().map(identity).collect()
    }

    /// Announces the start of a program.
    pub(crate) fn starting(&self) -> Starting<'_> {
        let number = self.0.last_start.fetch_add(1, Ordering::Relaxed);
        self.0.write(&Line::Starting { number, since: now_in_ticks() });
        Starting { ledger: self, number }
    }

    /// Records a process group that was started.
    pub(crate) fn started(&self, leader: ProcessIdentity) {
        // The time is taken before the check, so that the leader certainly existed then.
        let now = now_in_ticks();
        let seen = if leader.exists() { now } else { 0 };
        self.0.write(&Line::Group { leader: pair(leader), seen, members: Vec::new() });
        self.start_heartbeat();
    }

    /// Records the processes of a group that are still running after its leader has ended.
    pub(crate) fn left(&self, leader: ProcessIdentity, members: &[ProcessIdentity]) {
        let leader = pair(leader);
        let seen = lock(&self.0.state).entries.groups.get(&leader).map_or(0, |group| group.seen);
        let members = members.iter().copied().map(pair).collect();
        self.0.write(&Line::Group { leader, seen, members });
    }

    /// Removes a process group that has no process left.
    pub(crate) fn ended(&self, leader: ProcessIdentity) {
        self.0.write(&Line::EndedGroup { leader: pair(leader) });
    }

    fn start_heartbeat(&self) {
        let mut state = lock(&self.0.state);
        if state.heartbeat.is_some() || self.0.file.is_none() {
            return;
        }
        let (sender, receiver) = channel::<()>();
        let ledger = Arc::downgrade(&self.0);
        let beat = move || {
            while receiver.recv_timeout(HEARTBEAT) == Err(RecvTimeoutError::Timeout) {
                match ledger.upgrade() {
                    Some(ledger) => ledger.update_seen(),
                    None => return,
                }
            }
        };
        // Without the thread fewer processes can be attributed later, and nothing worse.
        if std::thread::Builder::new().name("ledger".into()).spawn(beat).is_ok() {
            state.heartbeat = Some(sender);
        }
    }
}

impl Shared {
    fn path(&self) -> Option<PathBuf> {
        self.file.as_ref().map(Location::path)
    }

    fn write(&self, line: &Line) {
        let mut state = lock(&self.state);
        let written = self.file.as_ref().map_or(Ok(()), |location| location.append(&mut state, line));
        state.entries.apply(line);
        if state.lines > state.entries.len() + SPARE_LINES {
            self.rewrite(&mut state);
        }
        if let Err(error) = written {
            tracing::warn!(%error, "cannot record running processes; if this server is killed, they may keep running");
        }
    }

    /// Rewrites the file without obsolete lines.
    fn rewrite(&self, state: &mut State) {
        let Some(location) = &self.file else { return };
        let lines = state.entries.lines();
        match location.replace(&lines) {
            Ok(file) => (state.file, state.lines) = (Some(file), lines.len()),
            Err(error) => tracing::debug!(%error, "cannot shorten the list of running processes"),
        }
    }

    /// Updates the time at which each leader was last seen.
    fn update_seen(&self) {
        let mut state = lock(&self.state);
        if state.entries.groups.is_empty() || state.file.is_none() {
            return;
        }
        let now = now_in_ticks();
        for (leader, group) in &mut state.entries.groups {
            if identity(*leader).exists() {
                group.seen = now;
            }
        }
        self.rewrite(&mut state);
    }
}

impl Location {
    fn path(&self) -> PathBuf {
        self.directory.join(format!("{}.running", self.owner.server))
    }

    fn append(&self, state: &mut State, line: &Line) -> io::Result<()> {
        if state.file.is_none() {
            baton_disk::private::create_dir_all(&self.directory)?;
            let mut file = baton_disk::private::append(self.path())?;
            writeln!(file, "{}", to_json(&self.owner)?)?;
            state.file = Some(file);
            state.lines = 0;
        }
        state.lines += 1;
        match &mut state.file {
            // One write, so that a crash leaves the whole line or nothing.
            Some(file) => file.write_all(format!("{}\n", to_json(line)?).as_bytes()),
            None => Ok(()),
        }
    }

    /// Replaces the file, and opens it again.
    fn replace(&self, lines: &[Line]) -> io::Result<File> {
        let mut text = to_json(&self.owner)? + "\n";
        for line in lines {
            text = text + &to_json(line)? + "\n";
        }
        baton_disk::private::replace(self.path(), text)?;
        OpenOptions::new().append(true).open(self.path())
    }
}

fn to_json(value: &impl Serialize) -> io::Result<String> {
    serde_json::to_string(value).map_err(io::Error::other)
}

/// Returns the directory of the ledgers.
pub(crate) fn directory(home: &Path) -> PathBuf {
    home.join("running")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn process(pid: i32) -> ProcessIdentity {
        ProcessIdentity { pid, start_time: 7 }
    }

    fn read(home: &Path) -> Entries {
        let entry = fs::read_dir(directory(home)).unwrap().next().unwrap().unwrap();
        Entries::parse(&fs::read_to_string(entry.path()).unwrap()).unwrap().1
    }

    #[test]
    fn entries_of_ended_processes_are_removed() {
        let home = tempfile::tempdir().unwrap();
        let ledger = Ledger::new(home.path(), Instance::current());
        for number in 0..2000 {
            ledger.note(&format!("{number}/"));
            ledger.started(process(number));
            ledger.ended(process(number));
            ledger.forget(&format!("{number}/"));
        }
        ledger.note("last/");
        let entries = read(home.path());
        assert_eq!(entries.tags, BTreeSet::from(["last/".to_owned()]));
        assert_eq!(entries.leftovers(), []);
        let entry = fs::read_dir(directory(home.path())).unwrap().next().unwrap().unwrap();
        assert!(fs::read_to_string(entry.path()).unwrap().lines().count() < 2 * SPARE_LINES);
        ledger.close();
        assert_eq!(fs::read_dir(directory(home.path())).unwrap().count(), 0);
    }

    #[test]
    fn leaders_and_members_are_read_back() {
        let home = tempfile::tempdir().unwrap();
        let ledger = Ledger::new(home.path(), Instance::current());
        let us = ProcessIdentity::of(std::process::id().cast_signed());
        let missing = process(i32::MAX);
        ledger.started(us);
        ledger.started(missing);
        ledger.left(missing, &[us]);
        let before = read(home.path()).leftovers();
        assert!(before[0].leader == us && before[0].seen >= us.start_time, "{before:?}");
        assert_eq!((before[1].seen, &before[1].members[..]), (0, &[us][..]), "that leader was never seen");
        ledger.0.update_seen();
        let after = read(home.path()).leftovers();
        assert!(after[0].seen >= before[0].seen && after[1] == before[1], "{after:?}");
    }

    #[test]
    fn default_ledger_has_no_file() {
        let ledger = Ledger::default();
        ledger.note("tag/");
        ledger.started(process(1));
        assert_eq!((ledger.running(), ledger.0.path()), (vec![process(1)], None));
        ledger.ended(process(1));
        assert_eq!(ledger.running(), []);
    }
}
