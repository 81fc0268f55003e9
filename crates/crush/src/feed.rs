//! Fan-out of a workspace's events to its streams.
//!
//! Publishing never waits. A reader that falls too far behind is disconnected instead of using unbounded memory: its client
//! reconnects and reads all state again, as after any lost connection.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tokio::sync::Notify;

use super::lock;

/// Maximum number of bytes queued for a reader. A client that reads at all stays far below this.
const MAX_BACKLOG: usize = 16 << 20;

/// The readers of a workspace's events.
#[derive(Default)]
pub(crate) struct Feed {
    readers: Mutex<Readers>,
}

#[derive(Default)]
struct Readers {
    last_id: u64,
    by_id: BTreeMap<u64, Arc<Queue>>,
}

#[derive(Default)]
struct Queue {
    backlog: Mutex<Backlog>,
    changed: Notify,
}

#[derive(Default)]
struct Backlog {
    events: VecDeque<Bytes>,
    bytes: usize,
    /// Whether the reader fell too far behind.
    overflowed: bool,
}

/// Receiver of a workspace's events. Dropping it unsubscribes.
pub(crate) struct Reader {
    feed: Arc<Feed>,
    id: u64,
    queue: Arc<Queue>,
}

impl Feed {
    /// Subscribes to events that are published from now on.
    pub(crate) fn subscribe(self: &Arc<Self>) -> Reader {
        let mut readers = lock(&self.readers);
        readers.last_id += 1;
        let (id, queue) = (readers.last_id, Arc::<Queue>::default());
        readers.by_id.insert(id, queue.clone());
        Reader { feed: self.clone(), id, queue }
    }

    /// Whether there are readers. Without any, events need not be encoded.
    pub(crate) fn has_readers(&self) -> bool {
        !lock(&self.readers).by_id.is_empty()
    }

    /// Sends an event to all readers.
    pub(crate) fn publish(&self, event: &Bytes) {
        lock(&self.readers).by_id.values().for_each(|queue| queue.push(event));
    }
}

impl Queue {
    fn push(&self, event: &Bytes) {
        let mut backlog = lock(&self.backlog);
        if backlog.bytes + event.len() > MAX_BACKLOG {
            *backlog = Backlog { overflowed: true, ..Backlog::default() };
        }
        if !backlog.overflowed {
            backlog.bytes += event.len();
            backlog.events.push_back(event.clone());
        }
        drop(backlog);
        self.changed.notify_one();
    }
}

impl Reader {
    /// Sends an event to this reader only.
    pub(crate) fn send(&self, event: &Bytes) {
        self.queue.push(event);
    }

    /// Returns the next event; `None` if the reader fell too far behind.
    pub(crate) async fn next(&self) -> Option<Bytes> {
        loop {
            {
                let mut backlog = lock(&self.queue.backlog);
                if backlog.overflowed {
                    return None;
                }
                if let Some(event) = backlog.events.pop_front() {
                    backlog.bytes -= event.len();
                    return Some(event);
                }
            }
            self.queue.changed.notified().await;
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        lock(&self.feed.readers).by_id.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn readers_get_all_events_since_their_subscription() {
        let feed = Arc::<Feed>::default();
        assert!(!feed.has_readers());
        let early = feed.subscribe();
        feed.publish(&Bytes::from_static(b"one"));
        let late = feed.subscribe();
        feed.publish(&Bytes::from_static(b"two"));
        assert_eq!(early.next().await.unwrap(), "one");
        assert_eq!(early.next().await.unwrap(), "two");
        assert_eq!(late.next().await.unwrap(), "two");
        drop((early, late));
        assert!(!feed.has_readers());
    }

    #[tokio::test]
    async fn only_the_slow_reader_is_disconnected() {
        let feed = Arc::<Feed>::default();
        let (slow, quick) = (feed.subscribe(), feed.subscribe());
        let event = Bytes::from(vec![b'x'; 1 << 20]);
        for _ in 0..=16 {
            feed.publish(&event);
            assert!(quick.next().await.is_some());
        }
        assert_eq!(slow.next().await, None);
        feed.publish(&event);
        assert!(quick.next().await.is_some() && slow.next().await.is_none());
    }
}
