//! Large events: a client that reads slowly keeps little of a session in the server's memory.

use std::sync::Arc;

use axum::Router;
use baton_history::transfer;
use baton_store::memory::MemoryStore;
use serde_json::json;

use crate::serve_with;

const EVENTS: u64 = 13;
const SIZE: usize = 1 << 20;

/// Returns a history with a start and large prompts.
fn history() -> String {
    let line = |number: u64, kind: &str, data: serde_json::Value| {
        json!({
            "type": kind, "data": data, "id": format!("0190c2f0-0000-7000-8000-{number:012}"),
            "timestamp": "2026-11-15T20:30:53.223Z", "parentId": null,
        })
        .to_string()
    };
    let start = json!({
        "sessionId": "s", "version": 1, "producer": "x", "copilotVersion": "1", "startTime": "2026-11-15T20:30:53.223Z",
    });
    let prompts =
        (2..=EVENTS).map(|number| line(number, "user.message", json!({"content": "x".repeat(SIZE)})));
    std::iter::once(line(1, "session.start", start)).chain(prompts).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn pages_of_large_events_are_small_and_complete() {
    let home = tempfile::tempdir().unwrap();
    let store = Arc::new(MemoryStore::default());
    transfer::import(&*store, &mut history().as_bytes(), None, || {}).await.unwrap();
    let (_runtime, http) = serve_with(home.path(), "http.sock", store, Router::new());
    let (mut after, mut seen, mut has_more) = (0, Vec::new(), true);
    while has_more {
        let response = http.get(&format!("/api/sessions/s/events?after={after}&limit=1000")).await;
        assert!(response.body.len() < 6 * SIZE, "{} bytes in one page", response.body.len());
        let page = response.expect(200);
        let events = page["events"].as_array().unwrap();
        seen.extend(events.iter().map(|event| event["seq"].as_u64().unwrap()));
        (after, has_more) = (page["next"].as_u64().unwrap(), page["hasMore"] == true);
    }
    assert_eq!(seen, (1..=EVENTS).collect::<Vec<_>>());
    let last = http.get(&format!("/api/sessions/s/events?before={}&limit=1000", EVENTS + 1)).await;
    assert!(last.body.len() < 6 * SIZE, "{} bytes in the last page", last.body.len());
    let last = last.expect(200);
    assert_eq!(last["events"].as_array().unwrap().last().unwrap()["seq"], EVENTS);
    assert_eq!(last["hasMore"], true);
}
