//! Restoring files from snapshots: all of them or none. Only changes that are known to be the session's own are undone. A
//! file stays as it is if it has no snapshot, if something else changed it meanwhile, or if the call that changed it did
//! not finish.
#![expect(clippy::disallowed_methods, reason = "blocking by design; callers run it on a blocking thread")]

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use baton_disk::beneath::Directory;
use baton_protocol::event::Preimage;
use serde::{Deserialize, Serialize};

use super::snapshots::open;
use super::{FileState, Snapshots, TouchedFile};

/// Why a file is not restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Skip {
    /// Something other than the session's tools changed it.
    UserModified,
    /// It has no snapshot, or the call that changed it did not finish.
    SkippedCapture,
}

/// Files to restore and files to skip. All methods block.
#[derive(Debug, Default)]
pub struct Plan {
    /// Files to restore, with their state before the session's changes.
    pub restore: BTreeMap<PathBuf, Preimage>,
    /// Files that stay as they are.
    pub skip: Vec<(PathBuf, Skip)>,
}

/// Failure to restore the files of a plan.
#[derive(Debug)]
pub struct RestoreFailure {
    /// Whether all files are again as they were before the attempt.
    pub whole: bool,
    /// Description of the failure.
    pub error: String,
}

impl Plan {
    /// Compares the files with their snapshots. A file that is as it was before is neither restored nor skipped.
    pub fn of(snapshots: &Snapshots, touched: BTreeMap<PathBuf, TouchedFile>) -> Self {
        let mut plan = Self::default();
        for (path, TouchedFile { before, last, gap }) in touched {
            let now = FileState::of(&path);
            if now.is(&before) {
                continue;
            }
            let is_known = match &before {
                Preimage::Absent => true,
                Preimage::Kept { digest, .. } => snapshots.get(digest).is_some(),
                Preimage::NotKept { .. } => false,
            };
            let skip = match (gap, last) {
                (Some(gap), _) if is_known => Some(gap),
                (None, Some(last)) if is_known => {
                    let is_ours = now == last.after.map_or(FileState::Absent, FileState::File);
                    (!is_ours).then_some(Skip::UserModified)
                }
                // Without a snapshot, or after an interrupted call, the origin of the current content is unknown.
                _ => Some(Skip::SkippedCapture),
            };
            match skip {
                Some(reason) => plan.skip.push((path, reason)),
                None => drop(plan.restore.insert(path, before)),
            }
        }
        plan
    }

    /// Restores the files, and returns their paths. If one fails, the files restored before it are reverted.
    ///
    /// # Errors
    /// When a file cannot be restored; the error says whether all were reverted.
    pub fn carry_out(&self, snapshots: &Snapshots) -> Result<Vec<PathBuf>, RestoreFailure> {
        let mut done: Vec<(&Path, Backup)> = Vec::new();
        for (path, before) in &self.restore {
            let backup =
                Backup::of(path).and_then(|backup| restore(snapshots, path, before).map(|()| backup));
            match backup {
                Ok(backup) => done.push((path, backup)),
                Err(error) => {
                    let error = format!("cannot restore {}: {error}", path.display());
                    let whole = done.iter().rev().all(|(path, backup)| backup.restore(path).is_ok());
                    return Err(RestoreFailure { whole, error });
                }
            }
        }
        Ok(done.into_iter().map(|(path, _)| path.to_owned()).collect())
    }
}

/// A file before it was restored, in case that has to be reverted: its content, in a temporary file, and mode.
struct Backup(Option<(tempfile::NamedTempFile, u32)>);

impl Backup {
    fn of(path: &Path) -> io::Result<Self> {
        let mut file = match open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self(None)),
            opened => opened?,
        };
        let mut copy = tempfile::NamedTempFile::new()?;
        io::copy(&mut file, &mut copy)?;
        Ok(Self(Some((copy, file.metadata()?.permissions().mode() & 0o7777))))
    }

    fn restore(&self, path: &Path) -> io::Result<()> {
        match &self.0 {
            None => remove(path),
            Some((copy, mode)) => replace(path, &fs::read(copy.path())?, *mode),
        }
    }
}

