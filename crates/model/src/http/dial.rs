//! Drops connections that their request no longer needs.
//!
//! The pool of the HTTP library opens a new connection while it waits for one that is just being returned. If the returned
//! one comes first, the library finishes the new one in the background and keeps it, without a byte ever being sent on it. A
//! server that is shut down then waits for a request that does not come.
//!
//! The library finishes such a connection in a task of its own. [`Dialing`] notices that it is not polled by its request any
//! more, and gives up.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tower_layer::Layer;
use tower_service::Service;

/// Time that a connection needs to return to the pool after the end of its response has been read. A new connection waits
/// this long, unless it is the client's first.
const RETURN_TIME: Duration = Duration::from_millis(2);

tokio::task_local! {
    /// Set while a request is polled by its own task.
    static IN_REQUEST: ();
}

/// Runs a request. Connections that it opens end with it, unless it uses them.
pub(super) fn request<F: Future>(request: F) -> impl Future<Output = F::Output> {
    IN_REQUEST.scope((), request)
}

fn is_in_request() -> bool {
    IN_REQUEST.try_with(|()| ()).is_ok()
}

/// Adds [`Dialer`] to a connector.
#[derive(Clone, Default)]
pub(super) struct DialLayer {
    has_dialed: Arc<AtomicBool>,
}

impl<S> Layer<S> for DialLayer {
    type Service = Dialer<S>;

    fn layer(&self, connector: S) -> Dialer<S> {
        Dialer { connector, has_dialed: self.has_dialed.clone() }
    }
}

/// A connector that gives up connections which their request does not need any more.
#[derive(Clone)]
pub(super) struct Dialer<S> {
    connector: S,
    has_dialed: Arc<AtomicBool>,
}

/// Error of a connection that its request does not need any more. Only the library sees it.
#[derive(Debug, thiserror::Error)]
#[error("the request uses another connection")]
struct NotNeeded;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl<S, R> Service<R> for Dialer<S>
where
    S: Service<R> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    S::Response: 'static,
    R: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.connector.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, destination: R) -> Self::Future {
        // The connector that was polled until it was ready is the one to call.
        let spare = self.connector.clone();
        let mut connector = std::mem::replace(&mut self.connector, spare);
        let may_be_spared = self.has_dialed.swap(true, Ordering::Relaxed);
        let connect = async move {
            if may_be_spared {
                tokio::time::sleep(RETURN_TIME).await;
            }
            connector.call(destination).await.map_err(Into::into)
        };
        Box::pin(Dialing { connect: Box::pin(connect), of_request: is_in_request() })
    }
}

/// A connection that is being opened.
struct Dialing<F> {
    connect: Pin<Box<F>>,
    /// Whether a request opens it.
    of_request: bool,
}

impl<T, F: Future<Output = Result<T, BoxError>>> Future for Dialing<F> {
    type Output = Result<T, BoxError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.of_request && !is_in_request() {
            return Poll::Ready(Err(NotNeeded.into()));
        }
        self.connect.as_mut().poll(context)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, mpsc};

    use bytes::Bytes;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::Notify;

    use super::super::{HttpClient, HttpRequest, Method, Transport, Url};
    use super::*;

    /// A server that counts the requests of each connection.
    #[derive(Default)]
    struct Counts {
        /// Number of requests on each connection, and whether it is open.
        connections: Mutex<Vec<(usize, bool)>>,
        received: Notify,
        /// Lets the next response go.
        answer: Notify,
    }

    impl Counts {
        async fn serve(self: Arc<Self>, mut stream: TcpStream, index: usize) {
            let (mut received, mut buffer) = (Vec::new(), [0; 4096]);
            while let Ok(count) = stream.read(&mut buffer).await
                && count > 0
            {
                received.extend_from_slice(&buffer[..count]);
                if received.ends_with(b"\r\n\r\n") {
                    received.clear();
                    self.connections.lock().unwrap()[index].0 += 1;
                    self.received.notify_one();
                    self.answer.notified().await;
                    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await.unwrap();
                }
            }
            self.connections.lock().unwrap()[index].1 = false;
        }

        async fn accept(self: Arc<Self>, listener: TcpListener) {
            while let Ok((stream, _)) = listener.accept().await {
                let index = {
                    let mut connections = self.connections.lock().unwrap();
                    connections.push((0, true));
                    connections.len() - 1
                };
                tokio::spawn(self.clone().serve(stream, index));
            }
        }

        fn unused(&self) -> usize {
            self.connections.lock().unwrap().iter().filter(|(count, open)| *count == 0 && *open).count()
        }
    }

    async fn get(client: &HttpClient, port: u16) {
        let url = Url::parse(&format!("http://localhost:{port}/")).unwrap();
        let request = HttpRequest { method: Method::Get, url, headers: Vec::new(), body: Bytes::new() };
        client.send(request).await.unwrap().whole(Duration::from_secs(60), 100).await.unwrap();
    }

    /// A connector that never connects.
    #[derive(Clone)]
    struct Unreachable;

    impl Service<()> for Unreachable {
        type Response = ();
        type Error = BoxError;
        type Future = std::future::Pending<Result<(), BoxError>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, (): ()) -> Self::Future {
            std::future::pending()
        }
    }

    async fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
        std::future::poll_fn(|context| Poll::Ready(Pin::new(&mut *future).poll(context))).await
    }

    #[tokio::test]
    async fn connecting_ends_when_the_request_stops_waiting() {
        let mut dialer = DialLayer::default().layer(Unreachable);
        let mut dialing = IN_REQUEST.sync_scope((), || dialer.call(()));
        assert!(request(poll_once(&mut dialing)).await.is_pending(), "a request waits for its connection");
        // The library polls the connection in a task of its own once the request uses another one.
        assert!(matches!(poll_once(&mut dialing).await, Poll::Ready(Err(_))), "no request waits for it");
    }

    /// The second request starts to connect while the first one is being answered, and then uses the connection of the first.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn no_connection_stays_open_without_a_request() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let counts = Arc::new(Counts::default());
        tokio::spawn(counts.clone().accept(listener));
        let (done, first_is_done) = mpsc::channel();
        let first_is_done = Mutex::new(first_is_done);
        let is_armed = Arc::new(AtomicBool::new(false));
        let (armed, server) = (is_armed.clone(), counts.clone());
        let client = Arc::new(HttpClient::reaching(move |address| {
            if armed.swap(false, Ordering::SeqCst) {
                // The lookup of the second request lasts until the first connection is free.
                server.answer.notify_one();
                tokio::task::block_in_place(|| {
                    first_is_done.lock().unwrap().recv_timeout(Duration::from_secs(20)).unwrap();
                    std::thread::sleep(Duration::from_millis(50));
                });
            }
            address.is_loopback()
        }));
        let first = tokio::spawn({
            let client = client.clone();
            async move {
                get(&client, port).await;
                done.send(()).unwrap();
            }
        });
        counts.received.notified().await;
        is_armed.store(true, Ordering::SeqCst);
        let second = tokio::spawn({
            let client = client.clone();
            async move { get(&client, port).await }
        });
        first.await.unwrap();
        counts.received.notified().await;
        counts.answer.notify_one();
        second.await.unwrap();
        // A connection that was given up may take a moment to close; one that was opened, to be accepted.
        for _ in 0..25 {
            tokio::time::sleep(Duration::from_millis(20)).await;
            if counts.unused() > 0 {
                break;
            }
        }
        let connections = counts.connections.lock().unwrap().clone();
        assert_eq!(counts.unused(), 0, "open without a request: {connections:?}");
    }
}
