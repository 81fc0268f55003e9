//! Files and directories that only their owner can use, whatever the umask: how everything in Baton's home is made.
//!
//! The modes are given when a file is made, never by changing the umask of the process: tools share it, and what they
//! make in a project has to come out as the user's umask says. It holds no policy about which files are ours; see
//! `baton-server` and the program for that.

#![allow(clippy::missing_errors_doc, reason = "all of these fail as the functions of `std::fs` do")]
#![allow(clippy::disallowed_methods, reason = "blocking by design; callers run it where they may block")]

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// The mode of files.
pub const FILE: u32 = 0o600;
/// The mode of directories.
pub const DIRECTORY: u32 = 0o700;
/// What others could do.
const OTHERS: u32 = 0o077;
/// The bit of directories that everybody may write to, such as `/tmp`.
const STICKY: u32 = 0o1000;

/// Makes a directory and those that lead to it. The ones that exist stay as they are.
pub fn create_dir_all(path: impl AsRef<Path>) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(DIRECTORY).create(path)
}

/// Writes a file anew.
pub fn write(path: impl AsRef<Path>, contents: impl AsRef<[u8]>) -> io::Result<()> {
    create(path)?.write_all(contents.as_ref())
}

/// Makes a file, or empties the one that is there.
pub fn create(path: impl AsRef<Path>) -> io::Result<File> {
    let mut options = OpenOptions::new();
    closed_to_others(regular(options.write(true).create(true).truncate(true).mode(FILE), path.as_ref())?)
}

/// Makes a file that must not exist.
pub fn create_new(path: impl AsRef<Path>) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(FILE).open(path)
}

/// Opens a file to add to it; makes it if it is not there.
pub fn append(path: impl AsRef<Path>) -> io::Result<File> {
    let mut options = OpenOptions::new();
    closed_to_others(regular(options.append(true).create(true).mode(FILE), path.as_ref())?)
}

/// Opens a regular file, without following a link and without waiting: a pipe that somebody has put there would wait for its
/// other end for ever.
fn regular(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW;
    let file = options.custom_flags(i32::try_from(flags.bits()).unwrap_or_default()).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a regular file")) }
}

/// Makes sure that a file is there, for those who open it themselves, such as SQLite, which gives the files beside it
/// the same mode.
pub fn ensure(path: impl AsRef<Path>) -> io::Result<()> {
    append(path).map(drop)
}

/// An older version may have made the file with a wider mode.
fn closed_to_others(file: File) -> io::Result<File> {
    let metadata = file.metadata()?;
    if metadata.is_file() && is_open_to_others(&metadata) && is_own(&metadata) {
        file.set_permissions(Permissions::from_mode(metadata.mode() & 0o7777 & !OTHERS))?;
    }
    Ok(file)
}

/// Takes from others what they could do with a file or directory that is there. Leaves alone what is somebody else's, a
/// link, and a directory that everybody is meant to write to. Returns whether others are kept out now.
pub fn tighten(path: impl AsRef<Path>) -> io::Result<bool> {
    let path = path.as_ref();
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        known => known?,
    };
    if metadata.is_symlink() || !is_own(&metadata) || metadata.mode() & STICKY != 0 {
        return Ok(false);
    }
    if is_open_to_others(&metadata) {
        fs::set_permissions(path, Permissions::from_mode(metadata.mode() & 0o7777 & !OTHERS))?;
    }
    Ok(true)
}

/// Tightens a directory with everything in it. One that is closed already is not looked into: it is closed last, after
/// all that it holds. Links are not followed.
pub fn tighten_all(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        known => known?,
    };
    if metadata.is_dir() && is_own(&metadata) && is_open_to_others(&metadata) {
        for entry in fs::read_dir(path)? {
            tighten_all(entry?.path())?;
        }
    }
    tighten(path).map(drop)
}

/// Whether anybody but the owner may do something.
#[must_use]
pub fn is_open_to_others(metadata: &fs::Metadata) -> bool {
    metadata.mode() & OTHERS != 0
}

fn is_own(metadata: &fs::Metadata) -> bool {
    metadata.uid() == rustix::process::geteuid().as_raw()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on should say so")]
mod tests {
    use super::*;

    #[test]
    fn pipes_and_links_are_not_written_to() {
        let dir = tempfile::tempdir().unwrap();
        let (pipe, link) = (dir.path().join("pipe"), dir.path().join("link"));
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
        std::os::unix::fs::symlink(dir.path().join("elsewhere"), &link).unwrap();
        for path in [&pipe, &link] {
            assert!(append(path).is_err() && write(path, "x").is_err(), "{}", path.display());
        }
        assert!(!dir.path().join("elsewhere").exists());
    }

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn everything_is_made_for_its_owner_only() {
        let dir = tempfile::tempdir().unwrap();
        let below = dir.path().join("a/b");
        create_dir_all(&below).unwrap();
        assert_eq!((mode(&below), mode(&dir.path().join("a"))), (DIRECTORY, DIRECTORY));
        write(below.join("written"), "x").unwrap();
        append(below.join("appended")).unwrap();
        ensure(below.join("ensured")).unwrap();
        drop(create_new(below.join("new")).unwrap());
        for name in ["written", "appended", "ensured", "new"] {
            assert_eq!(mode(&below.join(name)), FILE, "{name}");
        }
    }

    #[test]
    fn wider_files_of_earlier_versions_are_tightened_when_written() {
        let dir = tempfile::tempdir().unwrap();
        for (name, wide) in [("old", 0o644), ("script", 0o755)] {
            let path = dir.path().join(name);
            fs::write(&path, "old").unwrap();
            fs::set_permissions(&path, Permissions::from_mode(wide)).unwrap();
            append(&path).unwrap().write_all(b", new").unwrap();
            assert_eq!(
                (mode(&path), fs::read_to_string(&path).unwrap().as_str()),
                (wide & 0o700, "old, new")
            );
        }
    }

    #[test]
    fn tightening_follows_no_link_and_skips_shared_directories() {
        let dir = tempfile::tempdir().unwrap();
        let (inside, outside) = (dir.path().join("inside"), dir.path().join("outside"));
        for directory in [&inside, &outside] {
            fs::create_dir(directory).unwrap();
            fs::write(directory.join("file"), "").unwrap();
            fs::set_permissions(directory.join("file"), Permissions::from_mode(0o666)).unwrap();
            fs::set_permissions(directory, Permissions::from_mode(0o755)).unwrap();
        }
        std::os::unix::fs::symlink(&outside, inside.join("link")).unwrap();
        std::os::unix::fs::symlink(outside.join("file"), inside.join("file-link")).unwrap();
        tighten_all(&inside).unwrap();
        assert_eq!((mode(&inside), mode(&inside.join("file"))), (0o700, 0o600));
        assert_eq!((mode(&outside), mode(&outside.join("file"))), (0o755, 0o666));

        fs::set_permissions(&outside, Permissions::from_mode(0o1777)).unwrap();
        assert!(!tighten(&outside).unwrap(), "as /tmp is");
        assert_eq!(mode(&outside), 0o1777);
        tighten_all(dir.path().join("missing")).unwrap();
    }
}
