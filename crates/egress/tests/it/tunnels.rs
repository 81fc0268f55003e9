//! Tunnels.

use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{Tested, ok, read_head, server};

async fn listener() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// Opens a tunnel, and returns its ends.
async fn opened(tested: &Tested, host: &str) -> (TcpStream, TcpStream) {
    let (listener, port) = listener().await;
    let client = tested.tunnel(&format!("{host}:{port}")).await.unwrap();
    (client, listener.accept().await.unwrap().0)
}

/// The first message of a TLS client.
fn client_hello(name: &str) -> Vec<u8> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut hello = Vec::new();
    ClientConnection::new(Arc::new(config), name).unwrap().write_tls(&mut hello).unwrap();
    hello
}

#[tokio::test]
async fn tunnel_carries_bytes_in_both_directions() {
    let tested = Tested::new();
    let (mut client, mut server) = opened(&tested, "one.test").await;
    // The server begins, as those of mail and ssh do.
    server.write_all(b"welcome").await.unwrap();
    let mut buffer = [0; 7];
    client.read_exact(&mut buffer).await.unwrap();
    assert_eq!(&buffer, b"welcome");
    client.write_all(b"hi").await.unwrap();
    let mut buffer = [0; 2];
    server.read_exact(&mut buffer).await.unwrap();
    assert_eq!(&buffer, b"hi", "shorter than the head of a TLS message");
    client.shutdown().await.unwrap();
    let mut received = Vec::new();
    server.read_to_end(&mut received).await.unwrap();
    assert_eq!(received, b"");
    server.write_all(b"bye").await.unwrap();
    drop(server);
    received.clear();
    client.read_to_end(&mut received).await.unwrap();
    assert_eq!(received, b"bye");
}

#[tokio::test]
async fn bytes_that_arrive_with_the_request_pass() {
    let (listener, port) = listener().await;
    let tested = Tested::new();
    let mut client = tested.connect().await;
    let request = format!("CONNECT one.test:{port} HTTP/1.1\r\nHost: x\r\n\r\nearly");
    client.write_all(request.as_bytes()).await.unwrap();
    let mut early = [0; 5];
    listener.accept().await.unwrap().0.read_exact(&mut early).await.unwrap();
    assert_eq!(&early, b"early");
}

#[tokio::test]
async fn tls_for_the_host_of_the_tunnel_passes_in_pieces() {
    let tested = Tested::new();
    // A tunnel to an address may be for any name.
    for (host, name) in [("One.Test", "one.test"), ("127.0.0.1", "any.test"), ("one.test", "127.0.0.1")] {
        let (mut client, mut server) = opened(&tested, host).await;
        let hello = client_hello(name);
        for piece in hello.chunks(hello.len() / 3) {
            client.write_all(piece).await.unwrap();
        }
        let mut received = vec![0; hello.len()];
        server.read_exact(&mut received).await.unwrap();
        assert_eq!(received, hello, "{host} {name}");
    }
}

#[tokio::test]
async fn tls_for_another_host_ends_the_tunnel() {
    let tested = Tested::new();
    for name in ["evil.test", "one.test.evil.test", "www.one.test"] {
        let (mut client, mut server) = opened(&tested, "one.test").await;
        client.write_all(&client_hello(name)).await.unwrap();
        let mut received = Vec::new();
        drop(server.read_to_end(&mut received).await);
        assert_eq!(received, b"", "{name}");
        assert!(matches!(client.read(&mut [0; 8]).await, Ok(0) | Err(_)), "{name}");
    }
}

#[tokio::test]
async fn tunnel_to_an_address_needs_the_permission_for_it() {
    let (port, _requests) = server(ok("hello")).await;
    let tested = Tested::new();
    assert!(tested.tunnel(&format!("127.0.0.1:{port}")).await.is_ok());
    assert_eq!(tested.asked(), [format!("https://127.0.0.1:{port}")]);
    let refused = Tested::resolving("public.test", &[&["127.0.0.1"]]).tunnel("public.test:443").await;
    assert!(refused.unwrap_err().starts_with("HTTP/1.1 403 Private address"));
    let refused = tested.tunnel("denied.test:443").await.unwrap_err();
    assert!(refused.starts_with("HTTP/1.1 403 Host not allowed"), "{refused}");
}

#[tokio::test]
async fn tunnel_to_an_ipv6_address_is_opened() {
    let Ok(listener) = TcpListener::bind("[::1]:0").await else {
        return println!("skipped: this machine has no IPv6");
    };
    let tested = Tested::new();
    let authority = listener.local_addr().unwrap().to_string();
    let mut client = tested.tunnel(&authority).await.unwrap();
    client.write_all(b"x").await.unwrap();
    assert_eq!(listener.accept().await.unwrap().0.read_u8().await.unwrap(), b'x');
    assert_eq!(tested.asked(), [format!("https://{authority}")]);
}

#[tokio::test]
async fn connection_goes_to_the_address_that_was_checked() {
    let (listener, port) = listener().await;
    // The second answer is an address where nobody listens.
    let tested = Tested::resolving("one.test", &[&["127.0.0.1"], &["127.0.0.2"]]);
    let authority = format!("one.test:{port}");
    assert!(tested.tunnel(&authority).await.is_ok());
    assert!(listener.accept().await.is_ok());
    assert!(
        tested.tunnel(&authority).await.unwrap_err().starts_with("HTTP/1.1 502"),
        "each name is looked up once"
    );
}

#[tokio::test]
async fn next_address_is_tried_if_the_first_does_not_answer() {
    let (listener, port) = listener().await;
    let tested = Tested::resolving("one.test", &[&["127.0.0.2", "127.0.0.1"]]);
    assert!(tested.tunnel(&format!("one.test:{port}")).await.is_ok());
    assert!(listener.accept().await.is_ok());
}

#[tokio::test]
async fn refused_tunnel_leaves_the_connection_usable() {
    let tested = Tested::new();
    let (port, _requests) = server(ok("hello")).await;
    let mut client = tested.connect().await;
    client.write_all(b"CONNECT denied.test:443 HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let head = read_head(&mut client).await;
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    client.read_exact(&mut vec![0; length.parse().unwrap()]).await.unwrap();
    let next = format!("GET http://one.test:{port}/ HTTP/1.1\r\nHost: x\r\n\r\n");
    client.write_all(next.as_bytes()).await.unwrap();
    assert!(read_head(&mut client).await.starts_with("HTTP/1.1 200"));
}
