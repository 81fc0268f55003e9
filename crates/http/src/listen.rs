//! Connections: accepts them, limits their number and time, and serves their requests.
//!
//! Each connection has a span with its peer, each request one with its method and path, and each event stream one with its
//! session. None contains the query: it may contain a token.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use http::{HeaderMap, HeaderValue, Request, header};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream, tcp, unix};
use tokio::sync::oneshot;
use tokio_rustls::server::TlsStream;
use tower::ServiceExt as _;
use tracing::{Instrument as _, info_span};

use super::body::TimedBody;
use super::guard::Peer;
use super::linger::Lingering;
use super::metrics::Open;
use super::slots::{ConnectionSlot, ConnectionSlots};
use super::sse::{self, StreamRequest};
use super::{Shared, TlsIdentity};
use baton_wire::Pipe;

/// Maximum size of a request's head, with all its headers.
const MAX_HEAD: usize = 64 << 10;
/// Number of bytes that a lingering close discards at least, whatever the maximum size of a body.
const MIN_DISCARDED: usize = 1 << 20;
/// Time limit for responses in progress when the server stops.
pub(super) const SHUTDOWN_GRACE: Duration = Duration::from_millis(500);

/// A socket that accepts clients.
pub enum HttpListener {
    /// A TCP port.
    Tcp(TcpListener),
    /// A TCP port with TLS.
    Tls(TcpListener, TlsIdentity),
    /// A socket file.
    Socket(UnixListener),
}

/// A connection that was just accepted.
enum Accepted {
    Tcp(TcpStream),
    Tls(TcpStream, TlsIdentity),
    Socket(UnixStream),
}

