//! A full disk: writes get 507, no session appears deleted, and all work continues once there is space.

use std::sync::Arc;

use baton_store::faults::{Fault, FaultyStore};
use baton_store::memory::MemoryStore;
use serde_json::json;

use crate::serve;

/// Requests that write: to session `s`, or to create a session.
fn writes() -> Vec<(&'static str, &'static str, Option<serde_json::Value>)> {
    let prompt = json!({"text": "hello"});
    vec![
        ("POST", "/api/sessions", Some(json!({"id": "new"}))),
        ("POST", "/api/sessions/s/prompts", Some(prompt)),
        ("POST", "/api/sessions/s/resume", Some(json!({}))),
        ("PATCH", "/api/sessions/s", Some(json!({"name": "new"}))),
        ("DELETE", "/api/sessions/s", None),
    ]
}

#[tokio::test]
async fn full_disk_gets_507_and_is_not_ready() {
    let home = tempfile::tempdir().unwrap();
    let store = Arc::new(FaultyStore::new(Arc::new(MemoryStore::default())));
    let (first, http) = serve(home.path(), "first.sock", &store);
    http.create("s", json!({})).await;
    first.stop().await;
    for fault in [Fault::Full, Fault::From(0)] {
        // A server on which the session is not live: opening it is a write.
        let (runtime, http) = serve(home.path(), &format!("{fault:?}.sock"), &store);
        store.plan(fault);
        for _ in 0..20 {
            for (method, path, body) in writes() {
                let response = http.send(method, path, &[], body.as_ref()).await;
                assert_eq!(response.refused(507), "storage", "{fault:?} {method} {path}");
            }
        }
        assert_eq!(http.get("/api/ready").await.refused(503), "not_ready", "{fault:?}");
        assert_eq!(http.get("/api/health").await.status, 200);
        store.heal();
        let prompt = http.prompt("s", "hello").await;
        assert_eq!(http.outcome("s", &prompt).await, "completed");
        runtime.stop().await;
    }
}

#[tokio::test]
async fn concurrent_requests_get_the_error_of_the_same_failed_opening() {
    let home = tempfile::tempdir().unwrap();
    let store = Arc::new(FaultyStore::new(Arc::new(MemoryStore::default())));
    let (first, http) = serve(home.path(), "first.sock", &store);
    http.create("s", json!({})).await;
    first.stop().await;
    let (_runtime, http) = serve(home.path(), "second.sock", &store);
    store.plan(Fault::Full);
    let prompt = json!({"text": "hello"});
    for _ in 0..50 {
        let send = || http.send("POST", "/api/sessions/s/prompts", &[], Some(&prompt));
        let (one, two, three) = tokio::join!(send(), send(), send());
        for response in [one, two, three] {
            assert_eq!(response.refused(507), "storage");
        }
    }
}
