//! Opens connections to other servers, one for each, and channels on them.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use baton_protocol::{ClientId, SessionId};
use baton_runtime::Runtime;
use baton_runtime::session::remote::{Detail, Link, NewsBatch, Opening, Peers, ToOwner, Watching};
use baton_store::members::Member;
use tokio::net::TcpStream;
use tokio::sync::{Mutex, mpsc};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::connection::Connection;
use crate::encryption::{Encryption, Ungreeted, is_encrypted};
use crate::frame::Frame;
use crate::handshake::{self, ClusterSecret, LinkRole};

/// Time limit for connecting, with the handshake.
const CONNECT: Duration = Duration::from_secs(3);

/// Connections by the id of the other server. An entry is locked while its connection is made, so that there is one.
type Connections = HashMap<String, Arc<Mutex<Option<Arc<Connection>>>>>;

/// Links of one server to all others.
pub struct PeerLinks {
    /// Weak: the runtime owns its links.
    runtime: Weak<Runtime>,
    server: String,
    secret: ClusterSecret,
    connections: Mutex<Connections>,
    tasks: TaskTracker,
    stopping: CancellationToken,
}

impl PeerLinks {
    /// Creates the links of a server.
    #[must_use]
    pub fn new(runtime: &Arc<Runtime>, secret: ClusterSecret) -> Self {
        Self {
            runtime: Arc::downgrade(runtime),
            server: runtime.owner.server.clone(),
            secret,
            connections: Mutex::default(),
            tasks: runtime.tasks.clone(),
            stopping: runtime.stopping.clone(),
        }
    }

    async fn connection(&self, owner: &Member) -> io::Result<Arc<Connection>> {
        let entry = self.connections.lock().await.entry(owner.owner.server.clone()).or_default().clone();
        let mut entry = entry.lock().await;
        if let Some(connection) = entry.as_ref().filter(|connection| !connection.ended.is_cancelled()) {
            return Ok(connection.clone());
        }
        let connection = timeout(CONNECT, self.connect(owner)).await??;
        *entry = Some(connection.clone());
        Ok(connection)
    }

    async fn connect(&self, owner: &Member) -> io::Result<Arc<Connection>> {
        let stream = TcpStream::connect(&owner.address).await?;
        stream.set_nodelay(true)?;
        let mut ungreeted = match is_encrypted(&owner.address) {
            true => Encryption::new()?.connect(stream).await?,
            false => Ungreeted::plain(stream),
        };
        let role = LinkRole::Caller { callee: &owner.owner.server };
        let callee = handshake::greet(&mut ungreeted, &self.secret, &self.server, role).await?;
        let (reader, writer) = tokio::io::split(ungreeted.stream);
        let (connection, outgoing) = Connection::new(self.stopping.child_token());
        let held = connection.clone();
        self.tasks.spawn(async move {
            let ended = held.ended.clone();
            // The other end opens channels on connections of its own.
            let reading = held.read(reader, |_, _| {});
            let result = tokio::select! {
                result = reading => result,
                result = outgoing.write(writer, &ended) => result,
            };
            if let Err(error) = result {
                tracing::info!(server = callee, %error, "connection to another server ended");
            }
            held.end();
        });
        Ok(connection)
    }

    /// Opens a channel for changes of the other server's sessions.
    fn news(&self, connection: &Arc<Connection>, detail: Detail) -> mpsc::UnboundedReceiver<NewsBatch> {
        let channel = connection.next_channel();
        let (sender, news) = mpsc::unbounded_channel();
        connection.lock().news.insert(channel, sender.clone());
        connection.send(&Frame::Watch { channel, detail });
        let connection = connection.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = sender.closed() => {}
                () = connection.ended.cancelled() => {}
            }
            connection.lock().news.remove(&channel);
            connection.send(&Frame::CloseUp { channel });
        });
        news
    }

    fn channel(&self, connection: &Arc<Connection>, session: &SessionId) -> Link {
        let tap = self.runtime.upgrade().map_or(ClientId(0), |runtime| runtime.tap());
        let channel = connection.next_channel();
        let (to_owner, mut messages) = mpsc::unbounded_channel::<ToOwner>();
        let (from_owner_sender, from_owner) = mpsc::unbounded_channel();
        connection.lock().edges.insert(channel, from_owner_sender);
        connection.send(&Frame::Open { channel, session: session.clone(), tap });
        let connection = connection.clone();
        self.tasks.spawn(async move {
            loop {
                tokio::select! {
                    message = messages.recv() => match message {
                        Some(message) => connection.send(&Frame::Up { channel, message }),
                        None => break,
                    },
                    () = connection.ended.cancelled() => break,
                }
            }
            connection.lock().edges.remove(&channel);
            connection.send(&Frame::CloseUp { channel });
        });
        Link { to_owner, from_owner }
    }
}

impl Peers for PeerLinks {
    fn open<'a>(&'a self, owner: &'a Member, session: &'a SessionId) -> Opening<'a> {
        Box::pin(async move {
            let connection = self.connection(owner).await.map_err(|error| error.to_string())?;
            Ok(self.channel(&connection, session))
        })
    }

    fn watch<'a>(&'a self, server: &'a Member, detail: Detail) -> Watching<'a> {
        Box::pin(async move {
            let connection = self.connection(server).await.map_err(|error| error.to_string())?;
            Ok(self.news(&connection, detail))
        })
    }
}
