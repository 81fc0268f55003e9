//! Opening files so that no link leads elsewhere.
//!
//! A path is checked, shown and approved at one moment and used at a later one. In between, anybody who can write to a
//! directory on the way can put a link in its place. So a path is *resolved* once ([`resolve`]), that real path is what
//! people are shown, and it is opened without following any link: in one step where the kernel can (`openat2`), else
//! directory by directory. What is written goes through the descriptor of the directory that was opened.
//!
//! Only regular files are opened, and without waiting: a pipe or a device would hang or never end.
//!
//! All of it may block. Hard links and mount points are not links here: making either needs the right to do so already.
#![allow(clippy::disallowed_methods, reason = "blocking by design; callers run it on a blocking thread")]

use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;
use uuid::Uuid;

/// Why a file is not opened that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// A link is on the way.
    #[error("a symbolic link is on the way")]
    Link,
    /// It is a directory, a pipe, a device or a socket.
    #[error("not a regular file")]
    NotRegular,
    /// The path leads out of the directory, or does not name a file.
    #[error("the path does not stay inside")]
    Outside,
}

impl Unusable {
    /// The reason in an error of this module, if it is one.
    #[must_use]
    pub fn of(error: &io::Error) -> Option<Self> {
        error.get_ref()?.downcast_ref::<Self>().copied()
    }
}

impl From<Unusable> for io::Error {
    fn from(reason: Unusable) -> Self {
        Self::new(io::ErrorKind::InvalidInput, reason)
    }
}

/// Returns the real path that `path` leads to now, with all links followed. What does not exist yet stays as written
/// below the nearest directory that does. The path must be absolute and plain.
#[must_use]
pub fn resolve(path: &Path) -> PathBuf {
    for ancestor in path.ancestors() {
        if let (Ok(real), Ok(rest)) = (ancestor.canonicalize(), path.strip_prefix(ancestor)) {
            return if rest.as_os_str().is_empty() { real } else { real.join(rest) };
        }
    }
    path.to_owned()
}

/// A directory, held open. Paths are relative to it and never leave it; no link is followed.
#[derive(Debug)]
pub struct Directory {
    descriptor: OwnedFd,
    /// The modes of new directories and files, before the user's mask.
    modes: (u32, u32),
}