/// Serves a listener until the server stops.
pub(super) async fn serve(door: &Shared, routes: Router, listener: HttpListener) -> io::Result<()> {
    let slots = ConnectionSlots::new(door.options.max_connections);
    loop {
        let accepted = tokio::select! {
            () = door.service.stopping().cancelled() => return Ok(()),
            accepted = accept(&listener) => accepted,
        };
        match accepted {
            Ok((accepted, peer)) => {
                // The connection waits for a slot after it was accepted: only then does it need the slot of a stranger.
                let permit = tokio::select! {
                    () = door.service.stopping().cancelled() => return Ok(()),
                    permit = slots.free() => permit,
                };
                let Some(permit) = permit else { return Ok(()) };
                let (slot, evicted) = slots.take(permit, peer);
                let (door, routes, tasks) = (door.clone(), routes.clone(), door.service.tasks());
                let served = async move {
                    let _open = Open::count(&door.metrics.connections);
                    tokio::select! {
                        () = serve_accepted(&door, routes, accepted, peer, slot) => {}
                        Ok(()) = evicted => tracing::debug!("too many connections; closing one without a login"),
                    }
                };
                let span = info_span!(parent: None, "connection", %peer);
                tasks.spawn(served.instrument(span));
            }
            // Out of descriptors, or the client disconnected before it was accepted: the next one may succeed.
            Err(error) => {
                tracing::warn!(%error, "failed to accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

async fn accept(listener: &HttpListener) -> io::Result<(Accepted, Peer)> {
    let (stream, address) = match listener {
        HttpListener::Tcp(listener) | HttpListener::Tls(listener, _) => listener.accept().await?,
        HttpListener::Socket(listener) => {
            return Ok((Accepted::Socket(listener.accept().await?.0), Peer::SocketFile));
        }
    };
    stream.set_nodelay(true)?;
    let (accepted, tls) = match listener {
        HttpListener::Tls(_, identity) => (Accepted::Tls(stream, identity.clone()), true),
        _ => (Accepted::Tcp(stream), false),
    };
    Ok((accepted, Peer::Tcp { address: address.ip(), tls }))
}

async fn serve_accepted(
    door: &Shared,
    routes: Router,
    accepted: Accepted,
    peer: Peer,
    slot: Arc<ConnectionSlot>,
) {
    match accepted {
        Accepted::Tcp(stream) => serve_connection(door, routes, stream, peer, slot).await,
        Accepted::Socket(stream) => serve_connection(door, routes, stream, peer, slot).await,
        Accepted::Tls(stream, identity) => {
            let handshake = tokio::time::timeout(door.options.header_time, identity.acceptor.accept(stream));
            match Box::pin(handshake).await {
                Ok(Ok(stream)) => serve_connection(door, routes, stream, peer, slot).await,
                Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
                Err(_) => tracing::debug!("TLS handshake timed out"),
            }
        }
    }
}

async fn serve_connection(
    door: &Shared,
    routes: Router,
    transport: impl Transport,
    peer: Peer,
    slot: Arc<ConnectionSlot>,
) {
    let (start_stream, mut stream_started) = oneshot::channel();
    let service = service(door, routes, peer, slot.clone(), start_stream);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(door.options.header_time)
        .max_buf_size(MAX_HEAD)
        .half_close(false)
        .serve_connection(
            TokioIo::new(Lingering::new(transport, door.options.max_body.max(MIN_DISCARDED))),
            service,
        );
    // Boxed, here and below: a stream may last for days, and must not hold the memory that its request needed.
    let mut connection = Box::new(connection);
    let (stream_request, headers) = tokio::select! {
        ended = &mut connection => {
            if let Err(error) = ended {
                // Caused by the client: a malformed request, a timeout, a reset.
                tracing::debug!(%error, "connection failed");
            }
            return;
        }
        Ok(started) = &mut stream_started => started,
        () = door.service.stopping().cancelled() => {
            Pin::new(&mut *connection).graceful_shutdown();
            return drop(tokio::time::timeout(SHUTDOWN_GRACE, connection).await);
        }
    };
    // No byte of this response has been written yet, and a client that requests a stream has read all responses before it.
    // One that pipelines requests may lose responses.
    let span = info_span!("stream", of = %stream_request.wanted);
    match connection.into_parts().io.into_inner().into_inner().split(door) {
        Ok((incoming, outgoing)) => {
            Box::pin(sse::stream(door, stream_request, headers, incoming, outgoing)).instrument(span).await;
        }
        Err(error) => tracing::warn!(%error, "failed to start an event stream"),
    }
}

/// A response that turns its connection into an event stream: the stream request, and the headers to send.
type StreamStart = (StreamRequest, HeaderMap);

type ResponseFuture = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

/// Wraps the routes: adds the peer and a span to each request, and drains its body. A response with a stream request is not
/// returned: it is sent to `start_stream`, which takes the connection from the HTTP library.
fn service(
    door: &Shared,
    routes: Router,
    peer: Peer,
    slot: Arc<ConnectionSlot>,
    start_stream: oneshot::Sender<StreamStart>,
) -> impl Service<Request<Incoming>, Response = Response, Error = Infallible, Future = ResponseFuture> {
    let start_stream = Arc::new(Mutex::new(Some(start_stream)));
    let (max_body, body_time, drain_time) =
        (door.options.max_body as u64, door.options.body_time, door.options.header_time);
    let bodies = door.bodies.clone();
    service_fn(move |request: Request<Incoming>| {
        let (routes, start_stream) = (routes.clone(), start_stream.clone());
        let (head, body) = request.into_parts();
        let span = info_span!("request", method = %head.method, path = head.uri.path());
        let (body, unread) = TimedBody::new(body, &head.headers, body_time);
        let mut request = Request::from_parts(head, Body::new(body));
        request.extensions_mut().insert(peer);
        request.extensions_mut().insert(slot.clone());
        request.extensions_mut().insert(bodies.clone());
        let respond = async move {
            let mut response = routes.oneshot(request).await?;
            if !unread.drain(max_body, drain_time).await {
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            let Some(started) = sse::take_stream_request(&mut response) else { return Ok(response) };
            if let Some(start_stream) = start_stream.lock().unwrap_or_else(PoisonError::into_inner).take() {
                drop(start_stream.send(started));
            }
            std::future::pending().await
        };
        Box::pin(respond.instrument(span)) as ResponseFuture
    })
}

/// A connection that can be split into a reading half and a [`Pipe`].
trait Transport: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    type Incoming: AsyncRead + Unpin + Send;
    type Outgoing: Pipe;

    fn split(self, door: &Shared) -> io::Result<(Self::Incoming, Self::Outgoing)>;
}

impl Transport for TcpStream {
    type Incoming = tcp::OwnedReadHalf;
    type Outgoing = tcp::OwnedWriteHalf;

    fn split(self, _: &Shared) -> io::Result<(Self::Incoming, Self::Outgoing)> {
        Ok(self.into_split())
    }
}

impl Transport for UnixStream {
    type Incoming = unix::OwnedReadHalf;
    type Outgoing = unix::OwnedWriteHalf;

    fn split(self, _: &Shared) -> io::Result<(Self::Incoming, Self::Outgoing)> {
        Ok(self.into_split())
    }
}

/// Encrypted writes can block, and publishers must not: they write to a socket pair, and a task encrypts what it reads from
/// the other end.
impl Transport for TlsStream<TcpStream> {
    type Incoming = unix::OwnedReadHalf;
    type Outgoing = unix::OwnedWriteHalf;

    fn split(mut self, door: &Shared) -> io::Result<(Self::Incoming, Self::Outgoing)> {
        let (ours, mut theirs) = UnixStream::pair()?;
        let copy = async move {
            // Fails when the client disconnects, which the stream notices by itself.
            drop(tokio::io::copy_bidirectional(&mut self, &mut theirs).await);
        };
        door.service.tasks().spawn(copy.in_current_span());
        Ok(ours.into_split())
    }
}
