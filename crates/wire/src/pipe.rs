//! The write half of a connection.

use std::future::Future;
use std::io;
use std::pin::Pin;

/// A non-blocking writer.
///
/// Not `AsyncWrite`: a publisher passes a frame to the kernel at once, in code that does not await, so that event *n* is
/// sent to every client before event *n + 1* is sent to any.
pub trait Pipe: Send + Sync + 'static {
    /// Writes as much of `bytes` as fits, and returns its length.
    ///
    /// # Errors
    /// `WouldBlock` when nothing fits; otherwise when the connection fails.
    fn try_write(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Waits until a write may succeed.
    fn writable(&self) -> Pin<Box<dyn Future<Output = io::Result<()>> + Send + '_>>;
}

/// Implements [`Pipe`] for the write half of a socket.
macro_rules! pipe {
    ($half:ty) => {
        impl Pipe for $half {
            fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
                <$half>::try_write(self, bytes)
            }

            fn writable(&self) -> Pin<Box<dyn Future<Output = io::Result<()>> + Send + '_>> {
                Box::pin(<$half>::writable(self))
            }
        }
    };
}

pipe!(tokio::net::tcp::OwnedWriteHalf);
pipe!(tokio::net::unix::OwnedWriteHalf);
