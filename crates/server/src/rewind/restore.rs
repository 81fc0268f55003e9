//! Putting files back: all of them or none. Only what is known to be the session's own work is undone: what was not kept, what
//! somebody else has changed since or in between, and what no call was seen to finish stays as it is.
#![expect(clippy::disallowed_methods, reason = "blocking by design; callers run it on a blocking thread")]

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use baton_agent::tools::beneath::Directory;
use baton_protocol::event::Preimage;
use serde::Serialize;

use super::shelf::open;
use super::{Now, Shelf, Touched};

/// Why a file stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Skip {
    UserModified,
    SkippedCapture,
}

/// What is to be done to which files. All of it may block.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) restore: BTreeMap<PathBuf, Preimage>,
    pub(crate) skip: Vec<(PathBuf, Skip)>,
}

/// Why nothing was put back.
#[derive(Debug)]
pub(crate) struct Undone {
    /// Whether everything is as it was before.
    pub(crate) whole: bool,
    pub(crate) error: String,
}

impl Plan {
    /// Compares files as they are with what they were. One that is what it was needs nothing.
    pub(crate) fn of(shelf: &Shelf, touched: BTreeMap<PathBuf, Touched>) -> Self {
        let mut plan = Self::default();
        for (path, Touched { before, last, gap }) in touched {
            let now = Now::of(&path);
            if now.is(&before) {
                continue;
            }
            let kept = match &before {
                Preimage::Absent => true,
                Preimage::Kept { digest, .. } => shelf.get(digest).is_some(),
                Preimage::NotKept { .. } => false,
            };
            let skip = match (gap, last) {
                (Some(gap), _) if kept => Some(gap),
                (None, Some(last)) if kept => {
                    let is_ours = now == last.after.map_or(Now::Absent, Now::File);
                    (!is_ours).then_some(Skip::UserModified)
                }
                // Not kept, or kept for a call that was cut off: whose work it is now cannot be told.
                _ => Some(Skip::SkippedCapture),
            };
            match skip {
                Some(why) => plan.skip.push((path, why)),
                None => drop(plan.restore.insert(path, before)),
            }
        }
        plan
    }

    /// Does it. If one file cannot be put back, those before it become again what they were.
    pub(crate) fn carry_out(&self, shelf: &Shelf) -> Result<Vec<PathBuf>, Undone> {
        let mut done: Vec<(&Path, Saved)> = Vec::new();
        for (path, before) in &self.restore {
            let saved = Saved::of(path).and_then(|saved| put_back(shelf, path, before).map(|()| saved));
            match saved {
                Ok(saved) => done.push((path, saved)),
                Err(error) => {
                    let error = format!("cannot restore {}: {error}", path.display());
                    let whole = done.iter().rev().all(|(path, saved)| saved.put_back(path).is_ok());
                    return Err(Undone { whole, error });
                }
            }
        }
        Ok(done.into_iter().map(|(path, _)| path.to_owned()).collect())
    }
}

/// A file as it was found, in case that it must be found so again. Its contents wait in a
/// temporary file.
struct Saved(Option<(tempfile::NamedTempFile, u32)>);

impl Saved {
    fn of(path: &Path) -> io::Result<Self> {
        let mut file = match open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self(None)),
            opened => opened?,
        };
        let mut copy = tempfile::NamedTempFile::new()?;
        io::copy(&mut file, &mut copy)?;
        Ok(Self(Some((copy, file.metadata()?.permissions().mode() & 0o7777))))
    }

    fn put_back(&self, path: &Path) -> io::Result<()> {
        match &self.0 {
            None => remove(path),
            Some((copy, mode)) => replace(path, &fs::read(copy.path())?, *mode),
        }
    }
}

