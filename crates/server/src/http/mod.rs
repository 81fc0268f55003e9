//! The HTTP door: for browsers, scripts and everything that is not an SDK.
//!
//! [`listen`] accepts and limits connections ([`linger`]: and closes them), [`guard`] decides who may pass ([`cors`]: which pages), [`api`] is the
//! session API, [`sse`] streams events, and [`v1`] is the workspace API of crush's client. What the door does with a session
//! it does as any other client: through its mailbox, in the same order.

mod api;
mod body;
mod cors;
mod ear;
mod error;
mod guard;
mod linger;
mod listen;
mod metrics;
mod readiness;
mod sse;
mod tls;
mod v1;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use tokio::sync::Semaphore;

pub use self::api::openapi;
use self::guard::RateLimit;
pub use self::listen::HttpListener;
use self::metrics::Metrics;
use self::readiness::Readiness;
pub use self::tls::{TlsError, TlsIdentity};
pub use self::v1::WorkspaceOptions;
use self::v1::Workspaces;
use crate::Server;

/// Who may use the door, and how much of it.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// What clients on TCP must bring; none means that whoever reaches the port may use it. Clients on a socket file
    /// need none: only its owner can open it.
    pub token: Option<String>,
    /// Names, besides those of this machine, under which the door may be addressed. Anything else is a page somewhere
    /// else whose name was made to point here.
    pub hosts: Vec<String>,
    /// Web pages, besides our own, that may use the door, as `scheme://host:port`.
    pub origins: Vec<String>,
    /// The largest body of a request, in bytes.
    pub max_body: usize,
    /// How many connections at once.
    pub max_connections: usize,
    /// How many of them may be streams of events.
    pub max_streams: usize,
    /// How many requests a second from one address, on average.
    pub requests_per_second: u32,
    /// How long a client may take to say what it wants, or to say nothing between two requests.
    pub header_time: Duration,
    /// How long the body of a request may take to arrive.
    pub body_time: Duration,
    /// How long workspaces live, and their runs.
    pub workspaces: WorkspaceOptions,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            token: None,
            hosts: Vec::new(),
            origins: Vec::new(),
            max_body: 64 << 20,
            max_connections: 4096,
            max_streams: 2048,
            requests_per_second: 2000,
            header_time: Duration::from_secs(10),
            body_time: Duration::from_secs(60),
            workspaces: WorkspaceOptions::default(),
        }
    }
}

/// What all requests share.
pub(crate) struct Door {
    pub(crate) server: Arc<Server>,
    pub(crate) options: HttpOptions,
    pub(crate) metrics: Metrics,
    pub(crate) streams: Arc<Semaphore>,
    workspaces: Arc<Workspaces>,
    readiness: Readiness,
    rate: RateLimit,
}

type Shared = Arc<Door>;

/// The HTTP door of a server; any number of listeners lead to it.
#[derive(Clone)]
pub struct HttpDoor {
    door: Shared,
    routes: Router,
}

impl HttpDoor {
    /// A door to a server. Listens to nothing yet.
    #[must_use]
    pub fn new(server: &Arc<Server>, options: HttpOptions) -> Self {
        let door = Arc::new(Door {
            server: server.clone(),
            metrics: Metrics::default(),
            streams: Arc::new(Semaphore::new(options.max_streams)),
            readiness: Readiness::default(),
            rate: RateLimit::new(options.requests_per_second),
            workspaces: Workspaces::new(server, &options.workspaces),
            options,
        });
        let routes = Router::new()
            .merge(api::routes())
            .nest("/v1", v1::routes())
            .fallback(error::no_such_place)
            .layer(DefaultBodyLimit::max(door.options.max_body))
            .layer(from_fn_with_state(door.clone(), guard::guard))
            .with_state(door.clone());
        Self { door, routes }
    }

    /// Serves a listener until the server stops.
    ///
    /// # Errors
    /// When the listener fails for good.
    pub async fn serve(&self, listener: HttpListener) -> std::io::Result<()> {
        self.door.server.reap();
        listen::serve(&self.door, self.routes.clone(), listener).await
    }
}
