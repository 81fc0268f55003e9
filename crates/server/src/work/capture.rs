//! Keeping what files were before the session's own tools change them, and noting what they have become.
//!
//! The copy is on the disk, and the history says so, before the tool runs: a crash in between loses nothing. It is made
//! once in a turn for each file. After a restart in the middle of a turn it may be made again; the first one counts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use baton_core::Change;
use baton_protocol::event::{ChangedFile, FilesChanged, FilesKept, KeptFile, Preimage};
use tokio::sync::Mutex;

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
}

struct File {
    before: Preimage,
    /// What it was when a tool was last done with it.
    last: Option<Now>,
}

/// The files that a call may change.
pub(super) struct Watch(Vec<PathBuf>);

/// Keeps what these files are, durably.
pub(super) async fn before(bench: &Bench, files: Vec<PathBuf>) -> Result<Watch, Failure> {
    let Some(turn) = &bench.session.durable.turn else { return Ok(Watch(Vec::new())) };
    let files: Vec<PathBuf> = files.iter().map(|path| resolve(path)).collect();
    let mut kept = bench.tools.kept.0.lock().await;
    if kept.interaction != turn.interaction {
        *kept = Turn { interaction: turn.interaction.clone(), files: BTreeMap::new() };
    }
    let new: Vec<PathBuf> = files.iter().filter(|path| !kept.files.contains_key(*path)).cloned().collect();
    if new.is_empty() {
        return Ok(Watch(files));
    }
    let shelf = Shelf::of(bench.tools.directory());
    let copy = move || new.into_iter().map(|path| (shelf.keep(&path), path)).collect::<Vec<_>>();
    let copied = tokio::task::spawn_blocking(copy).await.map_err(|e| Failure::Refused(e.to_string()))?;
    let named = |(before, path): &(Preimage, PathBuf)| KeptFile { path: name(path), before: before.clone() };
    let event = FilesKept { files: copied.iter().map(named).collect() };
    let change = Box::new(Change::Noted(Box::new(event.into())));
    bench.handle().ask(|respond| Mail::Change(change, respond)).await?;
    kept.files.extend(copied.into_iter().map(|(before, path)| (path, File { before, last: None })));
    Ok(Watch(files))
}

/// Notes which of them have changed. Under the lock, so that the last note is the latest.
pub(super) async fn after(bench: &Bench, Watch(files): Watch) {
    if files.is_empty() {
        return;
    }
    let shelf = Shelf::of(bench.tools.directory());
    let mut kept = bench.tools.kept.0.clone().lock_owned().await;
    let look = move || {
        let changed: Vec<ChangedFile> =
            files.iter().filter_map(|path| kept.files.get_mut(path)?.change(&shelf, path)).collect();
        (changed, kept)
    };
    let Ok((files, _kept)) = tokio::task::spawn_blocking(look).await else { return };
    if !files.is_empty() {
        bench.note(FilesChanged { files });
    }
}

impl File {
    /// What has become of it, if that is news.
    fn change(&mut self, shelf: &Shelf, path: &Path) -> Option<ChangedFile> {
        let now = Now::of(path);
        let is_known = self.last.as_ref().map_or_else(|| now.is(&self.before), |last| *last == now);
        if is_known || now == Now::Other {
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
