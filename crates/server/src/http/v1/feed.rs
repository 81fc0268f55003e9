//! What a workspace tells, to everybody who streams it.
//!
//! Telling never waits. A reader that does not keep up is cut off instead of costing memory without end: its client
//! connects again and asks for everything anew, which is what it does after any break.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;

/// How much may wait for one reader, in bytes. A client that reads at all is far below this.
const MOST_WAITING: usize = 16 << 20;

/// See the module.
#[derive(Default)]
pub(crate) struct Feed {
    readers: Mutex<Readers>,
}

#[derive(Default)]
struct Readers {
    last: u64,
    by_number: BTreeMap<u64, Arc<Queue>>,
}

#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    news: Notify,
}

#[derive(Default)]
struct Waiting {
    pieces: VecDeque<Bytes>,
    bytes: usize,
    /// Whether the reader was cut off.
    over: bool,
}

/// One reader. Dropping it is leaving.
pub(crate) struct Reader {
    feed: Arc<Feed>,
    number: u64,
    queue: Arc<Queue>,
}

impl Feed {
    /// Reads from here on.
    pub(crate) fn subscribe(self: &Arc<Self>) -> Reader {
        let mut readers = lock(&self.readers);
        readers.last += 1;
        let (number, queue) = (readers.last, Arc::<Queue>::default());
        readers.by_number.insert(number, queue.clone());
        Reader { feed: self.clone(), number, queue }
    }

    /// Whether anybody reads. What nobody reads need not be written.
    pub(crate) fn has_readers(&self) -> bool {
        !lock(&self.readers).by_number.is_empty()
    }

    /// Tells everybody.
    pub(crate) fn tell(&self, piece: &Bytes) {
        lock(&self.readers).by_number.values().for_each(|queue| queue.push(piece));
    }
}

impl Queue {
    fn push(&self, piece: &Bytes) {
        let mut waiting = lock(&self.waiting);
        if waiting.bytes + piece.len() > MOST_WAITING {
            *waiting = Waiting { over: true, ..Waiting::default() };
        }
        if !waiting.over {
            waiting.bytes += piece.len();
            waiting.pieces.push_back(piece.clone());
        }
        drop(waiting);
        self.news.notify_one();
    }
}

impl Reader {
    /// Tells this reader alone.
    pub(crate) fn tell(&self, piece: &Bytes) {
        self.queue.push(piece);
    }

    /// The next piece; none if the reader was cut off.
    pub(crate) async fn next(&self) -> Option<Bytes> {
        loop {
            {
                let mut waiting = lock(&self.queue.waiting);
                if waiting.over {
                    return None;
                }
                if let Some(piece) = waiting.pieces.pop_front() {
                    waiting.bytes -= piece.len();
                    return Some(piece);
                }
            }
            self.queue.news.notified().await;
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        lock(&self.feed.readers).by_number.remove(&self.number);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn everybody_hears_everything_from_when_they_came() {
        let feed = Arc::<Feed>::default();
        assert!(!feed.has_readers());
        let early = feed.subscribe();
        feed.tell(&Bytes::from_static(b"one"));
        let late = feed.subscribe();
        feed.tell(&Bytes::from_static(b"two"));
        assert_eq!(early.next().await.unwrap(), "one");
        assert_eq!(early.next().await.unwrap(), "two");
        assert_eq!(late.next().await.unwrap(), "two");
        drop((early, late));
        assert!(!feed.has_readers());
    }

    #[tokio::test]
    async fn who_does_not_read_is_cut_off_and_nobody_else() {
        let feed = Arc::<Feed>::default();
        let (slow, quick) = (feed.subscribe(), feed.subscribe());
        let piece = Bytes::from(vec![b'x'; 1 << 20]);
        for _ in 0..=16 {
            feed.tell(&piece);
            assert!(quick.next().await.is_some());
        }
        assert_eq!(slow.next().await, None);
        feed.tell(&piece);
        assert!(quick.next().await.is_some() && slow.next().await.is_none());
    }
}
