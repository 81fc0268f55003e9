//! Closing a connection so that its last answer arrives.
//!
//! A socket that is closed while the client still sends is reset, and the reset overtakes the answer. So the end is said
//! first (no more comes from us), and what still comes is read and forgotten, until the client has closed its side, or
//! for as long as a client can expect.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// How long a client may take to close its side.
const PATIENCE: Duration = Duration::from_secs(5);

/// A connection that lingers when it is shut down.
pub(super) struct Lingering<T> {
    line: T,
    /// How many bytes are still read after the end.
    bytes_left: usize,
    /// Set when the end has been said.
    until: Option<Pin<Box<Sleep>>>,
}

impl<T> Lingering<T> {
    /// A connection that reads at most `most` bytes after its end.
    pub(super) fn new(line: T, most: usize) -> Self {
        Self { line, bytes_left: most, until: None }
    }

    pub(super) fn into_inner(self) -> T {
        self.line
    }
}

impl<T: AsyncRead + Unpin> Lingering<T> {
    /// Reads and forgets until the client's end, an error, or the limit.
    fn poll_forget(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut scratch = [0; 8 << 10];
        loop {
            let mut buffer = ReadBuf::new(&mut scratch);
            let read = ready!(Pin::new(&mut self.line).poll_read(context, &mut buffer));
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
        Pin::new(&mut self.line).poll_read(context, buffer)
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Lingering<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.line).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.line).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.line.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.line).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.until.is_none() {
            ready!(Pin::new(&mut self.line).poll_shutdown(context))?;
            self.until = Some(Box::pin(tokio::time::sleep(PATIENCE)));
        }
        if self.poll_forget(context).is_ready() {
            return Poll::Ready(Ok(()));
        }
        match &mut self.until {
            Some(until) => until.as_mut().poll(context).map(Ok),
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
    async fn client_that_still_writes_reads_the_answer() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut ours = Lingering::new(ours, 1 << 20);
        let served = tokio::spawn(async move {
            ours.write_all(b"answer").await.unwrap();
            ours.shutdown().await.unwrap();
        });
        theirs.write_all(&vec![0; 512 << 10]).await.unwrap();
        let mut answer = String::new();
        theirs.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, "answer");
        drop(theirs);
        served.await.unwrap();
    }

    #[tokio::test]
    async fn client_that_never_stops_is_cut_off() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut ours = Lingering::new(ours, 64 << 10);
        let served = tokio::spawn(async move { ours.shutdown().await });
        while theirs.write_all(&[0; 8 << 10]).await.is_ok() {}
        served.await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn silent_client_is_not_waited_for() {
        let (ours, _theirs) = tokio::io::duplex(64);
        Lingering::new(ours, 64).shutdown().await.unwrap();
    }
}
