//! The peer of a TCP connection: a user of this machine, if the system can name one.
//!
//! Every process that reaches the port can cause look-ups, and each needs a read of the kernel's [socket table]. So one
//! task reads the table, once for all connections that are waiting, and a flood of connections costs one thread at
//! most.
//!
//! [socket table]: super::socket_table

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use rustix::net::RecvFlags;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::TaskTracker;

use super::socket_table::{self, Ends, Owner};

/// Pause before the second read for a socket that the first did not list. The entry exists before the connection is
/// accepted, but the kernel can omit one from a read while other sockets open and close.
const PAUSE: Duration = Duration::from_millis(10);
/// Maximum number of connections that one read looks for; more wait for the next.
const MAX_BATCH: usize = 512;

/// The peer of a connection, by which connections are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Peer {
    /// A user of this machine.
    User(u32),
    /// An address, if the user is not known.
    Address(IpAddr),
}

impl Peer {
    /// Returns the peer at an address, whichever user it is. All loopback addresses are one peer: a process can connect from
    /// any of the 16 million, and would otherwise count as that many.
    pub(super) fn at(ip: IpAddr) -> Self {
        let ip = ip.to_canonical();
        Self::Address(if ip.is_loopback() { Ipv4Addr::LOCALHOST.into() } else { ip })
    }

    /// Whether the peer is a process of the user of this server.
    pub(super) fn is_own_user(self) -> bool {
        self == Self::User(rustix::process::geteuid().as_raw())
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(uid) => write!(f, "uid {uid}"),
            Self::Address(ip) => ip.fmt(f),
        }
    }
}

type ReadTable = dyn Fn(&str) -> io::Result<String> + Send + Sync;

/// Looks up the users of peers.
pub(super) struct Lookup {
    requests: mpsc::Sender<Request>,
}

struct Request {
    ends: Ends,
    reply: oneshot::Sender<Option<Owner>>,
}

impl Lookup {
    /// Starts the task that reads the table. It ends when the `Lookup` is dropped.
    pub(super) fn start(tasks: &TaskTracker) -> Self {
        Self::reading(tasks, socket_table::read_table)
    }

    /// Starts the task with a function that reads the table.
    pub(super) fn reading(
        tasks: &TaskTracker,
        read: impl Fn(&str) -> io::Result<String> + Send + Sync + 'static,
    ) -> Self {
        let (requests, queue) = mpsc::channel(MAX_BATCH);
        tasks.spawn(serve_requests(queue, Arc::new(read)));
        Self { requests }
    }

    /// Identifies the peer of a connection with at most two reads of the table. `None` when the peer has reset it.
    pub(super) async fn peer_of(&self, stream: &TcpStream) -> Option<Peer> {
        let (remote, local) = (stream.peer_addr().ok()?, stream.local_addr().ok()?);
        let unknown = Peer::at(remote.ip());
        if !remote.ip().to_canonical().is_loopback() {
            return Some(unknown);
        }
        let ends = Ends::new(remote, local);
        let mut owner = self.owner_of(ends).await;
        if owner.is_none() && !has_ended(stream) {
            tokio::time::sleep(PAUSE).await;
            owner = self.owner_of(ends).await;
        }
        // After a reset another process can connect from the same port, while data of the first can still be read: the table
        // would name the wrong user. A connection that is intact after the read was intact during it.
        stream.peer_addr().ok()?;
        Some(match owner {
            Some(Owner::User(uid)) => Peer::User(uid),
            Some(Owner::Closed) | None => unknown,
        })
    }

    /// Looks a connection up in a read that starts after this call.
    async fn owner_of(&self, ends: Ends) -> Option<Owner> {
        let (reply, found) = oneshot::channel();
        self.requests.send(Request { ends, reply }).await.ok()?;
        found.await.ok()?
    }
}

/// Serves requests with one read at a time, each for all requests that are queued.
async fn serve_requests(mut queue: mpsc::Receiver<Request>, read: Arc<ReadTable>) {
    let mut batch = Vec::new();
    while queue.recv_many(&mut batch, MAX_BATCH).await > 0 {
        let wanted = batch.iter().map(|request| request.ends).collect();
        let read = read.clone();
        let reading = tokio::task::spawn_blocking(move || socket_table::find_owners(&wanted, &*read));
        let found = reading.await.unwrap_or_default();
        for Request { ends, reply } in batch.drain(..) {
            // The caller may have stopped waiting.
            let _ = reply.send(found.get(&ends).copied());
        }
    }
}

