//! The end is the end: a server that is asked to stop does, whatever hangs.

use baton_testkit::http::Http;
use rusqlite::Connection;
use rustix::process::Signal;
use serde_json::json;

use crate::scripted;

/// Keeps everybody else from writing to the store for as long as it lives: a server that gives its sessions back waits.
fn writes_held_up(database: &std::path::Path) -> Connection {
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
        let held_up = writes_held_up(&program.database());
        server.signal(Signal::TERM);
        server.until_stderr("stopping").await;
        server.signal(signal);
        assert_eq!(server.ended().await.code(), Some(code));
        drop(held_up);
    }
}

#[tokio::test]
async fn stuck_store_does_not_keep_the_server_from_ending() {
    let (program, _model) = scripted().await;
    let mut server = program.serve_http(&[]).await;
    Http::new(&program, &server).create("s", json!({})).await;
    let held_up = writes_held_up(&program.database());
    assert!(server.stop().await.success(), "{}", server.stderr());
    drop(held_up);
}

#[tokio::test]
async fn read_that_hangs_does_not_keep_the_server_from_ending() {
    let (program, _model) = scripted().await;
    let directory = program.work().join("hostile");
    std::fs::create_dir(&directory).unwrap();
    let fifo = std::process::Command::new("mkfifo").arg(directory.join("AGENTS.md")).status().unwrap();
    assert!(fifo.success());
    let mut server = program.serve_http(&[]).await;
    let http = Http::new(&program, &server);
    http.create("s", json!({"cwd": directory})).await;
    http.prompt("s", "[[text:x]]").await;
    assert!(server.stop().await.success(), "{}", server.stderr());
}
