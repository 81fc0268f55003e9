//! Held files: files that act, which a command in the sandbox created, and which were moved away until a person decides.
//!
//! They are in a directory of the session that no grant covers. All of it may block.
#![allow(clippy::disallowed_methods, reason = "blocking by design; callers run it on a blocking thread")]

use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use baton_disk::beneath::Directory;

/// Largest file that is moved back, in bytes. Files that act are short.
const LARGEST: u64 = 64 << 20;

/// Held files of one session. A value like a path: creating one touches no file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldFiles {
    directory: PathBuf,
}

impl HeldFiles {
    /// Returns the held files of a session, below its directory.
    #[must_use]
    pub(crate) fn of(session: &Path) -> Self {
        // Named in the policy of `baton-core`, which lets no grant cover it.
        Self { directory: session.join("held-files") }
    }

    /// Returns the path of the directory, for whatever moves files into it.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.directory
    }

    /// Moves a held file to a path relative to a directory. Follows no links there, and replaces no other file.
    ///
    /// # Errors
    /// When there is no such held file, when another file is in its place, or when it cannot be written.
    pub fn restore(&self, name: &str, directory: &Path, path: &Path) -> io::Result<()> {
        let held = Directory::trusted(&self.directory)?;
        let (contents, mode) = read(&held, Path::new(name))?;
        let target = Directory::trusted(directory)?;
        match target.create_with_mode(path, &contents, mode) {
            // It was moved back, and the server stopped before it said so.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match read(&target, path) {
                Ok((found, _)) if found == contents => {}
                _ => {
                    return Err(io::Error::other(
                        "another file is there now; move it away, or reject this one",
                    ));
                }
            },
            created => created?,
        }
        held.remove(Path::new(name))
    }

    /// Deletes a held file. One that does not exist is deleted already.
    ///
    /// # Errors
    /// When it cannot be deleted.
    pub fn discard(&self, name: &str) -> io::Result<()> {
        let removed = Directory::trusted(&self.directory).and_then(|held| held.remove(Path::new(name)));
        match removed {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }
}

/// Reads a file, and its mode.
fn read(directory: &Directory, path: &Path) -> io::Result<(Vec<u8>, u32)> {
    let file = directory.open(path)?;
    let mode = file.metadata()?.permissions().mode() & 0o777;
    let mut contents = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut contents)?;
    if contents.len() as u64 > LARGEST {
        return Err(io::Error::other(format!("it is larger than {LARGEST} bytes")));
    }
    Ok((contents, mode))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    struct World {
        _dir: tempfile::TempDir,
        held: HeldFiles,
        work: PathBuf,
    }

    fn world() -> World {
        let dir = tempfile::tempdir().unwrap();
        let (held, work) = (HeldFiles::of(dir.path()), dir.path().join("work"));
        fs::create_dir(held.path()).unwrap();
        fs::create_dir(&work).unwrap();
        fs::write(held.path().join("1"), "use nix").unwrap();
        World { _dir: dir, held, work }
    }

    #[test]
    fn file_is_moved_back_with_its_mode_and_missing_directories() {
        let World { held, work, .. } = &world();
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(held.path().join("1"), executable).unwrap();
        held.restore("1", work, Path::new(".git/hooks/pre-commit")).unwrap();
        let file = work.join(".git/hooks/pre-commit");
        assert_eq!(fs::read_to_string(&file).unwrap(), "use nix");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o755);
        assert!(!held.path().join("1").exists());
        assert!(held.restore("1", work, Path::new("again")).is_err());
    }

    #[test]
    fn other_files_are_not_replaced_and_links_are_not_followed() {
        let World { held, work, .. } = &world();
        fs::write(work.join(".envrc"), "mine").unwrap();
        let refused = held.restore("1", work, Path::new(".envrc")).unwrap_err();
        assert!(refused.to_string().contains("another file"), "{refused}");
        symlink("/tmp", work.join("link")).unwrap();
        for path in ["link/x", "../x"] {
            assert!(held.restore("1", work, Path::new(path)).is_err(), "{path}");
        }
        assert_eq!(fs::read_to_string(work.join(".envrc")).unwrap(), "mine");
        assert!(held.restore("../work/.envrc", work, Path::new("stolen")).is_err());
        assert!(held.path().join("1").exists());
    }

    #[test]
    fn move_that_a_crash_interrupted_is_completed() {
        let World { held, work, .. } = &world();
        fs::write(work.join(".envrc"), "use nix").unwrap();
        held.restore("1", work, Path::new(".envrc")).unwrap();
        assert!(!held.path().join("1").exists());
    }

    #[test]
    fn discarded_file_is_gone() {
        let World { held, .. } = &world();
        held.discard("1").unwrap();
        held.discard("1").unwrap();
        assert!(!held.path().join("1").exists());
    }
}
