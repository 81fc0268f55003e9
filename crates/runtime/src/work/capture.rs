//! Snapshots of files before the session's tools change them, and records of the changes.
//!
//! The snapshot is on disk and recorded in the history before the tool runs, so a crash in between loses nothing. A file is
//! snapshotted again in the same turn only if it differs from what the turn's tools left: then another program changed it.
//! When a call ends without having changed a file, the snapshot is deleted: the file may be anything, a private key
//! included.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use baton_core::Change;
use baton_core::ask::Amend;
use baton_disk::beneath::resolve;
use baton_files::rewind::{FileState, Snapshots, lines_between};
use baton_protocol::event::{ChangedFile, FilesChanged, FilesKept, KeptFile, Preimage};
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::WorkScope;
use crate::session::Failure;

/// Snapshots of the running turn.
#[derive(Clone, Default)]
pub(crate) struct TurnSnapshots(Arc<Mutex<TrackedTurn>>);

#[derive(Default)]
struct TrackedTurn {
    interaction: String,
    files: BTreeMap<PathBuf, TrackedFile>,
    /// Digests of this turn's snapshots that no recorded change refers to yet.
    unreferenced: BTreeSet<String>,
}

struct TrackedFile {
    before: Preimage,
    /// State after the last call that changed it.
    last: Option<FileState>,
    /// Number of running calls that may change it.
    calls: usize,
}

/// Files that a call may change.
pub(super) struct WatchedFiles(Vec<PathBuf>);

/// Snapshots files before a call, durably.
pub(super) async fn before(scope: &WorkScope, files: Vec<PathBuf>) -> Result<WatchedFiles, Failure> {
    let Some(turn) = &scope.session.durable.turn else { return Ok(WatchedFiles(Vec::new())) };
    let files = blocking(move || files_among(&files)).await?;
    let mut tracked = scope.tools.snapshots.0.clone().lock_owned().await;
    if tracked.interaction != turn.interaction {
        *tracked = TrackedTurn { interaction: turn.interaction.clone(), ..TrackedTurn::default() };
    }
    let (snapshots, named) = (scope.tools.files().snapshots(), files.clone());
    let snapshot = move || (tracked.snapshot(&snapshots, &named), tracked);
    let (new, mut tracked) = blocking(snapshot).await?;
    if !new.is_empty() {
        let recorded =
            |(path, before): &(PathBuf, Preimage)| KeptFile { path: name(path), before: before.clone() };
        let event = FilesKept { files: new.iter().map(recorded).collect() };
        scope.handle().ask(Amend::unsigned(Change::Noted(Box::new(event.into())))).await?;
        tracked.files.extend(new.into_iter().map(|(path, before)| (path, TrackedFile::new(before))));
    }
    for path in &files {
        tracked.files.entry(path.clone()).and_modify(|file| file.calls += 1);
    }
    Ok(WatchedFiles(files.into_iter().collect()))
}

/// Returns the paths that are not directories, with links resolved. Blocks.
#[expect(clippy::disallowed_methods, reason = "runs on a blocking thread")]
fn files_among(paths: &[PathBuf]) -> BTreeSet<PathBuf> {
    paths.iter().filter(|path| !path.is_dir()).map(|path| resolve(path)).collect()
}

