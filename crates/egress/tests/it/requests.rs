//! Plain HTTP requests.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{Tested, ok, server};

#[tokio::test]
async fn request_reaches_the_host_of_its_url() {
    let (port, mut requests) = server(ok("hello")).await;
    let tested = Tested::new();
    let response = tested.get(&format!("http://One.test:{port}/a?b=c")).await;
    assert!(response.starts_with("HTTP/1.1 200 OK") && response.ends_with("\r\n\r\nhello"), "{response}");
    let request = requests.recv().await.unwrap();
    assert!(request.starts_with("GET /a?b=c HTTP/1.1\r\n"), "{request}");
    assert!(request.contains(&format!("host: one.test:{port}\r\n")), "{request}");
    assert_eq!(tested.asked(), [format!("http://one.test:{port}")]);
}

#[tokio::test]
async fn headers_of_the_connection_stay_and_the_url_names_the_host() {
    let (port, mut requests) = server(ok("")).await;
    let request = format!(
        "GET http://one.test:{port}/ HTTP/1.1\r\nHost: denied.test\r\nHost: other.test\r\nConnection: close, X-Mine\r\n\
         X-Mine: 1\r\nX-Kept: 2\r\nProxy-Authorization: Basic x\r\nProxy-Connection: keep-alive\r\nTE: trailers\r\n\
         Upgrade: websocket\r\n\r\n"
    );
    Tested::new().exchange(request).await;
    let request = requests.recv().await.unwrap().to_lowercase();
    assert_eq!(request.matches("host:").count(), 1, "{request}");
    assert!(request.contains("x-kept: 2"), "{request}");
    for gone in ["denied.test", "other.test", "x-mine", "authorization", "te:", "upgrade", "connection:"] {
        assert!(!request.contains(gone), "{gone}: {request}");
    }
}

#[tokio::test]
async fn bodies_pass_in_both_directions() {
    let long = "0123456789".repeat(100_000);
    let (port, mut requests) = server(ok(&long)).await;
    let request = format!(
        "POST http://one.test:{port}/ HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{long}",
        long.len()
    );
    let response = Tested::new().exchange(request).await;
    assert!(response.ends_with(&format!("\r\n\r\n{long}")));
    assert!(requests.recv().await.unwrap().ends_with(&format!("\r\n\r\n{long}")));
}

#[tokio::test]
async fn chunked_response_without_length_is_complete() {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
    let (port, _requests) = server(chunked).await;
    let tested = Tested::new();
    let old = tested.exchange(format!("GET http://one.test:{port}/ HTTP/1.0\r\nHost: x\r\n\r\n")).await;
    assert!(old.ends_with("\r\n\r\nabcde"), "{old}");
}

#[tokio::test]
async fn smuggled_request_is_part_of_a_body() {
    let (port, mut requests) = server(ok("")).await;
    let request = format!(
        "POST http://one.test:{port}/ HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\
         Connection: close\r\n\r\n22\r\nGET / HTTP/1.1\r\nHost: denied.test\r\n\r\n\r\n0\r\n\r\n"
    );
    Tested::new().exchange(request).await;
    let request = requests.recv().await.unwrap().to_lowercase();
    assert!(
        !request.contains("content-length") && request.contains("transfer-encoding: chunked"),
        "{request}"
    );
}

#[tokio::test]
async fn pipelined_request_for_another_host_is_asked_about() {
    let (port, _requests) = server(ok("hello")).await;
    let tested = Tested::new();
    let both = format!(
        "GET http://one.test:{port}/ HTTP/1.1\r\nHost: one.test\r\n\r\n\
         GET http://denied.test:{port}/ HTTP/1.1\r\nHost: one.test\r\nConnection: close\r\n\r\n"
    );
    let responses = tested.exchange(both).await;
    let (first, second) = responses.split_once("hello").unwrap();
    assert!(first.starts_with("HTTP/1.1 200") && second.starts_with("HTTP/1.1 403"), "{responses}");
    assert!(second.ends_with(&format!("denied.test:{port} is not allowed: a rule denies it.\n")), "{second}");
    assert_eq!(tested.asked(), [format!("http://one.test:{port}"), format!("http://denied.test:{port}")]);
}

#[tokio::test]
async fn redirect_is_passed_on() {
    let (port, _requests) =
        server("HTTP/1.1 302 Found\r\nLocation: http://denied.test/\r\nContent-Length: 0\r\n\r\n").await;
    let tested = Tested::new();
    let response = tested.get(&format!("http://one.test:{port}/")).await;
    assert!(response.starts_with("HTTP/1.1 302") && response.contains("http://denied.test/"), "{response}");
    assert_eq!(tested.asked().len(), 1);
}

