//! Standard input and output as a connection.
//!
//! An SDK that starts us gives us pipes or a socket pair. Those can be used without blocking, like any socket. A terminal
//! or a file cannot (setting a terminal to non-blocking would change it for the shell that shares it), so they are read
//! and written by a thread each.

use std::future::Future;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::sync::mpsc;

use rustix::fs::{FileType, OFlags};
use tokio::io::unix::AsyncFd;

use super::pipe::Pipe;

/// The reading end.
pub(crate) enum Input {
    Pollable(AsyncFd<OwnedFd>),
    Threaded(tokio::sync::mpsc::Receiver<io::Result<Vec<u8>>>),
}

impl Input {
    pub(crate) fn open() -> io::Result<Self> {
        let stdin = io::stdin();
        if let Some(fd) = pollable(stdin.as_fd())? {
            return Ok(Self::Pollable(AsyncFd::new(fd)?));
        }
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
    pub(crate) async fn read(&mut self, buffer: &mut bytes::BytesMut) -> io::Result<usize> {
        match self {
            Self::Threaded(receiver) => {
                let Some(bytes) = receiver.recv().await.transpose()? else { return Ok(0) };
                buffer.extend_from_slice(&bytes);
                Ok(bytes.len())
            }
            Self::Pollable(fd) => {
                let mut chunk = [0u8; 64 * 1024];
                let read = loop {
                    let mut ready = fd.readable().await?;
                    match ready.try_io(|fd| Ok(rustix::io::read(fd.get_ref(), &mut chunk)?)) {
                        Ok(read) => break read?,
                        Err(_would_block) => {}
                    }
                };
                buffer.extend_from_slice(&chunk[..read]);
                Ok(read)
            }
        }
    }
}

/// The writing end.
pub(crate) enum Output {
    Pollable(AsyncFd<OwnedFd>),
    Threaded(mpsc::Sender<Vec<u8>>),
}

impl Output {
    pub(crate) fn open() -> io::Result<Self> {
        let stdout = io::stdout();
        if let Some(fd) = pollable(stdout.as_fd())? {
            return Ok(Self::Pollable(AsyncFd::new(fd)?));
        }
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
            Self::Pollable(fd) => {
                fd.try_io(tokio::io::Interest::WRITABLE, |fd| Ok(rustix::io::write(fd, bytes)?))
            }
            Self::Threaded(sender) => {
                sender.send(bytes.to_vec()).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
                Ok(bytes.len())
            }
        }
    }

    fn writable(&self) -> Pin<Box<dyn Future<Output = io::Result<()>> + Send + '_>> {
        Box::pin(async move {
            if let Self::Pollable(fd) = self {
                fd.writable().await?.retain_ready();
            }
            Ok(())
        })
    }
}

/// A copy of the descriptor in non-blocking mode, if it is of a kind where that concerns only us.
fn pollable(fd: BorrowedFd<'_>) -> io::Result<Option<OwnedFd>> {
    let kind = FileType::from_raw_mode(rustix::fs::fstat(fd)?.st_mode);
    if !matches!(kind, FileType::Fifo | FileType::Socket) {
        return Ok(None);
    }
    let copy = fd.try_clone_to_owned()?;
    let flags = rustix::fs::fcntl_getfl(&copy)?;
    rustix::fs::fcntl_setfl(&copy, flags | OFlags::NONBLOCK)?;
    Ok(Some(copy))
}