fn restore(snapshots: &Snapshots, path: &Path, before: &Preimage) -> io::Result<()> {
    match before {
        Preimage::Absent => remove(path),
        Preimage::Kept { digest, mode, .. } => {
            let contents =
                snapshots.get(digest).ok_or_else(|| io::Error::other("its snapshot is missing"))?;
            replace(path, &contents, *mode)
        }
        Preimage::NotKept { why } => Err(io::Error::other(why.clone())),
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match Directory::root()?.remove(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Replaces a file atomically, without following links.
fn replace(path: &Path, contents: &[u8], mode: u32) -> io::Result<()> {
    Directory::root()?.put(path, contents, mode)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs::Permissions;

    use baton_protocol::event::ChangedFile;

    use super::*;

    /// Creates a directory, with snapshots for its files.
    fn scope() -> (tempfile::TempDir, Snapshots) {
        let dir = tempfile::tempdir().unwrap();
        let snapshots = Snapshots::of(&dir.path().join("session"));
        (dir, snapshots)
    }

    /// Takes a snapshot of a file, and then writes or deletes it, as a tool would.
    fn change(snapshots: &Snapshots, path: &Path, contents: Option<&str>) -> (PathBuf, TouchedFile) {
        let before = snapshots.keep(path, &mut BTreeSet::new());
        match contents {
            Some(contents) => fs::write(path, contents).unwrap(),
            None => fs::remove_file(path).unwrap(),
        }
        let after = if let FileState::File(digest) = FileState::of(path) { Some(digest) } else { None };
        let name = path.display().to_string();
        let last = Some(ChangedFile { path: name, after, lines_added: 0, lines_removed: 0 });
        (path.to_owned(), TouchedFile { before, last, gap: None })
    }

    #[test]
    fn created_changed_and_deleted_files_are_restored() {
        let (dir, snapshots) = scope();
        let [new, old, gone] = ["new", "old", "gone"].map(|name| dir.path().join(name));
        fs::write(&old, "old").unwrap();
        fs::set_permissions(&old, Permissions::from_mode(0o751)).unwrap();
        fs::write(&gone, "gone").unwrap();
        let touched = [
            change(&snapshots, &new, Some("new")),
            change(&snapshots, &old, Some("changed")),
            change(&snapshots, &gone, None),
        ];
        let plan = Plan::of(&snapshots, touched.clone().into());
        assert_eq!(plan.carry_out(&snapshots).unwrap().len(), 3);
        assert!(!new.exists());
        assert_eq!(fs::read_to_string(&old).unwrap(), "old");
        assert_eq!(fs::metadata(&old).unwrap().permissions().mode() & 0o777, 0o751);
        assert_eq!(fs::read_to_string(&gone).unwrap(), "gone");
        assert!(Plan::of(&snapshots, touched.into()).restore.is_empty(), "there is nothing left to do");
    }

    #[test]
    fn files_changed_by_something_else_or_without_snapshots_are_skipped() {
        let (dir, snapshots) = scope();
        let [theirs, lost] = ["theirs", "lost"].map(|name| dir.path().join(name));
        fs::write(&lost, "lost").unwrap();
        let touched = [change(&snapshots, &theirs, Some("ours")), change(&snapshots, &lost, Some("ours"))];
        fs::write(&theirs, "theirs").unwrap();
        fs::remove_dir_all(&snapshots.directory).unwrap();
        let plan = Plan::of(&snapshots, touched.into());
        assert_eq!(plan.skip, [(lost, Skip::SkippedCapture), (theirs, Skip::UserModified)]);
        assert!(plan.restore.is_empty());
    }

    #[test]
    fn files_with_unknown_changes_are_skipped() {
        let (dir, snapshots) = scope();
        let [between, cut_off, same] = ["between", "cut_off", "same"].map(|name| dir.path().join(name));
        let mut touched = [&between, &cut_off, &same].map(|path| change(&snapshots, path, Some("now")));
        touched[0].1.gap = Some(Skip::UserModified);
        touched[1].1.last = None;
        touched[2].1.last = None;
        fs::remove_file(&same).unwrap();
        let plan = Plan::of(&snapshots, touched.into());
        assert_eq!(plan.skip, [(between, Skip::UserModified), (cut_off, Skip::SkippedCapture)]);
        assert!(plan.restore.is_empty());
    }

    #[test]
    fn failure_reverts_the_files_restored_before_it() {
        let (dir, snapshots) = scope();
        let [first, second] = ["a", "b"].map(|name| dir.path().join(name));
        fs::write(&first, "first").unwrap();
        fs::write(&second, "second").unwrap();
        let touched =
            [change(&snapshots, &first, Some("ours")), change(&snapshots, &second, Some("ours, too"))];
        let plan = Plan::of(&snapshots, touched.into());
        let Preimage::Kept { digest, .. } = &plan.restore[&second] else { panic!("no snapshot") };
        snapshots.forget(digest).unwrap();
        let failure = plan.carry_out(&snapshots).unwrap_err();
        assert!(failure.whole && failure.error.contains("its snapshot is missing"), "{failure:?}");
        assert_eq!(fs::read_to_string(&first).unwrap(), "ours");
    }

    #[test]
    fn files_below_a_directory_that_became_a_link_are_not_restored() {
        let (dir, snapshots) = scope();
        let real = dir.path().canonicalize().unwrap();
        let file = real.join("sub/file");
        for name in ["sub", "out"] {
            fs::create_dir(real.join(name)).unwrap();
            fs::write(real.join(name).join("file"), "old").unwrap();
        }
        let touched = [change(&snapshots, &file, Some("ours"))];
        let plan = Plan::of(&snapshots, touched.clone().into());
        fs::write(real.join("out/file"), "ours").unwrap();
        fs::rename(real.join("sub"), real.join("was")).unwrap();
        std::os::unix::fs::symlink(real.join("out"), real.join("sub")).unwrap();
        assert!(plan.carry_out(&snapshots).is_err());
        assert!(Plan::of(&snapshots, touched.into()).restore.is_empty());
        assert_eq!(fs::read_to_string(real.join("out/file")).unwrap(), "ours");
    }
}
