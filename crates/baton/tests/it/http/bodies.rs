//! Request bodies that arrive after their head: every route reads or refuses them before it answers and closes.

use std::time::Duration;

use baton_testkit::http::{Http, Response, read_response};
use futures_util::future::join_all;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::TestServer;

/// Time for a server to answer too early and close. A server that waits for the rest passes, however short this is.
const BETWEEN_WRITES: Duration = Duration::from_millis(50);

/// All routes of the session API and of crush's API, and the first page.
fn routes() -> Vec<(String, String)> {
    let session_api = baton_http::operations().into_iter().map(|(method, path, _)| (method, path.to_owned()));
    let of_crush = baton_crush::operations().into_iter().map(|(method, path, _)| (method, path));
    let named = session_api.chain(of_crush).map(|(method, path)| (method.to_string(), path));
    named.chain([("GET".to_owned(), "/".to_owned())]).collect()
}

fn filled(path: &str) -> String {
    let parts = path.split('/').map(|part| match part {
        "{id}" | "{sid}" => "s",
        part if part.starts_with('{') => "x",
        part => part,
    });
    parts.collect::<Vec<_>>().join("/")
}

/// Sends the head, waits, and then sends the body in two parts.
async fn in_two_writes(http: &Http, method: &str, path: &str) -> Result<Response, String> {
    let body = json!({ "nonsense": "x".repeat(100_000) }).to_string();
    let length = body.len().to_string();
    let headers = [("Content-Type", "application/json"), ("Content-Length", &*length)];
    let head = http.head(method, &filled(path), &headers) + "\r\n";
    let mut connection = http.dial().await;
    let (first, second) = body.as_bytes().split_at(1000);
    for part in [head.as_bytes(), first, second] {
        connection.write_all(part).await.map_err(|error| format!("{method} {path}: {error}"))?;
        tokio::time::sleep(BETWEEN_WRITES).await;
    }
    let response = tokio::time::timeout(baton_testkit::client::LIMIT, read_response(connection)).await;
    match response {
        Ok(response) if response.status > 0 => Ok(response),
        other => Err(format!("{method} {path}: no answer ({other:?})")),
    }
}

#[tokio::test]
async fn body_in_a_second_write_is_read_on_every_route() {
    let socket = tempfile::tempdir().unwrap();
    let file = socket.path().join("baton.sock");
    let test = TestServer::with_flags(&["--socket", file.to_str().unwrap()]).await;
    test.http.create("s", json!({})).await;
    let routes = routes();
    assert!(routes.len() > 140, "{} routes", routes.len());
    let clients = [test.http.clone(), Http::anonymous(&test.server), Http::socket(&file)];
    for client in &clients {
        let all = routes.iter().map(|(method, path)| in_two_writes(client, method, path));
        let broken: Vec<String> = join_all(all).await.into_iter().filter_map(Result::err).collect();
        assert!(broken.is_empty(), "{} of {}: {broken:#?}", broken.len(), routes.len());
    }
    test.http.create("after", json!({})).await;
    test.assert_usable("after").await;
}

#[tokio::test]
async fn announced_length_over_the_limit_is_refused_at_once() {
    let test = TestServer::with_config("[http]\nmax_body_bytes = 1000").await;
    test.http.create("s", json!({})).await;
    let headers = [("Content-Type", "application/json"), ("Content-Length", "600000")];
    for (method, path) in [("POST", "/api/sessions/s/prompts"), ("GET", "/api/sessions"), ("PUT", "/nowhere")]
    {
        let head = test.http.head(method, path, &headers) + "\r\n";
        // Nothing of the body.
        let mut connection = test.http.dial().await;
        connection.write_all(head.as_bytes()).await.unwrap();
        assert_eq!(read_response(connection).await.refused(413), "too_large", "{method} {path}");
        // All of the body, without reading the answer.
        let mut connection = test.http.dial().await;
        connection.write_all(head.as_bytes()).await.unwrap();
        connection.write_all(&vec![b'x'; 600_000]).await.unwrap();
        assert_eq!(read_response(connection).await.refused(413), "too_large", "{method} {path}");
    }
    test.assert_usable("s").await;
}

#[tokio::test]
async fn expect_continue_is_answered_or_refused() {
    let test = TestServer::start().await;
    test.http.create("s", json!({})).await;
    let body = json!({"text": "[[text:x]]"}).to_string();
    let length = body.len().to_string();
    let headers =
        [("Content-Type", "application/json"), ("Content-Length", &*length), ("Expect", "100-continue")];
    let path = "/api/sessions/s/prompts";
    let mut connection = test.http.dial().await;
    connection.write_all((test.http.head("POST", path, &headers) + "\r\n").as_bytes()).await.unwrap();
    let mut interim = vec![0; "HTTP/1.1 100 Continue\r\n\r\n".len()];
    connection.read_exact(&mut interim).await.unwrap();
    assert_eq!(interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    connection.write_all(body.as_bytes()).await.unwrap();
    assert!((200..300).contains(&read_response(connection).await.status));

    let anonymous = Http::anonymous(&test.server);
    let mut connection = anonymous.dial().await;
    connection.write_all((anonymous.head("POST", path, &headers) + "\r\n").as_bytes()).await.unwrap();
    assert_eq!(read_response(connection).await.refused(401), "unauthorized", "without 100 Continue");
}

#[tokio::test]
async fn refused_request_leaves_its_connection_usable() {
    let test = TestServer::start().await;
    let mut connection = test.http.dial().await;
    let refused = test.http.head("POST", "/nowhere", &[("Content-Length", "3")]) + "\r\nabc";
    let last = test.http.head("GET", "/api/health", &[]) + "Connection: close\r\n\r\n";
    connection.write_all(refused.as_bytes()).await.unwrap();
    connection.write_all(last.as_bytes()).await.unwrap();
    let mut responses = String::new();
    connection.read_to_string(&mut responses).await.unwrap();
    assert!(responses.starts_with("HTTP/1.1 404") && responses.contains("HTTP/1.1 200"), "{responses}");
}
