//! JSON-RPC over TCP: whom to accept, and how little they may do before they are trusted.
//!
//! With a token, a connection has a few seconds and a few kilobytes until it has shown it. Without one (older SDKs start
//! the runtime so, and never send `connect`) only processes of our own user, on this machine, are served: whoever can
//! reach a port is not whoever may use it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use baton_protocol::Json;
use baton_protocol::rpc::{RpcError, code};
use bytes::BytesMut;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::connection::Connection;
use super::limits::{Place, Places, RpcLimits};
use super::peer::{Lookup, Peer};
use super::refusal::{LINGER, Refusals, drain};
use crate::Server;
use crate::wire::Outbox;

/// The most connections that have been accepted while their peer is not yet known. One reading of the socket table serves
/// them all, so a larger number empties the kernel's queue faster; a full queue makes clients try again after a second.
const MAX_ARRIVING: usize = 512;

/// Serves whoever connects, until the server stops.
pub(crate) async fn serve_tcp(server: &Arc<Server>, listener: TcpListener) -> io::Result<()> {
    let entry = match server.options.connection_token {
        Some(_) => Entry::WithToken(Lookup::start()),
        None => Entry::OwnUser(Lookup::start()),
    };
    let door = Arc::new(Door::new(server.options.rpc, entry));
    let arrivals = Arc::new(Semaphore::new(MAX_ARRIVING));
    loop {
        // Beyond the limit, connections wait in the kernel's queue. Closing them instead would let another user's flood
        // close the owner's; and none of those that were accepted keeps the others waiting, because a look-up is short.
        let accepted = tokio::select! {
            () = server.stopping.cancelled() => return Ok(()),
            accepted = accept(&listener, &arrivals) => accepted,
        };
        match accepted {
            Ok((stream, arrival)) => {
                drop(server.tasks.spawn(welcome(server.clone(), door.clone(), arrival, stream)));
            }
            // Out of descriptors, or a client that was gone before we looked: others may still come.
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

async fn accept(
    listener: &TcpListener,
    arrivals: &Arc<Semaphore>,
) -> io::Result<(TcpStream, OwnedSemaphorePermit)> {
    let arrival = arrivals.clone().acquire_owned().await.map_err(io::Error::other)?;
    Ok((listener.accept().await?.0, arrival))
}

/// Serves a connection, if its peer may have one.
async fn welcome(server: Arc<Server>, door: Arc<Door>, arrival: OwnedSemaphorePermit, stream: TcpStream) {
    let Some(peer) = door.identify(&stream).await else { return };
    let admitted = door.admit_or_tell_apart(peer, &stream).await;
    drop(arrival);
    match admitted {
        Ok(place) => {
            drop(door);
            serve_stream(server, stream, place).await;
        }
        Err(why) => door.refusals.refuse(stream, peer, &why).await,
    }
}

/// What a connection has to show.
enum Entry {
    /// A token, in its first call. Whose connection it is matters only where there are too many from one address.
    WithToken(Lookup),
    /// Nothing, but its process has to be of our own user.
    OwnUser(Lookup),
}

/// Decides who gets a place. A connection that is not served never holds one, so others cannot take the owner's.
struct Door {
    entry: Entry,
    places: Arc<Places>,
    refusals: Refusals,
}

impl Door {
    fn new(limits: RpcLimits, entry: Entry) -> Self {
        Self { entry, places: Places::new(limits), refusals: Refusals::new() }
    }

    /// Identifies the peer as far as it matters; `None` when it has left.
    async fn identify(&self, stream: &TcpStream) -> Option<Peer> {
        match &self.entry {
            Entry::WithToken(_) => Some(Peer::at(stream.peer_addr().ok()?.ip())),
            Entry::OwnUser(lookup) => lookup.peer_of(stream).await,
        }
    }

    /// Gives a peer a place. Where its address has too many, users of this machine are told apart, so that one of them cannot
    /// keep the others out.
    async fn admit_or_tell_apart(&self, peer: Peer, stream: &TcpStream) -> Result<Place, RpcError> {
        let refusal = match (self.admit(peer), &self.entry) {
            (Err(refusal), Entry::WithToken(lookup)) => match lookup.peer_of(stream).await {
                Some(user @ Peer::User(_)) => return self.admit(user),
                _ => refusal,
            },
            (admitted, _) => return admitted,
        };
        Err(refusal)
    }

    fn admit(&self, peer: Peer) -> Result<Place, RpcError> {
        let waits_for_token = match self.entry {
            Entry::WithToken(_) => true,
            Entry::OwnUser(_) if peer.is_own_user() => false,
            Entry::OwnUser(_) => return Err(of_another_user()),
        };
        let place = self.places.claim(peer, waits_for_token);
        place.ok_or_else(|| RpcError::failed("too many connections; close some and try again"))
    }
}

fn of_another_user() -> RpcError {
    let message = "AUTHENTICATION_REQUIRED: without a connection token only processes of the server's own user, on this \
                   machine, are served; start the server with COPILOT_CONNECTION_TOKEN";
    RpcError::new(code::AUTHENTICATION_REQUIRED, message)
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

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: RpcLimits = RpcLimits {
        max_connections: 2,
        max_per_peer: 2,
        max_waiting_per_peer: 1,
        bytes_before_token: 10,
        time_before_token: Duration::from_secs(1),
    };

    fn own_user() -> Peer {
        Peer::User(rustix::process::geteuid().as_raw())
    }

    /// The door of a server without a token, where no look-up finds anybody.
    fn own_users_door() -> Door {
        Door::new(LIMITS, Entry::OwnUser(Lookup::reading(|_| Ok(String::new()))))
    }

    #[tokio::test]
    async fn other_users_take_no_places() {
        let door = own_users_door();
        let other = Peer::User(rustix::process::geteuid().as_raw() + 1);
        for peer in [other, Peer::at([127, 0, 0, 1].into()), Peer::at([192, 0, 2, 1].into())] {
            let why = door.admit(peer).map(drop).unwrap_err();
            assert!(why.message.contains("AUTHENTICATION_REQUIRED"), "{peer:?}: {}", why.message);
            assert_eq!(door.places.free(), 2, "{peer:?}");
        }
        let own = [door.admit(own_user()).unwrap(), door.admit(own_user()).unwrap()];
        assert!(door.admit(own_user()).is_err(), "two are enough");
        drop(own);
        assert_eq!(door.places.free(), 2);
    }

    #[tokio::test]
    async fn connection_holds_no_place_while_its_peer_is_looked_up() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let door = own_users_door();
        let mut looking = Box::pin(door.identify(&stream));
        assert!(futures_util::poll!(&mut looking).is_pending());
        assert_eq!(door.places.free(), 2);
        let peer = looking.await.unwrap();
        let why = door.admit(peer).map(drop).unwrap_err();
        let refusing = door.refusals.refuse(stream, peer, &why);
        assert!(futures_util::poll!(Box::pin(refusing)).is_pending(), "the client has not closed its end");
        assert_eq!(door.places.free(), 2);
    }

    #[tokio::test]
    async fn peers_with_a_token_are_counted_by_address() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, far) = listener.accept().await.unwrap();
        let door = Door::new(LIMITS, Entry::WithToken(Lookup::reading(|_| Ok(String::new()))));
        let peer = door.identify(&stream).await.unwrap();
        assert_eq!(peer, Peer::at(far.ip()));
        let mut first = door.admit(peer).unwrap();
        assert!(door.admit(peer).is_err(), "one waits for its token already");
        first.admitted();
        assert!(door.admit(peer).is_ok());
    }

    #[tokio::test]
    async fn users_are_told_apart_where_their_address_has_too_many_connections() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, far) = listener.accept().await.unwrap();
        let nobody = Door::new(LIMITS, Entry::WithToken(Lookup::reading(|_| Ok(String::new()))));
        let _others = nobody.admit(Peer::at(far.ip())).unwrap();
        let told = nobody.admit_or_tell_apart(Peer::at(far.ip()), &stream).await;
        assert!(told.is_err(), "a user that is not found is one of the address");
        let door = Door::new(LIMITS, Entry::WithToken(Lookup::start()));
        let _others = door.admit(Peer::at(far.ip())).unwrap();
        assert!(door.admit_or_tell_apart(Peer::at(far.ip()), &stream).await.is_ok());
    }
}
