//! What one person can hold and cost: streams, connections, rendering, and the time of a token.

use baton_testkit::http::{Http, read_response};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use super::TestServer;

impl TestServer {
    /// Adds a person, and returns the person's client.
    pub(super) async fn person(&self, name: &str, role: &str) -> Http {
        let added =
            self.program.run(&["people", "add", name, "--role", role, "--expires", "1", "--json"]).await;
        let added: Value = serde_json::from_str(&added.stdout).unwrap();
        Http::anonymous(&self.server).with_token(added["token"].as_str().unwrap())
    }
}

#[tokio::test]
async fn audit_names_the_person_who_changed_a_session() {
    let test = TestServer::start().await;
    let (ada, bob) = (test.person("ada", "driver").await, test.person("bob", "driver").await);
    ada.create("s", json!({"allowAllTools": true})).await;
    let change = json!({"name": "new", "model": "other", "mode": "plan", "permissions": "manual"});
    let _ = bob.send("PATCH", "/api/sessions/s", &[], Some(&change)).await.expect(200);
    let prompt = bob.prompt("s", "[[text:x]]").await;
    assert_eq!(bob.outcome("s", &prompt).await, "completed");
    let mut events = ada.events("s", 0).await;
    let sent = events.kind("user.message").await.event["id"].as_str().unwrap().to_owned();
    let _ = ada.post("/api/sessions/s/rewind", json!({"event": sent, "files": false})).await.expect(200);

    let audit = test.program.run(&["audit", "--json", "--since", "1h"]).await;
    let entries = audit.json_lines();
    let shown: Vec<(&str, &str)> = entries
        .iter()
        .map(|entry| (entry["action"].as_str().unwrap(), entry["by"].as_str().unwrap_or("?")))
        .collect();
    assert_eq!(
        shown,
        [
            ("session_created", "ada"),
            ("permission_mode_changed", "ada"),
            ("renamed", "bob"),
            ("model_changed", "bob"),
            ("mode_changed", "bob"),
            ("permission_mode_changed", "bob"),
            ("prompted", "bob"),
            ("rewound", "ada"),
        ],
        "{entries:#?}"
    );
}

#[tokio::test]
async fn streams_of_a_person_are_counted_over_all_apis() {
    let test = TestServer::with_config("[http]\nmax_streams = 8").await;
    test.http.create("s", json!({})).await;
    let dora = test.person("dora", "driver").await;
    let client = "11111111-1111-4111-8111-111111111111";
    let workspace = json!({ "path": test.program.work(), "client_id": client });
    let workspace = dora.post("/v1/workspaces", workspace).await.expect(200);
    let crush = format!("/v1/workspaces/{}/events?client_id={client}", workspace["id"].as_str().unwrap());
    let stream = [("Accept", "text/event-stream")];

    let own = dora.events("s", 0).await;
    let refused = dora.send("GET", "/api/sessions/s/events", &stream, None).await;
    assert_eq!(refused.refused(503), "too_many_streams");
    let refused = dora.send("GET", &crush, &stream, None).await;
    assert!(refused.status == 503 && refused.body.contains("you have too many"), "{refused:?}");
    let others = test.http.events("s", 0).await;
    drop(own);

    let mut held = loop {
        // The server notices the end of the first stream a little later.
        let mut connection = dora.dial().await;
        let request = dora.head("GET", &crush, &stream) + "\r\n";
        connection.write_all(request.as_bytes()).await.unwrap();
        let mut head = [0; 12];
        tokio::io::AsyncReadExt::read_exact(&mut connection, &mut head).await.unwrap();
        if head.ends_with(b"200") {
            break connection;
        }
    };
    let refused = dora.send("GET", "/api/sessions/s/events", &stream, None).await;
    assert_eq!(refused.refused(503), "too_many_streams", "the stream of the other API counts");
    held.shutdown().await.unwrap();
    drop(others);
}

