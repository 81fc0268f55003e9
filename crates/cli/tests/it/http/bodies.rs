//! Bodies that arrive after their head: every route reads or refuses them before it answers and closes.

use std::time::Duration;

use baton_testkit::http::{Http, Response, read_response};
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::House;

/// Time for a server to answer what it has, and to close, if it is so inclined. One that waits for the rest passes however
/// long or short this is.
const BETWEEN_WRITES: Duration = Duration::from_millis(50);

const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// All routes: of the published description, and those that only the code names (crush's, and the first page).
fn routes() -> Vec<(String, String)> {
    let document: Value =
        serde_json::from_str(include_str!("../../../../../docs/openapi.json")).expect("a description");
    let paths = document["paths"].as_object().expect("paths").iter();
    let mut routes: Vec<(String, String)> = paths
        .flat_map(|(path, methods)| {
            let methods = methods.as_object().expect("methods").keys().cloned();
            methods.map(move |method| (method.to_uppercase(), path.clone()))
        })
        .collect();
    routes.extend(in_source(include_str!("../../../../server/src/http/api/mod.rs"), "", ""));
    let crush = include_str!("../../../../server/src/http/v1/mod.rs");
    let (outer, inner) = crush.split_once("fn core_routes").expect("the routes of a workspace");
    routes.extend(in_source(outer, "/v1", ""));
    routes.extend(in_source(inner, "/v1", "/workspaces/{id}"));
    routes.sort();
    routes.dedup();
    routes
}

/// The routes that a file of the server declares.
fn in_source(source: &str, prefix: &str, under: &str) -> Vec<(String, String)> {
    let declared = source.split(".route(\"").skip(1).filter_map(|text| text.split_once('"'));
    let lines = declared.map(|(path, rest)| (path, rest.lines().next().unwrap_or_default()));
    let of_line = |(path, handlers): (&str, &str)| {
        let full = format!("{prefix}{under}{path}");
        let methods = METHODS.into_iter().filter(|method| handlers.contains(&format!("{method}(")));
        methods.map(|method| (method.to_uppercase(), full.clone())).collect::<Vec<_>>()
    };
    lines.flat_map(of_line).collect()
}

fn filled(path: &str) -> String {
    let parts = path.split('/').map(|part| match part {
        "{id}" | "{sid}" => "s",
        part if part.starts_with('{') => "x",
        part => part,
    });
    parts.collect::<Vec<_>>().join("/")
}

/// Sends the head, gives the server time to answer it if it is so inclined, and then sends the body, in two parts.
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
async fn body_in_a_second_write_breaks_no_client_on_any_route() {
    let socket = tempfile::tempdir().unwrap();
    let file = socket.path().join("baton.sock");
    let house = House::open_with(&["--socket", file.to_str().unwrap()]).await;
    house.http.create("s", json!({})).await;
    let routes = routes();
    assert!(routes.len() > 75, "{} routes", routes.len());
    let clients = [house.http.clone(), Http::anonymous(&house.server), Http::socket(&file)];
    for client in &clients {
        let all = routes.iter().map(|(method, path)| in_two_writes(client, method, path));
        let broken: Vec<String> = join_all(all).await.into_iter().filter_map(Result::err).collect();
        assert!(broken.is_empty(), "{} of {}: {broken:#?}", broken.len(), routes.len());
    }
    house.http.create("after", json!({})).await;
    house.usable("after").await;
}

#[tokio::test]
async fn announced_length_over_the_limit_is_refused_at_once() {
    let house = House::configured("[http]\nmax_body_bytes = 1000").await;
    house.http.create("s", json!({})).await;
    let headers = [("Content-Type", "application/json"), ("Content-Length", "600000")];
    for (method, path) in [("POST", "/api/sessions/s/prompts"), ("GET", "/api/sessions"), ("PUT", "/nowhere")]
    {
        let head = house.http.head(method, path, &headers) + "\r\n";
        // Nothing of the body has been sent.
        let mut connection = house.http.dial().await;
        connection.write_all(head.as_bytes()).await.unwrap();
        assert_eq!(read_response(connection).await.refused(413), "too_large", "{method} {path}");
        // All of it, without a look at the answer.
        let mut connection = house.http.dial().await;
        connection.write_all(head.as_bytes()).await.unwrap();
        connection.write_all(&vec![b'x'; 600_000]).await.unwrap();
        assert_eq!(read_response(connection).await.refused(413), "too_large", "{method} {path}");
    }
    house.usable("s").await;
}

#[tokio::test]
async fn client_that_waits_to_be_told_to_send_is_told_or_refused() {
    let house = House::open().await;
    house.http.create("s", json!({})).await;
    let body = json!({"text": "[[text:x]]"}).to_string();
    let length = body.len().to_string();
    let headers =
        [("Content-Type", "application/json"), ("Content-Length", &*length), ("Expect", "100-continue")];
    let path = "/api/sessions/s/prompts";
    let mut connection = house.http.dial().await;
    connection.write_all((house.http.head("POST", path, &headers) + "\r\n").as_bytes()).await.unwrap();
    let mut told = vec![0; "HTTP/1.1 100 Continue\r\n\r\n".len()];
    connection.read_exact(&mut told).await.unwrap();
    assert_eq!(told, b"HTTP/1.1 100 Continue\r\n\r\n");
    connection.write_all(body.as_bytes()).await.unwrap();
    assert!((200..300).contains(&read_response(connection).await.status));

    let stranger = Http::anonymous(&house.server);
    let mut connection = stranger.dial().await;
    connection.write_all((stranger.head("POST", path, &headers) + "\r\n").as_bytes()).await.unwrap();
    assert_eq!(read_response(connection).await.refused(401), "unauthorized", "without being told to go on");
}

#[tokio::test]
async fn refused_request_leaves_its_connection_usable() {
    let house = House::open().await;
    let mut connection = house.http.dial().await;
    let refused = house.http.head("POST", "/nowhere", &[("Content-Length", "3")]) + "\r\nabc";
    let last = house.http.head("GET", "/api/health", &[]) + "Connection: close\r\n\r\n";
    connection.write_all(refused.as_bytes()).await.unwrap();
    connection.write_all(last.as_bytes()).await.unwrap();
    let mut said = String::new();
    connection.read_to_string(&mut said).await.unwrap();
    assert!(said.starts_with("HTTP/1.1 404") && said.contains("HTTP/1.1 200"), "{said}");
}
