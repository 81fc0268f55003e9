//! Connections: accepted, limited, and given no time to dawdle.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::Semaphore;

use super::body::PunctualBody;
use super::guard::Peer;
use super::{Shared, TlsIdentity};

/// The largest head of a request, with all its headers.
const MAX_HEAD: usize = 64 << 10;
/// How long an answer that is under way may still take when the server stops.
const FAREWELL: Duration = Duration::from_millis(500);

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
            if let Ok(Ok(stream)) = greeting.await {
                serve_connection(door, routes, stream, peer).await;
            }
        }
    }
}

async fn serve_connection(
    door: &Shared,
    routes: Router,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send,
    peer: Peer,
) {
    let routes = tower_service(routes, peer, door.options.body_time);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(door.options.header_time)
        .max_buf_size(MAX_HEAD)
        .half_close(false)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes));
    tokio::pin!(connection);
    tokio::select! {
        // A client that misbehaves, or just leaves, is nobody's concern but its own.
        ended = &mut connection => drop(ended),
        () = door.server.stopping.cancelled() => {
            connection.as_mut().graceful_shutdown();
            drop(tokio::time::timeout(FAREWELL, connection).await);
        }
    }
}

/// The routes, with a note on every request where it came from.
fn tower_service(
    routes: Router,
    peer: Peer,
    body_time: Duration,
) -> impl tower::Service<
    http::Request<Incoming>,
    Response = axum::response::Response,
    Error = std::convert::Infallible,
    Future: Send,
> + Clone {
    tower::service_fn(move |request: http::Request<Incoming>| {
        let mut routes = routes.clone();
        let mut request = request.map(|body| Body::new(PunctualBody::new(body, body_time)));
        request.extensions_mut().insert(peer);
        async move { tower::Service::call(&mut routes, request).await }
    })
}
