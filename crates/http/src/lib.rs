//! The HTTP door: for browsers, scripts and every other client that is not an SDK.
//!
//! [`listen`] accepts connections within the limits of [`slots`], [`linger`] closes them, [`guard`] authenticates each request,
//! and [`cors`] admits the web pages of other origins, [`login`] exchanges links for cookies, [`api`] is the session API,
//! [`sse`] streams the events of a session, and [`feed`] the changes of all sessions. Other APIs are mounted beside the session
//! API ([`HttpDoor::mount`]), behind the same guard and limits; neither knows the other.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests may block"))]

mod api;
mod body;
mod cors;
mod error;
mod feed;
mod guard;
mod linger;
mod listen;
mod login;
mod memory;
mod metrics;
mod oauth;
mod replay;
mod slots;
mod sse;
mod tls;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::routing::get;

pub use self::api::describe_api;
use self::feed::Feed;
use self::guard::RateLimit;
pub use self::listen::HttpListener;
use self::memory::PersonalMemory;
use self::metrics::DoorMetrics;
pub use self::replay::serve_recording;
pub use self::tls::{TlsError, TlsIdentity};
use baton_people::People;
use baton_service::{Operation, Service};
use baton_wire::EventStreams;

/// Access rules and limits of the HTTP door.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// Token of the owner. Clients on TCP must send it, or authenticate as a person; without a token, every client that reaches
    /// the port has access. Clients on a socket file need none: only its owner can open it.
    pub token: Option<String>,
    /// Additional host names to accept. A request for any other name comes from a foreign web page whose name was made to
    /// resolve to this machine (DNS rebinding).
    pub hosts: Vec<String>,
    /// Origins of foreign web pages to accept, as `scheme://host:port`.
    pub origins: Vec<String>,
    /// Maximum size of a request body, in bytes.
    pub max_body: usize,
    /// Maximum number of open connections. Those without an authorised request have a quarter of them for each address, and one
    /// person an eighth.
    pub max_connections: usize,
    /// Maximum number of open event streams. One person may have an eighth of them.
    pub max_streams: usize,
    /// Maximum average number of requests per second from one address.
    pub requests_per_second: u32,
    /// Time limit for the head of a request, and for the pause between two requests.
    pub header_time: Duration,
    /// Time limit for the body of a request.
    pub body_time: Duration,
    /// Number of bytes queued for a slow reader of events at which its connection is closed.
    pub max_backlog: usize,
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
            max_backlog: 64 << 20,
        }
    }
}

/// State shared by all requests.
pub(crate) struct Door {
    pub(crate) service: Service,
    pub(crate) options: HttpOptions,
    pub(crate) metrics: DoorMetrics,
    pub(crate) streams: EventStreams,
    /// Bodies of requests that arrive.
    pub(crate) bodies: Arc<PersonalMemory>,
    /// Responses that are built or have not been read.
    pub(crate) unread: PersonalMemory,
    /// People besides the owner; none for a server of one session.
    pub(crate) people: Option<Arc<People>>,
    pub(crate) page: Option<WebApp>,
    pub(crate) feed: Arc<Feed>,
    rate: RateLimit,
    /// Whether a listener has TLS.
    has_tls: AtomicBool,
}

impl Door {
    pub(crate) fn has_tls(&self) -> bool {
        self.has_tls.load(Ordering::Relaxed)
    }
}

/// Returns the routes of the session API: method, path, and the operation, which decides who may; none for those that need no
/// login.
#[must_use]
pub fn operations() -> Vec<(http::Method, &'static str, Option<Operation>)> {
    api::table().into_iter().map(|route| (route.method, route.path, route.operation)).collect()
}

/// A web application, which is served without a login.
#[derive(Clone)]
pub struct WebApp {
    /// Its routes, including `/`.
    pub routes: Router,
    /// Whether a path is one of its routes.
    pub serves: fn(&str) -> bool,
}

type Shared = Arc<Door>;

/// The HTTP door of a server. It can serve any number of listeners.
#[derive(Clone)]
pub struct HttpDoor {
    door: Shared,
    mounted: Router,
}

impl HttpDoor {
    /// Creates a door to a server. [`Self::serve`] starts listening.
    #[must_use]
    pub fn new(service: &Service, options: HttpOptions) -> Self {
        Self::with_page(service, options, None, None)
    }

    /// Creates a door that knows people besides the owner, and serves a page.
    #[must_use]
    pub fn with_page(
        service: &Service,
        options: HttpOptions,
        people: Option<Arc<People>>,
        page: Option<WebApp>,
    ) -> Self {
        let door = Arc::new(Door {
            people,
            page,
            feed: Feed::of(service),
            service: service.clone(),
            metrics: DoorMetrics::default(),
            streams: EventStreams::new(options.max_streams),
            bodies: Arc::default(),
            unread: PersonalMemory::default(),
            rate: RateLimit::new(options.requests_per_second),
            has_tls: AtomicBool::new(false),
            options,
        });
        Self { door, mounted: Router::new() }
    }

    /// Adds the routes of an API under a path, behind the same guard and limits. Its clients connect as SDKs do.
    #[must_use]
    pub fn mount(self, path: &str, routes: Router) -> Self {
        let routes = routes.layer(from_fn_with_state(Operation::Connect, guard::permit));
        Self { mounted: self.mounted.nest(path, routes), ..self }
    }

    /// Returns the event streams, which all APIs of this door share.
    #[must_use]
    pub fn streams(&self) -> EventStreams {
        self.door.streams.clone()
    }

    /// Returns the number of open connections.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.door.metrics.connections.load(Ordering::Relaxed)
    }

    /// Returns the number of responses since the start.
    #[must_use]
    pub fn responses(&self) -> u64 {
        self.door.metrics.responses()
    }

    /// Serves a listener until the server stops.
    ///
    /// # Errors
    /// When the listener fails permanently.
    pub async fn serve(&self, listener: HttpListener) -> std::io::Result<()> {
        self.door.service.reap();
        self.land(&listener);
        listen::serve(&self.door, self.routes(), listener).await
    }

    /// Lets browsers return to this door after logins.
    fn land(&self, listener: &HttpListener) {
        let (scheme, listener) = match listener {
            HttpListener::Tcp(listener) => ("http", listener),
            HttpListener::Tls(listener, _) => {
                self.door.has_tls.store(true, Ordering::Relaxed);
                ("https", listener)
            }
            HttpListener::Socket(_) => return,
        };
        self.door.service.note_listener(listener.local_addr().ok());
        let Ok(address) = listener.local_addr() else { return };
        // A wildcard address is reached by its loopback address as well.
        let host = match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() || ip.is_loopback() => "127.0.0.1".to_owned(),
            IpAddr::V6(ip) if ip.is_unspecified() || ip.is_loopback() => "[::1]".to_owned(),
            _ => return,
        };
        let landing = format!("{scheme}://{host}:{}{}", address.port(), oauth::CALLBACK);
        self.door.service.set_landing(landing);
    }

    fn routes(&self) -> Router {
        let start = match &self.door.page {
            Some(page) => page.routes.clone(),
            None => {
                let handler = guard::Restricted::new(Operation::ReadApiDescription, api::start_page);
                Router::new().route("/", get(handler))
            }
        };
        Router::new()
            .merge(api::routes())
            .route(oauth::CALLBACK, get(oauth::callback))
            .with_state(self.door.clone())
            .merge(start)
            .merge(self.mounted.clone())
            .fallback(error::unknown_path)
            .layer(DefaultBodyLimit::max(self.door.options.max_body))
            .layer(from_fn_with_state(self.door.clone(), guard::guard))
    }
}
