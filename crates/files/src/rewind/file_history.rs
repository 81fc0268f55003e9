//! Prompts, file snapshots and file changes of a history, in order.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use baton_history::newest_first;
use baton_protocol::event::{ChangedFile, FilesChanged, KeptFile, Preimage};
use baton_protocol::{Body, Event, EventId, SessionId, Timestamp};
use baton_store::{Record, Seq, Store, StoreError};
use serde::{Deserialize, Serialize};

use super::Skip;

/// A prompt that the session can be rewound to.
#[derive(Debug, Clone)]
pub struct Point {
    /// Id of the prompt's event.
    pub event: EventId,
    /// Text of the prompt.
    pub message: String,
    /// Time of the event.
    pub timestamp: Timestamp,
}

/// An event that matters for files.
#[derive(Debug)]
enum Entry {
    Prompt(Point),
    Snapshots(Vec<KeptFile>),
    Changes(FilesChanged),
}

/// Entries of a history that matter for files, oldest first.
#[derive(Debug)]
pub struct FileHistory(Vec<(Seq, Entry)>);

/// A file that the session may have changed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TouchedFile {
    /// State before the first change.
    pub before: Preimage,
    /// Digest and line counts after the last change; none if the call was interrupted before it was recorded.
    pub last: Option<ChangedFile>,
    /// Why it cannot be restored, whatever its current content: between two tool calls, something else changed it.
    pub gap: Option<Skip>,
}

impl TouchedFile {
    fn new(before: Preimage) -> Self {
        Self { before, last: None, gap: None }
    }

    /// Adds a later snapshot. If the file was not as the session had left it, restoring the first snapshot would undo a
    /// change that no tool made.
    fn add_snapshot(&mut self, found: &Preimage) {
        let is_as_left = match (&self.last, found) {
            (None, found) => self.before == *found,
            (Some(last), Preimage::Absent) => last.after.is_none(),
            (Some(last), Preimage::Kept { digest, .. }) => last.after.as_ref() == Some(digest),
            (Some(_), Preimage::NotKept { .. }) => false,
        };
        if !is_as_left {
            let is_theirs = self.last.is_some() && !matches!(found, Preimage::NotKept { .. });
            let reason = if is_theirs { Skip::UserModified } else { Skip::SkippedCapture };
            self.gap.get_or_insert(reason);
        }
    }

    /// Whether no change is recorded.
    fn is_untouched(&self) -> bool {
        self.last.is_none() && self.gap.is_none()
    }
}

impl FileHistory {
    /// Reads the entries of a session. Parts that a rewind removed are not included.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn read(store: &dyn Store, session: &SessionId, head: Seq) -> Result<Self, StoreError> {
        let mut entries = Vec::new();
        let take = |record: Record| {
            entries.extend(entry(&record).map(|entry| (record.seq, entry)));
            ControlFlow::Continue(())
        };
        newest_first(store, session, head, take).await?;
        entries.reverse();
        Ok(Self(entries))
    }

    /// Returns the sequence number of a point.
    pub fn place_of(&self, event: EventId) -> Option<Seq> {
        self.0.iter().find_map(|(seq, entry)| match entry {
            Entry::Prompt(point) if point.event == event => Some(*seq),
            _ => None,
        })
    }

    /// Lists all points, each with the files that were touched before the next one.
    pub fn points(&self) -> Vec<(Point, BTreeMap<PathBuf, TouchedFile>)> {
        let mut points: Vec<(Point, BTreeMap<PathBuf, TouchedFile>)> = Vec::new();
        for (_, entry) in &self.0 {
            match (entry, points.last_mut()) {
                (Entry::Prompt(point), _) => points.push((point.clone(), BTreeMap::new())),
                (entry, Some((_, touched))) => apply(touched, entry),
                (_, None) => {}
            }
        }
        points
    }

    /// Lists the files that were touched from a sequence number on.
    pub fn touched_since(&self, from: Seq) -> BTreeMap<PathBuf, TouchedFile> {
        let mut touched = BTreeMap::new();
        self.0.iter().filter(|(seq, _)| *seq >= from).for_each(|(_, entry)| apply(&mut touched, entry));
        touched
    }

    /// Lists the snapshots, by digest, that a rewind to a sequence number makes obsolete.
    #[must_use]
    pub fn copies_only_since(&self, from: Seq) -> Vec<String> {
        let snapshots = |before: bool| {
            let entries = self.0.iter().filter(move |(seq, _)| (*seq < from) == before);
            let files =
                entries.filter_map(
                    |(_, entry)| if let Entry::Snapshots(files) = entry { Some(files) } else { None },
                );
            files.flatten().filter_map(|file| match &file.before {
                Preimage::Kept { digest, .. } => Some(digest.clone()),
                _ => None,
            })
        };
        let needed: Vec<String> = snapshots(true).collect();
        snapshots(false).filter(|digest| !needed.contains(digest)).collect()
    }
}

