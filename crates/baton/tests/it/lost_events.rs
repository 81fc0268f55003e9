//! Lost events of a store are reported when the session is opened (P7), and the rest opens.

use baton_testkit::chat::Chat;
use baton_testkit::http::Http;
use serde_json::json;

use crate::scripted;

#[tokio::test]
async fn missing_events_are_reported_and_the_rest_opens() {
    let (program, _model) = scripted().await;
    let mut server = program.serve_http(&[]).await;
    let http = Http::new(&program, &server);
    http.create("s", json!({})).await;
    let prompt = http.prompt("s", "[[text:before]]").await;
    assert_eq!(http.outcome("s", &prompt).await, "completed");
    server.stop().await;
    let file = rusqlite::Connection::open(program.database()).unwrap();
    file.execute("DELETE FROM events WHERE seq = 3", []).unwrap();
    drop(file);
    let shown = program.run(&["sessions", "show", "s"]).await;
    assert!(shown.stderr.contains("1 event of the history is missing (number 3)"), "{shown:?}");
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::resume(&client, "s", json!({})).await;
    let (_, warning) = chat.event("session.warning", 0).await;
    let message = warning["data"]["message"].as_str().unwrap();
    assert!(message.contains("1 event of the history is missing (number 3)"), "{message}");
    chat.assert_usable().await;
}

/// The database is replaced by an older, sound copy while the server is down.
#[tokio::test]
async fn lost_write_ahead_log_is_reported() {
    let (program, _model) = scripted().await;
    let mut server = program.serve_http(&[]).await;
    let http = Http::new(&program, &server);
    http.create("s", json!({})).await;
    server.stop().await;
    let whole = std::fs::read(program.database()).unwrap();
    let mut server = program.serve_http(&[]).await;
    let http = Http::new(&program, &server);
    let prompt = http.prompt("s", "[[text:lost]]").await;
    assert_eq!(http.outcome("s", &prompt).await, "completed");
    server.stop().await;
    std::fs::write(program.database(), whole).unwrap();
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::resume(&client, "s", json!({})).await;
    let (_, warning) = chat.event("session.warning", 0).await;
    let message = warning["data"]["message"].as_str().unwrap();
    assert!(message.contains("the last events of the history are lost"), "{message}");
    let files = std::fs::read_dir(program.home().join("session-state/s")).unwrap().flatten();
    let files: Vec<String> = files.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    assert!(files.iter().any(|name| name.starts_with("events-lost-")), "{files:?}");
    chat.assert_usable().await;
}
