//! Connections: accepted, limited, and given no time to dawdle.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::Ordering;
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
use tokio::sync::{Semaphore, oneshot};
use tokio_rustls::server::TlsStream;
use tower::ServiceExt as _;

use super::body::PunctualBody;
use super::guard::Peer;
use super::linger::Lingering;
use super::sse::{self, Subscription};
use super::{Shared, TlsIdentity};
use crate::wire::Pipe;

/// The largest head of a request, with all its headers.
const MAX_HEAD: usize = 64 << 10;
/// How much of a refused request is still read after the answer, at least.
const MAX_LEFTOVER: usize = 1 << 20;
/// How long an answer that is under way may still take when the server stops.
pub(super) const FAREWELL: Duration = Duration::from_millis(500);

/// A place where clients come in.
pub enum HttpListener {
    /// A port.
    Tcp(TcpListener),
    /// A port where TLS is spoken.
    Tls(TcpListener, TlsIdentity),
    /// A socket file.
    Socket(UnixListener),
}

/// A connection that has just been made.
enum Arrival {
    Tcp(TcpStream),
    Tls(TcpStream, TlsIdentity),
    Socket(UnixStream),
}

/// Serves a listener until the server stops.
pub(super) async fn serve(door: &Shared, routes: Router, listener: HttpListener) -> io::Result<()> {
    let places = Arc::new(Semaphore::new(door.options.max_connections));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return Ok(()) };
        let accepted = tokio::select! {
            () = door.server.stopping.cancelled() => return Ok(()),
            accepted = accept(&listener) => accepted,
        };
        match accepted {
            Ok((arrival, peer)) => {
                let (door, routes) = (door.clone(), routes.clone());
                door.server.tasks.clone().spawn(async move {
                    door.metrics.connections.fetch_add(1, Ordering::Relaxed);
                    welcome(&door, routes, arrival, peer).await;
                    door.metrics.connections.fetch_sub(1, Ordering::Relaxed);
                    drop(place);
                });
            }
            // Out of descriptors, or a client that was gone before we looked: others may still come.
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

async fn accept(listener: &HttpListener) -> io::Result<(Arrival, Peer)> {
    let (stream, address) = match listener {
        HttpListener::Tcp(listener) | HttpListener::Tls(listener, _) => listener.accept().await?,
        HttpListener::Socket(listener) => {
            return Ok((Arrival::Socket(listener.accept().await?.0), Peer::SocketFile));
        }
    };
    stream.set_nodelay(true)?;
    let arrival = match listener {
        HttpListener::Tls(_, identity) => Arrival::Tls(stream, identity.clone()),
        _ => Arrival::Tcp(stream),
    };
    Ok((arrival, Peer::Tcp(address.ip())))
}

async fn welcome(door: &Shared, routes: Router, arrival: Arrival, peer: Peer) {
    match arrival {
        Arrival::Tcp(stream) => serve_connection(door, routes, stream, peer).await,
        Arrival::Socket(stream) => serve_connection(door, routes, stream, peer).await,
        Arrival::Tls(stream, identity) => {
            let greeting = tokio::time::timeout(door.options.header_time, identity.acceptor.accept(stream));
            // Who does not manage to greet us is not served; there is nobody to tell.
            if let Ok(Ok(stream)) = Box::pin(greeting).await {
                serve_connection(door, routes, stream, peer).await;
            }
        }
    }
}

async fn serve_connection(door: &Shared, routes: Router, line: impl Line, peer: Peer) {
    let (leave, mut leaving) = oneshot::channel();
    let service = service(door, routes, peer, leave);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(door.options.header_time)
        .max_buf_size(MAX_HEAD)
        .half_close(false)
        .serve_connection(
            TokioIo::new(Lingering::new(line, door.options.max_body.max(MAX_LEFTOVER))),
            service,
        );
    // In boxes, here and below: a stream may last for days, and should not hold on to what its request needed.
    let mut connection = Box::new(connection);
    let (subscription, headers) = tokio::select! {
        // A client that misbehaves, or just leaves, is nobody's concern but its own.
        ended = &mut connection => return drop(ended),
        Ok(left) = &mut leaving => left,
        () = door.server.stopping.cancelled() => {
            Pin::new(&mut *connection).graceful_shutdown();
            return drop(tokio::time::timeout(FAREWELL, connection).await);
        }
    };
    // Nothing of the answer has been written yet, and all answers before it have been read: whoever asks for a stream
    // waits for it. Who does not wait has only itself to blame.
    if let Ok((incoming, outgoing)) = connection.into_parts().io.into_inner().into_inner().apart(door) {
        Box::pin(sse::stream(door, subscription, headers, incoming, outgoing)).await;
    }
}

/// A connection on its way out of HTTP: what it will stream, and the headers that it begins with.
type Leaving = (Subscription, HeaderMap);

type Serving = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

/// The routes, with a note on every request where it came from. A request that is answered with a subscription is never
/// answered here: its connection leaves.
fn service(
    door: &Shared,
    routes: Router,
    peer: Peer,
    leave: oneshot::Sender<Leaving>,
) -> impl Service<Request<Incoming>, Response = Response, Error = Infallible, Future = Serving> {
    let leave = Arc::new(Mutex::new(Some(leave)));
    let (most, body_time, patience) =
        (door.options.max_body as u64, door.options.body_time, door.options.header_time);
    service_fn(move |request: Request<Incoming>| {
        let (routes, leave) = (routes.clone(), leave.clone());
        let (head, body) = request.into_parts();
        let (body, unread) = PunctualBody::new(body, &head.headers, body_time);
        let mut request = Request::from_parts(head, Body::new(body));
        request.extensions_mut().insert(peer);
        Box::pin(async move {
            let mut response = routes.oneshot(request).await?;
            if !unread.drain(most, patience).await {
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            let Some(leaving) = sse::take_subscription(&mut response) else { return Ok(response) };
            if let Some(leave) = leave.lock().unwrap_or_else(PoisonError::into_inner).take() {
                drop(leave.send(leaving));
            }
            std::future::pending().await
        }) as Serving
    })
}

/// A connection that can be taken apart into what comes in and where to write to.
trait Line: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    type Incoming: AsyncRead + Unpin + Send;
    type Outgoing: Pipe;

    fn apart(self, door: &Shared) -> io::Result<(Self::Incoming, Self::Outgoing)>;
}

impl Line for TcpStream {
    type Incoming = tcp::OwnedReadHalf;
    type Outgoing = tcp::OwnedWriteHalf;

    fn apart(self, _: &Shared) -> io::Result<(Self::Incoming, Self::Outgoing)> {
        Ok(self.into_split())
    }
}

impl Line for UnixStream {
    type Incoming = unix::OwnedReadHalf;
    type Outgoing = unix::OwnedWriteHalf;

    fn apart(self, _: &Shared) -> io::Result<(Self::Incoming, Self::Outgoing)> {
        Ok(self.into_split())
    }
}

/// What is encrypted has to be written by somebody who can wait: whoever cannot writes to a pair of sockets in between.
impl Line for TlsStream<TcpStream> {
    type Incoming = unix::OwnedReadHalf;
    type Outgoing = unix::OwnedWriteHalf;

    fn apart(mut self, door: &Shared) -> io::Result<(Self::Incoming, Self::Outgoing)> {
        let (ours, mut theirs) = UnixStream::pair()?;
        door.server.tasks.spawn(async move {
            drop(tokio::io::copy_bidirectional(&mut self, &mut theirs).await);
        });
        Ok(ours.into_split())
    }
}
