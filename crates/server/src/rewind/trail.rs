//! What a history says about files: what was said, what was kept and what was changed, in order.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use baton_protocol::event::{ChangedFile, FilesChanged, KeptFile, Preimage};
use baton_protocol::{Body, Event, EventId, SessionId, Timestamp};
use baton_store::{Record, Seq, Store, StoreError};

use super::Skip;
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
    Changed(FilesChanged),
}

/// See the module; oldest first.
#[derive(Debug)]
pub(crate) struct Trail(Vec<(Seq, Mark)>);

/// What became of one file.
#[derive(Debug, Clone)]
pub(crate) struct Touched {
    /// What it was before the first change.
    pub(crate) before: Preimage,
    /// What it was after the last one, by digest, and how many lines came and went; none if that was never noted, since
    /// something cut the call off.
    pub(crate) last: Option<ChangedFile>,
    /// Why it cannot be put back, whatever it is now: at some point in between it was not what a tool had made of it.
    pub(crate) gap: Option<Skip>,
}

impl Touched {
    fn new(before: Preimage) -> Self {
        Self { before, last: None, gap: None }
    }

    /// It was kept again. If it was not what it was left as, putting back the first copy would undo what somebody else did.
    fn kept_again(&mut self, found: &Preimage) {
        let is_as_left = match (&self.last, found) {
            (None, found) => self.before == *found,
            (Some(last), Preimage::Absent) => last.after.is_none(),
            (Some(last), Preimage::Kept { digest, .. }) => last.after.as_ref() == Some(digest),
            (Some(_), Preimage::NotKept { .. }) => false,
        };
        if !is_as_left {
            let is_theirs = self.last.is_some() && !matches!(found, Preimage::NotKept { .. });
            let why = if is_theirs { Skip::UserModified } else { Skip::SkippedCapture };
            self.gap.get_or_insert(why);
        }
    }

    /// Whether nothing happened to it, now that a call left it as it was.
    fn is_untouched(&self) -> bool {
        self.last.is_none() && self.gap.is_none()
    }
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

/// The first copy counts, and the last change. What was kept and then left as it was does not count at all.
fn take(touched: &mut BTreeMap<PathBuf, Touched>, mark: &Mark) {
    match mark {
        Mark::Said(_) => {}
        Mark::Kept(files) => {
            for KeptFile { path, before } in files {
                let known = touched.entry(path.into()).and_modify(|known| known.kept_again(before));
                known.or_insert_with(|| Touched::new(before.clone()));
            }
        }
        Mark::Changed(FilesChanged { files, unchanged }) => {
            for file in files {
                if let Some(known) = touched.get_mut(Path::new(&file.path)) {
                    known.last = Some(file.clone());
                }
            }
            for path in unchanged.iter().map(Path::new) {
                if touched.get(path).is_some_and(Touched::is_untouched) {
                    touched.remove(path);
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
        Body::FilesChanged(changed) => Some(Mark::Changed(changed)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "/w/a";

    fn kept(digest: &str) -> Mark {
        let before = Preimage::Kept { digest: digest.into(), size: 1, mode: 0o644 };
        Mark::Kept(vec![KeptFile { path: FILE.into(), before }])
    }

    fn changed(after: &str) -> Mark {
        let file =
            ChangedFile { path: FILE.into(), after: Some(after.into()), lines_added: 0, lines_removed: 0 };
        Mark::Changed(FilesChanged { files: vec![file], unchanged: Vec::new() })
    }

    fn unchanged() -> Mark {
        Mark::Changed(FilesChanged { files: Vec::new(), unchanged: vec![FILE.into()] })
    }

    /// What became of the file: what it was first, what it was last, and why it cannot be put back.
    fn seen(marks: Vec<Mark>) -> Option<(String, Option<String>, Option<Skip>)> {
        let trail = Trail((1..).map(Seq).zip(marks).collect());
        let touched = trail.touched_since(Seq(0)).remove(Path::new(FILE))?;
        let Preimage::Kept { digest, .. } = touched.before else { panic!("not kept") };
        Some((digest, touched.last.and_then(|last| last.after), touched.gap))
    }

    #[test]
    fn changes_that_follow_each_other_are_one() {
        let told = seen(vec![kept("0"), changed("1"), kept("1"), changed("2")]);
        assert_eq!(told, Some(("0".into(), Some("2".into()), None)));
    }

    #[test]
    fn what_a_call_left_alone_is_not_the_session_s() {
        assert_eq!(seen(vec![kept("0"), unchanged()]), None);
        let told = seen(vec![kept("0"), unchanged(), kept("theirs"), changed("2")]);
        assert_eq!(told, Some(("theirs".into(), Some("2".into()), None)), "that is where it began");
    }

    #[test]
    fn what_somebody_wrote_in_between_is_seen() {
        let told = seen(vec![kept("0"), changed("1"), kept("theirs"), changed("2")]);
        assert_eq!(told, Some(("0".into(), Some("2".into()), Some(Skip::UserModified))));
        let told =
            seen(vec![kept("0"), changed("1"), kept("theirs"), unchanged(), kept("theirs"), changed("2")]);
        assert_eq!(told, Some(("0".into(), Some("2".into()), Some(Skip::UserModified))));
    }

    #[test]
    fn a_call_that_was_cut_off_leaves_a_gap_unless_it_had_done_nothing() {
        assert_eq!(seen(vec![kept("0")]), Some(("0".into(), None, None)));
        let told = seen(vec![kept("0"), kept("half"), changed("2")]);
        assert_eq!(told, Some(("0".into(), Some("2".into()), Some(Skip::SkippedCapture))));
        let told = seen(vec![kept("0"), kept("0"), changed("2")]);
        assert_eq!(told, Some(("0".into(), Some("2".into()), None)));
    }
}
