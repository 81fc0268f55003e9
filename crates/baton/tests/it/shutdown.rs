//! Shutdown by signals. That work, store and threads have time limits then is tested in `cli/src/setup.rs`.

use baton_testkit::http::Http;
use rusqlite::Connection;
use rustix::process::Signal;
use serde_json::json;

use crate::scripted;

/// Holds a write lock on the store, so that a server cannot release its sessions.
fn lock_store(database: &std::path::Path) -> Connection {
    let connection = Connection::open(database).unwrap();
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    connection
}

#[tokio::test]
async fn second_signal_ends_the_server_at_once() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let (program, _model) = scripted().await;
        let mut server = program.serve_http(&[]).await;
        Http::new(&program, &server).create("s", json!({})).await;
        let lock = lock_store(&program.database());
        server.signal(Signal::TERM);
        server.until_stderr("stopping").await;
        server.signal(signal);
        assert_eq!(server.ended().await.code(), Some(code));
        drop(lock);
    }
}