fn put_back(shelf: &Shelf, path: &Path, before: &Preimage) -> io::Result<()> {
    match before {
        Preimage::Absent => remove(path),
        Preimage::Kept { digest, mode, .. } => {
            let contents = shelf.get(digest).ok_or_else(|| io::Error::other("its copy is gone"))?;
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

/// Writes a file so that nobody ever sees half of it, and no link leads elsewhere.
fn replace(path: &Path, contents: &[u8], mode: u32) -> io::Result<()> {
    Directory::root()?.put(path, contents, mode)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs::Permissions;

    use baton_protocol::event::ChangedFile;

    use super::*;

    /// A directory, with a shelf for what is in it.
    fn bench() -> (tempfile::TempDir, Shelf) {
        let dir = tempfile::tempdir().unwrap();
        let shelf = Shelf::of(&dir.path().join("session"));
        (dir, shelf)
    }

    /// Keeps a file, and then has it changed to what is told, as a tool would.
    fn change(shelf: &Shelf, path: &Path, contents: Option<&str>) -> (PathBuf, Touched) {
        let before = shelf.keep(path, &mut BTreeSet::new());
        match contents {
            Some(contents) => fs::write(path, contents).unwrap(),
            None => fs::remove_file(path).unwrap(),
        }
        let after = if let Now::File(digest) = Now::of(path) { Some(digest) } else { None };
        let name = path.display().to_string();
        let last = Some(ChangedFile { path: name, after, lines_added: 0, lines_removed: 0 });
        (path.to_owned(), Touched { before, last, gap: None })
    }

    #[test]
    fn created_changed_and_deleted_files_become_what_they_were() {
        let (dir, shelf) = bench();
        let [new, old, gone] = ["new", "old", "gone"].map(|name| dir.path().join(name));
        fs::write(&old, "old").unwrap();
        fs::set_permissions(&old, Permissions::from_mode(0o751)).unwrap();
        fs::write(&gone, "gone").unwrap();
        let touched = [
            change(&shelf, &new, Some("new")),
            change(&shelf, &old, Some("changed")),
            change(&shelf, &gone, None),
        ];
        let plan = Plan::of(&shelf, touched.clone().into());
        assert_eq!(plan.carry_out(&shelf).unwrap().len(), 3);
        assert!(!new.exists());
        assert_eq!(fs::read_to_string(&old).unwrap(), "old");
        assert_eq!(fs::metadata(&old).unwrap().permissions().mode() & 0o777, 0o751);
        assert_eq!(fs::read_to_string(&gone).unwrap(), "gone");
        assert!(Plan::of(&shelf, touched.into()).restore.is_empty(), "a second time there is nothing to do");
    }

    #[test]
    fn what_somebody_else_changed_or_nobody_kept_stays() {
        let (dir, shelf) = bench();
        let [theirs, lost] = ["theirs", "lost"].map(|name| dir.path().join(name));
        fs::write(&lost, "lost").unwrap();
        let touched = [change(&shelf, &theirs, Some("ours")), change(&shelf, &lost, Some("ours"))];
        fs::write(&theirs, "theirs").unwrap();
        fs::remove_dir_all(&shelf.directory).unwrap();
        let plan = Plan::of(&shelf, touched.into());
        assert_eq!(plan.skip, [(lost, Skip::SkippedCapture), (theirs, Skip::UserModified)]);
        assert!(plan.restore.is_empty());
    }

    #[test]
    fn what_is_not_known_to_be_ours_stays() {
        let (dir, shelf) = bench();
        let [between, cut_off, same] = ["between", "cut_off", "same"].map(|name| dir.path().join(name));
        let mut touched = [&between, &cut_off, &same].map(|path| change(&shelf, path, Some("now")));
        touched[0].1.gap = Some(Skip::UserModified);
        touched[1].1.last = None;
        touched[2].1.last = None;
        fs::remove_file(&same).unwrap();
        let plan = Plan::of(&shelf, touched.into());
        assert_eq!(plan.skip, [(between, Skip::UserModified), (cut_off, Skip::SkippedCapture)]);
        assert!(plan.restore.is_empty());
    }

    #[test]
    fn one_that_cannot_be_put_back_leaves_all_as_they_were() {
        let (dir, shelf) = bench();
        let [first, second] = ["a", "b"].map(|name| dir.path().join(name));
        fs::write(&first, "first").unwrap();
        fs::write(&second, "second").unwrap();
        let touched = [change(&shelf, &first, Some("ours")), change(&shelf, &second, Some("ours, too"))];
        let plan = Plan::of(&shelf, touched.into());
        let Preimage::Kept { digest, .. } = &plan.restore[&second] else { panic!("not kept") };
        shelf.forget(digest).unwrap();
        let undone = plan.carry_out(&shelf).unwrap_err();
        assert!(undone.whole && undone.error.contains("its copy is gone"), "{undone:?}");
        assert_eq!(fs::read_to_string(&first).unwrap(), "ours");
    }

    #[test]
    fn a_directory_that_has_become_a_link_is_left_alone() {
        let (dir, shelf) = bench();
        let real = dir.path().canonicalize().unwrap();
        let file = real.join("sub/file");
        for name in ["sub", "out"] {
            fs::create_dir(real.join(name)).unwrap();
            fs::write(real.join(name).join("file"), "old").unwrap();
        }
        let touched = [change(&shelf, &file, Some("ours"))];
        let plan = Plan::of(&shelf, touched.clone().into());
        fs::write(real.join("out/file"), "ours").unwrap();
        fs::rename(real.join("sub"), real.join("was")).unwrap();
        std::os::unix::fs::symlink(real.join("out"), real.join("sub")).unwrap();
        assert!(plan.carry_out(&shelf).is_err());
        assert!(Plan::of(&shelf, touched.into()).restore.is_empty());
        assert_eq!(fs::read_to_string(real.join("out/file")).unwrap(), "ours");
    }
}
