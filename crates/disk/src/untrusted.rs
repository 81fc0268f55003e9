//! Reading files in untrusted directories.
//!
//! Baton reads some files without a permission request: instructions, git's state, the sizes of attachments. A cloned
//! repository decides what is behind those names. So each is opened as a *regular* file, without waiting for a writer, read
//! up to a limit, and links are followed only inside the directory.
//!
//! Everything here blocks, and belongs on the [pool](crate::blocking). The file tools do not use it: their reads are
//! subject to permissions, with different rules.
#![expect(clippy::disallowed_methods, reason = "blocking by design; callers run it on the pool")]

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};

/// Why a file was not read.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// The file does not exist.
    #[error("the file does not exist")]
    Absent,
    /// A link leads out of the directory, or into `.git`.
    #[error("it is a link that leads out of its directory")]
    LeadsOut,
    /// A FIFO, a device, a directory, a file of `/proc`.
    #[error("it is not a regular file")]
    NotRegular,
    /// It is not UTF-8.
    #[error("it is not UTF-8 text")]
    NotText,
    /// Any other I/O error.
    #[error(transparent)]
    Io(io::Error),
}

impl From<io::Error> for Unreadable {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Self::Absent,
            _ => Self::Io(error),
        }
    }
}

impl From<rustix::io::Errno> for Unreadable {
    fn from(error: rustix::io::Errno) -> Self {
        match error {
            // Replaced by a link since it was resolved.
            rustix::io::Errno::LOOP => Self::LeadsOut,
            other => io::Error::from(other).into(),
        }
    }
}

/// The beginning of a file.
#[derive(Debug, PartialEq, Eq)]
pub struct Excerpt {
    /// At most as many bytes as the limit.
    pub bytes: Vec<u8>,
    /// Whether the file is longer.
    pub is_cut: bool,
}

impl Excerpt {
    /// Decodes the excerpt. A character that the limit cut in two is left out.
    ///
    /// # Errors
    /// When it is not UTF-8.
    pub fn into_text(self) -> Result<String, Unreadable> {
        let is_cut = self.is_cut;
        String::from_utf8(self.bytes).or_else(|error| {
            let valid = error.utf8_error();
            if !is_cut || valid.error_len().is_some() {
                return Err(Unreadable::NotText);
            }
            let mut bytes = error.into_bytes();
            bytes.truncate(valid.valid_up_to());
            String::from_utf8(bytes).map_err(|_| Unreadable::NotText)
        })
    }
}

/// A directory; only files inside it are read.
#[derive(Debug)]
pub struct UntrustedDirectory {
    /// Real path.
    path: PathBuf,
    handle: OwnedFd,
}

impl UntrustedDirectory {
    /// Opens a directory. Links *to* it are followed: its location is the caller's choice.
    ///
    /// # Errors
    /// When it does not exist.
    pub fn open(path: &Path) -> Result<Self, Unreadable> {
        let path = path.canonicalize()?;
        let handle = rustix::fs::open(&path, DIRECTORY, Mode::empty())?;
        Ok(Self { path, handle })
    }

    /// Returns the real path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a subdirectory.
    ///
    /// # Errors
    /// When it does not exist, or is outside.
    pub fn subdirectory(&self, name: impl AsRef<Path>) -> Result<Self, Unreadable> {
        let inside = self.resolve(name.as_ref())?;
        Ok(Self { handle: self.descend(&inside)?, path: self.path.join(inside) })
    }

    /// Reads a file up to a limit.
    ///
    /// # Errors
    /// When it does not exist, is outside, or is not a regular file.
    pub fn read(&self, name: impl AsRef<Path>, limit: usize) -> Result<Excerpt, Unreadable> {
        let inside = self.resolve(name.as_ref())?;
        let (Some(parent), Some(name)) = (inside.parent(), inside.file_name()) else {
            return Err(Unreadable::NotRegular);
        };
        let parent = self.descend(parent)?;
        // Checked before it is opened: opening alone makes some devices act.
        let found = rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Err(Unreadable::NotRegular);
        }
        excerpt(rustix::fs::openat(&parent, name, REGULAR | OFlags::NOFOLLOW, Mode::empty())?, limit)
    }

    /// Reads a text file up to a limit.
    ///
    /// # Errors
    /// As [`read`](Self::read), and when it is not UTF-8.
    pub fn read_text(&self, name: impl AsRef<Path>, limit: usize) -> Result<String, Unreadable> {
        self.read(name, limit)?.into_text()
    }

    /// Returns the names of at most `most` entries.
    ///
    /// # Errors
    /// When the directory cannot be listed.
    pub fn names(&self, most: usize) -> Result<Vec<OsString>, Unreadable> {
        use std::os::unix::ffi::OsStrExt;
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.handle)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                if names.len() == most {
                    break;
                }
                names.push(OsStr::from_bytes(name).to_owned());
            }
        }
        Ok(names)
    }

    /// Returns the path inside this directory that `name` leads to, with links followed. Nothing is opened, and later
    /// opening follows no link: a name that is replaced by a link in between is not found.
    fn resolve(&self, name: &Path) -> Result<PathBuf, Unreadable> {
        let target = self.path.join(name).canonicalize()?;
        let inside = target.strip_prefix(&self.path).map_err(|_| Unreadable::LeadsOut)?;
        // A repository's configuration can hold credentials; a link in the work tree must not lead to it.
        if is_of_git(inside) && !is_of_git(name) {
            return Err(Unreadable::LeadsOut);
        }
        Ok(inside.to_owned())
    }

    fn descend(&self, inside: &Path) -> Result<OwnedFd, Unreadable> {
        let mut directory = self.handle.try_clone().map_err(Unreadable::Io)?;
        for part in inside.components() {
            let Component::Normal(name) = part else { return Err(Unreadable::LeadsOut) };
            directory = rustix::fs::openat(&directory, name, DIRECTORY, Mode::empty())?;
        }
        Ok(directory)
    }
}

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Without `NONBLOCK`, opening a FIFO would wait for a writer.
const REGULAR: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

fn is_of_git(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str().eq_ignore_ascii_case(".git"))
}

/// Reads a file that the user named, wherever it is, up to a limit.
///
/// # Errors
/// When it does not exist, or is not a regular file.
pub fn read_named(path: &Path, limit: usize) -> Result<Excerpt, Unreadable> {
    if !path.metadata()?.is_file() {
        return Err(Unreadable::NotRegular);
    }
    excerpt(rustix::fs::open(path, REGULAR, Mode::empty())?, limit)
}

fn excerpt(handle: OwnedFd, limit: usize) -> Result<Excerpt, Unreadable> {
    let found = rustix::fs::fstat(&handle)?;
    // Files of /proc claim to be regular, and reveal private data of processes.
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile || is_of_proc(&handle)? {
        return Err(Unreadable::NotRegular);
    }
    let mut bytes = Vec::new();
    File::from(handle)
        .take((limit as u64).saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(Unreadable::Io)?;
    let is_cut = bytes.len() > limit;
    bytes.truncate(limit);
    Ok(Excerpt { bytes, is_cut })
}

#[cfg(target_os = "linux")]
fn is_of_proc(handle: &OwnedFd) -> Result<bool, Unreadable> {
    Ok(rustix::fs::fstatfs(handle)?.f_type == rustix::fs::PROC_SUPER_MAGIC)
}

#[cfg(not(target_os = "linux"))]
fn is_of_proc(_: &OwnedFd) -> Result<bool, Unreadable> {
    Ok(false)
}

#[cfg(test)]
mod tests;
