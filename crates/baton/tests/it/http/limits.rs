//! Slow, malformed and excessive requests: they get an error or the end of their connection, and other clients are not
//! affected.

use baton_testkit::http::{Connection, Http, read_response};
use rustix::process::Signal;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::TestServer;

/// Waits until the server has closed a connection, and returns what it sent before.
async fn ended(mut connection: Connection) -> String {
    let mut said = Vec::new();
    let read = connection.read_to_end(&mut said);
    // A reset counts as closed.
    let _ = tokio::time::timeout(baton_testkit::client::LIMIT, read).await.expect("the connection ends");
    String::from_utf8_lossy(&said).into_owned()
}

#[tokio::test]
async fn slow_request_head_times_out() {
    let test = TestServer::with_config("[http]\nheader_seconds = 1").await;
    test.http.create("s", json!({})).await;
    let whole = test.http.head("GET", "/api/sessions", &[]) + "\r\n";
    let mut slow = Vec::new();
    for cut in [0, 1, 20, whole.len() - 1] {
        let mut connection = test.http.dial().await;
        connection.write_all(&whole.as_bytes()[..cut]).await.unwrap();
        slow.push(connection);
    }
    // A connection that is idle after a response.
    let mut idle = test.http.dial().await;
    idle.write_all(whole.as_bytes()).await.unwrap();
    slow.push(idle);
    test.assert_usable("s").await;
    for connection in slow {
        ended(connection).await;
    }
    // A connection that sends a byte every 50 ms.
    let mut dripping = test.http.dial().await;
    let drip = async {
        loop {
            if dripping.write_all(b"G").await.is_err() {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(baton_testkit::client::LIMIT, drip).await.expect("the connection is closed");
    test.assert_usable("s").await;
}

#[tokio::test]
async fn bodies_with_a_wrong_length_are_refused() {
    let test = TestServer::with_config("[http]\nbody_seconds = 1\nmax_body_bytes = 1000").await;
    test.http.create("s", json!({})).await;
    let head = test.http.head("POST", "/api/sessions/s/prompts", &[("Content-Type", "application/json")]);
    let body = r#"{"text":"[[text:x]]"}"#;
    let send = |rest: String| {
        let (http, request) = (test.http.clone(), format!("{head}{rest}"));
        async move { http.exchange(request.as_bytes()).await }
    };
    let late = send(format!("Content-Length: 500\r\n\r\n{body}")).await;
    assert_eq!(late.refused(408), "too_slow");
    let cut = send(format!("Content-Length: 5\r\n\r\n{body}")).await;
    assert_eq!(cut.refused(400), "bad_request", "only the announced bytes are read");
    let large = send(format!("Content-Length: 2000\r\n\r\n{}", "x".repeat(2000))).await;
    assert_eq!(large.refused(413), "too_large");
    let endless = "5\r\nxxxxx\r\n".repeat(300);
    let chunked = send(format!("Transfer-Encoding: chunked\r\n\r\n{endless}0\r\n\r\n")).await;
    assert_eq!(chunked.refused(413), "too_large", "also without a Content-Length");
    for nonsense in [
        "Content-Length: -1\r\n\r\n{}",
        "Content-Length: 99999999999999999999999999\r\n\r\n{}",
        "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}x",
        "Transfer-Encoding: chunked\r\n\r\nZZ\r\n{}\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n{}",
    ] {
        let answer = send(nonsense.to_owned()).await;
        assert!(answer.status == 0 || (400..500).contains(&answer.status), "{nonsense:?}: {answer:?}");
    }
    let prompts =
        test.history("s").await.iter().filter(|(_, e)| e["type"] == "baton.prompt_accepted").count();
    assert_eq!(prompts, 0, "none was accepted");
    test.assert_usable("s").await;
}

/// With both a length and chunks, two parsers could see different requests in the same bytes.
#[tokio::test]
async fn request_smuggling_is_refused() {
    let test = TestServer::start().await;
    let inner = test.http.head("POST", "/api/sessions", &[("Content-Length", "0")]);
    let head = test.http.head("POST", "/api/sessions/none/cancel", &[]);
    let both = format!("{head}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{inner}\r\n");
    let mut connection = test.http.dial().await;
    connection.write_all(both.as_bytes()).await.unwrap();
    connection.shutdown().await.unwrap();
    let said = ended(connection).await;
    assert!(said.matches("HTTP/1.1").count() <= 1, "{said}");
    assert_eq!(test.http.get("/api/sessions").await.expect(200), json!({"sessions": []}));
}

#[tokio::test]
async fn huge_heads_are_refused() {
    let test = TestServer::start().await;
    let long = "x".repeat(1 << 20);
    let many: Vec<(String, String)> = (0..20_000).map(|n| (format!("X-{n}"), "y".repeat(40))).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let path = format!("/api/sessions/{long}");
    for answer in [
        test.http.send("GET", "/api/sessions", &[("X-Long", &long)], None).await,
        test.http.send("GET", "/api/sessions", &many, None).await,
        test.http.get(&path).await,
    ] {
        assert!(matches!(answer.status, 0 | 400 | 414 | 431), "{}", answer.status);
    }
    for nonsense in
        ["\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "\0\0\0\0", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"]
    {
        let mut connection = test.http.dial().await;
        connection.write_all(nonsense.as_bytes()).await.unwrap();
        connection.shutdown().await.unwrap();
        let said = ended(connection).await;
        assert!(said.is_empty() || said.starts_with("HTTP/1.1 4"), "{nonsense:?}: {said}");
    }
    assert_eq!(test.http.get("/api/health").await.status, 200);
}

#[tokio::test]
async fn half_closed_connections_are_closed() {
    let test = TestServer::start().await;
    test.http.create("s", json!({})).await;
    test.assert_usable("s").await;
    let before = test.server.sockets();
    let mut half_closed = Vec::new();
    for _ in 0..5 {
        let mut connection = test.http.dial().await;
        let stream = test.http.head("GET", "/api/sessions/s/events", &[("Accept", "text/event-stream")]);
        connection.write_all(format!("{stream}\r\n").as_bytes()).await.unwrap();
        connection.shutdown().await.unwrap();
        half_closed.push(connection);
        let mut cut = test.http.dial().await;
        cut.write_all(b"POST /api/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Le").await.unwrap();
        cut.shutdown().await.unwrap();
        half_closed.push(cut);
    }
    for connection in half_closed {
        ended(connection).await;
    }
    test.server.until_sockets(before).await;
    let metrics = test.http.get("/api/metrics").await.body;
    assert!(metrics.contains("\nbaton_http_streams 0\n"), "{metrics}");
    test.assert_usable("s").await;
}

#[tokio::test]
async fn streams_requests_and_connections_are_limited() {
    let test = TestServer::with_config("[http]\nmax_streams = 2\nmax_connections = 6").await;
    test.http.create("s", json!({})).await;
    let first = test.http.events("s", 0).await;
    let _second = test.http.events("s", 0).await;
    let stream = [("Accept", "text/event-stream")];
    let third = test.http.send("GET", "/api/sessions/s/events", &stream, None).await;
    assert_eq!(third.refused(503), "too_many_streams");
    assert_eq!(test.http.get("/api/sessions/s/events").await.status, 200, "pages of events are still served");
    drop(first);
    // The server notices the end of the first stream a little later, which no event announces.
    crate::eventually("the end of the first stream", async || {
        let metrics = test.http.get("/api/metrics").await.body;
        (!metrics.contains("baton_http_streams 2")).then_some(())
    })
    .await;
    let busy = [test.http.dial().await, test.http.dial().await, test.http.dial().await];
    let _again = test.http.events("s", 0).await;
    // A connection over the limit waits for a free place.
    let mut waiting = test.http.dial().await;
    let request = test.http.head("GET", "/api/health", &[]) + "Connection: close\r\n\r\n";
    waiting.write_all(request.as_bytes()).await.unwrap();
    drop(busy);
    assert_eq!(read_response(waiting).await.status, 200);

    let hasty = TestServer::with_config("[http]\nrequests_per_second = 5").await;
    let mut refused = 0;
    for _ in 0..40 {
        let answer = hasty.http.get("/api/health").await;
        if answer.status != 200 {
            assert_eq!(answer.refused(429), "rate_limited");
            assert_eq!(answer.header("retry-after"), Some("1"));
            refused += 1;
        }
    }
    assert!(refused > 0);
}

#[tokio::test]
async fn strangers_send_little_and_keep_nobody_out() {
    let test = TestServer::with_config("[http]\nheader_seconds = 1\nmax_connections = 16").await;
    let stranger = Http::anonymous(&test.server);
    let large = json!({ "secret": "x".repeat(16 << 10) });
    assert_eq!(stranger.send("POST", "/api/login", &[], Some(&large)).await.refused(413), "too_large");
    let head = stranger.head("POST", "/api/login", &[("Content-Type", "application/json")]);
    let chunks = "1000\r\n".to_owned() + &"x".repeat(4096) + "\r\n";
    let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n{}0\r\n\r\n", chunks.repeat(3));
    assert_eq!(stranger.exchange(chunked.as_bytes()).await.refused(413), "too_large");
    let slow = format!("{head}Content-Length: 500\r\n\r\n{{");
    assert_eq!(stranger.exchange(slow.as_bytes()).await.refused(408), "too_slow");
    let mut silent = Vec::new();
    for _ in 0..40 {
        let mut connection = stranger.dial().await;
        connection.write_all(slow.as_bytes()).await.unwrap();
        silent.push(connection);
    }
    assert_eq!(test.http.get("/api/sessions").await.status, 200);
}

#[tokio::test]
async fn stopping_server_ends_its_streams_and_keeps_prompts() {
    let mut test = TestServer::start().await;
    test.http.create("s", json!({})).await;
    let mut events = test.http.events("s", 0).await;
    events.kind("session.start").await;
    let _idle = test.http.dial().await;
    let prompt = test.http.prompt("s", "[[hold:never]]").await;
    test.model.wait_for_hold("never").await;
    test.server.signal(Signal::TERM);
    while events.next().await.is_some() {}
    assert!(test.server.ended().await.success());
    assert!(std::fs::read_dir(test.program.home().join("servers")).unwrap().next().is_none());
    test.restart().await;
    let path = format!("/api/sessions/s/prompts/{prompt}");
    assert_eq!(
        test.http.get(&path).await.expect(200)["state"],
        "running",
        "it continues when a client resumes the session"
    );
}

#[tokio::test]
async fn health_readiness_and_metrics_are_served() {
    let test = TestServer::start().await;
    test.http.create("s", json!({})).await;
    assert_eq!(test.http.get("/api/health").await.expect(200)["status"], "ok");
    assert_eq!(test.http.get("/api/ready").await.expect(200)["status"], "ready");
    let _stream = test.http.events("s", 0).await;
    let metrics = test.http.get("/api/metrics").await;
    assert!(metrics.header("content-type").unwrap().starts_with("text/plain"), "{metrics:?}");
    for line in ["baton_http_streams 1", "baton_sessions_live 1", "baton_http_responses_total{class=\"2xx\"}"]
    {
        assert!(metrics.body.contains(line), "{}", metrics.body);
    }
}