#[tokio::test]
async fn connections_of_a_person_are_a_share() {
    let test = TestServer::with_config("[http]\nmax_connections = 64").await;
    let (vera, ada) = (test.person("vera", "viewer").await, test.person("ada", "viewer").await);
    let mut kept = Vec::new();
    for _ in 0..8 {
        let mut connection = vera.dial().await;
        let request = vera.head("GET", "/api/me", &[]) + "\r\n";
        connection.write_all(request.as_bytes()).await.unwrap();
        let mut head = [0; 12];
        tokio::io::AsyncReadExt::read_exact(&mut connection, &mut head).await.unwrap();
        assert!(head.ends_with(b"200"), "{}", String::from_utf8_lossy(&head));
        kept.push(connection);
    }
    let mut further = vera.dial().await;
    further.write_all((vera.head("GET", "/api/me", &[]) + "\r\n").as_bytes()).await.unwrap();
    let refused = read_response(further).await;
    assert_eq!(refused.refused(503), "too_many_connections");
    assert_eq!(refused.header("connection"), Some("close"));
    assert_eq!(ada.get("/api/me").await.status, 200);
    assert_eq!(test.http.get("/api/me").await.status, 200);
    drop(kept);
    while vera.get("/api/me").await.status != 200 {}
}

#[tokio::test]
async fn responses_that_a_person_does_not_read_delay_nobody() {
    let test = TestServer::start().await;
    test.http.create("s", json!({})).await;
    for _ in 0..2 {
        let prompt = test.http.prompt("s", &"long ".repeat(200_000)).await;
        assert_eq!(test.http.outcome("s", &prompt).await, "completed");
    }
    let vera = test.person("vera", "viewer").await;
    let mut unread = Vec::new();
    for path in ["/api/sessions/s/events", "/api/sessions/s/export"].repeat(6) {
        let mut connection = vera.dial().await;
        let request = vera.head("GET", path, &[]) + "\r\n";
        connection.write_all(request.as_bytes()).await.unwrap();
        let mut head = [0; 12];
        tokio::io::AsyncReadExt::read_exact(&mut connection, &mut head).await.unwrap();
        assert!(head.ends_with(b"200"), "{}", String::from_utf8_lossy(&head));
        unread.push(connection);
    }
    let waits = std::time::Duration::from_secs(60);
    for path in ["/api/sessions", "/api/requests", "/api/sessions/s/state"] {
        let answer = tokio::time::timeout(waits, test.http.get(path)).await;
        assert_eq!(answer.expect("an answer while others do not read").status, 200);
    }
    // Nor does it hide that a person was removed.
    let ada = test.person("ada", "viewer").await;
    let mut watched = ada.events("s", 0).await;
    watched.next().await.expect("the first event");
    assert_eq!(test.program.run(&["people", "remove", "ada"]).await.code(), Some(0));
    let ended = async { while watched.next().await.is_some() {} };
    tokio::time::timeout(waits, ended).await.expect("the end of the removed person's stream");
    drop(unread);
}

#[tokio::test]
async fn stream_ends_when_its_token_expires() {
    let test = TestServer::start().await;
    test.http.create("s", json!({})).await;
    let vera = test.person("vera", "viewer").await;
    let mut stream = vera.events("s", 0).await;
    stream.next().await.expect("the first event");
    let file = rusqlite::Connection::open(test.program.database()).unwrap();
    let body: Vec<u8> =
        file.query_row("SELECT body FROM documents WHERE name = 'people'", [], |row| row.get(0)).unwrap();
    let soon = "SELECT strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '+2 seconds')";
    let soon: String = file.query_row(soon, [], |row| row.get(0)).unwrap();
    let mut people: Value = serde_json::from_slice(&body).unwrap();
    people["people"][0]["expires"] = soon.into();
    let change = "UPDATE documents SET version = version + 1, body = ?1 WHERE name = 'people'";
    assert_eq!(file.execute(change, [people.to_string().into_bytes()]).unwrap(), 1);
    assert_eq!(vera.get("/api/me").await.status, 200, "it has not expired yet");
    while stream.next().await.is_some() {}
    assert_eq!(vera.get("/api/me").await.refused(401), "unauthorized");
}

#[tokio::test]
async fn rendering_is_bounded() {
    let test = TestServer::start().await;
    let vera = test.person("vera", "viewer").await;
    let texts = |count: usize| json!({ "markdown": vec![""; count] });
    let rendered = vera.post("/api/render", texts(1000)).await.expect(200);
    assert_eq!(rendered["html"].as_array().unwrap().len(), 1000);
    assert_eq!(vera.post("/api/render", texts(1001)).await.refused(422), "too_long");
    let large = vera.post("/api/render", texts(3 << 20)).await;
    assert_eq!(large.refused(413), "too_large", "refused before it is parsed");
}
