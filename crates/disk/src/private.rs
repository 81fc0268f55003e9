//! Files and directories that only their owner can use, whatever the umask. Everything in Baton's home is
//! created with these functions.
//!
//! The mode is set when a file is created, never by changing the umask of the process: tools inherit the
//! umask, and the files that they create in a project must have the user's usual modes. This crate does not
//! decide which files are private; its callers do.

#![allow(clippy::missing_errors_doc, reason = "all of these fail like the functions of `std::fs`")]
#![allow(clippy::disallowed_methods, reason = "blocking by design; callers run it on blocking threads")]

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::NamedTempFile;

/// The mode of files.
pub const FILE: u32 = 0o600;
/// The mode of directories.
pub const DIRECTORY: u32 = 0o700;
/// The mode of files that are not private, before the umask.
const PUBLIC_FILE: u32 = 0o666;
/// The mode bits of group and others.
const OTHERS: u32 = 0o077;
/// The mode bit of shared directories such as `/tmp`.
const STICKY: u32 = 0o1000;

/// Creates a directory and its parents. Existing ones stay unchanged.
pub fn create_dir_all(path: impl AsRef<Path>) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(DIRECTORY).create(path)
}

/// Binds or connects a socket file with `open`, whatever the length of its path. The system accepts about a hundred bytes,
/// and a home can be deeper; on Linux, a longer path is reached through its directory.
pub fn with_socket_path<T>(path: &Path, open: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    let Some(name) = path.file_name().filter(|_| cfg!(target_os = "linux") && is_long(path)) else {
        return open(path);
    };
    let directory = File::open(directory_of(path))?;
    open(&PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd())).join(name))
}

/// Removes the socket files of a directory on which nobody listens: those of processes that were killed. A file that is
/// younger than `age` stays, because its owner may be about to listen.
pub fn remove_dead_sockets(directory: &Path, age: Duration) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let Ok(found) = path.symlink_metadata() else { continue };
        let is_old = found.modified().is_ok_and(|at| at.elapsed().is_ok_and(|elapsed| elapsed >= age));
        if found.file_type().is_socket() && is_old {
            let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
            if with_socket_path(&path, |path| UnixStream::connect(path)).is_err_and(refused) {
                // Another server may have removed it.
                let _ = fs::remove_file(&path);
            }
        }
    }
    Ok(())
}

fn is_long(path: &Path) -> bool {
    path.as_os_str().len() > 100
}

/// Writes a file, replacing its content.
pub fn write(path: impl AsRef<Path>, contents: impl AsRef<[u8]>) -> io::Result<()> {
    create(path)?.write_all(contents.as_ref())
}

/// Replaces a file atomically: a reader, or a crash, finds the old content or the new one, never a part. Not synced.
pub fn replace(path: impl AsRef<Path>, contents: impl AsRef<[u8]>) -> io::Result<()> {
    persist(temporary(path.as_ref(), contents.as_ref())?, path.as_ref())
}

/// Replaces a file atomically and durably: file and directory are synced, so that the new content survives a power
/// failure.
pub fn replace_synced(path: impl AsRef<Path>, contents: impl AsRef<[u8]>) -> io::Result<()> {
    let file = temporary(path.as_ref(), contents.as_ref())?;
    file.as_file().sync_all()?;
    persist(file, path.as_ref())?;
    File::open(directory_of(path.as_ref()))?.sync_all()
}

/// Replaces a file that is not ours alone atomically, such as one of a repository. The umask decides who may read it.
pub fn replace_public(path: impl AsRef<Path>, contents: impl AsRef<[u8]>) -> io::Result<()> {
    let path = path.as_ref();
    let mode = Permissions::from_mode(PUBLIC_FILE);
    let mut file = tempfile::Builder::new().permissions(mode).tempfile_in(directory_of(path))?;
    file.write_all(contents.as_ref())?;
    persist(file, path)
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Writes a temporary file beside `path`, from where it can be renamed. `tempfile` creates it for its owner only.
fn temporary(path: &Path, contents: &[u8]) -> io::Result<NamedTempFile> {
    let mut file = NamedTempFile::new_in(directory_of(path))?;
    file.write_all(contents)?;
    Ok(file)
}

fn persist(file: NamedTempFile, path: &Path) -> io::Result<()> {
    file.persist(path).map(drop).map_err(|error| error.error)
}

/// Creates a file, or truncates an existing one.
pub fn create(path: impl AsRef<Path>) -> io::Result<File> {
    let mut options = OpenOptions::new();
    closed_to_others(regular(options.write(true).create(true).truncate(true).mode(FILE), path.as_ref())?)
}

/// Creates a file that must not exist.
pub fn create_new(path: impl AsRef<Path>) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(FILE).open(path)
}

