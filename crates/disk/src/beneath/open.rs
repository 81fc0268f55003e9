//! Opening directories and regular files without following links.
#![allow(clippy::disallowed_methods, reason = "blocking by design; callers run it on a blocking thread")]

use std::ffi::OsStr;
use std::fs::{File, Permissions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::Unusable;

/// Returns the flags for a directory that is only traversed. On Linux that needs no permission to list it.
pub(super) fn directory_flags() -> OFlags {
    #[cfg(target_os = "linux")]
    let access = OFlags::PATH;
    #[cfg(not(target_os = "linux"))]
    let access = OFlags::RDONLY;
    access | OFlags::DIRECTORY | OFlags::CLOEXEC
}

#[cfg(target_os = "linux")]
pub(super) fn open_without_links(at: impl AsFd, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    use rustix::fs::ResolveFlags;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(at, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn open_without_links(_: impl AsFd, _: &Path, _: OFlags) -> rustix::io::Result<OwnedFd> {
    Err(Errno::NOSYS)
}

/// Splits a path into its names, without the root of an absolute path.
pub(super) fn parts(path: &Path) -> io::Result<Vec<&OsStr>> {
    let parts = path.components().filter(|part| !matches!(part, Component::RootDir | Component::CurDir));
    parts
        .map(|part| match part {
            Component::Normal(name) => Ok(name),
            _ => Err(Unusable::Outside.into()),
        })
        .collect()
}

/// Returns the metadata of a regular file; any other file is refused.
pub(super) fn regular(parent: &OwnedFd, name: &OsStr) -> io::Result<Stat> {
    let stat = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
    match kind_of(&stat) {
        FileType::RegularFile => Ok(stat),
        FileType::Symlink => Err(Unusable::Link.into()),
        _ => Err(Unusable::NotRegular.into()),
    }
}

pub(super) fn kind_of(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

pub(super) fn permissions_of(stat: &Stat) -> Permissions {
    // The type is narrower on some systems.
    #[allow(clippy::useless_conversion)]
    Permissions::from_mode(u32::from(stat.st_mode) & 0o7777)
}

/// Opens a regular file. Its type is checked before, because opening a device can have effects, and after, because it may
/// have been replaced.
pub(super) fn open_regular(parent: &OwnedFd, name: &OsStr, flags: OFlags) -> io::Result<File> {
    regular(parent, name)?;
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::openat(parent, name, flags, Mode::empty()).map_err(explained)?);
    if !file.metadata()?.is_file() || is_in_proc(&file) {
        return Err(Unusable::NotRegular.into());
    }
    Ok(file)
}

/// Whether a file is in `/proc`: it would reveal the server's own environment and memory. Commands can read `/proc`.
fn is_in_proc(file: &File) -> bool {
    #[cfg(target_os = "linux")]
    return rustix::fs::fstatfs(file).is_ok_and(|found| found.f_type == rustix::fs::PROC_SUPER_MAGIC);
    #[cfg(not(target_os = "linux"))]
    return false;
}

pub(super) fn explained(error: Errno) -> io::Error {
    match error {
        Errno::LOOP => Unusable::Link.into(),
        Errno::XDEV => Unusable::Outside.into(),
        other => other.into(),
    }
}

/// Converts an error. Some kernels report a link in place of a directory as `ENOTDIR`.
pub(super) fn link_or(error: Errno, here: &OwnedFd, name: &OsStr) -> io::Error {
    let is_link = || {
        let stat = rustix::fs::statat(here, name, AtFlags::SYMLINK_NOFOLLOW);
        stat.is_ok_and(|stat| kind_of(&stat) == FileType::Symlink)
    };
    if error == Errno::NOTDIR && is_link() { Unusable::Link.into() } else { explained(error) }
}
