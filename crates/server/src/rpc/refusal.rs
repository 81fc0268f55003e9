//! Refusing connections so that being refused costs the server little.
//!
//! A refused client is told why, and its connection is kept for a moment, because closing it at once would reset it and the
//! reason would be lost. That is a courtesy: only a few connections get it at a time, and the rest are closed at once.

use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use baton_protocol::Json;
use baton_protocol::rpc::{Outgoing, RpcError};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use super::peer::Peer;

/// How long, and how much, is still read from a client that has been told that it is not served.
pub(super) const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES: u64 = 256 << 10;
/// The most refused connections that are kept at a time.
const MAX_LINGERING: usize = 64;
/// The shortest time between two entries in the log.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// Refuses connections and logs that it did.
pub(super) struct Refusals {
    lingering: Semaphore,
    log: Mutex<LogLimit>,
}

impl Refusals {
    pub(super) fn new() -> Self {
        Self::keeping(MAX_LINGERING)
    }

    fn keeping(most: usize) -> Self {
        Self { lingering: Semaphore::new(most), log: Mutex::default() }
    }

    /// Tells the client why it is not served, and closes its connection.
    pub(super) async fn refuse(&self, stream: TcpStream, peer: Peer, why: &RpcError) {
        let due = self.log.lock().unwrap_or_else(PoisonError::into_inner).next(Instant::now());
        if let Some(unlogged) = due {
            tracing::warn!(?peer, reason = %why.message, unlogged, "refused a JSON-RPC connection");
        }
        if let Ok(_place) = self.lingering.try_acquire() {
            tell(stream, why).await;
        }
    }
}

async fn tell(mut stream: TcpStream, why: &RpcError) {
    let Ok(frame) = Outgoing::response(&Json::null(), Err(why)).to_frame() else { return };
    let tell = async {
        stream.write_all(&frame).await?;
        stream.shutdown().await?;
        drain(&mut stream).await
    };
    drop(tokio::time::timeout(LINGER, tell).await);
}

/// Reads what still comes, up to a limit, and forgets it.
pub(super) async fn drain(reader: &mut (impl AsyncRead + Unpin)) -> io::Result<()> {
    tokio::io::copy(&mut reader.take(LINGER_BYTES), &mut tokio::io::sink()).await.map(drop)
}

/// Keeps a flood of refusals out of the log.
#[derive(Debug, Default)]
struct LogLimit {
    last: Option<Instant>,
    unlogged: u64,
}

impl LogLimit {
    /// Counts a refusal. Returns how many went unlogged before it if it is to be logged, `None` if it is not.
    fn next(&mut self, now: Instant) -> Option<u64> {
        if self.last.is_some_and(|last| now.saturating_duration_since(last) < LOG_INTERVAL) {
            self.unlogged += 1;
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.unlogged))
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// What a refused client hears until its connection ends.
    async fn heard_from(refusals: &Refusals) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, peer) = listener.accept().await.unwrap();
        let mut heard = String::new();
        let why = RpcError::failed("no room");
        let refuse = refusals.refuse(stream, Peer::at(peer.ip()), &why);
        let hear = async {
            client.read_to_string(&mut heard).await.unwrap();
            drop(client);
        };
        tokio::join!(refuse, hear);
        heard
    }

    #[tokio::test]
    async fn refused_client_is_told_why() {
        let refusals = Refusals::keeping(1);
        assert!(heard_from(&refusals).await.contains("no room"));
        assert!(heard_from(&refusals).await.contains("no room"), "the place is given back");
    }

    #[tokio::test]
    async fn refusals_beyond_the_limit_are_closed_at_once() {
        let refusals = Refusals::keeping(1);
        let _taken = refusals.lingering.try_acquire().unwrap();
        assert_eq!(heard_from(&refusals).await, "");
    }

    #[test]
    fn refusals_are_logged_once_a_second() {
        let (mut log, start) = (LogLimit::default(), Instant::now());
        assert_eq!(log.next(start), Some(0));
        for millis in [0, 1, 999] {
            assert_eq!(log.next(start + Duration::from_millis(millis)), None);
        }
        assert_eq!(log.next(start + LOG_INTERVAL), Some(3));
        assert_eq!(log.next(start + LOG_INTERVAL), None);
    }
}
