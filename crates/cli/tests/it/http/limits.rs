//! Clients that dawdle, lie and overdo it: they get an answer or the end of their connection, and nobody else notices.

use baton_testkit::http::{Connection, read_response};
use rustix::process::Signal;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::House;

/// Waits until the server has closed a connection; returns what it said before.
async fn ended(mut connection: Connection) -> String {
    let mut said = Vec::new();
    let read = connection.read_to_end(&mut said);
    // A reset is an end, too.
    let _ = tokio::time::timeout(baton_testkit::client::LIMIT, read).await.expect("the connection ends");
    String::from_utf8_lossy(&said).into_owned()
}

#[tokio::test]
async fn who_takes_too_long_to_say_what_it_wants_is_hung_up_on() {
    let house = House::configured("[http]\nheader_seconds = 1").await;
    house.http.create("s", json!({})).await;
    let whole = house.http.head("GET", "/api/sessions", &[]) + "\r\n";
    let mut slow = Vec::new();
    for cut in [0, 1, 20, whole.len() - 1] {
        let mut connection = house.http.dial().await;
        connection.write_all(&whole.as_bytes()[..cut]).await.unwrap();
        slow.push(connection);
    }
    // One that has been served and then says nothing.
    let mut idle = house.http.dial().await;
    idle.write_all(whole.as_bytes()).await.unwrap();
    slow.push(idle);
    house.usable("s").await;
    for connection in slow {
        ended(connection).await;
    }
    // And one that says a little, again and again, for as long as it is let.
    let mut dripping = house.http.dial().await;
    let drip = async {
        loop {
            if dripping.write_all(b"G").await.is_err() {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(baton_testkit::client::LIMIT, drip).await.expect("it is hung up on");
    house.usable("s").await;
}

#[tokio::test]
async fn bodies_that_lie_about_their_length_do_nothing() {
    let house = House::configured("[http]\nbody_seconds = 1\nmax_body_bytes = 1000").await;
    house.http.create("s", json!({})).await;
    let head = house.http.head("POST", "/api/sessions/s/prompts", &[("Content-Type", "application/json")]);
    let body = r#"{"text":"[[text:x]]"}"#;
    let send = |rest: String| {
        let (http, request) = (house.http.clone(), format!("{head}{rest}"));
        async move { http.exchange(request.as_bytes()).await }
    };
    let late = send(format!("Content-Length: 500\r\n\r\n{body}")).await;
    assert_eq!(late.refused(408), "too_slow");
    let cut = send(format!("Content-Length: 5\r\n\r\n{body}")).await;
    assert_eq!(cut.refused(400), "bad_request", "only what was announced is read");
    let large = send(format!("Content-Length: 2000\r\n\r\n{}", "x".repeat(2000))).await;
    assert_eq!(large.refused(413), "too_large");
    let endless = "5\r\nxxxxx\r\n".repeat(300);
    let chunked = send(format!("Transfer-Encoding: chunked\r\n\r\n{endless}0\r\n\r\n")).await;
    assert_eq!(chunked.refused(413), "too_large", "a body that does not say how long it is, too");
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
        house.history("s").await.iter().filter(|(_, e)| e["type"] == "baton.prompt_accepted").count();
    assert_eq!(prompts, 0, "none of them was a prompt");
    house.usable("s").await;
}

/// Two lengths, or a length and chunks: two readers would see two different requests in the same bytes.
#[tokio::test]
async fn a_request_cannot_be_smuggled_in_behind_another() {
    let house = House::open().await;
    let inner = house.http.head("POST", "/api/sessions", &[("Content-Length", "0")]);
    let head = house.http.head("POST", "/api/sessions/none/cancel", &[]);
    let both = format!("{head}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{inner}\r\n");
    let mut connection = house.http.dial().await;
    connection.write_all(both.as_bytes()).await.unwrap();
    connection.shutdown().await.unwrap();
    let said = ended(connection).await;
    assert!(said.matches("HTTP/1.1").count() <= 1, "{said}");
    assert_eq!(house.http.get("/api/sessions").await.expect(200), json!({"sessions": []}));
}

#[tokio::test]
async fn huge_heads_are_refused() {
    let house = House::open().await;
    let long = "x".repeat(1 << 20);
    let many: Vec<(String, String)> = (0..20_000).map(|n| (format!("X-{n}"), "y".repeat(40))).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let path = format!("/api/sessions/{long}");
    for answer in [
        house.http.send("GET", "/api/sessions", &[("X-Long", &long)], None).await,
        house.http.send("GET", "/api/sessions", &many, None).await,
        house.http.get(&path).await,
    ] {
        assert!(matches!(answer.status, 0 | 400 | 414 | 431), "{}", answer.status);
    }
    for nonsense in
        ["\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "\0\0\0\0", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"]
    {
        let mut connection = house.http.dial().await;
        connection.write_all(nonsense.as_bytes()).await.unwrap();
        connection.shutdown().await.unwrap();
        let said = ended(connection).await;
        assert!(said.is_empty() || said.starts_with("HTTP/1.1 4"), "{nonsense:?}: {said}");
    }
    assert_eq!(house.http.get("/api/health").await.status, 200);
}

#[tokio::test]
async fn a_reader_that_hangs_up_half_way_is_let_go() {
    let house = House::open().await;
    house.http.create("s", json!({})).await;
    house.usable("s").await;
    let before = house.server.sockets();
    let mut half_closed = Vec::new();
    for _ in 0..5 {
        let mut connection = house.http.dial().await;
        let stream = house.http.head("GET", "/api/sessions/s/events", &[("Accept", "text/event-stream")]);
        connection.write_all(format!("{stream}\r\n").as_bytes()).await.unwrap();
        connection.shutdown().await.unwrap();
        half_closed.push(connection);
        let mut cut = house.http.dial().await;
        cut.write_all(b"POST /api/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Le").await.unwrap();
        cut.shutdown().await.unwrap();
        half_closed.push(cut);
    }
    for connection in half_closed {
        ended(connection).await;
    }
    house.server.until_sockets(before).await;
    let metrics = house.http.get("/api/metrics").await.body;
    assert!(metrics.contains("\nbaton_http_streams 0\n"), "{metrics}");
    house.usable("s").await;
}

#[tokio::test]
async fn streams_requests_and_connections_are_limited() {
    let house = House::configured("[http]\nmax_streams = 2\nmax_connections = 6").await;
    house.http.create("s", json!({})).await;
    let first = house.http.events("s", 0).await;
    let _second = house.http.events("s", 0).await;
    let stream = [("Accept", "text/event-stream")];
    let third = house.http.send("GET", "/api/sessions/s/events", &stream, None).await;
    assert_eq!(third.refused(503), "too_many_streams");
    assert_eq!(house.http.get("/api/sessions/s/events").await.status, 200, "pages are still read");
    drop(first);
    let busy = [house.http.dial().await, house.http.dial().await, house.http.dial().await];
    let _again = house.http.events("s", 0).await;
    // Whoever comes when all places are taken waits for one.
    let mut waiting = house.http.dial().await;
    let request = house.http.head("GET", "/api/health", &[]) + "Connection: close\r\n\r\n";
    waiting.write_all(request.as_bytes()).await.unwrap();
    drop(busy);
    assert_eq!(read_response(waiting).await.status, 200);

    let hasty = House::configured("[http]\nrequests_per_second = 5").await;
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
async fn a_server_that_is_asked_to_stop_ends_its_streams_and_leaves() {
    let mut house = House::open().await;
    house.http.create("s", json!({})).await;
    let mut events = house.http.events("s", 0).await;
    events.kind("session.start").await;
    let _idle = house.http.dial().await;
    let prompt = house.http.prompt("s", "[[hold:never]]").await;
    house.model.wait_for_hold("never").await;
    house.server.signal(Signal::TERM);
    while events.next().await.is_some() {}
    assert!(house.server.ended().await.success());
    assert!(std::fs::read_dir(house.program.home().join("servers")).unwrap().next().is_none());
    house.restart().await;
    let path = format!("/api/sessions/s/prompts/{prompt}");
    assert_eq!(
        house.http.get(&path).await.expect(200)["state"],
        "running",
        "it waits for whoever goes on with it"
    );
}

#[tokio::test]
async fn the_server_says_how_it_is() {
    let house = House::open().await;
    house.http.create("s", json!({})).await;
    assert_eq!(house.http.get("/api/health").await.expect(200)["status"], "ok");
    assert_eq!(house.http.get("/api/ready").await.expect(200)["status"], "ready");
    let _stream = house.http.events("s", 0).await;
    let metrics = house.http.get("/api/metrics").await;
    assert!(metrics.header("content-type").unwrap().starts_with("text/plain"), "{metrics:?}");
    for line in ["baton_http_streams 1", "baton_sessions_live 1", "baton_http_responses_total{class=\"2xx\"}"]
    {
        assert!(metrics.body.contains(line), "{}", metrics.body);
    }
}
