//! File access below a directory without following symbolic links.
//!
//! A path is checked, shown and approved first, and used later. In between, any process that can write to a directory on the
//! way can replace it by a link. So a path is *resolved* once ([`resolve`]), requests show that real path, and it is
//! opened without following any link: in one step where the kernel can (`openat2`), else directory by directory. Writes
//! go through the descriptor of the opened directory.
//!
//! Only regular files are opened, and without waiting: a pipe or a device would hang or never end.
//!
//! All of it may block. Hard links and mount points are not treated as links: creating them needs access already.
#![allow(clippy::disallowed_methods, reason = "blocking by design; callers run it on a blocking thread")]

mod open;
mod temporary;

use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

use open::{
    directory_flags, explained, kind_of, link_or, open_regular, open_without_links, parts, permissions_of,
    regular,
};
use temporary::Temporary;

/// Why an existing file is not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// The path contains a symbolic link.
    #[error("the path contains a symbolic link")]
    Link,
    /// It is a directory, a pipe, a device or a socket.
    #[error("not a regular file")]
    NotRegular,
    /// The path leads out of the directory, or does not name a file.
    #[error("the path leads out of the directory, or names no file")]
    Outside,
}

impl Unusable {
    /// Returns the reason in an error of this module, if it has one.
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

/// Returns the real path of `path`, with all links followed. Names that do not exist are appended to the nearest
/// directory that does. The path must be absolute and without `..`.
#[must_use]
pub fn resolve(path: &Path) -> PathBuf {
    for ancestor in path.ancestors() {
        if let (Ok(real), Ok(rest)) = (ancestor.canonicalize(), path.strip_prefix(ancestor)) {
            return if rest.as_os_str().is_empty() { real } else { real.join(rest) };
        }
    }
    path.to_owned()
}

/// An open directory. Paths are relative to it and never leave it; no link is followed.
#[derive(Debug)]
pub struct Directory {
    descriptor: OwnedFd,
    /// Modes of new directories and files, before the umask.
    modes: (u32, u32),
}

impl Directory {
    /// Opens the root of the file system, for paths from [`resolve`].
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn root() -> io::Result<Self> {
        Self::trusted(Path::new("/"))
    }

    /// Opens a directory whose path is trusted: links on the way to it are followed.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn trusted(path: &Path) -> io::Result<Self> {
        let descriptor = rustix::fs::openat(CWD, path, directory_flags(), Mode::empty())?;
        Ok(Self { descriptor, modes: (0o777, 0o666) })
    }

    /// Makes new files and directories accessible to the user only.
    #[must_use]
    pub fn private(self) -> Self {
        Self { modes: (0o700, 0o600), ..self }
    }

    /// Opens a regular file for reading.
    ///
    /// # Errors
    /// When it is absent, unreadable, or [`Unusable`].
    pub fn open(&self, path: &Path) -> io::Result<File> {
        let (parent, name) = self.parent(path, Missing::Fail)?;
        open_regular(&parent, &name, OFlags::RDONLY)
    }

    /// Reads a text file of at most `limit` bytes.
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

