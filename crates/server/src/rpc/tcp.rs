//! JSON-RPC over TCP: whom to accept, and how little they may do before they are trusted.
//!
//! With a token, a connection has a few seconds and a few kilobytes until it has shown it. Without one (older SDKs start
//! the runtime so, and never send `connect`) only processes of our own user, on this machine, are served: whoever can
//! reach a port is not whoever may use it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use baton_protocol::Json;
use baton_protocol::rpc::{Outgoing, RpcError, code};
use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::connection::Connection;
use super::limits::{Place, Places};
use super::peer::Peer;
use crate::Server;
use crate::wire::Outbox;

/// How long, and how much, is still read from a client that has been told that it is not served. Closing at once would
/// reset the connection, and what it was told would be lost.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES: u64 = 256 << 10;

/// Serves whoever connects, until the server stops.
pub(crate) async fn serve_tcp(server: &Arc<Server>, listener: TcpListener) -> io::Result<()> {
    let places = Places::new(server.options.rpc);
    loop {
        let accepted = tokio::select! {
            () = server.stopping.cancelled() => return Ok(()),
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => match places.enter() {
                Some(place) => {
                    drop(server.tasks.spawn(welcome(server.clone(), places.clone(), place, stream)));
                }
                // Not even told why: whoever connects faster than it is refused would cost a task each.
                None => tracing::warn!("too many JSON-RPC connections; closing a new one"),
            },
            // Out of descriptors, or a client that was gone before we looked: others may still come.
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// Serves a connection, if its peer may have one.
async fn welcome(server: Arc<Server>, places: Arc<Places>, place: OwnedSemaphorePermit, stream: TcpStream) {
    let (Ok(far), Ok(near)) = (stream.peer_addr(), stream.local_addr()) else { return };
    let peer = Peer::of(far, near).await;
    let token_required = server.options.connection_token.is_some();
    if !token_required && !peer.is_own_user() {
        tracing::warn!(peer = ?peer, "refused a JSON-RPC connection without a token: not a process of this user");
        return refuse(stream, &of_another_user()).await;
    }
    match places.claim(place, peer, token_required) {
        Some(place) => serve_stream(server, stream, place).await,
        None => {
            tracing::warn!(peer = ?peer, "refused a JSON-RPC connection: its peer has too many");
            refuse(stream, &RpcError::failed("too many connections; close some and try again")).await;
        }
    }
}

fn of_another_user() -> RpcError {
    let message = "AUTHENTICATION_REQUIRED: without a connection token only processes of the server's own user, on this \
                   machine, are served; start the server with COPILOT_CONNECTION_TOKEN";
    RpcError::new(code::AUTHENTICATION_REQUIRED, message)
}

async fn refuse(mut stream: TcpStream, why: &RpcError) {
    let Ok(frame) = Outgoing::response(&Json::null(), Err(why)).to_frame() else { return };
    let tell = async {
        stream.write_all(&frame).await?;
        stream.shutdown().await?;
        drain(&mut stream).await
    };
    drop(tokio::time::timeout(LINGER, tell).await);
}

/// Reads what still comes, up to a limit, and forgets it.
async fn drain(reader: &mut (impl AsyncRead + Unpin)) -> io::Result<()> {
    tokio::io::copy(&mut reader.take(LINGER_BYTES), &mut tokio::io::sink()).await.map(drop)
}

/// What a client may still do until its token has come.
struct Probation {
    bytes_left: usize,
    until: Instant,
}

async fn serve_stream(server: Arc<Server>, stream: TcpStream, mut place: Place) {
    // Small frames are answers that somebody waits for.
    drop(stream.set_nodelay(true));
    let limits = server.options.rpc;
    let (mut reader, writer) = stream.into_split();
    let outbox = Outbox::new(writer, server.options.max_backlog);
    let connection = Connection::new(&server, outbox.clone());
    let writer = server.tasks.spawn(async move { outbox.run().await });
    let mut buffer = BytesMut::with_capacity(8 * 1024);
    let mut probation =
        Probation { bytes_left: limits.bytes_before_token, until: Instant::now() + limits.time_before_token };
    loop {
        let admitted = connection.is_admitted();
        if admitted {
            place.admitted();
        }
        let most = if admitted { usize::MAX } else { probation.bytes_left };
        let heard = async {
            let read = (&mut reader).take(most as u64).read_buf(&mut buffer).await;
            let Some(count) = read.ok().filter(|count| *count > 0) else { return false };
            probation.bytes_left = probation.bytes_left.saturating_sub(count);
            let went_well = connection.receive(&mut buffer).await.is_ok();
            acknowledge(reader.as_ref());
            went_well
        };
        let over = connection.until_over(heard);
        let go_on = if admitted { over.await } else { in_time(over, probation.until).await };
        if !go_on {
            break;
        }
        if !connection.is_admitted() && probation.bytes_left == 0 {
            connection.answer(&Json::null(), &Err(too_much(limits.bytes_before_token)));
            break;
        }
    }
    let admitted = connection.is_admitted();
    connection.close();
    drop(writer.await);
    if !admitted {
        drop(tokio::time::timeout(LINGER, drain(&mut reader)).await);
    }
}

/// What the future says, or that it is over when the time is.
async fn in_time(over: impl Future<Output = bool>, until: Instant) -> bool {
    tokio::time::timeout_at(until, over).await.unwrap_or_else(|_| {
        tracing::debug!("closing a JSON-RPC connection whose token did not come in time");
        false
    })
}

fn too_much(limit: usize) -> RpcError {
    let message = format!("AUTHENTICATION_REQUIRED: no connection token within the first {limit} bytes");
    RpcError::new(code::AUTHENTICATION_REQUIRED, message)
}

/// Acknowledges at once what has come. SDKs write a frame's length and its body one after the other, and their kernel
/// keeps the body back until the length is acknowledged; ours would take its time, 40 ms for every call.
fn acknowledge(stream: &TcpStream) {
    #[cfg(target_os = "linux")]
    let _ = rustix::net::sockopt::set_tcp_quickack(stream, true);
    #[cfg(not(target_os = "linux"))]
    let _ = stream;
}
