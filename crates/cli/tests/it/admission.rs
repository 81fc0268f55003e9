//! Who may come in.

use std::os::unix::fs::PermissionsExt;

use baton_testkit::chat::Chat;
use serde_json::json;

use crate::{baton, scripted};

const TOKEN: &str = "COPILOT_CONNECTION_TOKEN";

#[tokio::test]
async fn without_the_token_nothing_is_served_and_nothing_is_heard() {
    let (program, _model) = scripted().await;
    let server = program.env(TOKEN, "secret").serve().await;
    let stranger = server.greetless().await;
    for method in
        ["ping", "session.list", "session.create", "session.getMetadata", "runtime.shutdown", "nope"]
    {
        let error = stranger.refused(method, json!({"sessionId": "s"})).await;
        assert_eq!(error["code"], -32001, "{error}");
        assert!(error["message"].as_str().unwrap().contains("AUTHENTICATION_REQUIRED"), "{error}");
    }
    for params in [json!({}), json!({"token": "wrong"}), json!({"token": ""}), json!({"token": "secret "})] {
        let error = stranger.refused("connect", params).await;
        assert_eq!(error["code"], -32002, "{error}");
        assert!(error["message"].as_str().unwrap().contains("AUTHENTICATION_FAILED"), "{error}");
    }
    let guest = server.greetless().await;
    guest.ok("connect", json!({"token": "secret"})).await;
    let chat = Chat::create(&guest, json!({"sessionId": "private"})).await;
    chat.turn("the prompt of somebody else").await;
    // Its answer comes after all that was sent before it.
    stranger.refused("ping", json!({})).await;
    let heard: Vec<_> = stranger.frames().into_iter().filter(|frame| frame.get("method").is_some()).collect();
    assert!(heard.is_empty(), "a stranger heard of the session: {heard:?}");
    // It is admitted late, and hears from then on.
    stranger.ok("connect", json!({"token": "secret"})).await;
    let from = stranger.count();
    chat.turn("again").await;
    stranger.find("news of the session", from, |f| (f["method"] == "session.lifecycle").then_some(())).await;
}

#[tokio::test]
async fn a_server_that_a_person_starts_makes_a_token_that_only_its_owner_can_read() {
    let program = baton();
    let server = program.serve_with(&["serve", "--demo"]).await;
    let file = program.home().join("token");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let token = std::fs::read_to_string(&file).unwrap();
    let client = server.greetless().await;
    assert_eq!(client.refused("connect", json!({})).await["code"], -32002);
    client.ok("connect", json!({"token": token.trim()})).await;
    drop(server);
    // The next one uses the same.
    let server = program.serve_with(&["serve", "--demo"]).await;
    server.greetless().await.ok("connect", json!({"token": token.trim()})).await;
    // Unless it is told not to.
    let open = program.serve_with(&["serve", "--demo", "--insecure-no-token"]).await;
    open.connect().await;
}
