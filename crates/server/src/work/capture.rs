//! Keeping what files were before the session's own tools change them, and noting what they have become.
//!
//! The copy is on the disk, and the history says so, before the tool runs: a crash in between loses nothing. It is made
//! again in the same turn only if the file is not what the turn's tools left: then somebody else was at work. A file that a
//! call only named is let go of when the call is over, with its copy: it may be anything, a private key included.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use baton_core::Change;
use baton_protocol::event::{ChangedFile, FilesChanged, FilesKept, KeptFile, Preimage};
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::Bench;
use crate::rewind::{Now, Shelf, lines_between, resolve};
use crate::session::{Failure, Mail};

/// What was kept in the running turn.
#[derive(Clone, Default)]
pub(crate) struct Kept(Arc<Mutex<Turn>>);

#[derive(Default)]
struct Turn {
    interaction: String,
    files: BTreeMap<PathBuf, File>,
    /// Copies that were made in this turn and that no noted change needs, so far.
    loose: BTreeSet<String>,
}

struct File {
    before: Preimage,
    /// What it was when a tool was last done with it, if that had changed it.
    last: Option<Now>,
    /// How many calls are at work that may change it.
    calls: usize,
}

/// The files that a call may change.
pub(super) struct Watch(Vec<PathBuf>);

/// Keeps what these files are, durably.
pub(super) async fn before(bench: &Bench, files: Vec<PathBuf>) -> Result<Watch, Failure> {
    let Some(turn) = &bench.session.durable.turn else { return Ok(Watch(Vec::new())) };
    let files = blocking(move || files_among(&files)).await?;
    let mut kept = bench.tools.kept.0.clone().lock_owned().await;
    if kept.interaction != turn.interaction {
        *kept = Turn { interaction: turn.interaction.clone(), ..Turn::default() };
    }
    let (shelf, named) = (Shelf::of(bench.tools.directory()), files.clone());
    let copy = move || (kept.keep(&shelf, &named), kept);
    let (new, mut kept) = blocking(copy).await?;
    if !new.is_empty() {
        let named =
            |(path, before): &(PathBuf, Preimage)| KeptFile { path: name(path), before: before.clone() };
        let event = FilesKept { files: new.iter().map(named).collect() };
        let change = Box::new(Change::Noted(Box::new(event.into())));
        bench.handle().ask(|respond| Mail::Change(change, respond)).await?;
        kept.files.extend(new.into_iter().map(|(path, before)| (path, File::new(before))));
    }
    for path in &files {
        kept.files.entry(path.clone()).and_modify(|file| file.calls += 1);
    }
    Ok(Watch(files.into_iter().collect()))
}

/// Those of the paths that are no directories, without links. Blocks.
#[expect(clippy::disallowed_methods, reason = "runs on a blocking thread")]
fn files_among(paths: &[PathBuf]) -> BTreeSet<PathBuf> {
    paths.iter().filter(|path| !path.is_dir()).map(|path| resolve(path)).collect()
}

