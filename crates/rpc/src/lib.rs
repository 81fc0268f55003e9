//! The JSON-RPC door: the API of the official SDKs, on standard input and output or on TCP.
//!
//! [`connection`] reads frames and writes responses, [`methods`] is the table of all methods, [`frames`] encodes events, and
//! [`dialect`] has the differences between SDK versions. [`tcp`] accepts connections within [`limits`], of users that [`peer`]
//! looks up in the [`socket_table`]; [`refusal`] refuses the others. [`extensions`] are connections to programs that the door
//! starts itself.
//!
//! The door depends on the runtime and on no other door. It decides nothing about a session: it parses calls into asks, and
//! encodes replies and events.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests may block"))]

mod attachment;
mod connection;
mod dialect;
mod errors;
mod extensions;
mod frames;
mod limits;
mod methods;
mod peer;
mod refusal;
mod socket_table;
mod tcp;

use std::sync::Arc;

use baton_people::People;
use baton_runtime::Runtime;
use baton_service::{Operation, Service};
use baton_wire::{Shares, stdio};
use bytes::BytesMut;
use tokio::net::TcpListener;
use tracing::Instrument;

use self::connection::{ClientTransport, Connection};
use self::extensions::{DoorHost, Extensions};
pub use self::limits::RpcLimits;

/// Token and limits of the JSON-RPC door.
#[derive(Debug, Clone)]
pub struct RpcOptions {
    /// Token that clients must send in their first call. Without one, clients on TCP must be processes of the server's own
    /// user.
    pub token: Option<String>,
    /// People whose tokens are accepted, too, if their role allows it.
    pub people: Option<Arc<People>>,
    /// Limits of connections on TCP.
    pub limits: RpcLimits,
    /// Maximum size of a message that a client may send, in bytes.
    pub max_message: usize,
    /// Maximum number of bytes queued for a client that does not read. Its connection is closed when there are more.
    pub max_backlog: usize,
}

/// The JSON-RPC door of a server.
#[derive(Clone)]
pub struct RpcDoor {
    service: Service,
    /// What hosts extensions; nothing else of this door uses it.
    runtime: Arc<Runtime>,
    options: Arc<RpcOptions>,
    shares: Arc<Shares>,
    shared: Arc<Shared>,
}

/// What the connections of a door share.
#[derive(Default)]
struct Shared {
    extensions: Extensions,
    /// Each connection over TCP has a copy.
    open: Arc<()>,
}

impl RpcDoor {
    /// Creates the door of a server, which hosts the extensions of its sessions. It does not listen yet.
    #[must_use]
    pub fn new(runtime: &Arc<Runtime>, options: RpcOptions) -> Self {
        let shares = Shares::new(options.limits.max_per_person);
        let (service, runtime) = (Service::new(runtime), runtime.clone());
        let door = Self { service, runtime, options: Arc::new(options), shares, shared: Arc::default() };
        door.runtime.host_extensions(DoorHost::of(&door));
        door
    }

    /// Returns the number of open connections over TCP.
    #[must_use]
    pub fn connections(&self) -> usize {
        Arc::strong_count(&self.shared.open) - 1
    }

    /// Serves the one SDK that started this process over standard input and output, until input ends.
    ///
    /// # Errors
    /// When standard input or output cannot be used.
    pub async fn serve_stdio(&self) -> std::io::Result<()> {
        self.service.reap();
        let (input, output) = (stdio::Input::open()?, stdio::Output::open()?);
        // A tracked task, so that it ends in order even if the caller stops awaiting it when the server stops.
        drop(self.service.tasks().spawn(serve_pipes(self.clone(), input, output)).await);
        Ok(())
    }

    /// Serves SDKs over TCP until the server is stopped.
    ///
    /// # Errors
    /// When the listener fails.
    pub async fn serve_tcp(&self, listener: TcpListener) -> std::io::Result<()> {
        self.service.reap();
        tcp::serve(self, listener).await
    }
}

/// Returns each method of the protocol with its operation, which decides who may call it.
pub fn operations() -> impl Iterator<Item = (&'static str, Operation)> {
    methods::operations()
}

/// Whether an extension may call a method, for its own session. A user may call each that the role allows.
#[must_use]
pub fn is_for_extensions(method: &str) -> bool {
    extensions::may_call(method)
}

async fn serve_pipes(door: RpcDoor, input: stdio::Input, output: stdio::Output) {
    let (connection, writer) = Connection::open(&door, output, ClientTransport::Stdio);
    read_pipe(&connection, input).instrument(connection.span()).await;
    connection.last_response_sent().await;
    connection.close();
    drop(writer.await);
}

async fn read_pipe(connection: &Arc<Connection>, mut input: stdio::Input) {
    let mut buffer = BytesMut::with_capacity(64 * 1024);
    loop {
        let step = async {
            let read = input.read(&mut buffer).await;
            matches!(read, Ok(n) if n > 0) && connection.receive(&mut buffer).await.is_ok()
        };
        if !connection.while_open(step).await {
            break;
        }
    }
}
