//! Files that appear as a whole or not at all.
//!
//! Relative to an open directory, so that the rename cannot leave it; `tempfile` works on paths.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use uuid::Uuid;

/// A file under a temporary name, until it is complete. Dropping it removes it, unless it was renamed.
pub(super) struct Temporary<'a> {
    directory: &'a OwnedFd,
    name: String,
    pub(super) file: File,
    renamed: bool,
}

impl<'a> Temporary<'a> {
    pub(super) fn create(directory: &'a OwnedFd, mode: Mode, contents: &[u8]) -> io::Result<Self> {
        let name = format!(".baton-{}", Uuid::new_v4().simple());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(directory, &name, flags, mode)?);
        let mut temporary = Self { directory, name, file, renamed: false };
        temporary.file.write_all(contents)?;
        // Otherwise a power failure could leave the new name with an empty file.
        temporary.file.sync_data()?;
        Ok(temporary)
    }

    /// Renames the file, replacing an existing one. A link is replaced, not followed.
    pub(super) fn replace(mut self, name: &OsStr) -> io::Result<()> {
        rustix::fs::renameat(self.directory, &self.name, self.directory, name)?;
        self.renamed = true;
        Ok(())
    }

    /// Renames the file to a name that must not exist.
    pub(super) fn persist_new(mut self, name: &OsStr) -> io::Result<()> {
        let (directory, flags) = (self.directory, RenameFlags::NOREPLACE);
        match rustix::fs::renameat_with(directory, &self.name, directory, name, flags) {
            Ok(()) => self.renamed = true,
            // Not every file system supports it; then the file gets a second name, and loses the first on drop.
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
        if !self.renamed {
            let _ = rustix::fs::unlinkat(self.directory, &self.name, AtFlags::empty());
        }
    }
}
