//! Lingering close: closes a connection without losing its last response.
//!
//! A socket that is closed while the client still sends is reset, and the reset discards the response. So the sending side is
//! shut down first, and incoming bytes are read and discarded until the client closes its side, or a limit of bytes or time
//! is reached.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// Time limit for the client to close its side.
const LINGER_TIME: Duration = Duration::from_secs(5);

/// A connection with a lingering close.
pub(super) struct Lingering<T> {
    inner: T,
    /// Number of bytes that may still be discarded.
    bytes_left: usize,
    /// Set when the sending side has been shut down.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<T> Lingering<T> {
    /// Wraps a connection; at most `max_discarded` bytes are read after its shutdown.
    pub(super) fn new(inner: T, max_discarded: usize) -> Self {
        Self { inner, bytes_left: max_discarded, deadline: None }
    }

    pub(super) fn into_inner(self) -> T {
        self.inner
    }
}

impl<T: AsyncRead + Unpin> Lingering<T> {
    /// Reads and discards bytes until end of file, an error, or the limit.
    fn poll_discard(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut scratch = [0; 8 << 10];
        loop {
            let mut buffer = ReadBuf::new(&mut scratch);
            let read = ready!(Pin::new(&mut self.inner).poll_read(context, &mut buffer));
            let count = buffer.filled().len();
            self.bytes_left = self.bytes_left.saturating_sub(count);
            if read.is_err() || count == 0 || self.bytes_left == 0 {
                return Poll::Ready(());
            }
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Lingering<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Lingering<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.deadline.is_none() {
            ready!(Pin::new(&mut self.inner).poll_shutdown(context))?;
            self.deadline = Some(Box::pin(tokio::time::sleep(LINGER_TIME)));
        }
        if self.poll_discard(context).is_ready() {
            return Poll::Ready(Ok(()));
        }
        match &mut self.deadline {
            Some(deadline) => deadline.as_mut().poll(context).map(Ok),
            None => Poll::Ready(Ok(())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixStream;

    #[tokio::test]
    async fn client_that_still_writes_reads_the_response() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut ours = Lingering::new(ours, 1 << 20);
        let served = tokio::spawn(async move {
            ours.write_all(b"response").await.unwrap();
            ours.shutdown().await.unwrap();
        });
        theirs.write_all(&vec![0; 512 << 10]).await.unwrap();
        let mut response = String::new();
        theirs.read_to_string(&mut response).await.unwrap();
        assert_eq!(response, "response");
        drop(theirs);
        served.await.unwrap();
    }

    #[tokio::test]
    async fn client_that_never_stops_sending_is_disconnected() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut ours = Lingering::new(ours, 64 << 10);
        let served = tokio::spawn(async move { ours.shutdown().await });
        while theirs.write_all(&[0; 8 << 10]).await.is_ok() {}
        served.await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn close_of_a_silent_client_times_out() {
        let (ours, _theirs) = tokio::io::duplex(64);
        Lingering::new(ours, 64).shutdown().await.unwrap();
    }
}
