//! Limits, and the end of a proxy.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use baton_egress::{Admission, Gate, ProxyOptions, Target};
use futures_util::future::{BoxFuture, join_all};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{Script, Tested, ok, serve, server};

#[tokio::test]
async fn slow_request_head_times_out() {
    let tested = Tested::impatient();
    for start in ["", "GET http://one.test/ HTTP/1.1\r\n"] {
        let response = tested.exchange(start).await;
        assert!(response.is_empty() || response.starts_with("HTTP/1.1 408"), "{start:?} {response}");
    }
    assert_eq!(tested.asked(), Vec::<String>::new());
}

#[tokio::test]
async fn too_large_head_is_refused() {
    let tested = Tested::new();
    let mut client = tested.connect().await;
    let long = format!("GET http://one.test/ HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(64 << 10));
    // The proxy may close before it has read everything.
    drop(client.write_all(long.as_bytes()).await);
    let mut response = Vec::new();
    drop(client.read_to_end(&mut response).await);
    assert!(response.is_empty() || response.starts_with(b"HTTP/1.1 431"));
    assert_eq!(tested.asked(), Vec::<String>::new());
}

/// Counts the requests that it decides about at the same time.
#[derive(Default)]
struct Counting {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Gate for Counting {
    fn admit<'a>(&'a self, _: &'a Target) -> BoxFuture<'a, Admission> {
        Box::pin(async {
            self.most.fetch_max(self.now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            self.now.fetch_sub(1, Ordering::SeqCst);
            Admission::AlsoPrivate
        })
    }

    fn reached(&self, _: &Target) {}
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_for_their_turn() {
    let (port, _requests) = server(ok("hello")).await;
    let gate = Arc::new(Counting::default());
    let options =
        ProxyOptions { lookup: Arc::new(Script::default()), max_connections: 16, ..ProxyOptions::default() };
    let (_proxy, address) = serve(gate.clone(), options);
    let get = async || {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET http://one.test:{port}/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        response
    };
    let responses = join_all((0..200).map(|_| get())).await;
    assert!(responses.iter().all(|response| response.ends_with("hello")));
    let most = gate.most.load(Ordering::SeqCst);
    assert!((2..=16).contains(&most), "{most} at the same time");
}

#[tokio::test]
async fn closing_ends_tunnels_and_requests() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let tested = Tested::new();
    let mut tunnel = tested.tunnel(&format!("one.test:{port}")).await.unwrap();
    let (mut server, _) = listener.accept().await.unwrap();
    let mut waiting = tested.connect().await;
    waiting.write_all(b"GET http://slow.test/ HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    while tested.asked().len() < 2 {
        tokio::task::yield_now().await;
    }
    let address = tested.address;
    tested.proxy.close().await;
    for stream in [&mut tunnel, &mut server, &mut waiting] {
        assert!(matches!(stream.read(&mut [0; 8]).await, Ok(0) | Err(_)));
    }
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn dropping_ends_everything_too() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let tested = Tested::new();
    let mut tunnel = tested.tunnel(&format!("one.test:{port}")).await.unwrap();
    drop(tested);
    assert!(matches!(tunnel.read(&mut [0; 8]).await, Ok(0) | Err(_)));
}
