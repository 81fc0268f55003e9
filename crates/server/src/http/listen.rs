//! Connections: accepted, limited, and given no time to dawdle.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;

use super::Shared;
use super::guard::Peer;

/// The largest head of a request, with all its headers.
const MAX_HEAD: usize = 64 << 10;

/// A place where clients come in.
pub enum HttpListener {
    /// A port.
    Tcp(TcpListener),
    /// A socket file.
    Socket(UnixListener),
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
            Ok((stream, peer)) => {
                let (door, routes) = (door.clone(), routes.clone());
                door.server.tasks.clone().spawn(async move {
                    serve_connection(&door, routes, stream, peer).await;
                    drop(place);
                });
            }
            // Out of descriptors, or a client that was gone before we looked: others may still come.
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        }
    }
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

async fn accept(listener: &HttpListener) -> io::Result<(Box<dyn Stream>, Peer)> {
    match listener {
        HttpListener::Tcp(listener) => {
            let (stream, address) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let ip: IpAddr = address.ip();
            Ok((Box::new(stream), Peer::Tcp(ip)))
        }
        HttpListener::Socket(listener) => {
            let (stream, _) = listener.accept().await?;
            Ok((Box::new(stream), Peer::SocketFile))
        }
    }
}

async fn serve_connection(door: &Shared, routes: Router, stream: Box<dyn Stream>, peer: Peer) {
    let routes = tower_service(routes, peer);
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
            let patience = std::time::Duration::from_millis(500);
            drop(tokio::time::timeout(patience, connection).await);
        }
    }
}

/// The routes, with a note on every request where it came from.
fn tower_service(
    routes: Router,
    peer: Peer,
) -> impl tower::Service<
    http::Request<Incoming>,
    Response = axum::response::Response,
    Error = std::convert::Infallible,
    Future: Send,
> + Clone {
    tower::service_fn(move |request: http::Request<Incoming>| {
        let mut routes = routes.clone();
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(peer);
        async move { tower::Service::call(&mut routes, request).await }
    })
}
