//! What a history says about files: what was said, what was kept and what was changed, in order.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;

use baton_protocol::event::{ChangedFile, KeptFile, Preimage};
use baton_protocol::{Body, Event, EventId, SessionId, Timestamp};
use baton_store::{Record, Seq, Store, StoreError};

use crate::history::newest_first;

/// Something that a user said, and that one can go back to.
#[derive(Debug, Clone)]
pub(crate) struct Point {
    pub(crate) event: EventId,
    pub(crate) message: String,
    pub(crate) timestamp: Timestamp,
}

#[derive(Debug)]
enum Mark {
    Said(Point),
    Kept(Vec<KeptFile>),
    Changed(Vec<ChangedFile>),
}

/// See the module; oldest first.
#[derive(Debug)]
pub(crate) struct Trail(Vec<(Seq, Mark)>);

/// What became of one file.
#[derive(Debug, Clone)]
pub(crate) struct Touched {
    /// What it was before the first change.
    pub(crate) before: Preimage,
    /// What it was after the last one, by digest, and how many lines came and went; none if that is not known.
    pub(crate) last: Option<ChangedFile>,
}

impl Trail {
    /// Reads it. What was taken back is no part of it.
    pub(crate) async fn read(store: &dyn Store, session: &SessionId, head: Seq) -> Result<Self, StoreError> {
        let mut marks = Vec::new();
        let take = |record: Record| {
            marks.extend(mark(&record).map(|mark| (record.seq, mark)));
            ControlFlow::Continue(())
        };
        newest_first(store, session, head, take).await?;
        marks.reverse();
        Ok(Self(marks))
    }

    /// Where a point is.
    pub(crate) fn place_of(&self, event: EventId) -> Option<Seq> {
        self.0.iter().find_map(|(seq, mark)| match mark {
            Mark::Said(point) if point.event == event => Some(*seq),
            _ => None,
        })
    }

    /// All points, each with the files that were touched before the next one.
    pub(crate) fn points(&self) -> Vec<(Point, BTreeMap<PathBuf, Touched>)> {
        let mut points: Vec<(Point, BTreeMap<PathBuf, Touched>)> = Vec::new();
        for (_, mark) in &self.0 {
            match (mark, points.last_mut()) {
                (Mark::Said(point), _) => points.push((point.clone(), BTreeMap::new())),
                (mark, Some((_, touched))) => take(touched, mark),
                (_, None) => {}
            }
        }
        points
    }

    /// The files that were touched from a place on.
    pub(crate) fn touched_since(&self, from: Seq) -> BTreeMap<PathBuf, Touched> {
        let mut touched = BTreeMap::new();
        self.0.iter().filter(|(seq, _)| *seq >= from).for_each(|(_, mark)| take(&mut touched, mark));
        touched
    }

    /// The copies that going back to a place makes useless.
    pub(crate) fn copies_only_since(&self, from: Seq) -> Vec<String> {
        let copies = |before: bool| {
            let kept = self.0.iter().filter(move |(seq, _)| (*seq < from) == before);
            let kept =
                kept.filter_map(|(_, mark)| if let Mark::Kept(files) = mark { Some(files) } else { None });
            kept.flatten().filter_map(|file| match &file.before {
                Preimage::Kept { digest, .. } => Some(digest.clone()),
                _ => None,
            })
        };
        let needed: Vec<String> = copies(true).collect();
        copies(false).filter(|digest| !needed.contains(digest)).collect()
    }
}

/// The first copy counts, and the last change.
fn take(touched: &mut BTreeMap<PathBuf, Touched>, mark: &Mark) {
    match mark {
        Mark::Said(_) => {}
        Mark::Kept(files) => {
            for KeptFile { path, before } in files {
                let new = || Touched { before: before.clone(), last: None };
                touched.entry(path.into()).or_insert_with(new);
            }
        }
        Mark::Changed(files) => {
            for file in files {
                if let Some(known) = touched.get_mut(std::path::Path::new(&file.path)) {
                    known.last = Some(file.clone());
                }
            }
        }
    }
}

fn mark(record: &Record) -> Option<Mark> {
    if !matches!(record.kind.as_str(), "user.message" | "baton.files_kept" | "baton.files_changed") {
        return None;
    }
    let event = Event::parse(std::str::from_utf8(&record.body).ok()?).ok()?;
    match event.body {
        // What a hook or the server said on the user's side is nothing that the user could come back to.
        Body::UserMessage(message) if event.agent_id.is_none() && message.message_id.is_some() => {
            let (message, timestamp) = (message.content, event.timestamp);
            Some(Mark::Said(Point { event: event.id, message, timestamp }))
        }
        Body::FilesKept(kept) => Some(Mark::Kept(kept.files)),
        Body::FilesChanged(changed) => Some(Mark::Changed(changed.files)),
        _ => None,
    }
}