    /// Opens a directory for listing.
    ///
    /// # Errors
    /// When it cannot be opened, or is [`Unusable`].
    pub fn list(&self, path: &Path) -> io::Result<rustix::fs::Dir> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        Ok(rustix::fs::Dir::new(self.descend(&parts(path)?, flags, Missing::Fail)?)?)
    }

    /// Returns the file type at `path`. A link at its end is not followed.
    ///
    /// # Errors
    /// When it is absent, or is [`Unusable`].
    pub fn kind(&self, path: &Path) -> io::Result<FileType> {
        match parts(path)?.as_slice() {
            [] => Ok(FileType::Directory),
            _ => {
                let (parent, name) = self.parent(path, Missing::Fail)?;
                Ok(kind_of(&rustix::fs::statat(&parent, &name, AtFlags::SYMLINK_NOFOLLOW)?))
            }
        }
    }

    /// Returns device and inode of a file.
    ///
    /// # Errors
    /// When it is absent or [`Unusable`].
    #[allow(clippy::unnecessary_cast, clippy::cast_sign_loss, reason = "the types differ between systems")]
    pub fn identity(&self, path: &Path) -> io::Result<(u64, u64)> {
        let (parent, name) = self.parent(path, Missing::Fail)?;
        let stat = rustix::fs::statat(&parent, &name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok((stat.st_dev as u64, stat.st_ino as u64))
    }

    /// Creates a file that must not exist, and missing directories, atomically.
    ///
    /// # Errors
    /// When it exists, cannot be written, or its path is [`Unusable`].
    pub fn create(&self, path: &Path, contents: &[u8]) -> io::Result<()> {
        let (parent, name) = self.parent(path, Missing::Create)?;
        // The umask applies, as to any new file.
        let temporary = Temporary::create(&parent, Mode::from_raw_mode(self.modes.1), contents)?;
        temporary.persist_new(&name)
    }

    /// Creates a file that must not exist, with this mode, and missing directories, atomically.
    ///
    /// # Errors
    /// As [`Directory::create`].
    pub fn create_with_mode(&self, path: &Path, contents: &[u8], mode: u32) -> io::Result<()> {
        let (parent, name) = self.parent(path, Missing::Create)?;
        let temporary = Temporary::create(&parent, Mode::RUSR | Mode::WUSR, contents)?;
        temporary.file.set_permissions(Permissions::from_mode(mode))?;
        temporary.persist_new(&name)
    }

    /// Replaces the contents of an existing regular file atomically. Its mode stays.
    ///
    /// # Errors
    /// When it is absent, read-only, cannot be written, or is [`Unusable`].
    pub fn replace(&self, path: &Path, contents: &[u8]) -> io::Result<()> {
        let (parent, name) = self.parent(path, Missing::Fail)?;
        let permissions = permissions_of(&regular(&parent, &name)?);
        if permissions.readonly() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        match Temporary::create(&parent, Mode::RUSR | Mode::WUSR, contents) {
            Ok(temporary) => {
                temporary.file.set_permissions(permissions)?;
                temporary.replace(&name)
            }
            // The file may be writable and its directory not; then it can only be overwritten.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                overwrite(&parent, &name, contents)
            }
            Err(error) => Err(error),
        }
    }

    /// Writes a file atomically, and returns whether it existed.
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

    /// Creates or replaces a file with this mode. An existing one must be a regular file.
    ///
    /// # Errors
    /// When it cannot be written, or is [`Unusable`].
    pub fn put(&self, path: &Path, contents: &[u8], mode: u32) -> io::Result<()> {
        let (parent, name) = self.parent(path, Missing::Create)?;
        match regular(&parent, &name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let temporary = Temporary::create(&parent, Mode::RUSR | Mode::WUSR, contents)?;
        temporary.file.set_permissions(Permissions::from_mode(mode))?;
        temporary.replace(&name)
    }

    /// Renames a file, a link or a directory. Nothing is replaced, and no link is followed.
    ///
    /// # Errors
    /// When it is absent, `to` exists, or a path is [`Unusable`].
    pub fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (old_parent, old) = self.parent(from, Missing::Fail)?;
        let (new_parent, new) = self.parent(to, Missing::Fail)?;
        #[cfg(target_os = "linux")]
        {
            let flags = rustix::fs::RenameFlags::NOREPLACE;
            Ok(rustix::fs::renameat_with(&old_parent, &old, &new_parent, &new, flags)?)
        }
        #[cfg(not(target_os = "linux"))]
        {
            if rustix::fs::statat(&new_parent, &new, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            Ok(rustix::fs::renameat(&old_parent, &old, &new_parent, &new)?)
        }
    }

    /// Removes a file or a link.
    ///
    /// # Errors
    /// When it is absent or cannot be removed.
    pub fn remove(&self, path: &Path) -> io::Result<()> {
        let (parent, name) = self.parent(path, Missing::Fail)?;
        Ok(rustix::fs::unlinkat(&parent, &name, AtFlags::empty())?)
    }

    /// Gives the owner of a directory all rights to it.
    ///
    /// # Errors
    /// When it is absent, belongs to another user, or is [`Unusable`].
    pub fn open_up(&self, path: &Path) -> io::Result<()> {
        let directory = self.descend(&parts(path)?, directory_flags(), Missing::Fail)?;
        let mode = Mode::from_raw_mode(rustix::fs::fstat(&directory)?.st_mode & 0o7777) | Mode::RWXU;
        // A descriptor that is not for reading has no other way to change the mode.
        let link = format!("/proc/self/fd/{}", directory.as_raw_fd());
        Ok(rustix::fs::chmod(link, mode)?)
    }

    /// Opens the parent directory of `path`, and returns it with the file name.
    fn parent(&self, path: &Path, missing: Missing) -> io::Result<(OwnedFd, OsString)> {
        let parts = parts(path)?;
        let (name, parents) = parts.split_last().ok_or(Unusable::NotRegular)?;
        Ok((self.descend(parents, directory_flags(), missing)?, name.to_os_string()))
    }

    /// Opens a directory below this one.
    fn descend(&self, names: &[&OsStr], flags: OFlags, missing: Missing) -> io::Result<OwnedFd> {
        let path: PathBuf = if names.is_empty() { ".".into() } else { names.iter().collect() };
        match open_without_links(self.descriptor.as_fd(), &path, flags) {
            Err(Errno::NOSYS | Errno::PERM | Errno::INVAL | Errno::NOTSUP) => {
                self.walk(names, flags, missing)
            }
            Err(Errno::NOENT) if missing == Missing::Create => self.walk(names, flags, missing),
            opened => opened.map_err(explained),
        }
    }

    /// Opens a directory below this one, one name at a time.
    fn walk(&self, names: &[&OsStr], flags: OFlags, missing: Missing) -> io::Result<OwnedFd> {
        let mut here = rustix::fs::openat(&self.descriptor, ".", flags, Mode::empty())?;
        for (at, name) in names.iter().enumerate() {
            let flags = if at + 1 == names.len() { flags } else { directory_flags() };
            let enter = |here: &OwnedFd| {
                rustix::fs::openat(here, *name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
            };
            here = match enter(&here) {
                Err(Errno::NOENT) if missing == Missing::Create => {
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

/// Handling of a missing directory on the way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    Fail,
    Create,
}

fn overwrite(parent: &OwnedFd, name: &OsStr, contents: &[u8]) -> io::Result<()> {
    let mut file = open_regular(parent, name, OFlags::WRONLY)?;
    file.set_len(0)?;
    file.write_all(contents)?;
    file.sync_data()
}

#[cfg(test)]
mod tests;
