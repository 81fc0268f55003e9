//! The network of a session: namespaces without any interface but loopback, and a port for the proxy.
//!
//! The port is opened inside and served from outside: a socket belongs to the namespace that it was made in, whoever holds it. So
//! no program has to forward connections, no file leads to the proxy, and descriptors alone keep the namespaces alive.

use std::ffi::OsString;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::control::{self, Report};
use crate::helper::NETWORK;
use crate::host::Program;

/// How long the helper may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The namespaces that the programs of a session share: user, network, IPC.
#[derive(Debug)]
pub(crate) struct Namespaces {
    descriptors: [OwnedFd; 3],
    /// The port of the proxy inside.
    pub(crate) port: u16,
}

impl Namespaces {
    /// Creates namespaces, and the port of the proxy. Blocks for some milliseconds.
    ///
    /// # Errors
    /// If the system does not allow it.
    #[expect(clippy::disallowed_methods, reason = "callers run it on a blocking thread")]
    pub(crate) fn create(bwrap: &std::path::Path, program: &Program) -> io::Result<(Self, TcpListener)> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut arguments: Vec<OsString> =
            ["--unshare-user", "--unshare-net", "--unshare-ipc"].map(Into::into).to_vec();
        arguments.extend(["--ro-bind", "/", "/", "--cap-drop", "ALL", "--"].map(OsString::from));
        arguments.push(program.path.clone().into());
        arguments.extend(program.arguments.iter().cloned());
        arguments.push(NETWORK.into());
        let mut command = Command::new(bwrap);
        command
            .args(arguments)
            .env_clear()
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let child = command.spawn()?;
        drop(command);
        ours.set_read_timeout(Some(PATIENCE))?;
        let received = receive(&ours);
        drop(ours);
        let output = child.wait_with_output()?;
        received.map_err(|error| {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = said.trim();
            if said.is_empty() { error } else { io::Error::other(said.to_owned()) }
        })
    }

    pub(crate) fn descriptors(&self) -> [BorrowedFd<'_>; 3] {
        self.descriptors.each_ref().map(|descriptor| descriptor.as_fd())
    }
}

fn receive(socket: &UnixStream) -> io::Result<(Namespaces, TcpListener)> {
    let mut buffer = [0; 4096];
    let (count, descriptors) = control::receive(socket, &mut buffer)?;
    let line = buffer.get(..count).unwrap_or_default();
    if line.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    match (serde_json::from_slice(line)?, <[OwnedFd; 4]>::try_from(descriptors)) {
        (Report::Namespaces { port }, Ok([user, net, ipc, listener])) => {
            Ok((Namespaces { descriptors: [user, net, ipc], port }, listener.into()))
        }
        (Report::Failed { what, .. }, _) => Err(io::Error::other(what)),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}
