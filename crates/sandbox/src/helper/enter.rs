//! The first helper: outside, before `bwrap`. It joins the namespaces of the session, which `bwrap` cannot, and makes sure that
//! no descriptor of the server goes further.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::{Context, Failure};
use crate::control::{Order, next_order};

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
    close_fds::set_fds_cloexec(3, &[list.as_raw_fd()]);
    fcntl_setfd(&list, FdFlags::empty()).context("cannot pass the arguments on")?;
    let number = list.as_raw_fd().to_string();
    let error = Command::new(bwrap).args(["--args", &number, "--"]).args(inside).env_clear().exec();
    Err(error).context(format!("cannot start {}", bwrap.display()))
}
