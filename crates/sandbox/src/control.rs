//! The socket between the server and the helper inside.
//!
//! The server holds the only other end, so that its end of file means: the call is over, or the server is dead. Either way
//! the helper ends, and with it everything that runs in its PID namespace.
//!
//! To the helper go single bytes, some with descriptors; from it come lines of JSON.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};

/// Descriptors in one message: the most that any message needs.
const MOST_DESCRIPTORS: usize = 8;

/// A byte to the helper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Start `bwrap`: its arguments, then the namespaces to join.
    Enter,
    /// Start the program: its plan, then its input.
    Run,
    /// Interrupt the program, as Ctrl+C would.
    Interrupt,
    /// Ask all processes to end.
    Terminate,
}

impl Order {
    const ALL: [Self; 4] = [Self::Enter, Self::Run, Self::Interrupt, Self::Terminate];

    fn byte(self) -> u8 {
        match self {
            Self::Enter => b'E',
            Self::Run => b'R',
            Self::Interrupt => b'I',
            Self::Terminate => b'T',
        }
    }
}

/// A line from the helper.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "report")]
pub enum Report {
    /// The program was started.
    Started,
    /// The walls could not be built, or the program could not be started.
    Failed {
        /// What failed, for people.
        what: String,
        /// The error of the system, if the program is what could not be started.
        errno: Option<i32>,
    },
    /// The program has exited.
    Exited {
        /// Its status, as `wait` returns it.
        status: i32,
        /// Whether processes that it started are left.
        left: bool,
    },
    /// A limit ended the call.
    Ended {
        /// The limit.
        by: Ended,
    },
    /// The namespaces of a session and their proxy port follow as descriptors.
    Namespaces {
        /// Port of the proxy on the loopback interface inside.
        port: u16,
    },
}

/// A limit that ended a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Ended {
    /// Too many processes.
    Processes,
    /// Too much memory.
    Memory,
    /// Too little space left on a disk.
    Disk,
    /// Too much time.
    Time,
}

impl Ended {
    /// Returns the sentence about it, for a model and for people.
    #[must_use]
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Processes => "ended by the sandbox: it ran too many processes at the same time",
            Self::Memory => "ended by the sandbox: its processes used too much memory",
            Self::Disk => "ended by the sandbox: it left too little space on the disk",
            Self::Time => "ended by the sandbox: it ran too long",
        }
    }
}

/// The server's end. Dropping it ends everything inside.
#[derive(Debug)]
pub struct Control {
    socket: UnixStream,
}

impl Control {
    pub(crate) fn new(socket: UnixStream) -> Self {
        Self { socket }
    }

    /// Returns a reader of the helper's reports. They end when no process is left inside.
    ///
    /// # Errors
    /// If the socket cannot be used.
    pub fn reports(&self) -> io::Result<tokio::net::UnixStream> {
        let socket = self.socket.try_clone()?;
        socket.set_nonblocking(true)?;
        tokio::net::UnixStream::from_std(socket)
    }

    /// Reads all reports until the helper has ended. Blocks.
    pub(crate) fn read_to_end(&mut self, reports: &mut String) -> io::Result<usize> {
        io::Read::read_to_string(&mut self.socket, reports)
    }

    /// Interrupts the program, as Ctrl+C would.
    pub fn interrupt(&self) {
        let _ = send(&self.socket, Order::Interrupt, &[]);
    }

    /// Asks all processes inside to end (SIGTERM).
    pub fn terminate(&self) {
        let _ = send(&self.socket, Order::Terminate, &[]);
    }

    /// Ends all processes inside. Returns at once; the kernel needs some milliseconds.
    pub fn end(&self) {
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
    }
}

/// Sends an order with descriptors.
pub(crate) fn send(socket: impl AsFd, order: Order, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let byte = [order.byte()];
    sendmsg(socket, &[io::IoSlice::new(&byte)], &mut control, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?;
    Ok(())
}

/// Sends a report with descriptors, as a line.
pub(crate) fn report(socket: impl AsFd, report: &Report, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut line = serde_json::to_vec(report)?;
    line.push(b'\n');
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    sendmsg(socket, &[io::IoSlice::new(&line)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives bytes with the descriptors that came with them. Returns no byte at the end of the stream.
pub(crate) fn receive(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = rustix::io::retry_on_intr(|| {
        recvmsg(&socket, &mut [io::IoSliceMut::new(buffer)], &mut control, RecvFlags::CMSG_CLOEXEC)
    })?;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    Ok((received.bytes, descriptors))
}

/// Receives one order. Returns none at the end of the stream.
pub(crate) fn next_order(socket: impl AsFd) -> io::Result<Option<(Order, Vec<OwnedFd>)>> {
    let mut byte = [0];
    let (count, descriptors) = receive(socket, &mut byte)?;
    if count == 0 {
        return Ok(None);
    }
    let order = Order::ALL.into_iter().find(|order| order.byte() == byte[0]);
    order.map(|order| Some((order, descriptors))).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn orders_arrive_one_by_one_with_their_descriptors() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (reader, mut writer) = io::pipe().unwrap();
        send(&ours, Order::Run, &[reader.as_fd()]).unwrap();
        send(&ours, Order::Terminate, &[]).unwrap();
        drop(ours);
        let (order, mut descriptors) = next_order(&theirs).unwrap().unwrap();
        assert_eq!((order, descriptors.len()), (Order::Run, 1));
        writer.write_all(b"x").unwrap();
        drop(writer);
        let mut text = String::new();
        std::fs::File::from(descriptors.remove(0)).read_to_string(&mut text).unwrap();
        assert_eq!(text, "x");
        assert_eq!(next_order(&theirs).unwrap().unwrap().0, Order::Terminate);
        assert!(next_order(&theirs).unwrap().is_none());
    }
}