impl Directory {
    /// Opens the root of the file system, for paths that [`resolve`] has given.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn root() -> io::Result<Self> {
        Self::trusted(Path::new("/"))
    }

    /// Opens a directory whose own path is trusted: links on the way to it are followed.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn trusted(path: &Path) -> io::Result<Self> {
        let descriptor = rustix::fs::openat(CWD, path, directory_flags(), Mode::empty())?;
        Ok(Self { descriptor, modes: (0o777, 0o666) })
    }

    /// The same directory; what is made in it is for the user alone.
    #[must_use]
    pub fn private(self) -> Self {
        Self { modes: (0o700, 0o600), ..self }
    }

    /// Opens a regular file for reading.
    ///
    /// # Errors
    /// When it is absent, unreadable, or [`Unusable`].
    pub fn open(&self, path: &Path) -> io::Result<File> {
        let (parent, name) = self.parent(path, Missing::Fails)?;
        open_regular(&parent, &name, OFlags::RDONLY)
    }

    /// Reads a text, if it has no more than `limit` bytes.
    ///
    /// # Errors
    /// As [`Directory::open`], and when it is longer or not UTF-8.
    pub fn read_to_string(&self, path: &Path, limit: u64) -> io::Result<String> {
        let mut text = String::new();
        self.open(path)?.take(limit.saturating_add(1)).read_to_string(&mut text)?;
        if text.len() as u64 > limit {
            return Err(io::Error::other(format!("it is larger than {limit} bytes")));
        }
        Ok(text)
    }

    /// Opens a directory, to be listed.
    ///
    /// # Errors
    /// When it cannot be opened, or is [`Unusable`].
    pub fn list(&self, path: &Path) -> io::Result<rustix::fs::Dir> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        Ok(rustix::fs::Dir::new(self.descend(&parts(path)?, flags, Missing::Fails)?)?)
    }

    /// Returns the kind of what is at `path`; a link at the end is a link.
    ///
    /// # Errors
    /// When there is nothing, or it is [`Unusable`].
    pub fn kind(&self, path: &Path) -> io::Result<FileType> {
        match parts(path)?.as_slice() {
            [] => Ok(FileType::Directory),
            _ => {
                let (parent, name) = self.parent(path, Missing::Fails)?;
                Ok(kind_of(&rustix::fs::statat(&parent, &name, AtFlags::SYMLINK_NOFOLLOW)?))
            }
        }
    }

    /// Creates a file that must not exist, with the directories that lead to it. It is there as a whole or not at all.
    ///
    /// # Errors
    /// When it exists, cannot be written, or the way to it is [`Unusable`].
    pub fn create(&self, path: &Path, contents: &[u8]) -> io::Result<()> {
        let (parent, name) = self.parent(path, Missing::IsMade)?;
        // Like any new file: what the user's mask leaves of this.
        let temporary = Temporary::fill(&parent, Mode::from_raw_mode(self.modes.1), contents)?;
        temporary.become_new(&name)
    }

    /// Replaces the contents of a regular file that exists, as a whole or not at all. Its mode stays.
    ///
    /// # Errors
    /// When it is absent, read-only, cannot be written, or is [`Unusable`].
    pub fn replace(&self, path: &Path, contents: &[u8]) -> io::Result<()> {
        let (parent, name) = self.parent(path, Missing::Fails)?;
        let permissions = permissions_of(&regular(&parent, &name)?);
        if permissions.readonly() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        match Temporary::fill(&parent, Mode::RUSR | Mode::WUSR, contents) {
            Ok(temporary) => {
                temporary.file.set_permissions(permissions)?;
                temporary.replace(&name)
            }
            // The file may be ours to write and its directory not; then there is only the plain way.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                overwrite(&parent, &name, contents)
            }
            Err(error) => Err(error),
        }
    }

    /// Writes a file, as a whole or not at all, and says whether it existed.
    ///
    /// # Errors
    /// When it cannot be written, or is [`Unusable`].
    pub fn write(&self, path: &Path, contents: &[u8]) -> io::Result<bool> {
        match self.replace(path, contents) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.create(path, contents).map(|()| false)
            }
            replaced => replaced.map(|()| true),
        }
    }

    /// Writes a file with this mode, whether it exists or not; what is there must be a regular file.
    ///
    /// # Errors
    /// When it cannot be written, or is [`Unusable`].
    pub fn put(&self, path: &Path, contents: &[u8], mode: u32) -> io::Result<()> {
        let (parent, name) = self.parent(path, Missing::IsMade)?;
        match regular(&parent, &name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let temporary = Temporary::fill(&parent, Mode::RUSR | Mode::WUSR, contents)?;
        temporary.file.set_permissions(Permissions::from_mode(mode))?;
        temporary.replace(&name)
    }

    /// Removes a file, or a link itself.
    ///
    /// # Errors
    /// When it is absent or cannot be removed.
    pub fn remove(&self, path: &Path) -> io::Result<()> {
        let (parent, name) = self.parent(path, Missing::Fails)?;
        Ok(rustix::fs::unlinkat(&parent, &name, AtFlags::empty())?)
    }

    /// The directory that `path` is in, and its name there.
    fn parent(&self, path: &Path, missing: Missing) -> io::Result<(OwnedFd, OsString)> {
        let parts = parts(path)?;
        let (name, way) = parts.split_last().ok_or(Unusable::NotRegular)?;
        Ok((self.descend(way, directory_flags(), missing)?, name.to_os_string()))
    }

    /// Opens the directory that is at the end of the way.
    fn descend(&self, way: &[&OsStr], flags: OFlags, missing: Missing) -> io::Result<OwnedFd> {
        let path: PathBuf = if way.is_empty() { ".".into() } else { way.iter().collect() };
        match open_without_links(self.descriptor.as_fd(), &path, flags) {
            Err(Errno::NOSYS | Errno::PERM | Errno::INVAL | Errno::NOTSUP) => self.walk(way, flags, missing),
            Err(Errno::NOENT) if missing == Missing::IsMade => self.walk(way, flags, missing),
            opened => opened.map_err(explained),
        }
    }

    /// The same, one directory at a time.
    fn walk(&self, way: &[&OsStr], flags: OFlags, missing: Missing) -> io::Result<OwnedFd> {
        let mut here = rustix::fs::openat(&self.descriptor, ".", flags, Mode::empty())?;
        for (at, name) in way.iter().enumerate() {
            let flags = if at + 1 == way.len() { flags } else { directory_flags() };
            let enter = |here: &OwnedFd| {
                rustix::fs::openat(here, *name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
            };
            here = match enter(&here) {
                Err(Errno::NOENT) if missing == Missing::IsMade => {
                    match rustix::fs::mkdirat(&here, *name, Mode::from_raw_mode(self.modes.0)) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(error) => return Err(error.into()),
                    }
                    enter(&here)
                }
                entered => entered,
            }
            .map_err(|error| link_or(error, &here, name))?;
        }
        Ok(here)
    }
}

/// What becomes of a directory on the way that does not exist.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    Fails,
    IsMade,
}

/// Flags to open a directory that is passed through. Where the kernel allows it, without the right to list it.
fn directory_flags() -> OFlags {
    #[cfg(target_os = "linux")]
    let way = OFlags::PATH;
    #[cfg(not(target_os = "linux"))]
    let way = OFlags::RDONLY;
    way | OFlags::DIRECTORY | OFlags::CLOEXEC
}