#[tokio::test]
async fn undecided_request_is_refused_and_says_what_to_do() {
    let tested = Tested::impatient();
    let response = tested.get("http://slow.test/").await;
    assert!(response.starts_with("HTTP/1.1 403 Host waits for approval"), "{response}");
    assert!(response.contains("slow.test:80") && response.contains("try again"), "{response}");
}

#[tokio::test]
async fn public_host_with_any_private_address_is_refused() {
    for answer in [&["127.0.0.1"][..], &["93.184.216.34", "10.0.0.1"], &["::1"], &["169.254.169.254"]] {
        let response = Tested::resolving("public.test", &[answer]).get("http://public.test/").await;
        assert!(response.starts_with("HTTP/1.1 403 Private address"), "{answer:?} {response}");
    }
    let unresolved = Tested::resolving("public.test", &[&[]]).get("http://public.test/").await;
    assert!(unresolved.starts_with("HTTP/1.1 502 Host not found"), "{unresolved}");
}

#[tokio::test]
async fn unreachable_server_is_a_bad_gateway() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let tested = Tested::new();
    let response = tested.get(&format!("http://one.test:{closed}/")).await;
    assert!(response.starts_with("HTTP/1.1 502") && response.contains("one.test"), "{response}");
    assert!(tested.gate.reached.lock().unwrap().is_empty());
    for broken in ["no HTTP\r\n\r\n", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", ""] {
        let (port, _requests) = server(broken).await;
        let response = tested.get(&format!("http://one.test:{port}/")).await;
        assert!(response.starts_with("HTTP/1.1 502"), "{broken} {response}");
    }
}

#[tokio::test]
async fn malformed_requests_are_not_asked_about() {
    let tested = Tested::impatient();
    for request in [
        "GET / HTTP/1.1\r\nHost: one.test\r\n\r\n",
        "GET https://one.test/ HTTP/1.1\r\nHost: one.test\r\n\r\n",
        "GET ftp://one.test/ HTTP/1.1\r\nHost: one.test\r\n\r\n",
        "GET http://user@one.test/ HTTP/1.1\r\nHost: one.test\r\n\r\n",
        "GET http://0x7f.1/ HTTP/1.1\r\nHost: one.test\r\n\r\n",
        "GET http://2130706433/ HTTP/1.1\r\nHost: one.test\r\n\r\n",
        "GET http://one.test:0/ HTTP/1.1\r\nHost: one.test\r\n\r\n",
        "GET http://one.test\0.evil.test/ HTTP/1.1\r\nHost: one.test\r\n\r\n",
        "CONNECT one.test HTTP/1.1\r\nHost: one.test\r\n\r\n",
        "CONNECT http://one.test:443/ HTTP/1.1\r\nHost: one.test\r\n\r\n",
        "CONNECT user@one.test:443 HTTP/1.1\r\nHost: one.test\r\n\r\n",
        "CONNECT one.test\0.evil.test:443 HTTP/1.1\r\nHost: one.test\r\n\r\n",
        "CONNECT 127.1:443 HTTP/1.1\r\nHost: one.test\r\n\r\n",
        "CONNECT [fe80::1%25lo]:443 HTTP/1.1\r\nHost: one.test\r\n\r\n",
        "POST http://one.test/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "\u{5}\u{1}\0",
        "\u{4}\u{1}\u{1}\u{bb}\0\0\0\u{1}\0one.test\0",
    ] {
        let response = tested.exchange(request).await;
        assert!(response.is_empty() || response.starts_with("HTTP/1.1 400"), "{request:?} {response}");
    }
    assert_eq!(tested.asked(), Vec::<String>::new());
}

#[tokio::test]
async fn host_is_reported_once() {
    let (port, _requests) = server(ok("")).await;
    let tested = Tested::new();
    for _ in 0..3 {
        tested.get(&format!("http://one.test:{port}/")).await;
    }
    tested.get(&format!("http://two.test:{port}/")).await;
    tested.get("http://denied.test/").await;
    let reached = tested.gate.reached.lock().unwrap().clone();
    assert_eq!(reached, [format!("one.test:{port}"), format!("two.test:{port}")]);
}

#[tokio::test]
async fn server_that_stops_answering_does_not_outlive_its_client() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let tested = Tested::new();
    let mut client = tested.connect().await;
    client
        .write_all(format!("GET http://one.test:{port}/ HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())
        .await
        .unwrap();
    let (mut server, _) = listener.accept().await.unwrap();
    assert!(server.read(&mut [0; 1024]).await.unwrap() > 0);
    drop(client);
    let ended = tokio::time::timeout(Duration::from_secs(20), async {
        while !matches!(server.read(&mut [0; 1024]).await, Ok(0) | Err(_)) {}
    });
    ended.await.expect("the connection to the server ends with that of the client");
}
