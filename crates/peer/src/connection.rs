//! An established connection: its queue, its channels, and its end.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baton_runtime::session::remote::{FromOwner, NewsBatch, ToOwner};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;
use tokio::time::{interval, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::frame::{self, Frame, MAX_FRAME};

/// Interval of heartbeats.
const PING: Duration = Duration::from_secs(1);

/// Time without any frame after which a connection is closed.
const SILENCE: Duration = Duration::from_secs(3);

/// Time without progress in writing after which a connection is closed.
const STUCK: Duration = Duration::from_secs(5);

/// Limit of bytes that are queued for the other end.
const MAX_QUEUE: usize = 64 << 20;

/// Number of queued bytes below which messages that can wait are sent.
const RELIEVED: usize = 1 << 20;

/// Time between two looks at the queue.
const RELIEF: Duration = Duration::from_millis(20);

/// Frames that are queued are written together, up to this many bytes.
const GATHER: usize = 64 << 10;

/// One end of a connection. Ends when it is cancelled, when the other end is silent, or does not read.
pub(crate) struct Connection {
    queue: mpsc::UnboundedSender<Vec<u8>>,
    queued: Arc<AtomicUsize>,
    state: Mutex<Channels>,
    last_channel: AtomicU64,
    pub(crate) ended: CancellationToken,
}

/// The channels of a connection.
#[derive(Default)]
pub(crate) struct Channels {
    /// Channels that this end opened.
    pub(crate) edges: HashMap<u64, mpsc::UnboundedSender<FromOwner>>,
    /// Channels for states of sessions, which this end opened.
    pub(crate) news: HashMap<u64, mpsc::UnboundedSender<NewsBatch>>,
    /// Channels that the other end opened.
    pub(crate) owners: HashMap<u64, mpsc::UnboundedSender<ToOwner>>,
}

/// The reading end of a connection's queue.
pub(crate) struct FrameQueue {
    frames: mpsc::UnboundedReceiver<Vec<u8>>,
    queued: Arc<AtomicUsize>,
}

impl Connection {
    pub(crate) fn new(ended: CancellationToken) -> (Arc<Self>, FrameQueue) {
        let (queue, frames) = mpsc::unbounded_channel();
        let queued = Arc::<AtomicUsize>::default();
        let outgoing = FrameQueue { frames, queued: queued.clone() };
        let (state, last_channel) = Default::default();
        (Arc::new(Self { queue, queued, state, last_channel, ended }), outgoing)
    }

    pub(crate) fn next_channel(&self) -> u64 {
        self.last_channel.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Queues a frame. A queue that is full ends the connection: the other end does not read.
    pub(crate) fn send(&self, frame: &Frame) {
        let Some(bytes) = frame::encode(frame) else {
            tracing::error!("a message to another server is too large; closing the connection");
            return self.ended.cancel();
        };
        let length = bytes.len();
        let before = self.queued.fetch_add(length, Ordering::AcqRel);
        // A single large message may exceed the limit.
        if before > 0 && before + length > MAX_QUEUE {
            tracing::warn!(queued = before, "another server does not read; closing the connection");
            return self.ended.cancel();
        }
        if self.queue.send(bytes).is_err() {
            self.ended.cancel();
        }
    }

    /// Waits until little is queued for the other end, for messages that can wait. Returns `false` if the connection ends.
    pub(crate) async fn relieved(&self) -> bool {
        while self.queued.load(Ordering::Acquire) > RELIEVED {
            tokio::select! {
                () = sleep(RELIEF) => {}
                () = self.ended.cancelled() => return false,
            }
        }
        !self.ended.is_cancelled()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Channels> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads frames until the connection ends. `open` serves a channel that the other end opens.
    pub(crate) async fn read(
        self: &Arc<Self>,
        stream: impl AsyncRead + Unpin,
        mut open: impl FnMut(&Arc<Self>, Frame),
    ) -> io::Result<()> {
        let mut stream = BufReader::with_capacity(GATHER, stream);
        loop {
            let frame = tokio::select! {
                frame = timeout(SILENCE, frame::read::<Frame>(&mut stream, MAX_FRAME)) => {
                    frame.map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "the other server is silent"))??
                }
                () = self.ended.cancelled() => return Ok(()),
            };
            match frame {
                Frame::Ping {} => {}
                Frame::Up { channel, message } => {
                    if let Some(owner) = self.lock().owners.get(&channel) {
                        drop(owner.send(message));
                    }
                }
                Frame::Down { channel, message } => {
                    if let Some(edge) = self.lock().edges.get(&channel) {
                        drop(edge.send(message));
                    }
                }
                Frame::News { channel, sessions, briefs } => {
                    if let Some(news) = self.lock().news.get(&channel) {
                        drop(news.send(NewsBatch { sessions, briefs }));
                    }
                }
                Frame::CloseUp { channel } => drop(self.lock().owners.remove(&channel)),
                Frame::CloseDown { channel } => {
                    let mut channels = self.lock();
                    channels.edges.remove(&channel);
                    channels.news.remove(&channel);
                }
                frame @ (Frame::Open { .. } | Frame::Watch { .. }) => open(self, frame),
            }
        }
    }

    /// Closes all channels.
    pub(crate) fn end(&self) {
        self.ended.cancel();
        let mut channels = self.lock();
        channels.edges.clear();
        channels.news.clear();
        channels.owners.clear();
    }
}

impl FrameQueue {
    /// Writes queued frames, and a heartbeat every second.
    pub(crate) async fn write(
        mut self,
        mut stream: impl AsyncWrite + Unpin,
        ended: &CancellationToken,
    ) -> io::Result<()> {
        let ping = frame::encode(&Frame::Ping {}).unwrap_or_default();
        let mut pings = interval(PING);
        loop {
            let mut bytes = tokio::select! {
                frame = self.frames.recv() => match frame {
                    Some(frame) => frame,
                    None => return Ok(()),
                },
                _ = pings.tick() => {
                    timeout(STUCK, write_all(&mut stream, &ping)).await??;
                    continue;
                }
                () = ended.cancelled() => return Ok(()),
            };
            while bytes.len() < GATHER
                && let Ok(more) = self.frames.try_recv()
            {
                bytes.extend(more);
            }
            // By parts: a large message may take long, as long as it makes progress.
            for part in bytes.chunks(1 << 20) {
                timeout(STUCK, write_all(&mut stream, part)).await??;
            }
            self.queued.fetch_sub(bytes.len(), Ordering::AcqRel);
        }
    }
}

async fn write_all(stream: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    stream.write_all(bytes).await?;
    stream.flush().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn server_that_does_not_read_is_given_up() {
        let (connection, outgoing) = Connection::new(CancellationToken::new());
        let (ours, _theirs) = tokio::io::duplex(64);
        (0..100).for_each(|channel| connection.send(&Frame::CloseUp { channel }));
        assert!(!connection.ended.is_cancelled());
        let error = outgoing.write(ours, &connection.ended).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn full_queue_ends_the_connection() {
        let (connection, _outgoing) = Connection::new(CancellationToken::new());
        connection.queued.store(MAX_QUEUE, Ordering::Relaxed);
        connection.send(&Frame::Ping {});
        assert!(connection.ended.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn silent_server_is_given_up() {
        let (connection, _outgoing) = Connection::new(CancellationToken::new());
        let (ours, _theirs) = tokio::io::duplex(64);
        let error = connection.read(ours, |_, _| {}).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