#[cfg(target_os = "linux")]
fn open_without_links(at: impl AsFd, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    use rustix::fs::ResolveFlags;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(at, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve)
}

#[cfg(not(target_os = "linux"))]
fn open_without_links(_: impl AsFd, _: &Path, _: OFlags) -> rustix::io::Result<OwnedFd> {
    Err(Errno::NOSYS)
}

/// The names on the way, without the root of an absolute path.
fn parts(path: &Path) -> io::Result<Vec<&OsStr>> {
    let parts = path.components().filter(|part| !matches!(part, Component::RootDir | Component::CurDir));
    parts
        .map(|part| match part {
            Component::Normal(name) => Ok(name),
            _ => Err(Unusable::Outside.into()),
        })
        .collect()
}

/// The state of a regular file; anything else is refused.
fn regular(parent: &OwnedFd, name: &OsStr) -> io::Result<Stat> {
    let stat = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
    match kind_of(&stat) {
        FileType::RegularFile => Ok(stat),
        FileType::Symlink => Err(Unusable::Link.into()),
        _ => Err(Unusable::NotRegular.into()),
    }
}

fn kind_of(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

fn permissions_of(stat: &Stat) -> Permissions {
    // The type is narrower on some systems.
    #[allow(clippy::useless_conversion)]
    Permissions::from_mode(u32::from(stat.st_mode) & 0o7777)
}

/// Opens a regular file. It is looked at before, because opening a device can have effects, and after, because it may be
/// another one by then.
fn open_regular(parent: &OwnedFd, name: &OsStr, flags: OFlags) -> io::Result<File> {
    regular(parent, name)?;
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::openat(parent, name, flags, Mode::empty()).map_err(explained)?);
    if !file.metadata()?.is_file() || is_view_of_kernel(&file) {
        return Err(Unusable::NotRegular.into());
    }
    Ok(file)
}

/// Whether a file is one of `/proc`: there the server would read about itself, its environment and memory included. Commands
/// can read what they may.
fn is_view_of_kernel(file: &File) -> bool {
    #[cfg(target_os = "linux")]
    return rustix::fs::fstatfs(file).is_ok_and(|found| found.f_type == rustix::fs::PROC_SUPER_MAGIC);
    #[cfg(not(target_os = "linux"))]
    return false;
}

fn overwrite(parent: &OwnedFd, name: &OsStr, contents: &[u8]) -> io::Result<()> {
    let mut file = open_regular(parent, name, OFlags::WRONLY)?;
    file.set_len(0)?;
    file.write_all(contents)?;
    file.sync_data()
}

fn explained(error: Errno) -> io::Error {
    match error {
        Errno::LOOP => Unusable::Link.into(),
        Errno::XDEV => Unusable::Outside.into(),
        other => other.into(),
    }
}

/// A link in the place of a directory is reported as no directory by some kernels.
fn link_or(error: Errno, here: &OwnedFd, name: &OsStr) -> io::Error {
    let is_link = || {
        let stat = rustix::fs::statat(here, name, AtFlags::SYMLINK_NOFOLLOW);
        stat.is_ok_and(|stat| kind_of(&stat) == FileType::Symlink)
    };
    if error == Errno::NOTDIR && is_link() { Unusable::Link.into() } else { explained(error) }
}

/// A file under a name of its own, until it is whole. It is removed unless it becomes something.
struct Temporary<'a> {
    directory: &'a OwnedFd,
    name: String,
    file: File,
    /// It has become something else.
    kept: bool,
}

impl<'a> Temporary<'a> {
    fn fill(directory: &'a OwnedFd, mode: Mode, contents: &[u8]) -> io::Result<Self> {
        let name = format!(".baton-{}", Uuid::new_v4().simple());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(directory, &name, flags, mode)?);
        let mut temporary = Self { directory, name, file, kept: false };
        temporary.file.write_all(contents)?;
        // Otherwise a power failure could leave the new name with old nothing behind it.
        temporary.file.sync_data()?;
        Ok(temporary)
    }

    /// Takes the place of whatever has that name. A link there is replaced, not followed.
    fn replace(mut self, name: &OsStr) -> io::Result<()> {
        rustix::fs::renameat(self.directory, &self.name, self.directory, name)?;
        self.kept = true;
        Ok(())
    }

    /// Takes a name that nothing has.
    fn become_new(mut self, name: &OsStr) -> io::Result<()> {
        let (directory, flags) = (self.directory, RenameFlags::NOREPLACE);
        match rustix::fs::renameat_with(directory, &self.name, directory, name, flags) {
            Ok(()) => self.kept = true,
            // Not every file system can; then the file gets a second name, and loses the first.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                rustix::fs::linkat(directory, &self.name, directory, name, AtFlags::empty())?;
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.kept {
            // It is only in the way if it stays.
            let _ = rustix::fs::unlinkat(self.directory, &self.name, AtFlags::empty());
        }
    }
}

#[cfg(test)]
mod tests;
