//! The queue of prompts and commands.

use baton_testkit::chat::Chat;
use serde_json::{Value, json};

use crate::scripted;

/// The kind and text of each item in the queue.
async fn queued(chat: &Chat<'_>) -> Vec<(String, String)> {
    let pending = chat.ok("session.queue.pendingItems", json!({})).await;
    let text = |item: &Value, name: &str| item[name].as_str().unwrap().to_owned();
    let items = pending["items"].as_array().unwrap();
    items.iter().map(|item| (text(item, "kind"), text(item, "displayText"))).collect()
}

fn command(text: &str) -> (String, String) {
    ("command".into(), text.into())
}

#[tokio::test]
async fn queued_command_runs_in_order_with_prompts() {
    let (program, model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::create(&client, json!({})).await;
    chat.send("[[hold:a]][[text:first]]").await;
    model.wait_for_hold("a").await;
    assert_eq!(chat.ok("session.commands.enqueue", json!({"command": "/model other"})).await["queued"], true);
    chat.ok("session.commands.enqueue", json!({"command": "/nonsense"})).await;
    chat.send("[[text:second]]").await;
    let message = ("message".to_owned(), "[[text:second]]".to_owned());
    assert_eq!(queued(&chat).await, [command("/model other"), command("/nonsense"), message]);
    let from = client.count();
    model.release("a");
    let turn = chat.until_idle(from).await;
    assert_eq!(turn.text(), "second");
    let models: Vec<&Value> =
        turn.of("assistant.message").iter().map(|event| &event["data"]["model"]).collect();
    assert_eq!(models[1], "other", "the command was run between the two turns");
    assert!(turn.of("session.warning")[0]["data"]["message"].as_str().unwrap().contains("/nonsense"));
    assert_eq!(chat.history().await.iter().filter(|event| event["type"] == "user.message").count(), 2);
}

/// A client that reads the queue first and the history second always finds an accepted prompt.
#[tokio::test]
async fn prompt_stays_in_the_queue_until_it_is_in_the_history() {
    let (program, _model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::create(&client, json!({"hooks": true})).await;
    let from = client.count();
    chat.send("[[text:hello]]").await;
    // The hook runs before the prompt enters the conversation, and has not returned yet.
    client.asked("hooks.invoke", from).await;
    assert_eq!(queued(&chat).await, [("message".to_owned(), "[[text:hello]]".to_owned())]);
    assert!(!chat.history().await.iter().any(|event| event["type"] == "user.message"));
}

#[tokio::test]
async fn queued_command_survives_a_kill_with_its_request_id() {
    let (program, _model) = scripted().await;
    let mut server = program.serve().await;
    let (id, request) = {
        let client = server.connect().await;
        let chat = Chat::create(&client, json!({})).await;
        chat.ok("session.eventLog.registerInterest", json!({"eventType": "command.queued"})).await;
        chat.ok("session.commands.enqueue", json!({"command": "/deploy now"})).await;
        let (_, asked) = chat.event("command.queued", 0).await;
        assert_eq!(asked["data"]["command"], "/deploy now");
        chat.ok("session.commands.enqueue", json!({"command": "/test"})).await;
        assert_eq!(queued(&chat).await, [command("/test")], "the running command is not in the queue");
        (chat.id.clone(), asked["data"]["requestId"].clone())
    };
    server.kill().await;
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::resume(&client, &id, json!({"continuePendingWork": true})).await;
    chat.ok("session.eventLog.registerInterest", json!({"eventType": "command.queued"})).await;
    let (_, asked) = chat.event("command.queued", 0).await;
    assert_eq!(asked["data"]["requestId"], request);
    let answer = json!({"requestId": request, "result": {"handled": true, "stopProcessingQueue": true}});
    let respond = "session.commands.respondToQueuedCommand";
    assert_eq!(chat.ok(respond, answer.clone()).await["success"], true);
    assert_eq!(chat.ok(respond, answer).await["success"], false, "the first answer counts");
    chat.event("command.completed", 0).await;
    assert_eq!(queued(&chat).await, [command("/test")], "the client stopped the queue");
    chat.ok("session.abort", json!({})).await;
    assert!(queued(&chat).await.is_empty());
    chat.assert_usable().await;
}

#[tokio::test]
async fn queued_command_of_a_disconnected_runner_can_be_withdrawn() {
    let (program, _model) = scripted().await;
    let server = program.serve().await;
    let (client, owner) = (server.connect().await, server.connect().await);
    let chat = Chat::create(&client, json!({})).await;
    let commands = json!([{"name": "deploy", "description": "Ships it"}]);
    let owned = Chat::resume(&owner, &chat.id, json!({"commands": commands})).await;
    chat.ok("session.commands.enqueue", json!({"command": "/deploy"})).await;
    let (_, asked) = owned.event("command.execute", 0).await;
    let request = asked["data"]["requestId"].clone();
    let unknown = json!({"requestId": request, "error": "Unknown command: deploy"});
    chat.ok("session.commands.handlePendingCommand", unknown).await;
    assert!(queued(&chat).await.is_empty(), "its runner runs it");
    assert_eq!(chat.ok("session.queue.removeAt", json!({"id": request})).await["removed"], false);
    let from = client.count();
    owned.ok("session.detach", json!({})).await;
    chat.event("commands.changed", from).await;
    assert_eq!(queued(&chat).await, [command("/deploy")]);
    assert_eq!(chat.ok("session.queue.removeAt", json!({"id": request})).await["removed"], true);
    chat.until_idle(from).await;
    chat.assert_usable().await;
}

#[tokio::test]
async fn queue_can_be_reordered_edited_and_paused() {
    let (program, model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::create(&client, json!({})).await;
    chat.send("[[hold:a]]").await;
    model.wait_for_hold("a").await;
    let sent = [chat.send("one").await, chat.send("two").await];
    let moved = json!({"id": sent[1], "toPosition": -3});
    assert_eq!(chat.ok("session.queue.moveItem", moved.clone()).await["changed"], true);
    assert_eq!(chat.ok("session.queue.moveItem", moved).await["changed"], false);
    let insert = json!({"position": 1, "message": {"prompt": "between"}});
    let between = chat.ok("session.queue.insertAt", insert).await["id"].clone();
    let copy = chat.ok("session.queue.duplicateAt", json!({"id": between})).await["id"].clone();
    let update = json!({"id": copy, "prompt": "other text"});
    assert_eq!(chat.ok("session.queue.updateText", update.clone()).await["updated"], true);
    assert_eq!(chat.ok("session.queue.updateText", update).await["updated"], false);
    let texts = async || queued(&chat).await.into_iter().map(|(_, text)| text).collect::<Vec<_>>();
    assert_eq!(texts().await, ["two", "between", "other text", "one"]);
    assert_eq!(chat.ok("session.queue.sendNow", json!({"id": between})).await["steered"], true);
    assert_eq!(chat.ok("session.queue.removeAt", json!({"id": copy})).await["removed"], true);
    assert_eq!(chat.ok("session.queue.removeAt", json!({"id": "never"})).await["removed"], false);
    chat.call("session.queue.moveItem", json!({"id": "never", "toPosition": 0})).await.unwrap_err();
    chat.ok("session.queue.setDrainPaused", json!({"paused": true})).await;
    chat.call("session.queue.setDrainPaused", json!({"paused": true})).await.unwrap_err();
    let from = client.count();
    model.release("a");
    chat.until_idle(from).await;
    assert_eq!(texts().await, ["two", "one"], "the queue is paused");
    let from = client.count();
    chat.ok("session.queue.setDrainPaused", json!({"paused": false})).await;
    let turn = chat.until_idle(from).await;
    let prompts: Vec<_> =
        turn.of("user.message").iter().map(|event| event["data"]["content"].clone()).collect();
    assert_eq!(prompts, ["two", "one"]);
}
