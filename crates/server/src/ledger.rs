//! What this server runs, written down for the next one in case this one is killed (see [`crate::reaper`]).
//!
//! One small file for each server. It holds the tags of its sessions, written before anything is started under them, and
//! the leader of each group of processes, written as soon as it has started. What has ended is taken out again, so that
//! the file, and the work of whoever reads it, follow what runs now and not what ever ran. Every second, while anything
//! runs, it is noted that the leaders are still there: only what started until then is known to be theirs once they have
//! gone.
//!
//! The page cache survives the death of a process, and after the death of the machine there is nothing to reap: nothing is
//! synced.
#![allow(clippy::disallowed_methods, reason = "blocking by design; callers run it on a blocking thread")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baton_agent::tools::shell::{Identity, Leftover, ProcessLog, StartedGroup, now_in_ticks};
use baton_store::Owner;
use serde::{Deserialize, Serialize};

/// How often it is noted that leaders are still there.
const BEAT: Duration = Duration::from_secs(1);

/// With this many lines that say nothing any more, the file is written anew.
const SPARE_LINES: usize = 256;

/// The processes of this server, as far as the next one needs to know.
#[derive(Clone)]
pub(crate) struct Ledger(Arc<Book>);

struct Book {
    owner: Owner,
    directory: PathBuf,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    notes: Notes,
    file: Option<File>,
    /// How many lines the file has.
    lines: usize,
    /// Ends the thread that notes that leaders are there, when it is dropped.
    beating: Option<Sender<()>>,
}

/// What is in a ledger.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Notes {
    pub(crate) tags: BTreeSet<String>,
    groups: BTreeMap<(i32, u64), Group>,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Group {
    seen: u64,
    members: Vec<(i32, u64)>,
}

/// One line after the first, which is the owner's.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Line {
    Tag(String),
    EndedTag(String),
    Group { leader: (i32, u64), seen: u64, members: Vec<(i32, u64)> },
    EndedGroup { leader: (i32, u64) },
}

impl Ledger {
    pub(crate) fn new(home: &Path, owner: Owner) -> Self {
        Self(Arc::new(Book { owner, directory: directory(home), state: Mutex::default() }))
    }

    /// Notes a tag, before anything is started under it.
    pub(crate) fn note(&self, tag: &str) {
        self.0.write(&Line::Tag(tag.to_owned()));
    }

    /// Nothing carries the tag any more.
    pub(crate) fn forget(&self, tag: &str) {
        self.0.write(&Line::EndedTag(tag.to_owned()));
    }

    /// This server has ended all its processes.
    pub(crate) fn close(&self) {
        let mut state = self.0.lock();
        state.beating = None;
        state.notes = Notes::default();
        if state.file.take().is_some() {
            let _ = fs::remove_file(self.0.path());
        }
    }

    /// Has it noted from now on that the leaders are there.
    fn start_beating(&self) {
        let mut state = self.0.lock();
        if state.beating.is_some() {
            return;
        }
        let (sender, receiver) = channel::<()>();
        let book = Arc::downgrade(&self.0);
        let beat = move || {
            while receiver.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
                match book.upgrade() {
                    Some(book) => book.beat(),
                    None => return,
                }
            }
        };
        // Without the thread less is known for certain later, and nothing worse.
        if std::thread::Builder::new().name("ledger".into()).spawn(beat).is_ok() {
            state.beating = Some(sender);
        }
    }
}

impl ProcessLog for Ledger {
    fn started(&self, group: &StartedGroup) {
        // The time first: that the leader is there is known from a look after it.
        let now = now_in_ticks();
        let seen = if Identity::of(group.leader.pid) == group.leader { now } else { 0 };
        self.0.write(&Line::Group { leader: pair(group.leader), seen, members: Vec::new() });
        self.start_beating();
    }

    fn left(&self, group: &StartedGroup, members: &[Identity]) {
        let leader = pair(group.leader);
        let seen = self.0.lock().notes.groups.get(&leader).map_or(0, |group| group.seen);
        let members = members.iter().copied().map(pair).collect();
        self.0.write(&Line::Group { leader, seen, members });
    }

    fn ended(&self, group: &StartedGroup) {
        self.0.write(&Line::EndedGroup { leader: pair(group.leader) });
    }
}

fn pair(process: Identity) -> (i32, u64) {
    (process.pid, process.start_time)
}

fn identity((pid, start_time): (i32, u64)) -> Identity {
    Identity { pid, start_time }
}

impl Book {
    fn write(&self, line: &Line) {
        let mut state = self.lock();
        let written = self.append(&mut state, line);
        state.notes.take(line);
        if state.lines > state.notes.len() + SPARE_LINES {
            self.rewrite(&mut state);
        }
        if let Err(error) = written {
            tracing::warn!(%error, "cannot note which processes run; if this server is killed, they may be left behind");
        }
    }

    fn append(&self, state: &mut State, line: &Line) -> io::Result<()> {
        if state.file.is_none() {
            baton_private::create_dir_all(&self.directory)?;
            let mut file = baton_private::append(self.path())?;
            writeln!(file, "{}", to_json(&self.owner)?)?;
            state.file = Some(file);
            state.lines = 0;
        }
        state.lines += 1;
        match &mut state.file {
            // In one write, so that it is there as a whole or not at all.
            Some(file) => file.write_all(format!("{}\n", to_json(line)?).as_bytes()),
            None => Ok(()),
        }
    }