/// Opens a file for appending; creates it if it does not exist.
pub fn append(path: impl AsRef<Path>) -> io::Result<File> {
    let mut options = OpenOptions::new();
    closed_to_others(regular(options.append(true).create(true).mode(FILE), path.as_ref())?)
}

/// Opens a regular file without following links and without blocking: opening a named pipe in its place would
/// wait for the other end forever.
fn regular(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW;
    let file = options.custom_flags(i32::try_from(flags.bits()).unwrap_or_default()).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a regular file")) }
}

/// Ensures that a file exists, for libraries that open it themselves, such as SQLite, which gives its log
/// files the same mode.
pub fn ensure(path: impl AsRef<Path>) -> io::Result<()> {
    append(path).map(drop)
}

/// Removes access of others: an older version may have created the file with a wider mode.
fn closed_to_others(file: File) -> io::Result<File> {
    let metadata = file.metadata()?;
    if metadata.is_file() && is_open_to_others(&metadata) && is_own(&metadata) {
        file.set_permissions(Permissions::from_mode(metadata.mode() & 0o7777 & !OTHERS))?;
    }
    Ok(file)
}

/// Removes access of others to an existing file or directory. Skips links, shared directories, and anything
/// owned by another user. Returns whether others have no access now.
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

/// Tightens a directory recursively. A directory that is already closed is skipped: it is closed last, after
/// its content. Links are not followed.
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

/// Whether group or others have any access.
#[must_use]
pub fn is_open_to_others(metadata: &fs::Metadata) -> bool {
    metadata.mode() & OTHERS != 0
}

fn is_own(metadata: &fs::Metadata) -> bool {
    metadata.uid() == rustix::process::geteuid().as_raw()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests report by panicking")]
mod tests {
    use super::*;

    #[test]
    fn pipes_and_links_are_refused() {
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
    fn created_files_are_accessible_only_to_their_owner() {
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
    fn replaced_file_is_new_and_for_its_owner_only() {
        let dir = tempfile::tempdir().unwrap();
        let (path, target) = (dir.path().join("file"), dir.path().join("target"));
        fs::write(&target, "target").unwrap();
        std::os::unix::fs::symlink(&target, &path).unwrap();
        replace(&path, "first").unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "target", "a link is replaced, not followed");
        let mut old = File::open(&path).unwrap();
        replace_synced(&path, "second").unwrap();
        let mut read = String::new();
        io::Read::read_to_string(&mut old, &mut read).unwrap();
        assert_eq!((read.as_str(), fs::read_to_string(&path).unwrap().as_str()), ("first", "second"));
        assert_eq!(mode(&path), FILE);
        assert!(replace(dir.path().join("missing/file"), "x").is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "no temporary file is left");
    }

    #[test]
    fn public_file_is_replaced_with_the_mode_of_the_umask() {
        let dir = tempfile::tempdir().unwrap();
        let (path, usual) = (dir.path().join("file"), dir.path().join("usual"));
        fs::write(&usual, "").unwrap();
        std::os::unix::fs::symlink(&usual, &path).unwrap();
        replace_public(&path, "new").unwrap();
        assert_eq!((mode(&path), fs::read_to_string(&path).unwrap().as_str()), (mode(&usual), "new"));
        assert_eq!(fs::read_to_string(&usual).unwrap(), "", "a link is replaced, not followed");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "no temporary file is left");
    }

    #[test]
    fn existing_files_are_tightened_when_written() {
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
    fn socket_file_below_a_long_path_is_bound_and_connected() {
        let dir = tempfile::tempdir().unwrap();
        let directory = dir.path().join("d".repeat(120));
        create_dir_all(&directory).unwrap();
        let socket = directory.join("s.sock");
        let _listener =
            with_socket_path(&socket, |path| std::os::unix::net::UnixListener::bind(path)).unwrap();
        with_socket_path(&socket, |path| std::os::unix::net::UnixStream::connect(path)).unwrap();
        assert!(socket.exists());
    }

    #[test]
    fn only_sockets_without_a_listener_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        drop(std::os::unix::net::UnixListener::bind(path("dead")).unwrap());
        let _listener = std::os::unix::net::UnixListener::bind(path("alive")).unwrap();
        fs::write(path("file"), "").unwrap();
        remove_dead_sockets(dir.path(), Duration::from_secs(60)).unwrap();
        assert!(path("dead").exists(), "too young");
        remove_dead_sockets(dir.path(), Duration::ZERO).unwrap();
        assert!(!path("dead").exists() && path("alive").exists() && path("file").exists());
    }

    #[test]
    fn tightening_skips_links_and_shared_directories() {
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
        assert!(!tighten(&outside).unwrap(), "like /tmp");
        assert_eq!(mode(&outside), 0o1777);
        tighten_all(dir.path().join("missing")).unwrap();
    }
}