/// Records the changes of files after a call, and deletes the snapshots of unchanged ones. Holds the lock while recording, so
/// that the records are in the order of the changes.
pub(super) async fn after(scope: &WorkScope, WatchedFiles(files): WatchedFiles) {
    if files.is_empty() {
        return;
    }
    let snapshots = scope.tools.files().snapshots();
    let mut tracked = scope.tools.snapshots.0.clone().lock_owned().await;
    let finish = move || (tracked.finish_call(&snapshots, &files), tracked);
    let Ok((changed, tracked)) = blocking(finish).await else { return };
    if !changed.files.is_empty() || !changed.unchanged.is_empty() {
        scope.note(changed);
    }
    drop::<OwnedMutexGuard<TrackedTurn>>(tracked);
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Failure> {
    tokio::task::spawn_blocking(work).await.map_err(|error| Failure::Refused(error.to_string()))
}

impl TrackedTurn {
    /// Snapshots the files whose current state is not known.
    fn snapshot(&mut self, snapshots: &Snapshots, files: &BTreeSet<PathBuf>) -> Vec<(PathBuf, Preimage)> {
        let is_known = |path: &&PathBuf| self.files.get(*path).is_some_and(|file| file.is_as_left(path));
        let new: Vec<PathBuf> = files.iter().filter(|path| !is_known(path)).cloned().collect();
        new.into_iter().map(|path| (path.clone(), snapshots.keep(&path, &mut self.unreferenced))).collect()
    }

    /// Compares the files with their snapshots after a call.
    fn finish_call(&mut self, snapshots: &Snapshots, files: &[PathBuf]) -> FilesChanged {
        let mut changed = FilesChanged { files: Vec::new(), unchanged: Vec::new() };
        let mut released = BTreeSet::new();
        for path in files {
            let Some(file) = self.files.get_mut(path) else { continue };
            file.calls = file.calls.saturating_sub(1);
            if let Some(change) = file.change(snapshots, path) {
                file.digest().map(|digest| self.unreferenced.remove(digest));
                changed.files.push(change);
            } else if file.calls == 0 && file.last.is_none() && FileState::of(path).is(&file.before) {
                changed.unchanged.push(name(path));
                released.extend(file.digest().cloned());
                self.files.remove(path);
            }
        }
        released.retain(|digest| self.unreferenced.contains(digest));
        released.retain(|digest| self.files.values().all(|file| file.digest() != Some(digest)));
        for digest in released {
            self.unreferenced.remove(&digest);
            if let Err(error) = snapshots.forget(&digest) {
                tracing::warn!(%error, "failed to delete the snapshot of an unchanged file");
            }
        }
        changed
    }
}

impl TrackedFile {
    fn new(before: Preimage) -> Self {
        Self { before, last: None, calls: 0 }
    }

    fn digest(&self) -> Option<&String> {
        if let Preimage::Kept { digest, .. } = &self.before { Some(digest) } else { None }
    }

    /// Returns whether the file is as the turn's tools left it. While a call is running on it, every change counts as the
    /// call's.
    fn is_as_left(&self, path: &Path) -> bool {
        self.calls > 0 || matches!(self.before, Preimage::NotKept { .. }) || self.is(&FileState::of(path))
    }

    fn is(&self, now: &FileState) -> bool {
        self.last.as_ref().map_or_else(|| now.is(&self.before), |last| last == now)
    }

    /// Returns the change since the last call, if there is one.
    fn change(&mut self, snapshots: &Snapshots, path: &Path) -> Option<ChangedFile> {
        let now = FileState::of(path);
        if self.is(&now) || now == FileState::Other {
            return None;
        }
        let (lines_added, lines_removed) = lines_between(snapshots, &self.before, path);
        let after = if let FileState::File(digest) = &now { Some(digest.clone()) } else { None };
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

    use baton_files::SessionFiles;

    use super::*;

    /// Creates a directory with two files of the same content.
    fn fixture() -> (tempfile::TempDir, Snapshots, [PathBuf; 2]) {
        let dir = tempfile::tempdir().unwrap();
        let files = ["a", "b"].map(|name| dir.path().join(name));
        files.iter().for_each(|path| fs::write(path, "alike").unwrap());
        let snapshots = SessionFiles::of(dir.path(), &"session".parse().unwrap()).snapshots();
        (dir, snapshots, files)
    }

    /// Begins a call. Returns the files that were snapshotted for it.
    fn begin(turn: &mut TrackedTurn, snapshots: &Snapshots, files: &[PathBuf]) -> Vec<PathBuf> {
        let new = turn.snapshot(snapshots, &files.iter().cloned().collect());
        turn.files.extend(new.iter().cloned().map(|(path, before)| (path, TrackedFile::new(before))));
        files.iter().for_each(|path| turn.files.get_mut(path).unwrap().calls += 1);
        new.into_iter().map(|(path, _)| path).collect()
    }

    #[test]
    fn snapshot_exists_while_it_is_needed() {
        let (dir, snapshots, files) = fixture();
        let stored = || fs::read_dir(dir.path().join("session-state/session/rewind")).unwrap().count();
        let mut turn = TrackedTurn::default();
        begin(&mut turn, &snapshots, &files);
        begin(&mut turn, &snapshots, &files[1..]);
        let changed = turn.finish_call(&snapshots, &files);
        assert_eq!((changed.unchanged, stored()), (vec![name(&files[0])], 1), "a call on b is running");
        fs::write(&files[1], "changed").unwrap();
        assert_eq!(turn.finish_call(&snapshots, &files[1..]).files.len(), 1);
        assert_eq!(
            begin(&mut turn, &snapshots, &files[..1]),
            files[..1],
            "a deleted snapshot is taken again"
        );
        assert_eq!(turn.finish_call(&snapshots, &files[..1]).unchanged.len(), 1);
        assert_eq!(stored(), 1, "the change of b refers to it");
    }

    #[test]
    fn change_by_another_program_in_the_same_turn_is_snapshotted() {
        let (_dir, snapshots, files) = fixture();
        let (mut turn, file) = (TrackedTurn::default(), &files[..1]);
        assert_eq!(begin(&mut turn, &snapshots, file), file);
        fs::write(&file[0], "ours").unwrap();
        assert!(begin(&mut turn, &snapshots, file).is_empty(), "a call on it is running");
        turn.finish_call(&snapshots, file);
        turn.finish_call(&snapshots, file);
        assert!(begin(&mut turn, &snapshots, file).is_empty(), "it is as the tools left it");
        turn.finish_call(&snapshots, file);
        fs::write(&file[0], "theirs").unwrap();
        assert_eq!(begin(&mut turn, &snapshots, file), file);
    }
}