    /// Writes the file anew, without what has ended. Until it is there as a whole, the old one counts.
    fn rewrite(&self, state: &mut State) {
        let lines = state.notes.lines();
        let written = || {
            let mut text = to_json(&self.owner)? + "\n";
            for line in &lines {
                text = text + &to_json(line)? + "\n";
            }
            let mut file = tempfile::NamedTempFile::new_in(&self.directory)?;
            file.write_all(text.as_bytes())?;
            file.persist(self.path()).map_err(|error| error.error)?;
            OpenOptions::new().append(true).open(self.path())
        };
        match written() {
            Ok(file) => (state.file, state.lines) = (Some(file), lines.len()),
            Err(error) => tracing::debug!(%error, "cannot shorten the list of running processes"),
        }
    }

    /// Notes which leaders are there now.
    fn beat(&self) {
        let mut state = self.lock();
        if state.notes.groups.is_empty() || state.file.is_none() {
            return;
        }
        let now = now_in_ticks();
        for (leader, group) in &mut state.notes.groups {
            if Identity::of(leader.0) == identity(*leader) {
                group.seen = now;
            }
        }
        self.rewrite(&mut state);
    }

    fn path(&self) -> PathBuf {
        self.directory.join(format!("{}.running", self.owner.server))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn to_json(value: &impl Serialize) -> io::Result<String> {
    serde_json::to_string(value).map_err(io::Error::other)
}

impl Notes {
    /// Reads a ledger: whose it is, and what it says. A last line that was cut short says nothing.
    pub(crate) fn read(text: &str) -> Option<(Owner, Self)> {
        let mut lines = text.lines();
        let owner = serde_json::from_str(lines.next()?).ok()?;
        let mut notes = Self::default();
        for line in lines.filter(|line| !line.is_empty()) {
            match serde_json::from_str(line) {
                Ok(line) => notes.take(&line),
                // A server before this one wrote bare tags.
                Err(_) if line.ends_with('/') => drop(notes.tags.insert(line.to_owned())),
                Err(_) => {}
            }
        }
        Some((owner, notes))
    }

    fn take(&mut self, line: &Line) {
        match line {
            Line::Tag(tag) => drop(self.tags.insert(tag.clone())),
            Line::EndedTag(tag) => drop(self.tags.remove(tag)),
            Line::Group { leader, seen, members } => {
                self.groups.insert(*leader, Group { seen: *seen, members: members.clone() });
            }
            Line::EndedGroup { leader } => drop(self.groups.remove(leader)),
        }
    }

    fn lines(&self) -> Vec<Line> {
        let tags = self.tags.iter().cloned().map(Line::Tag);
        let groups = self.groups.iter().map(|(leader, group)| Line::Group {
            leader: *leader,
            seen: group.seen,
            members: group.members.clone(),
        });
        tags.chain(groups).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.tags.len() + self.groups.len()
    }

    pub(crate) fn leftovers(&self) -> Vec<Leftover> {
        let leftover = |(leader, group): (&(i32, u64), &Group)| Leftover {
            leader: identity(*leader),
            seen: group.seen,
            members: group.members.iter().copied().map(identity).collect(),
        };
        self.groups.iter().map(leftover).collect()
    }
}

/// Where ledgers are.
pub(crate) fn directory(home: &Path) -> PathBuf {
    home.join("running")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(pid: i32) -> StartedGroup {
        StartedGroup { leader: Identity { pid, start_time: 7 }, tag: "t/1/".into() }
    }

    fn read(home: &Path) -> Notes {
        let entry = fs::read_dir(directory(home)).unwrap().next().unwrap().unwrap();
        Notes::read(&fs::read_to_string(entry.path()).unwrap()).unwrap().1
    }

    #[test]
    fn what_has_ended_is_taken_out() {
        let home = tempfile::tempdir().unwrap();
        let ledger = Ledger::new(home.path(), crate::owner::this_process());
        for number in 0..2000 {
            ledger.note(&format!("{number}/"));
            ledger.started(&group(number));
            ledger.ended(&group(number));
            ledger.forget(&format!("{number}/"));
        }
        ledger.note("last/");
        let notes = read(home.path());
        assert_eq!(notes.tags, BTreeSet::from(["last/".to_owned()]));
        assert_eq!(notes.leftovers(), []);
        let entry = fs::read_dir(directory(home.path())).unwrap().next().unwrap().unwrap();
        assert!(fs::read_to_string(entry.path()).unwrap().lines().count() < 2 * SPARE_LINES);
        ledger.close();
        assert_eq!(fs::read_dir(directory(home.path())).unwrap().count(), 0);
    }

    #[test]
    fn leaders_and_what_they_left_are_read_back() {
        let home = tempfile::tempdir().unwrap();
        let ledger = Ledger::new(home.path(), crate::owner::this_process());
        let us = Identity::of(std::process::id().cast_signed());
        let ours = StartedGroup { leader: us, tag: "t/2/".into() };
        ledger.started(&ours);
        ledger.started(&group(i32::MAX));
        ledger.left(&group(i32::MAX), &[us]);
        let before = read(home.path()).leftovers();
        assert!(before[0].leader == us && before[0].seen >= us.start_time, "{before:?}");
        assert_eq!((before[1].seen, &before[1].members[..]), (0, &[us][..]), "nobody has seen that leader");
        ledger.0.beat();
        let after = read(home.path()).leftovers();
        assert!(after[0].seen >= before[0].seen && after[1] == before[1], "{after:?}");
    }

    #[test]
    fn torn_line_and_bare_tags_are_understood() {
        let owner = crate::owner::this_process();
        let text = format!("{}\nold/\n{{\"tag\":\"new/\"}}\n{{\"gro", serde_json::to_string(&owner).unwrap());
        let (read, notes) = Notes::read(&text).unwrap();
        assert_eq!((read, notes.tags.len(), notes.groups.len()), (owner, 2, 0));
        assert_eq!(Notes::read(""), None);
        assert_eq!(Notes::read("nonsense\n"), None);
    }
}
