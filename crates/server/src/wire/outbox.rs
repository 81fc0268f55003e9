//! The queue of frames on their way to one client.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Buf, Bytes};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::pipe::Pipe;

/// Frames on their way to one client, in order. Pushing never waits: what the kernel does not take at once is queued
/// and written by [`Outbox::run`]. Whoever pushes can see when much is waiting and hold back what can be sent later; a
/// client that lets more than the limit pile up all the same is cut off. Nobody else has to wait for it.
pub(crate) struct Outbox {
    pipe: Box<dyn Pipe>,
    queue: Mutex<Queue>,
    /// Signalled when the queue gets its first frame, or is closed.
    wake: Notify,
    /// Signalled when little is waiting again, or the outbox is closed.
    relieved: Notify,
    /// Nothing is pushed any more.
    closed: CancellationToken,
    limit: usize,
}

/// With this much waiting, a client is behind: what can be read back from the store is held back.
const MUCH: usize = 1 << 20;
/// With this little waiting, it is no longer behind.
const LITTLE: usize = 64 << 10;
/// How long a connection that is over is kept for a client that takes nothing of what was still on its way to it.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Default)]
struct Queue {
    frames: VecDeque<Bytes>,
    bytes: usize,
}

/// The client is gone, or too slow to be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Closed;

impl Outbox {
    pub(crate) fn new(pipe: impl Pipe, limit: usize) -> Arc<Self> {
        Arc::new(Self {
            pipe: Box::new(pipe),
            queue: Mutex::default(),
            wake: Notify::new(),
            relieved: Notify::new(),
            closed: CancellationToken::new(),
            limit,
        })
    }

    /// Sends a frame after all frames before it. What counts against the limit is what waits already: one large answer
    /// is no reason to give up on a client that reads.
    pub(crate) fn push(&self, frame: Bytes) -> Result<(), Closed> {
        let mut queue = self.lock();
        if self.closed.is_cancelled() {
            return Err(Closed);
        }
        if queue.bytes > self.limit {
            tracing::warn!(
                bytes = queue.bytes,
                "a client does not read what it is sent; closing its connection"
            );
            self.abandon(&mut queue);
            return Err(Closed);
        }
        let rest = if queue.frames.is_empty() { self.write_now(frame) } else { frame };
        if rest.is_empty() {
            return Ok(());
        }
        queue.bytes += rest.len();
        queue.frames.push_back(rest);
        if queue.frames.len() == 1 {
            self.wake.notify_one();
        }
        Ok(())
    }

    /// Whether so much is waiting that the client counts as being behind.
    pub(crate) fn is_behind(&self) -> bool {
        self.lock().bytes > MUCH
    }

    /// Waits until little is waiting. `Err` when nothing will be written any more.
    pub(crate) async fn relieved(&self) -> Result<(), Closed> {
        loop {
            let notified = self.relieved.notified();
            tokio::pin!(notified);
            // Registered before the look, so that relief between the look and the wait is not missed.
            notified.as_mut().enable();
            {
                let queue = self.lock();
                if self.closed.is_cancelled() {
                    return Err(Closed);
                }
                if queue.bytes <= LITTLE {
                    return Ok(());
                }
            }
            notified.await;
        }
    }

    /// Hands as much of a frame to the kernel as it takes, and returns the rest. Errors are left to [`Outbox::run`],
    /// which meets them again.
    fn write_now(&self, mut frame: Bytes) -> Bytes {
        while !frame.is_empty() {
            match self.pipe.try_write(&frame) {
                Ok(0) | Err(_) => break,
                Ok(written) => frame.advance(written),
            }
        }
        frame
    }

    /// Writes what could not be written at once, until the outbox is closed and empty, or nobody reads it any more.
    pub(crate) async fn run(&self) -> io::Result<()> {
        let done = self.write_all().await;
        self.abandon(&mut self.lock());
        done
    }

    async fn write_all(&self) -> io::Result<()> {
        loop {
            let next = self.lock().frames.front().cloned();
            match next {
                None if self.closed.is_cancelled() => return Ok(()),
                None => self.wake.notified().await,
                Some(frame) => tokio::select! {
                    written = self.write_some(frame) => written?,
                    () = self.out_of_patience() => return Err(io::ErrorKind::TimedOut.into()),
                },
            }
        }
    }

