//! Refusing connections at little cost to the server.
//!
//! A refused client is sent the reason, and its connection stays open for a moment, because closing it at once would reset it
//! and lose the reason. Only a few refused connections are open at a time; the others are closed at once.

use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use baton_protocol::Json;
use baton_protocol::rpc::{Outgoing, RpcError};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use super::peer::Peer;

/// Maximum time for which a refused connection is read.
pub(super) const LINGER: Duration = Duration::from_secs(1);
/// Maximum number of bytes that are read from a refused connection.
const LINGER_BYTES: u64 = 256 << 10;
/// Maximum number of refused connections that are open at a time.
const MAX_LINGERING: usize = 64;
/// Minimum time between two log entries.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// Refuses connections, and logs it.
pub(super) struct Refusals {
    lingering: Semaphore,
    log: Mutex<LogLimit>,
}

impl Refusals {
    pub(super) fn new() -> Self {
        Self::with_limit(MAX_LINGERING)
    }

    fn with_limit(limit: usize) -> Self {
        Self { lingering: Semaphore::new(limit), log: Mutex::default() }
    }

    /// Sends the client the reason, and closes its connection.
    pub(super) async fn refuse(&self, stream: TcpStream, peer: Peer, reason: &RpcError) {
        let due = self.log.lock().unwrap_or_else(PoisonError::into_inner).next(Instant::now());
        if let Some(unlogged) = due {
            tracing::warn!(%peer, reason = %reason.message, unlogged, "refused JSON-RPC connection");
        }
        if let Ok(_permit) = self.lingering.try_acquire() {
            send_reason(stream, reason).await;
        }
    }
}

async fn send_reason(mut stream: TcpStream, reason: &RpcError) {
    let Ok(frame) = Outgoing::response(&Json::null(), Err(reason)).to_frame() else { return };
    let send = async {
        stream.write_all(&frame).await?;
        stream.shutdown().await?;
        drain(&mut stream).await
    };
    drop(tokio::time::timeout(LINGER, send).await);
}

/// Reads and discards what the client still sends, up to a limit.
pub(super) async fn drain(reader: &mut (impl AsyncRead + Unpin)) -> io::Result<()> {
    tokio::io::copy(&mut reader.take(LINGER_BYTES), &mut tokio::io::sink()).await.map(drop)
}

/// Limits the log entries about refusals.
#[derive(Debug, Default)]
struct LogLimit {
    last: Option<Instant>,
    unlogged: u64,
}

impl LogLimit {
    /// Counts a refusal. Returns `None` if it is not logged, else the number of unlogged ones before it.
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

    /// Returns what a refused client receives.
    async fn received_from(refusals: &Refusals) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, peer) = listener.accept().await.unwrap();
        let mut received = String::new();
        let reason = RpcError::failed("no room");
        let refuse = refusals.refuse(stream, Peer::at(peer.ip()), &reason);
        let receive = async {
            client.read_to_string(&mut received).await.unwrap();
            drop(client);
        };
        tokio::join!(refuse, receive);
        received
    }

    #[tokio::test]
    async fn refused_client_receives_the_reason() {
        let refusals = Refusals::with_limit(1);
        assert!(received_from(&refusals).await.contains("no room"));
        assert!(received_from(&refusals).await.contains("no room"), "the permit is released");
    }

    #[tokio::test]
    async fn refused_connections_beyond_the_limit_are_closed_at_once() {
        let refusals = Refusals::with_limit(1);
        let _taken = refusals.lingering.try_acquire().unwrap();
        assert_eq!(received_from(&refusals).await, "");
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
