//! Shutdown by signals. That work, store and threads have time limits then is tested in `cli/src/setup.rs`.

use std::io::{ErrorKind, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use baton_testkit::client::Client;
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

/// Node connects standard input with a socket, and waits forever for the response to a call that nobody reads.
#[tokio::test]
async fn call_after_the_response_to_a_shutdown_fails_at_once() {
    let (program, _model) = scripted().await;
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let mut command = program.command(&["--headless", "--no-auto-update", "--stdio"]);
    command.stdin(OwnedFd::from(theirs)).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut server = command.spawn().unwrap();
    drop(command);
    let input = ours.try_clone().unwrap();
    input.set_nonblocking(true).unwrap();
    let input = tokio::net::UnixStream::from_std(input).unwrap();
    let client = Client::new(server.stdout.take().unwrap(), input);
    client.ok("connect", json!({})).await;
    client.ok("runtime.shutdown", json!({})).await;
    assert_eq!(ours.write(b"Content-Length: 2").unwrap_err().kind(), ErrorKind::BrokenPipe);
    assert!(server.wait().await.unwrap().success());
}