    /// While a connection lasts, a client may take its time. Once it is over, a client that takes nothing any more would
    /// only keep the server from letting go of it.
    async fn out_of_patience(&self) {
        self.closed.cancelled().await;
        tokio::time::sleep(PATIENCE).await;
    }

    async fn write_some(&self, frame: Bytes) -> io::Result<()> {
        self.pipe.writable().await?;
        let written = match self.pipe.try_write(&frame) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => written,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        };
        let mut queue = self.lock();
        queue.bytes = queue.bytes.saturating_sub(written);
        if queue.bytes <= LITTLE {
            self.relieved.notify_waiters();
        }
        if let Some(front) = queue.frames.front_mut() {
            front.advance(written.min(front.len()));
            if front.is_empty() {
                queue.frames.pop_front();
            }
        }
        Ok(())
    }

    /// Takes no more frames; those that wait are still written.
    pub(crate) fn close(&self) {
        self.closed.cancel();
        self.wake.notify_one();
        self.relieved.notify_waiters();
    }

    /// Takes no more frames, and drops those that wait.
    fn abandon(&self, queue: &mut Queue) {
        *queue = Queue::default();
        self.close();
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::Pin;
    use tokio::sync::Semaphore;

    /// A pipe that takes as many bytes as it was given room for.
    #[derive(Clone)]
    struct Slow {
        room: Arc<Semaphore>,
        taken: Arc<Mutex<Vec<u8>>>,
    }

    impl Slow {
        fn with_room(bytes: usize) -> Self {
            Self { room: Arc::new(Semaphore::new(bytes)), taken: Arc::default() }
        }

        fn taken(&self) -> String {
            String::from_utf8(self.taken.lock().unwrap().clone()).unwrap()
        }
    }

    impl Pipe for Slow {
        fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
            let mut written = 0;
            while written < bytes.len() && self.room.try_acquire().map(|permit| permit.forget()).is_ok() {
                written += 1;
            }
            self.taken.lock().unwrap().extend_from_slice(&bytes[..written]);
            if written == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(written) }
        }

        fn writable(&self) -> Pin<Box<dyn Future<Output = io::Result<()>> + Send + '_>> {
            Box::pin(async {
                let permit = self.room.acquire().await.map_err(io::Error::other)?;
                drop(permit);
                Ok(())
            })
        }
    }

    #[tokio::test]
    async fn frames_arrive_whole_and_in_order_however_slow_the_client() {
        let pipe = Slow::with_room(3);
        let outbox = Outbox::new(pipe.clone(), 1 << 20);
        for frame in ["first ", "second ", "third"] {
            outbox.push(Bytes::from_static(frame.as_bytes())).unwrap();
        }
        assert_eq!(pipe.taken(), "fir", "what fits is written at once");
        outbox.close();
        assert_eq!(outbox.push(Bytes::from_static(b"late")), Err(Closed));
        let writer = tokio::spawn({
            let outbox = Arc::clone(&outbox);
            async move { outbox.run().await }
        });
        pipe.room.add_permits(100);
        writer.await.unwrap().unwrap();
        assert_eq!(pipe.taken(), "first second third");
    }

    #[tokio::test]
    async fn a_client_that_never_reads_is_cut_off_once_too_much_waits() {
        let outbox = Outbox::new(Slow::with_room(0), 10);
        assert_eq!(outbox.push(Bytes::from_static(b"one frame larger than the limit")), Ok(()));
        assert_eq!(outbox.push(Bytes::from_static(b"the next")), Err(Closed));
        assert!(outbox.lock().frames.is_empty(), "what waited costs nothing any more");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_is_over_does_not_wait_for_a_client_that_does_not_read() {
        let pipe = Slow::with_room(0);
        let outbox = Outbox::new(pipe.clone(), 1 << 20);
        outbox.push(Bytes::from_static(b"farewell")).unwrap();
        let writer = tokio::spawn({
            let outbox = Arc::clone(&outbox);
            async move { outbox.run().await }
        });
        tokio::time::sleep(PATIENCE * 10).await;
        assert!(!writer.is_finished(), "as long as the connection lasts, a client may be slow");
        outbox.close();
        assert_eq!(writer.await.unwrap().unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
