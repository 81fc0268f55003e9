//! The first helper: outside, before `bwrap`. It joins the namespaces of the session, which `bwrap` cannot, and makes sure that
//! no descriptor of the server goes further.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::{Context, Failure};
use crate::control::{Order, next_order};
use crate::mounts::OURS;

/// How `bwrap` is told to hide a file: an empty one is mounted over it.
const HIDE: &[u8] = b"--ro-bind";

/// Returns the arguments without mounts that hide files which do not exist any more, such as the socket of a service that has
/// ended since the survey: `bwrap` would fail.
fn without_vanished(list: OwnedFd) -> io::Result<OwnedFd> {
    let mut text = Vec::new();
    File::from(list).read_to_end(&mut text)?;
    let words: Vec<&[u8]> = text.strip_suffix(&[0]).unwrap_or(&text).split(|byte| *byte == 0).collect();
    let (mut kept, mut at) = (Vec::new(), 0);
    while let Some(word) = words.get(at) {
        let mount = words.get(at + 1..at + 3).filter(|_| *word == HIDE);
        let step = if mount.is_some() { 3 } else { 1 };
        let has_vanished = mount.is_some_and(|mount| mount[0] != mount[1] && is_gone(mount[1]));
        if !has_vanished {
            kept.extend(words[at..at + step].iter().flat_map(|word| word.iter().copied().chain([0])));
        }
        at += step;
    }
    crate::enclosure::memory(&kept)
}

/// Whether there is no file at a path. The places of our own inside do not exist outside.
#[expect(clippy::disallowed_methods, reason = "a process of its own, which may block")]
fn is_gone(path: &[u8]) -> bool {
    let path = Path::new(OsStr::from_bytes(path));
    let is_ours = path.starts_with(OURS);
    !is_ours && path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Becomes the first argument, `bwrap`, which starts the others inside. Its own arguments come over the socket, where other
/// users cannot read them.
pub(super) fn run(socket: BorrowedFd<'_>, arguments: &[OsString]) -> Result<(), Failure> {
    let [bwrap, inside @ ..] = arguments else {
        return Err(io::ErrorKind::InvalidInput).context("no bwrap was named");
    };
    let Some((Order::Enter, descriptors)) =
        next_order(socket).context("cannot read the order of the server")?
    else {
        return Ok(());
    };
    let mut descriptors = descriptors.into_iter();
    let list = descriptors.next().ok_or(io::ErrorKind::InvalidData).context("no arguments came")?;
    let kinds =
        [LinkNameSpaceType::User, LinkNameSpaceType::Network, LinkNameSpaceType::InterProcessCommunication];
    for (namespace, kind) in descriptors.zip(kinds) {
        let joined = move_into_link_name_space(rustix::fd::AsFd::as_fd(&namespace), Some(kind));
        joined.context("cannot join the network of the session")?;
    }
    let list = without_vanished(list).context("cannot read the arguments")?;
    close_fds::set_fds_cloexec(3, &[list.as_raw_fd()]);
    fcntl_setfd(&list, FdFlags::empty()).context("cannot pass the arguments on")?;
    let number = list.as_raw_fd().to_string();
    let error = Command::new(bwrap).args(["--args", &number, "--"]).args(inside).env_clear().exec();
    Err(error).context(format!("cannot start {}", bwrap.display()))
}
