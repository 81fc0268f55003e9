//! JSON-RPC over TCP: which connections are accepted, and what clients may do before they have sent a token.
//!
//! With a token, a connection has a few seconds and a few kilobytes until it has sent it. Without one (older SDKs start
//! the server that way, and never call `connect`) only processes of the server's own user, on this machine, are served:
//! every user of the machine can reach the port.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use baton_protocol::Json;
use baton_protocol::rpc::{RpcError, code};
use bytes::BytesMut;
use tokio::io::AsyncReadExt;
use tokio::net::tcp::OwnedReadHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tracing::Instrument;

use super::RpcDoor;
use super::connection::{ClientTransport, Connection};
use super::limits::{ConnectionSlot, ConnectionSlots, RpcLimits};
use super::peer::{Lookup, Peer};
use super::refusal::{LINGER, Refusals, drain};

/// Maximum number of accepted connections whose peer is being identified. One read of the socket table serves them all,
/// so a larger number empties the kernel's queue faster; a full queue makes clients try again after a second.
const MAX_IDENTIFYING: usize = 512;

/// Serves connections until the server stops.
pub(crate) async fn serve(door: &RpcDoor, listener: TcpListener) -> io::Result<()> {
    let service = &door.service;
    service.note_listener(listener.local_addr().ok());
    let lookup = Lookup::start(service.tasks());
    let access = match door.options.token {
        Some(_) => Access::Token(lookup),
        None => Access::OwnUser(lookup),
    };
    let admission = Arc::new(Admission::new(door.options.limits, access));
    let identifying = Arc::new(Semaphore::new(MAX_IDENTIFYING));
    loop {
        // Beyond the limit, connections wait in the kernel's queue. Closing them instead would let another user's flood close
        // the owner's. Accepted connections do not block the queue for long, because a look-up is short.
        let accepted = tokio::select! {
            () = service.stopping().cancelled() => return Ok(()),
            accepted = accept(&listener, &identifying) => accepted,
        };
        match accepted {
            Ok((stream, permit)) => {
                drop(service.tasks().spawn(admit_and_serve(door.clone(), admission.clone(), permit, stream)));
            }
            // Out of descriptors, or the client has disconnected: the next connection may succeed.
            Err(error) => {
                tracing::warn!(%error, "failed to accept a JSON-RPC connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

async fn accept(
    listener: &TcpListener,
    identifying: &Arc<Semaphore>,
) -> io::Result<(TcpStream, OwnedSemaphorePermit)> {
    let permit = identifying.clone().acquire_owned().await.map_err(io::Error::other)?;
    Ok((listener.accept().await?.0, permit))
}

/// Serves a connection if its peer is admitted, or refuses it.
async fn admit_and_serve(
    door: RpcDoor,
    admission: Arc<Admission>,
    identifying: OwnedSemaphorePermit,
    stream: TcpStream,
) {
    let Some(peer) = admission.identify(&stream).await else { return };
    let admitted = admission.admit(peer, &stream).await;
    drop(identifying);
    match admitted {
        Ok((peer, slot)) => {
            drop(admission);
            let _open = door.shared.open.clone();
            serve_stream(door, stream, peer, slot).await;
        }
        Err(reason) => admission.refusals.refuse(stream, peer, &reason).await,
    }
}

/// Condition for connecting.
enum Access {
    /// A token in the first call. The user of a connection matters only if its address has too many.
    Token(Lookup),
    /// The connection is from a process of the server's own user.
    OwnUser(Lookup),
}

/// Decides which connections get a slot. A refused connection never has one, so it cannot displace the owner's.
struct Admission {
    access: Access,
    slots: Arc<ConnectionSlots>,
    refusals: Refusals,
}

impl Admission {
    fn new(limits: RpcLimits, access: Access) -> Self {
        Self { access, slots: ConnectionSlots::new(limits), refusals: Refusals::new() }
    }

    /// Identifies the peer as far as the condition for connecting needs it; `None` if it has disconnected.
    async fn identify(&self, stream: &TcpStream) -> Option<Peer> {
        match &self.access {
            Access::Token(_) => Some(Peer::at(stream.peer_addr().ok()?.ip())),
            Access::OwnUser(lookup) => lookup.peer_of(stream).await,
        }
    }

    /// Gives a peer a slot. If its address has too many connections, users of this machine are counted separately, so that
    /// one of them cannot lock the others out.
    async fn admit(&self, peer: Peer, stream: &TcpStream) -> Result<(Peer, ConnectionSlot), RpcError> {
        let refusal = match (self.acquire(peer), &self.access) {
            (Ok(slot), _) => return Ok((peer, slot)),
            (Err(refusal), Access::OwnUser(_)) => return Err(refusal),
            (Err(refusal), Access::Token(lookup)) => match lookup.peer_of(stream).await {
                Some(user @ Peer::User(_)) => return Ok((user, self.acquire(user)?)),
                _ => refusal,
            },
        };
        Err(refusal)
    }

    fn acquire(&self, peer: Peer) -> Result<ConnectionSlot, RpcError> {
        let waits_for_token = match self.access {
            Access::Token(_) => true,
            Access::OwnUser(_) if peer.is_own_user() => false,
            Access::OwnUser(_) => return Err(other_user()),
        };
        let slot = self.slots.acquire(peer, waits_for_token);
        slot.ok_or_else(|| RpcError::failed("too many connections; close some and try again"))
    }
}

fn other_user() -> RpcError {
    let message = "AUTHENTICATION_REQUIRED: without a connection token only processes of the runtime's own user, on this \
                   machine, are served; start the runtime with COPILOT_CONNECTION_TOKEN";
    RpcError::new(code::AUTHENTICATION_REQUIRED, message)
}

async fn serve_stream(door: RpcDoor, stream: TcpStream, peer: Peer, mut slot: ConnectionSlot) {
    // Clients wait for small frames: responses.
    drop(stream.set_nodelay(true));
    let (mut reader, writer) = stream.into_split();
    let (connection, writer) = Connection::open(&door, writer, ClientTransport::Tcp(peer));
    read_stream(&connection, &mut reader, &mut slot).instrument(connection.span()).await;
    let admitted = connection.is_admitted();
    connection.close();
    drop(writer.await);
    if !admitted {
        drop(tokio::time::timeout(LINGER, drain(&mut reader)).await);
    }
}

/// Reads from a client until the connection ends, or the client exceeds a limit without having sent its token.
async fn read_stream(connection: &Arc<Connection>, reader: &mut OwnedReadHalf, slot: &mut ConnectionSlot) {
    let limits = connection.options.limits;
    let mut buffer = BytesMut::with_capacity(8 * 1024);
    let (mut bytes_left, deadline) = (limits.bytes_before_token, Instant::now() + limits.time_before_token);
    loop {
        let admitted = connection.is_admitted();
        if admitted {
            slot.admitted();
        }
        let limit = if admitted { usize::MAX } else { bytes_left };
        let step = async {
            let read = (&mut *reader).take(limit as u64).read_buf(&mut buffer).await;
            let Some(count) = read.ok().filter(|count| *count > 0) else { return false };
            bytes_left = bytes_left.saturating_sub(count);
            let valid = connection.receive(&mut buffer).await.is_ok();
            acknowledge((*reader).as_ref());
            valid
        };
        let step = connection.while_open(step);
        let more = if admitted { step.await } else { before_deadline(connection, step, deadline).await };
        if !more {
            break;
        }
        if !connection.is_admitted() && bytes_left == 0 {
            connection.respond(&Json::null(), &Err(no_token_within(limits.bytes_before_token)));
            break;
        }
    }
}

/// Awaits a future, and returns its value; `false` at the deadline for the token, if none was accepted by then.
async fn before_deadline(
    connection: &Connection,
    step: impl Future<Output = bool>,
    deadline: Instant,
) -> bool {
    let mut step = std::pin::pin!(step);
    match tokio::time::timeout_at(deadline, &mut step).await {
        Ok(more) => more,
        // Tokens of people are checked beside the connection.
        Err(_) if connection.is_admitted() => step.await,
        Err(_) => {
            tracing::debug!("no connection token within the time limit; closing connection");
            false
        }
    }
}

fn no_token_within(limit: usize) -> RpcError {
    let message = format!("AUTHENTICATION_REQUIRED: no connection token within the first {limit} bytes");
    RpcError::new(code::AUTHENTICATION_REQUIRED, message)
}

/// Acknowledges received data at once. SDKs write the length of a frame and then its body, and their kernel sends the body only
/// when the length is acknowledged; without this, ours delays that by 40 ms for every call.
fn acknowledge(stream: &TcpStream) {
    #[cfg(target_os = "linux")]
    let _ = rustix::net::sockopt::set_tcp_quickack(stream, true);
    #[cfg(not(target_os = "linux"))]
    let _ = stream;
}

#[cfg(test)]
mod tests {
    use tokio_util::task::TaskTracker;

    use super::*;

    const LIMITS: RpcLimits = RpcLimits {
        max_connections: 2,
        max_per_peer: 2,
        max_per_person: 1,
        max_waiting_per_peer: 1,
        bytes_before_token: 10,
        time_before_token: Duration::from_secs(1),
    };

    fn own_user() -> Peer {
        Peer::User(rustix::process::geteuid().as_raw())
    }

    /// Returns a look-up that finds no user.
    fn empty_lookup() -> Lookup {
        Lookup::reading(&TaskTracker::new(), |_| Ok(String::new()))
    }

    /// Returns the admission to a server without a token.
    fn own_user_only() -> Admission {
        Admission::new(LIMITS, Access::OwnUser(empty_lookup()))
    }

    /// Connects to a listener on loopback. Returns the client's end and the server's.
    async fn connected() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (client, listener.accept().await.unwrap().0)
    }

    #[tokio::test]
    async fn other_users_get_no_slots() {
        let admission = own_user_only();
        let other = Peer::User(rustix::process::geteuid().as_raw() + 1);
        for peer in [other, Peer::at([127, 0, 0, 1].into()), Peer::at([192, 0, 2, 1].into())] {
            let reason = admission.acquire(peer).map(drop).unwrap_err();
            assert!(reason.message.contains("AUTHENTICATION_REQUIRED"), "{peer:?}: {}", reason.message);
            assert_eq!(admission.slots.free(), 2, "{peer:?}");
        }
        let own = [admission.acquire(own_user()).unwrap(), admission.acquire(own_user()).unwrap()];
        assert!(admission.acquire(own_user()).is_err(), "the limit is two");
        drop(own);
        assert_eq!(admission.slots.free(), 2);
    }

    #[tokio::test]
    async fn connection_has_no_slot_while_its_peer_is_looked_up() {
        let (_client, stream) = connected().await;
        let admission = own_user_only();
        let mut lookup = Box::pin(admission.identify(&stream));
        assert!(futures_util::poll!(&mut lookup).is_pending());
        assert_eq!(admission.slots.free(), 2);
        let peer = lookup.await.unwrap();
        let reason = admission.acquire(peer).map(drop).unwrap_err();
        let refusing = admission.refusals.refuse(stream, peer, &reason);
        assert!(futures_util::poll!(Box::pin(refusing)).is_pending(), "the client has not closed its end");
        assert_eq!(admission.slots.free(), 2);
    }

    #[tokio::test]
    async fn peers_with_a_token_are_counted_by_address() {
        let (_client, stream) = connected().await;
        let address = Peer::at(stream.peer_addr().unwrap().ip());
        let admission = Admission::new(LIMITS, Access::Token(empty_lookup()));
        assert_eq!(admission.identify(&stream).await, Some(address));
        let mut first = admission.acquire(address).unwrap();
        assert!(admission.acquire(address).is_err(), "one without a token is the limit");
        first.admitted();
        assert!(admission.acquire(address).is_ok());
    }

    #[tokio::test]
    async fn users_are_counted_separately_if_their_address_has_too_many_connections() {
        let (_client, stream) = connected().await;
        let address = Peer::at(stream.peer_addr().unwrap().ip());
        let unknown = Admission::new(LIMITS, Access::Token(empty_lookup()));
        let _others = unknown.acquire(address).unwrap();
        assert!(unknown.admit(address, &stream).await.is_err(), "an unknown user counts by address");
        let known = Admission::new(LIMITS, Access::Token(Lookup::start(&TaskTracker::new())));
        let _others = known.acquire(address).unwrap();
        assert_eq!(known.admit(address, &stream).await.map(|(peer, _)| peer).ok(), Some(own_user()));
    }
}
