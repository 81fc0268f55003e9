//! The connection token of the JSON-RPC port.

use std::os::unix::fs::PermissionsExt;

use baton_testkit::chat::Chat;
use serde_json::json;

use crate::{baton, scripted};

const TOKEN: &str = "COPILOT_CONNECTION_TOKEN";

#[tokio::test]
async fn client_without_the_token_is_refused_and_gets_no_events() {
    let (program, _model) = scripted().await;
    let server = program.env(TOKEN, "secret").serve().await;
    let unauthenticated = server.greetless().await;
    for method in
        ["ping", "session.list", "session.create", "session.getMetadata", "runtime.shutdown", "nope"]
    {
        let error = unauthenticated.refused(method, json!({"sessionId": "s"})).await;
        assert_eq!(error["code"], -32001, "{error}");
        assert!(error["message"].as_str().unwrap().contains("AUTHENTICATION_REQUIRED"), "{error}");
    }
    for params in [json!({}), json!({"token": "wrong"}), json!({"token": ""}), json!({"token": "secret "})] {
        let error = unauthenticated.refused("connect", params).await;
        assert_eq!(error["code"], -32002, "{error}");
        assert!(error["message"].as_str().unwrap().contains("AUTHENTICATION_FAILED"), "{error}");
    }
    let authenticated = server.greetless().await;
    authenticated.ok("connect", json!({"token": "secret"})).await;
    let chat = Chat::create(&authenticated, json!({"sessionId": "private"})).await;
    chat.turn("a private prompt").await;
    // The answer comes after everything that was sent before it.
    unauthenticated.refused("ping", json!({})).await;
    let received: Vec<_> =
        unauthenticated.frames().into_iter().filter(|frame| frame.get("method").is_some()).collect();
    assert!(received.is_empty(), "a client without the token got events: {received:?}");
    // With the token it gets events from then on.
    unauthenticated.ok("connect", json!({"token": "secret"})).await;
    let from = unauthenticated.count();
    chat.turn("again").await;
    unauthenticated
        .find("news of the session", from, |f| (f["method"] == "session.lifecycle").then_some(()))
        .await;
}

#[tokio::test]
async fn serve_creates_a_token_that_only_its_owner_can_read() {
    let program = baton();
    let server = program.serve_with(&["serve", "--demo"]).await;
    let file = program.home().join("token");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let token = std::fs::read_to_string(&file).unwrap();
    let client = server.greetless().await;
    assert_eq!(client.refused("connect", json!({})).await["code"], -32002);
    client.ok("connect", json!({"token": token.trim()})).await;
    drop(server);
    // The next server uses the same token.
    let server = program.serve_with(&["serve", "--demo"]).await;
    server.greetless().await.ok("connect", json!({"token": token.trim()})).await;
    // Unless it runs without one.
    let open = program.serve_with(&["serve", "--demo", "--insecure-no-token"]).await;
    open.connect().await;
}

#[tokio::test]
async fn headless_server_for_other_machines_needs_a_token() {
    let (program, _model) = scripted().await;
    let arguments = ["--headless", "--port", "0", "--host", "0.0.0.0"];
    let refused = program.command(&arguments).output().await.unwrap();
    assert!(!refused.status.success());
    let reason = String::from_utf8_lossy(&refused.stderr);
    assert!(reason.contains("set COPILOT_CONNECTION_TOKEN"), "{reason}");
    let server = program.env(TOKEN, "secret").serve_with(&arguments).await;
    let client = server.greetless().await;
    assert_eq!(client.refused("session.list", json!({})).await["code"], -32001);
    client.ok("connect", json!({"token": "secret"})).await;
    client.ok("session.list", json!({})).await;
}

#[tokio::test]
async fn headless_server_on_loopback_serves_its_own_user_without_a_token() {
    let (program, _model) = scripted().await;
    let server = program.serve_with(&["--headless", "--port", "0", "--host", "127.0.0.1"]).await;
    server.connect().await.ok("session.list", json!({})).await;
}
