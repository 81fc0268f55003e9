//! Creates the network of a session: runs inside fresh namespaces, opens the port of the proxy there, sends the port and the
//! namespaces to the server, and ends. The descriptors keep the namespaces alive; no process has to.
#![expect(clippy::disallowed_methods, reason = "a process of its own, which may block")]

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};

use super::{Context, Failure};
use crate::control::{Report, report};

/// The port, if it is free: the same in each session, so that caches of configurations stay valid.
const PORT: u16 = 3128;

pub(super) fn run(socket: BorrowedFd<'_>) -> Result<(), Failure> {
    let open = |name: &str| {
        File::open(format!("/proc/self/ns/{name}")).context(format!("cannot open the namespace {name}"))
    };
    let (user, net, ipc) = (open("user")?, open("net")?, open("ipc")?);
    let listener =
        TcpListener::bind((Ipv4Addr::LOCALHOST, PORT)).context("cannot open the port of the proxy")?;
    let descriptors = [user.as_fd(), net.as_fd(), ipc.as_fd(), listener.as_fd()];
    report(socket, &Report::Namespaces { port: PORT }, &descriptors).context("cannot send the namespaces")
}