/// Whether the peer has closed the connection, and everything it sent has been read.
fn has_ended(stream: &TcpStream) -> bool {
    let peeked = rustix::net::recv(stream, &mut [0], RecvFlags::PEEK | RecvFlags::DONTWAIT);
    !matches!(peeked, Ok((1.., _)) | Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR))
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Mutex, mpsc as blocking};

    use futures_util::future::join_all;
    use tokio::net::TcpListener;

    use super::*;
    use crate::socket_table::table_of;

    /// Opens a connection. Returns the client's end and the server's.
    async fn connected() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (client, listener.accept().await.unwrap().0)
    }

    /// Looks up in a constant table, and counts the reads.
    fn lookup_in(table: String) -> (Lookup, Arc<AtomicUsize>) {
        let readings = Arc::new(AtomicUsize::new(0));
        let counted = readings.clone();
        let lookup = Lookup::reading(&TaskTracker::new(), move |path| {
            // A read starts with the first of the two files.
            counted.fetch_add(usize::from(!path.ends_with('6')), Ordering::SeqCst);
            Ok(table.clone())
        });
        (lookup, readings)
    }

    fn ends_of(stream: &TcpStream) -> Ends {
        Ends::new(stream.peer_addr().unwrap(), stream.local_addr().unwrap())
    }

    #[tokio::test]
    #[cfg(target_os = "linux")]
    async fn own_connection_is_attributed_to_the_own_user() {
        let (_client, stream) = connected().await;
        assert!(Lookup::start(&TaskTracker::new()).peer_of(&stream).await.unwrap().is_own_user());
    }

    #[tokio::test]
    async fn one_read_serves_all_waiting_requests() {
        let local: SocketAddr = "127.0.0.1:8080".parse().unwrap();
        let all: Vec<Ends> =
            (0..50).map(|n| Ends::new(SocketAddr::new(local.ip(), 40_000 + n), local)).collect();
        let table = table_of(&all.iter().map(|ends| (*ends, Owner::User(1000))).collect::<Vec<_>>());
        let (start, mut started) = mpsc::unbounded_channel();
        let (release, released) = blocking::channel::<()>();
        let released = Mutex::new(released);
        let lookup = Lookup::reading(&TaskTracker::new(), move |_| {
            start.send(()).unwrap();
            released.lock().unwrap().recv().map_err(io::Error::other)?;
            Ok(table.clone())
        });
        let mut first = Box::pin(lookup.owner_of(all[0]));
        assert!(futures_util::poll!(&mut first).is_pending());
        started.recv().await.unwrap();
        let mut others = Box::pin(join_all(all[1..].iter().map(|ends| lookup.owner_of(*ends))));
        assert!(futures_util::poll!(&mut others).is_pending(), "they wait for the running reading");
        assert!(started.try_recv().is_err(), "one reading at a time");
        // Two reads are released; a third would hang.
        release.send(()).unwrap();
        release.send(()).unwrap();
        assert_eq!(first.await, Some(Owner::User(1000)));
        assert!(others.await.iter().all(|owner| *owner == Some(Owner::User(1000))));
    }

    #[tokio::test]
    async fn unlisted_peer_costs_two_reads() {
        let (_client, stream) = connected().await;
        let (lookup, readings) = lookup_in(String::new());
        let unknown = Peer::at(Ipv4Addr::LOCALHOST.into());
        assert_eq!(lookup.peer_of(&stream).await, Some(unknown));
        assert_eq!(readings.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn closed_peer_costs_one_read() {
        let unknown = Peer::at(Ipv4Addr::LOCALHOST.into());
        let (client, stream) = connected().await;
        drop(client);
        stream.readable().await.unwrap();
        let (lookup, readings) = lookup_in(String::new());
        assert_eq!(lookup.peer_of(&stream).await, Some(unknown), "not listed");
        assert_eq!(readings.load(Ordering::SeqCst), 1);
        let (_client, stream) = connected().await;
        let (lookup, readings) = lookup_in(table_of(&[(ends_of(&stream), Owner::Closed)]));
        assert_eq!(lookup.peer_of(&stream).await, Some(unknown), "listed as closed");
        assert_eq!(readings.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn reset_connection_is_not_attributed_to_the_next_owner_of_its_port() {
        let (client, stream) = connected().await;
        let client = Mutex::new(Some(client));
        let table = table_of(&[(ends_of(&stream), Owner::User(rustix::process::geteuid().as_raw()))]);
        let lookup = Lookup::reading(&TaskTracker::new(), move |_| {
            if let Some(client) = client.lock().unwrap().take() {
                rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
            }
            Ok(table.clone())
        });
        assert_eq!(lookup.peer_of(&stream).await, None);
    }

    #[test]
    fn loopback_addresses_are_one_peer() {
        let local = Peer::at(Ipv4Addr::LOCALHOST.into());
        for ip in ["127.0.0.2", "127.9.9.9", "::1", "::ffff:127.0.0.3"] {
            assert_eq!(Peer::at(ip.parse().unwrap()), local, "{ip}");
        }
        assert_ne!(Peer::at("192.0.2.1".parse().unwrap()), Peer::at("192.0.2.2".parse().unwrap()));
    }
}
