//! The writing end of a connection.

use std::future::Future;
use std::io;
use std::pin::Pin;

/// Something that takes bytes without blocking, or says that it cannot take any now.
///
/// Not `AsyncWrite`: a publisher wants to hand a frame to the kernel right away, from a place that does not await, so
/// that event *n* is on its way to every client before event *n + 1* is on its way to any.
pub(crate) trait Pipe: Send + Sync + 'static {
    /// Takes as much of `bytes` as fits. `WouldBlock` when nothing does.
    fn try_write(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Waits until something may fit again.
    fn writable(&self) -> Pin<Box<dyn Future<Output = io::Result<()>> + Send + '_>>;
}

/// The writing halves of sockets are pipes.
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
