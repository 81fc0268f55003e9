//! Standard input and output as a connection.
//!
//! An SDK that starts us gives us pipes or a socket pair. Those can be used without blocking, like any socket. A terminal
//! or a file cannot (setting a terminal to non-blocking would change it for the shell that shares it), so they are read
//! and written by a thread each.

use std::future::Future;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::pin::Pin;
use std::sync::mpsc;

use bytes::BytesMut;
use rustix::fs::FileType;
use tokio::io::AsyncReadExt;
use tokio::net::{UnixStream, unix::pipe};

use super::pipe::Pipe;

/// What a standard stream is connected to.
enum Kind {
    Fifo(OwnedFd),
    Socket(UnixStream),
    Other,
}

fn kind_of(fd: BorrowedFd<'_>) -> io::Result<Kind> {
    Ok(match FileType::from_raw_mode(rustix::fs::fstat(fd)?.st_mode) {
        FileType::Fifo => Kind::Fifo(fd.try_clone_to_owned()?),
        FileType::Socket => {
            let socket = StdUnixStream::from(fd.try_clone_to_owned()?);
            socket.set_nonblocking(true)?;
            Kind::Socket(UnixStream::from_std(socket)?)
        }
        _ => Kind::Other,
    })
}

/// The reading end.
pub(crate) enum Input {
    Fifo(pipe::Receiver),
    Socket(UnixStream),
    Threaded(tokio::sync::mpsc::Receiver<io::Result<Vec<u8>>>),
}

impl Input {
    pub(crate) fn open() -> io::Result<Self> {
        match kind_of(io::stdin().as_fd())? {
            Kind::Fifo(fd) => Ok(Self::Fifo(pipe::Receiver::from_owned_fd(fd)?)),
            Kind::Socket(socket) => Ok(Self::Socket(socket)),
            Kind::Other => Self::threaded(),
        }
    }

    fn threaded() -> io::Result<Self> {
        let (sender, receiver) = tokio::sync::mpsc::channel(4);
        std::thread::Builder::new().name("stdin".into()).spawn(move || {
            let mut buffer = vec![0; 64 * 1024];
            loop {
                let read = io::stdin().lock().read(&mut buffer).map(|n| buffer[..n].to_vec());
                let over = !matches!(&read, Ok(bytes) if !bytes.is_empty());
                if sender.blocking_send(read).is_err() || over {
                    return;
                }
            }
        })?;
        Ok(Self::Threaded(receiver))
    }

    /// Reads some bytes; none at the end.
    pub(crate) async fn read(&mut self, buffer: &mut BytesMut) -> io::Result<usize> {
        match self {
            Self::Fifo(fifo) => fifo.read_buf(buffer).await,
            Self::Socket(socket) => socket.read_buf(buffer).await,
            Self::Threaded(receiver) => {
                let Some(bytes) = receiver.recv().await.transpose()? else { return Ok(0) };
                buffer.extend_from_slice(&bytes);
                Ok(bytes.len())
            }
        }
    }
}

/// The writing end.
pub(crate) enum Output {
    Fifo(pipe::Sender),
    Socket(UnixStream),
    Threaded(mpsc::Sender<Vec<u8>>),
}

impl Output {
    pub(crate) fn open() -> io::Result<Self> {
        match kind_of(io::stdout().as_fd())? {
            Kind::Fifo(fd) => Ok(Self::Fifo(pipe::Sender::from_owned_fd(fd)?)),
            Kind::Socket(socket) => Ok(Self::Socket(socket)),
            Kind::Other => Self::threaded(),
        }
    }

    fn threaded() -> io::Result<Self> {
        let (sender, receiver) = mpsc::channel::<Vec<u8>>();
        std::thread::Builder::new().name("stdout".into()).spawn(move || {
            let mut out = io::stdout().lock();
            for bytes in receiver {
                if out.write_all(&bytes).and_then(|()| out.flush()).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self::Threaded(sender))
    }
}

impl Pipe for Output {
    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Fifo(fifo) => fifo.try_write(bytes),
            Self::Socket(socket) => socket.try_write(bytes),
            Self::Threaded(sender) => {
                sender.send(bytes.to_vec()).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
                Ok(bytes.len())
            }
        }
    }

    fn writable(&self) -> Pin<Box<dyn Future<Output = io::Result<()>> + Send + '_>> {
        Box::pin(async move {
            match self {
                Self::Fifo(fifo) => fifo.writable().await,
                Self::Socket(socket) => socket.writable().await,
                Self::Threaded(_) => Ok(()),
            }
        })
    }
}