/// Applies an entry. The first snapshot of a file counts, and its last change. A file with a snapshot that was not changed
/// is removed again.
fn apply(touched: &mut BTreeMap<PathBuf, TouchedFile>, entry: &Entry) {
    match entry {
        Entry::Prompt(_) => {}
        Entry::Snapshots(files) => {
            for KeptFile { path, before } in files {
                let known = touched.entry(path.into()).and_modify(|known| known.add_snapshot(before));
                known.or_insert_with(|| TouchedFile::new(before.clone()));
            }
        }
        Entry::Changes(FilesChanged { files, unchanged }) => {
            for file in files {
                if let Some(known) = touched.get_mut(Path::new(&file.path)) {
                    known.last = Some(file.clone());
                }
            }
            for path in unchanged.iter().map(Path::new) {
                if touched.get(path).is_some_and(TouchedFile::is_untouched) {
                    touched.remove(path);
                }
            }
        }
    }
}

fn entry(record: &Record) -> Option<Entry> {
    if !matches!(record.kind.as_str(), "user.message" | "baton.files_kept" | "baton.files_changed") {
        return None;
    }
    let event = Event::parse(std::str::from_utf8(&record.body).ok()?).ok()?;
    match event.body {
        // Only prompts have a message id. Messages of hooks and of the server are no points to rewind to.
        Body::UserMessage(message) if event.agent_id.is_none() && message.message_id.is_some() => {
            let (message, timestamp) = (message.content, event.timestamp);
            Some(Entry::Prompt(Point { event: event.id, message, timestamp }))
        }
        Body::FilesKept(kept) => Some(Entry::Snapshots(kept.files)),
        Body::FilesChanged(changed) => Some(Entry::Changes(changed)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "/w/a";

    fn snapshot(digest: &str) -> Entry {
        let before = Preimage::Kept { digest: digest.into(), size: 1, mode: 0o644 };
        Entry::Snapshots(vec![KeptFile { path: FILE.into(), before }])
    }

    fn changed(after: &str) -> Entry {
        let file =
            ChangedFile { path: FILE.into(), after: Some(after.into()), lines_added: 0, lines_removed: 0 };
        Entry::Changes(FilesChanged { files: vec![file], unchanged: Vec::new() })
    }

    fn unchanged() -> Entry {
        Entry::Changes(FilesChanged { files: Vec::new(), unchanged: vec![FILE.into()] })
    }

    /// Returns first digest, last digest and gap of the file.
    fn outcome(entries: Vec<Entry>) -> Option<(String, Option<String>, Option<Skip>)> {
        let history = FileHistory((1..).map(Seq).zip(entries).collect());
        let touched = history.touched_since(Seq(0)).remove(Path::new(FILE))?;
        let Preimage::Kept { digest, .. } = touched.before else { panic!("no snapshot") };
        Some((digest, touched.last.and_then(|last| last.after), touched.gap))
    }

    #[test]
    fn consecutive_changes_are_one() {
        let found = outcome(vec![snapshot("0"), changed("1"), snapshot("1"), changed("2")]);
        assert_eq!(found, Some(("0".into(), Some("2".into()), None)));
    }

    #[test]
    fn file_that_a_call_left_unchanged_is_not_touched() {
        assert_eq!(outcome(vec![snapshot("0"), unchanged()]), None);
        let found = outcome(vec![snapshot("0"), unchanged(), snapshot("theirs"), changed("2")]);
        assert_eq!(found, Some(("theirs".into(), Some("2".into()), None)), "the first change starts there");
    }

    #[test]
    fn change_by_something_else_between_two_calls_is_a_gap() {
        let found = outcome(vec![snapshot("0"), changed("1"), snapshot("theirs"), changed("2")]);
        assert_eq!(found, Some(("0".into(), Some("2".into()), Some(Skip::UserModified))));
        let found = outcome(vec![
            snapshot("0"),
            changed("1"),
            snapshot("theirs"),
            unchanged(),
            snapshot("theirs"),
            changed("2"),
        ]);
        assert_eq!(found, Some(("0".into(), Some("2".into()), Some(Skip::UserModified))));
    }

    #[test]
    fn interrupted_call_leaves_a_gap_unless_it_changed_nothing() {
        assert_eq!(outcome(vec![snapshot("0")]), Some(("0".into(), None, None)));
        let found = outcome(vec![snapshot("0"), snapshot("half"), changed("2")]);
        assert_eq!(found, Some(("0".into(), Some("2".into()), Some(Skip::SkippedCapture))));
        let found = outcome(vec![snapshot("0"), snapshot("0"), changed("2")]);
        assert_eq!(found, Some(("0".into(), Some("2".into()), None)));
    }
}
