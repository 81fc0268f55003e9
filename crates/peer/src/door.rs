//! Accepts connections of other servers.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use baton_runtime::Runtime;
use baton_runtime::session::remote::{Detail, EdgeLink, FromOwner, NewsBatch, Service, serve};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::connection::Connection;
use crate::encryption::{Duplex, Encryption, Ungreeted, is_encrypted};
use crate::frame::Frame;
use crate::handshake::{self, ClusterSecret, LinkRole};
use crate::refusals::Refusals;
use crate::strangers::Strangers;

/// Time limit of the handshake.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// The listener for other servers.
pub struct PeerDoor {
    runtime: Arc<Runtime>,
    secret: ClusterSecret,
    strangers: Arc<Strangers>,
    refusals: Refusals,
}

impl PeerDoor {
    /// Creates the door of a runtime.
    #[must_use]
    pub fn new(runtime: &Arc<Runtime>, secret: ClusterSecret) -> Self {
        Self { runtime: runtime.clone(), secret, strangers: Strangers::new(), refusals: Refusals::default() }
    }

    /// Accepts connections until the runtime stops.
    ///
    /// # Errors
    /// When the listener fails.
    pub async fn serve(self, listener: TcpListener) -> io::Result<()> {
        self.runtime.note_listener(listener.local_addr().ok());
        let encryption = match is_encrypted(&listener.local_addr()?.to_string()) {
            true => Some(Arc::new(Encryption::new()?)),
            false => None,
        };
        let door = Arc::new(self);
        loop {
            let (stream, address) = tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, address)) => (stream, address.ip()),
                    Err(error) => {
                        // Out of files, usually: others end.
                        tracing::warn!(%error, "cannot accept a connection of another server");
                        tokio::time::sleep(Duration::from_millis(100)).await;
                        continue;
                    }
                },
                () = door.runtime.stopping.cancelled() => return Ok(()),
            };
            let (stranger, evicted) = door.strangers.admit(address);
            let (door, encryption) = (door.clone(), encryption.clone());
            let tasks = door.runtime.tasks.clone();
            tasks.spawn(async move {
                let greeted = tokio::select! {
                    greeted = door.greet(stream, encryption.as_deref()) => greeted,
                    Ok(()) = evicted => Err(io::Error::other("too many connections without a handshake")),
                };
                drop(stranger);
                match greeted {
                    Ok((stream, server)) => door.hold(stream, &server).await,
                    Err(error) => {
                        if let Some(count) = door.refusals.note(Instant::now()) {
                            tracing::warn!(%error, count, "refused connections to the peer port");
                        }
                    }
                }
            });
        }
    }

    async fn greet(
        &self,
        stream: TcpStream,
        encryption: Option<&Encryption>,
    ) -> io::Result<(Box<dyn Duplex>, String)> {
        stream.set_nodelay(true)?;
        let greeting = async {
            let mut ungreeted = match encryption {
                Some(encryption) => encryption.accept(stream).await?,
                None => Ungreeted::plain(stream),
            };
            let us = &self.runtime.owner.server;
            let server = handshake::greet(&mut ungreeted, &self.secret, us, LinkRole::Listener).await?;
            Ok((ungreeted.stream, server))
        };
        timeout(HANDSHAKE, greeting).await?
    }

    /// Serves an accepted connection.
    async fn hold(&self, stream: Box<dyn Duplex>, server: &str) {
        let (reader, writer) = tokio::io::split(stream);
        let (connection, outgoing) = Connection::new(self.runtime.stopping.child_token());
        let ended = connection.ended.clone();
        let reading = connection.read(reader, |connection, frame| self.open(connection, frame));
        let result = tokio::select! {
            result = reading => result,
            result = outgoing.write(writer, &ended) => result,
        };
        if let Err(error) = result {
            tracing::debug!(server, %error, "connection of another server ended");
        }
        connection.end();
    }

    /// Sends changes of this server's sessions, until the other end closes the channel.
    fn report(&self, connection: &Arc<Connection>, channel: u64, detail: Detail) {
        let Some(watcher) = self.runtime.watcher(detail) else { return };
        let (closing, mut closed) = mpsc::unbounded_channel();
        connection.lock().owners.insert(channel, closing);
        let connection = connection.clone();
        self.runtime.tasks.spawn(async move {
            let reporting = async {
                loop {
                    for NewsBatch { sessions, briefs } in watcher.next().await {
                        // What changes meanwhile is sent once, as it is then.
                        if !connection.relieved().await {
                            return;
                        }
                        connection.send(&Frame::News { channel, sessions, briefs });
                    }
                }
            };
            tokio::select! {
                () = reporting => {}
                _ = closed.recv() => {}
                () = connection.ended.cancelled() => {}
            }
        });
    }

    fn open(&self, connection: &Arc<Connection>, frame: Frame) {
        let (channel, session, tap) = match frame {
            Frame::Open { channel, session, tap } => (channel, session, tap),
            Frame::Watch { channel, detail } => return self.report(connection, channel, detail),
            _ => return,
        };
        let (from_edge_sender, from_edge) = mpsc::unbounded_channel();
        let (to_edge, mut messages) = mpsc::unbounded_channel::<FromOwner>();
        connection.lock().owners.insert(channel, from_edge_sender);
        let handle = self.runtime.registry.open(&self.runtime, &session);
        let (tasks, tunnel) = (self.runtime.tasks.clone(), self.runtime.models.tunnel.clone());
        let service = Service { handle, tasks, tunnel };
        self.runtime.tasks.spawn(serve(service, tap, EdgeLink { to_edge, from_edge }));
        let connection = connection.clone();
        self.runtime.tasks.spawn(async move {
            while let Some(message) = messages.recv().await {
                connection.send(&Frame::Down { channel, message });
            }
            connection.lock().owners.remove(&channel);
            connection.send(&Frame::CloseDown { channel });
        });
    }
}
