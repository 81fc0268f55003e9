//! A handler that panics: its request gets 500, its text is logged, and the server continues.

use std::io::Write;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::routing::get;
use baton_store::memory::MemoryStore;

use crate::serve_with;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

async fn panicking_handler() {
    panic!("no such case: {}", 7);
}

#[tokio::test]
async fn panic_of_a_handler_is_logged_with_its_request_and_gets_500() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    // For all threads: tracing turns a span off for good if a thread without a subscriber is the first to reach it.
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let home = tempfile::tempdir().unwrap();
    let routes = Router::new().route("/panic", get(panicking_handler));
    let (_runtime, http) = serve_with(home.path(), "s.sock", Arc::new(MemoryStore::default()), routes);
    let response = http.get("/test/panic?token=secret").await;
    assert_eq!(response.refused(500), "internal");
    assert_eq!(
        response.header("x-frame-options"),
        Some("DENY"),
        "errors have the same headers as other responses"
    );
    assert_eq!(http.get("/api/health").await.status, 200, "the server continues");
    let metrics = http.get("/api/metrics").await.body;
    for line in ["baton_http_responses_total{class=\"5xx\"} 1", "baton_http_connections 1"] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let entry = log.lines().find(|line| line.contains("request handler panicked")).expect(&log);
    for part in
        ["ERROR", "connection{peer=socket}", "request{method=GET path=\"/test/panic\"}", "no such case: 7"]
    {
        assert!(entry.contains(part), "{part} in {entry}");
    }
    assert!(log.contains("peer=socket method=GET path=\"/test/panic\" status=500"), "access log in {log}");
    assert!(!log.contains("secret"), "{log}");
}