/// Notes what has become of them, and lets go of those that are what they were. Under the lock, so that the last note is
/// the latest.
pub(super) async fn after(bench: &Bench, Watch(files): Watch) {
    if files.is_empty() {
        return;
    }
    let shelf = Shelf::of(bench.tools.directory());
    let mut kept = bench.tools.kept.0.clone().lock_owned().await;
    let look = move || (kept.settle(&shelf, &files), kept);
    let Ok((news, kept)) = blocking(look).await else { return };
    if !news.files.is_empty() || !news.unchanged.is_empty() {
        bench.note(news);
    }
    drop::<OwnedMutexGuard<Turn>>(kept);
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Failure> {
    tokio::task::spawn_blocking(work).await.map_err(|error| Failure::Refused(error.to_string()))
}

impl Turn {
    /// Copies those that are not known as they are.
    fn keep(&mut self, shelf: &Shelf, files: &BTreeSet<PathBuf>) -> Vec<(PathBuf, Preimage)> {
        let is_known = |path: &&PathBuf| self.files.get(*path).is_some_and(|file| file.is_as_left(path));
        let new: Vec<PathBuf> = files.iter().filter(|path| !is_known(path)).cloned().collect();
        new.into_iter().map(|path| (path.clone(), shelf.keep(&path, &mut self.loose))).collect()
    }

    /// A call that may have changed these files is over.
    fn settle(&mut self, shelf: &Shelf, files: &[PathBuf]) -> FilesChanged {
        let mut news = FilesChanged { files: Vec::new(), unchanged: Vec::new() };
        let mut released = BTreeSet::new();
        for path in files {
            let Some(file) = self.files.get_mut(path) else { continue };
            file.calls = file.calls.saturating_sub(1);
            if let Some(change) = file.change(shelf, path) {
                file.digest().map(|digest| self.loose.remove(digest));
                news.files.push(change);
            } else if file.calls == 0 && file.last.is_none() && Now::of(path).is(&file.before) {
                news.unchanged.push(name(path));
                released.extend(file.digest().cloned());
                self.files.remove(path);
            }
        }
        released.retain(|digest| self.loose.contains(digest));
        released.retain(|digest| self.files.values().all(|file| file.digest() != Some(digest)));
        for digest in released {
            self.loose.remove(&digest);
            if let Err(error) = shelf.forget(&digest) {
                tracing::warn!(%error, "the copy of a file that nobody changed stays");
            }
        }
        news
    }
}

impl File {
    fn new(before: Preimage) -> Self {
        Self { before, last: None, calls: 0 }
    }

    fn digest(&self) -> Option<&String> {
        if let Preimage::Kept { digest, .. } = &self.before { Some(digest) } else { None }
    }

    /// Whether it is what the turn's tools left. While one is at work on it, whatever becomes of it counts as its work.
    fn is_as_left(&self, path: &Path) -> bool {
        self.calls > 0 || matches!(self.before, Preimage::NotKept { .. }) || self.is(&Now::of(path))
    }

    fn is(&self, now: &Now) -> bool {
        self.last.as_ref().map_or_else(|| now.is(&self.before), |last| last == now)
    }

    /// What has become of it, if that is news.
    fn change(&mut self, shelf: &Shelf, path: &Path) -> Option<ChangedFile> {
        let now = Now::of(path);
        if self.is(&now) || now == Now::Other {
            return None;
        }
        let (lines_added, lines_removed) = lines_between(shelf, &self.before, path);
        let after = if let Now::File(digest) = &now { Some(digest.clone()) } else { None };
        self.last = Some(now);
        Some(ChangedFile { path: name(path), after, lines_added, lines_removed })
    }
}

fn name(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A directory with two files that are alike.
    fn bench() -> (tempfile::TempDir, Shelf, [PathBuf; 2]) {
        let dir = tempfile::tempdir().unwrap();
        let files = ["a", "b"].map(|name| dir.path().join(name));
        files.iter().for_each(|path| fs::write(path, "alike").unwrap());
        let shelf = Shelf::of(&dir.path().join("session"));
        (dir, shelf, files)
    }

    /// Begins a call, and says what was kept for it.
    fn begin(turn: &mut Turn, shelf: &Shelf, files: &[PathBuf]) -> Vec<PathBuf> {
        let new = turn.keep(shelf, &files.iter().cloned().collect());
        turn.files.extend(new.iter().cloned().map(|(path, before)| (path, File::new(before))));
        files.iter().for_each(|path| turn.files.get_mut(path).unwrap().calls += 1);
        new.into_iter().map(|(path, _)| path).collect()
    }

    #[test]
    fn a_copy_stays_as_long_as_something_needs_it() {
        let (dir, shelf, files) = bench();
        let copies = || fs::read_dir(dir.path().join("session/rewind")).unwrap().count();
        let mut turn = Turn::default();
        begin(&mut turn, &shelf, &files);
        begin(&mut turn, &shelf, &files[1..]);
        let news = turn.settle(&shelf, &files);
        assert_eq!((news.unchanged, copies()), (vec![name(&files[0])], 1), "a call is still at work on b");
        fs::write(&files[1], "changed").unwrap();
        assert_eq!(turn.settle(&shelf, &files[1..]).files.len(), 1);
        assert_eq!(begin(&mut turn, &shelf, &files[..1]), files[..1], "what was let go of is kept again");
        assert_eq!(turn.settle(&shelf, &files[..1]).unchanged.len(), 1);
        assert_eq!(copies(), 1, "the change of b needs it");
    }

    #[test]
    fn what_somebody_else_wrote_in_the_same_turn_is_kept() {
        let (_dir, shelf, files) = bench();
        let (mut turn, file) = (Turn::default(), &files[..1]);
        assert_eq!(begin(&mut turn, &shelf, file), file);
        fs::write(&file[0], "ours").unwrap();
        assert!(begin(&mut turn, &shelf, file).is_empty(), "a call is at work on it");
        turn.settle(&shelf, file);
        turn.settle(&shelf, file);
        assert!(begin(&mut turn, &shelf, file).is_empty(), "it is what was left");
        turn.settle(&shelf, file);
        fs::write(&file[0], "theirs").unwrap();
        assert_eq!(begin(&mut turn, &shelf, file), file);
    }
}
