//! Standard input and output as a connection.
//!
//! An SDK that starts the server connects pipes or a socket pair, which support non-blocking I/O like any socket. A
//! terminal or a file does not (a terminal is shared with the shell, which a non-blocking mode would affect), so a thread
//! reads and another one writes it.

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

/// Type of a standard stream.
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

/// Standard input.
pub enum Input {
    /// A pipe.
    Fifo(pipe::Receiver),
    /// A socket.
    Socket(UnixStream),
    /// Anything else, read by a thread.
    Threaded(tokio::sync::mpsc::Receiver<io::Result<Vec<u8>>>),
}

impl Input {
    /// Opens standard input.
    ///
    /// # Errors
    /// When it is closed or cannot be registered with the runtime.
    pub fn open() -> io::Result<Self> {
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
                let is_end = !matches!(&read, Ok(bytes) if !bytes.is_empty());
                if sender.blocking_send(read).is_err() || is_end {
                    return;
                }
            }
        })?;
        Ok(Self::Threaded(receiver))
    }

    /// Appends bytes to `buffer`, and returns their number; zero at the end of the stream.
    ///
    /// # Errors
    /// When the stream fails.
    pub async fn read(&mut self, buffer: &mut BytesMut) -> io::Result<usize> {
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

/// Refuses further input, if standard input is a socket: whoever writes to it from now on gets an error instead of silence.
/// What was written before can still be read.
pub fn refuse_input() {
    // Fails for a pipe or a file, whose writer gets an error when the process ends.
    let _ = rustix::net::shutdown(io::stdin(), rustix::net::Shutdown::Read);
}

/// Standard output.
pub enum Output {
    /// A pipe.
    Fifo(pipe::Sender),
    /// A socket.
    Socket(UnixStream),
    /// Anything else, written by a thread.
    Threaded(mpsc::Sender<Vec<u8>>),
}

impl Output {
    /// Opens standard output.
    ///
    /// # Errors
    /// When it is closed or cannot be registered with the runtime.
    pub fn open() -> io::Result<Self> {
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
