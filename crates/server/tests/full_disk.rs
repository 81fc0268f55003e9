//! A disk that is full: every door says so, no session seems to be gone, and all goes on once there is space.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says loudly that it cannot go on"
)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use baton_server::{Account, Endpoint, HttpDoor, HttpListener, HttpOptions, Options, RpcLimits, Server};
use baton_store::faults::{Fault, FaultyStore};
use baton_store::memory::MemoryStore;
use baton_testkit::http::Http;
use serde_json::json;
use tokio::net::UnixListener;

fn options(home: &Path) -> Options {
    Options {
        version: "0".into(),
        home: home.to_owned(),
        cwd: home.to_owned(),
        endpoint: Endpoint::Demo,
        engines: BTreeMap::new(),
        record: None,
        reveal_endpoint: false,
        github_api: None,
        account: Account::default(),
        environment: Vec::new(),
        engine_environment: Vec::new(),
        connection_token: None,
        allow_all: false,
        crash: None,
        max_message: 1 << 20,
        max_backlog: 1 << 20,
        rpc: RpcLimits::default(),
    }
}

/// A server with a socket file.
fn serve(home: &Path, name: &str, store: &Arc<FaultyStore>) -> (Arc<Server>, Http) {
    let server = Server::new(options(home), store.clone());
    let file = home.join(name);
    let listener = HttpListener::Socket(UnixListener::bind(&file).unwrap());
    let door = HttpDoor::new(&server, HttpOptions::default());
    tokio::spawn(async move { door.serve(listener).await });
    (server, Http::socket(file))
}

/// What a client might do with the session `s`, or to make another.
fn calls() -> Vec<(&'static str, &'static str, Option<serde_json::Value>)> {
    let prompt = json!({"text": "hello"});
    vec![
        ("POST", "/api/sessions", Some(json!({"id": "another"}))),
        ("POST", "/api/sessions/s/prompts", Some(prompt)),
        ("POST", "/api/sessions/s/resume", Some(json!({}))),
        ("PATCH", "/api/sessions/s", Some(json!({"name": "new"}))),
        ("DELETE", "/api/sessions/s", None),
    ]
}

#[tokio::test]
async fn full_disk_is_507_throughout_and_not_ready() {
    let home = tempfile::tempdir().unwrap();
    let store = Arc::new(FaultyStore::new(Arc::new(MemoryStore::default())));
    let (first, http) = serve(home.path(), "first.sock", &store);
    http.create("s", json!({})).await;
    first.stop().await;
    for fault in [Fault::Full, Fault::From(0)] {
        // A server that does not have the session in memory: opening it is a write.
        let (server, http) = serve(home.path(), &format!("{fault:?}.sock"), &store);
        store.plan(fault);
        for _ in 0..20 {
            for (method, path, body) in calls() {
                let answer = http.send(method, path, &[], body.as_ref()).await;
                assert_eq!(answer.refused(507), "storage", "{fault:?} {method} {path}");
            }
        }
        assert_eq!(http.get("/api/ready").await.refused(503), "not_ready", "{fault:?}");
        assert_eq!(http.get("/api/health").await.status, 200);
        store.heal();
        let prompt = http.prompt("s", "hello").await;
        assert_eq!(http.outcome("s", &prompt).await, "completed");
        server.stop().await;
    }
}

/// Two clients at once: the one that comes while the other's opening fails is told the same.
#[tokio::test]
async fn failed_opening_is_told_to_everybody_who_asks() {
    let home = tempfile::tempdir().unwrap();
    let store = Arc::new(FaultyStore::new(Arc::new(MemoryStore::default())));
    let (first, http) = serve(home.path(), "first.sock", &store);
    http.create("s", json!({})).await;
    first.stop().await;
    let (_server, http) = serve(home.path(), "second.sock", &store);
    store.plan(Fault::Full);
    let prompt = json!({"text": "hello"});
    for _ in 0..50 {
        let send = || http.send("POST", "/api/sessions/s/prompts", &[], Some(&prompt));
        let (one, two, three) = tokio::join!(send(), send(), send());
        for answer in [one, two, three] {
            assert_eq!(answer.refused(507), "storage");
        }
    }
}
