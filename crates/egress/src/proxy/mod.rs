//! The proxy: the only way of sandboxed programs to the network.
//!
//! It serves `CONNECT` and plain HTTP requests with an absolute URL. Each request is asked about on its own, also when
//! several come over one connection, and each goes to its server over a connection of its own. Redirects are passed on, so
//! following one is a new request. TLS is not opened.

mod forward;
mod problem;
mod tunnel;

use std::collections::HashSet;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use http::{Method, Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

use self::problem::Problem;
use self::tunnel::Tunnel;
use crate::body::ResponseBody;
use crate::{Admission, Gate, Host, Lookup, Reach, SystemLookup, Target, resolve};

/// Maximum size of a head, with all its headers.
const MAX_HEAD: usize = 32 << 10;
/// Time limit for a connection to one address.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// Number of addresses of a host that are tried.
const MAX_ADDRESSES: u32 = 4;
/// Time after which the next address is tried, while the one before has not answered.
const HEAD_START: Duration = Duration::from_millis(250);
/// Pause after a connection could not be accepted, for example because the server has no descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Number of hosts that are remembered as reached. Then all are forgotten, and may be reported again.
const MAX_REACHED: usize = 1000;

/// Options of a proxy.
pub struct ProxyOptions {
    /// Resolves names.
    pub lookup: Arc<dyn Lookup>,
    /// Time limit for the decision about a request. Programs give up after 15 seconds and more.
    pub admission_time: Duration,
    /// Time limit for the head of a request, also for the next one on an idle connection.
    pub head_time: Duration,
    /// Number of connections that are served at the same time. Others wait.
    pub max_connections: usize,
}

impl Default for ProxyOptions {
    fn default() -> Self {
        Self {
            lookup: Arc::new(SystemLookup::default()),
            admission_time: Duration::from_secs(10),
            head_time: Duration::from_secs(30),
            max_connections: 128,
        }
    }
}

/// A running proxy. Dropping it ends all its connections.
pub struct Proxy {
    stop: DropGuard,
    task: JoinHandle<()>,
}

impl Proxy {
    /// Serves a listener. Must be called in a tokio runtime.
    ///
    /// # Errors
    /// When the listener cannot be used for asynchronous I/O.
    pub fn serve(
        listener: std::net::TcpListener,
        gate: Arc<dyn Gate>,
        options: ProxyOptions,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let server = Arc::new(Server { gate, options, reached: Mutex::default() });
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            stopped.run_until_cancelled(accept_all(&listener, &server, &mut connections)).await;
            connections.shutdown().await;
        });
        Ok(Self { stop: stop.drop_guard(), task })
    }

    /// Ends all connections, and waits until they have ended.
    pub async fn close(self) {
        drop(self.stop);
        // Fails if the task panicked: then its connections have ended too.
        drop(self.task.await);
    }
}

async fn accept_all(listener: &TcpListener, server: &Arc<Server>, connections: &mut JoinSet<()>) {
    loop {
        while connections.try_join_next().is_some() {}
        if connections.len() >= server.options.max_connections {
            connections.join_next().await;
            continue;
        }
        match listener.accept().await {
            Ok((stream, _)) => drop(connections.spawn(serve_connection(server.clone(), stream))),
            Err(error) => {
                tracing::warn!(%error, "the proxy of a sandbox failed to accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Serves the requests of one connection, and then the tunnel that the last one may have opened.
async fn serve_connection(server: Arc<Server>, stream: TcpStream) {
    let tunnel = Mutex::new(None);
    let service = service_fn(async |request| {
        let response = server.respond(request, &tunnel).await;
        Ok::<_, Infallible>(response.unwrap_or_else(Problem::into_response))
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(server.options.head_time)
        .max_buf_size(MAX_HEAD)
        .half_close(false)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    // Boxed: a tunnel may last for days, and must not hold the memory that its request needed.
    if let Err(error) = Box::pin(served).await {
        tracing::debug!(%error, "a connection to the proxy of a sandbox failed");
    }
    if let Some(tunnel) = tunnel.into_inner().unwrap_or_else(PoisonError::into_inner) {
        tunnel.run().await;
    }
}

/// What all connections of a proxy share.
struct Server {
    gate: Arc<dyn Gate>,
    options: ProxyOptions,
    reached: Mutex<HashSet<Host>>,
}

impl Server {
    async fn respond(
        &self,
        request: Request<Incoming>,
        tunnel: &Mutex<Option<Tunnel>>,
    ) -> Result<Response<ResponseBody>, Problem> {
        if request.method() != Method::CONNECT {
            return forward::forward(self, request).await;
        }
        let target = tunnel::target(request.uri())?;
        let stream = self.connect(&target).await?;
        let opened = Tunnel::new(request, stream, target.host);
        *tunnel.lock().unwrap_or_else(PoisonError::into_inner) = Some(opened);
        Ok(Response::new(ResponseBody::empty()))
    }

    /// Connects to a target, if it is admitted.
    async fn connect(&self, target: &Target) -> Result<TcpStream, Problem> {
        let reach = match timeout(self.options.admission_time, self.gate.admit(target)).await {
            Ok(Admission::Public) => Reach::Public,
            Ok(Admission::AlsoPrivate) => Reach::AlsoPrivate,
            Ok(Admission::Denied { reason }) => return Err(Problem::denied(target, &reason)),
            Err(_) => return Err(Problem::undecided(target)),
        };
        let addresses = resolve(&target.host, target.port, reach, &*self.options.lookup)
            .await
            .map_err(|refusal| Problem::unresolved(&refusal))?;
        let stream = connect_any(&addresses).await.map_err(|error| Problem::unreachable(target, &error))?;
        self.note_reached(target);
        Ok(stream)
    }

    fn note_reached(&self, target: &Target) {
        let is_new = {
            let mut reached = self.reached.lock().unwrap_or_else(PoisonError::into_inner);
            if reached.len() >= MAX_REACHED && !reached.contains(&target.host) {
                reached.clear();
            }
            reached.insert(target.host.clone())
        };
        if is_new {
            self.gate.reached(target);
        }
    }
}

/// Connects to the first of these addresses that answers. Each gets a head start before the next one is tried too.
async fn connect_any(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let attempt = async |address: &SocketAddr, delay: Duration| {
        tokio::time::sleep(delay).await;
        let connected = timeout(CONNECT_LIMIT, TcpStream::connect(address)).await;
        let stream = connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
        stream.set_nodelay(true).map(|()| stream)
    };
    let delays = (0..MAX_ADDRESSES).map(|place| HEAD_START * place);
    let mut attempts: FuturesUnordered<_> =
        addresses.iter().zip(delays).map(|(address, delay)| attempt(address, delay)).collect();
    let mut failure = io::Error::from(io::ErrorKind::AddrNotAvailable);
    while let Some(connected) = attempts.next().await {
        match connected {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}
