//! The outbox: the bounded queue of frames to one client.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Buf, Bytes};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::pipe::Pipe;

/// Queue of frames to one client, in order.
///
/// Pushing never blocks: bytes that the kernel does not accept at once are queued, and written by [`Outbox::run`]. A sender
/// can check [`Outbox::is_behind`] and hold back events that it can send later. A client whose queue exceeds the limit is
/// disconnected, so that a slow client delays no other.
pub struct Outbox {
    pipe: Box<dyn Pipe>,
    queue: Mutex<Queue>,
    /// Signalled when the queue gets its first frame, or the outbox is closed.
    wake: Notify,
    /// Signalled when the queue is short again, or the outbox is closed.
    relieved: Notify,
    /// Cancelled when no more frames are accepted.
    closed: CancellationToken,
    limit: usize,
}

/// Queue length, in bytes, above which a client is behind.
const HIGH_WATER: usize = 1 << 20;
/// Queue length, in bytes, below which a client has caught up.
const LOW_WATER: usize = 64 << 10;
/// How long a closed outbox waits for a client that does not read the remaining frames.
const LINGER: Duration = Duration::from_secs(2);

#[derive(Default)]
struct Queue {
    frames: VecDeque<Bytes>,
    bytes: usize,
}

/// The outbox is closed: the client disconnected, or was disconnected because it was too slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed;

impl Outbox {
    /// Creates an outbox that disconnects the client when more than `limit` bytes are queued.
    pub fn new(pipe: impl Pipe, limit: usize) -> Arc<Self> {
        Arc::new(Self {
            pipe: Box::new(pipe),
            queue: Mutex::default(),
            wake: Notify::new(),
            relieved: Notify::new(),
            closed: CancellationToken::new(),
            limit,
        })
    }

    /// Sends a frame after all earlier ones. Only bytes that are already queued count against the limit, so that one large
    /// reply does not disconnect a client that reads.
    ///
    /// # Errors
    /// When the outbox is closed, or the limit is exceeded, which closes it.
    pub fn push(&self, frame: Bytes) -> Result<(), Closed> {
        let mut queue = self.lock();
        if self.closed.is_cancelled() {
            return Err(Closed);
        }
        if queue.bytes > self.limit {
            tracing::warn!(
                bytes = queue.bytes,
                limit = self.limit,
                "outbox limit exceeded; closing client connection"
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

    /// Whether the queue is so long that the client counts as behind.
    pub fn is_behind(&self) -> bool {
        self.lock().bytes > HIGH_WATER
    }

    /// Waits until the queue is short.
    ///
    /// # Errors
    /// When the outbox is closed.
    pub async fn relieved(&self) -> Result<(), Closed> {
        loop {
            let notified = self.relieved.notified();
            tokio::pin!(notified);
            // Registered before the check, so that a signal between the check and the wait is not missed.
            notified.as_mut().enable();
            {
                let queue = self.lock();
                if self.closed.is_cancelled() {
                    return Err(Closed);
                }
                if queue.bytes <= LOW_WATER {
                    return Ok(());
                }
            }
            notified.await;
        }
    }

    /// Writes as much of a frame as the kernel accepts, and returns the rest. Errors are left to [`Outbox::run`], which
    /// gets them again.
    fn write_now(&self, mut frame: Bytes) -> Bytes {
        while !frame.is_empty() {
            match self.pipe.try_write(&frame) {
                Ok(0) | Err(_) => break,
                Ok(written) => frame.advance(written),
            }
        }
        frame
    }

    /// Writes queued frames until the outbox is closed and empty.
    ///
    /// # Errors
    /// When the connection fails, or the client does not read the remaining frames of a closed outbox in time.
    pub async fn run(&self) -> io::Result<()> {
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
                    () = self.lingered() => return Err(io::ErrorKind::TimedOut.into()),
                },
            }
        }
    }

    /// Waits until the outbox has been closed for [`LINGER`]. An open connection has no time limit.
    async fn lingered(&self) {
        self.closed.cancelled().await;
        tokio::time::sleep(LINGER).await;
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
        if queue.bytes <= LOW_WATER {
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

    /// Accepts no more frames; queued ones are still written.
    pub fn close(&self) {
        self.closed.cancel();
        self.wake.notify_one();
        self.relieved.notify_waiters();
    }

    /// Accepts no more frames, and drops queued ones.
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

    /// A pipe that accepts as many bytes as it has permits.
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
    async fn slow_client_receives_frames_whole_and_in_order() {
        let pipe = Slow::with_room(3);
        let outbox = Outbox::new(pipe.clone(), 1 << 20);
        for frame in ["first ", "second ", "third"] {
            outbox.push(Bytes::from_static(frame.as_bytes())).unwrap();
        }
        assert_eq!(pipe.taken(), "fir", "bytes that fit are written at once");
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
    async fn client_that_exceeds_the_limit_is_disconnected() {
        let outbox = Outbox::new(Slow::with_room(0), 10);
        assert_eq!(outbox.push(Bytes::from_static(b"one frame larger than the limit")), Ok(()));
        assert_eq!(outbox.push(Bytes::from_static(b"the next")), Err(Closed));
        assert!(outbox.lock().frames.is_empty(), "queued frames are dropped");
    }

    #[tokio::test(start_paused = true)]
    async fn closed_outbox_does_not_wait_for_a_client_that_does_not_read() {
        let pipe = Slow::with_room(0);
        let outbox = Outbox::new(pipe.clone(), 1 << 20);
        outbox.push(Bytes::from_static(b"farewell")).unwrap();
        let writer = tokio::spawn({
            let outbox = Arc::clone(&outbox);
            async move { outbox.run().await }
        });
        tokio::time::sleep(LINGER * 10).await;
        assert!(!writer.is_finished(), "an open connection has no time limit");
        outbox.close();
        assert_eq!(writer.await.unwrap().unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
