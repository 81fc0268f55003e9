//! Offers to switch the model after a rate limit.

use baton_testkit::chat::Chat;
use serde_json::{Value, json};

use crate::scripted;

#[tokio::test]
async fn rate_limit_offers_another_model_of_the_endpoint() {
    let (program, model) = scripted().await;
    let program = program.env("OPENAI_MODEL", "busy");
    model.set_models(json!({"data": [{"id": "busy"}, {"id": "idle"}]}));
    let server = program.serve().await;
    let client = server.connect().await;
    let watcher = server.connect().await;
    let chat = Chat::create(&client, json!({"requestAutoModeSwitch": true})).await;
    Chat::resume(&watcher, &chat.id, json!({})).await;
    let from = client.count();
    chat.send("[[error:429*1:retry=600]][[text:at last]]").await;
    let (_, offer) = chat.event("auto_mode_switch.requested", from).await;
    let (_, asked) = client.asked("autoModeSwitch.request", from).await;
    assert_eq!(asked["retryAfterSeconds"], 600, "{asked}");
    // The first answer counts, even from a client that was not asked.
    let method = "session.ui.handlePendingAutoModeSwitch";
    let answer = json!({"sessionId": chat.id, "requestId": offer["data"]["requestId"], "response": "yes"});
    assert_eq!(watcher.ok(method, answer.clone()).await["success"], true);
    assert_eq!(client.ok(method, answer).await["success"], false);
    let turn = chat.until_idle(from).await;
    assert_eq!((turn.text(), turn.errors().len()), ("at last", 0), "{turn:?}");
    let models: Vec<Value> = model.requests().iter().map(|request| request.body["model"].clone()).collect();
    let models: Vec<&str> = models.iter().filter_map(Value::as_str).collect();
    assert_eq!(models, ["busy", "idle"]);
}

#[tokio::test]
async fn rate_limit_offers_a_model_that_is_new_at_the_endpoint() {
    let (program, model) = scripted().await;
    let program = program.env("OPENAI_MODEL", "busy");
    model.set_models(json!({"data": [{"id": "busy"}]}));
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::create(&client, json!({"requestAutoModeSwitch": true})).await;
    assert_eq!(chat.turn("[[text:the list is known]]").await.text(), "the list is known");
    model.set_models(json!({"data": [{"id": "busy"}, {"id": "new"}]}));
    let from = client.count();
    chat.send("[[error:429*1:retry=600]][[text:at last]]").await;
    let (asked, _) = client.asked("autoModeSwitch.request", from).await;
    client.send(&json!({"jsonrpc": "2.0", "id": asked, "result": {"response": "yes"}})).await;
    assert_eq!(chat.until_idle(from).await.text(), "at last");
    assert_eq!(model.requests().last().unwrap().body["model"], "new");
}

#[tokio::test]
async fn registered_switch_handler_is_not_bypassed() {
    let (program, model) = scripted().await;
    let program = program.env("OPENAI_MODEL", "busy");
    model.set_models(json!({"data": [{"id": "busy"}, {"id": "idle"}]}));
    let server = program.serve().await;
    let (client, other) = (server.connect().await, server.connect().await);
    let chat = Chat::create(&client, json!({})).await;
    Chat::resume(&other, &chat.id, json!({"requestAutoModeSwitch": true})).await;
    let handler = chat.ok("session.ui.registerDirectAutoModeSwitchHandler", json!({})).await;
    let from = client.count();
    chat.send("[[error:429*1:retry=600]][[text:at last]]").await;
    let (_, offer) = chat.event("auto_mode_switch.requested", from).await;
    let answer = json!({"requestId": offer["data"]["requestId"], "response": "yes"});
    assert_eq!(chat.ok("session.ui.handlePendingAutoModeSwitch", answer).await["success"], true);
    assert_eq!(chat.until_idle(from).await.text(), "at last");
    let (_, _) = other.event(&chat.id, "session.idle", 0).await;
    assert!(
        !other.frames().iter().any(|frame| frame["method"] == "autoModeSwitch.request"),
        "no client was asked"
    );
    for was_registered in [true, false] {
        let handle = json!({"handle": handler["handle"]});
        let stopped = chat.ok("session.ui.unregisterDirectAutoModeSwitchHandler", handle).await;
        assert_eq!(stopped["unregistered"], was_registered);
    }
}
