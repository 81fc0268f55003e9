//! Going back in a conversation: for the model, for every client, and for good.

use baton_testkit::chat::Chat;
use serde_json::{Value, json};

use crate::scripted;

fn said(history: &[Value]) -> Vec<&str> {
    let prompts = history.iter().filter(|event| event["type"] == "user.message");
    prompts.filter_map(|event| event["data"]["content"].as_str()).collect()
}

fn prompt_of<'a>(history: &'a [Value], text: &str) -> &'a Value {
    let mut prompts = history.iter().filter(|event| event["type"] == "user.message");
    &prompts.find(|event| event["data"]["content"] == text).unwrap()["id"]
}

#[tokio::test]
async fn going_back_counts_for_everybody_and_outlives_the_server() {
    let (program, model) = scripted().await;
    let mut server = program.serve().await;
    let (client, other) = (server.connect().await, server.connect().await);
    let chat = Chat::create(&client, json!({})).await;
    let watching = Chat::resume(&other, &chat.id, json!({})).await;
    for prompt in ["apple", "banana", "cherry"] {
        chat.turn(prompt).await;
    }
    let history = chat.history().await;
    let before = history.iter().position(|event| event["id"] == *prompt_of(&history, "banana")).unwrap();
    let cut = json!({"eventId": prompt_of(&history, "banana")});
    let truncated = chat.ok("session.history.truncate", cut.clone()).await;
    assert_eq!(truncated["eventsRemoved"], history.len() - before, "{truncated}");
    let (_, told) = watching.event("session.snapshot_rewind", 0).await;
    assert_eq!(told["data"]["upToEventId"], cut["eventId"], "other clients are told");
    assert_eq!(chat.history().await, history[..before], "what is left is what was before");
    assert_eq!(watching.history().await, history[..before]);
    chat.call("session.history.truncate", cut).await.unwrap_err();

    chat.turn("damson").await;
    let asked = model.requests().pop().unwrap().body.to_string();
    assert!(asked.contains("apple") && !asked.contains("banana") && !asked.contains("cherry"), "{asked}");
    server.kill().await;

    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::resume(&client, &chat.id, json!({})).await;
    let after = chat.history().await;
    assert_eq!(said(&after), ["apple", "damson"]);
    let damson = after.iter().find(|event| event["id"] == *prompt_of(&after, "damson")).unwrap();
    let parent = after.iter().find(|event| event["id"] == damson["parentId"]);
    assert!(parent.is_some(), "the chain of parents leads through what is left");
    chat.turn("elderberry").await;
    let asked = model.requests().pop().unwrap().body.to_string();
    assert!(asked.contains("damson") && !asked.contains("cherry"), "{asked}");

    let read = chat.ok("session.eventLog.read", json!({"direction": "backward", "max": 1000})).await;
    let mut backward = read["events"].as_array().unwrap().clone();
    backward.reverse();
    assert_eq!(said(&backward), ["apple", "damson", "elderberry"]);
    let read = chat.ok("session.eventLog.read", json!({"max": 1000})).await;
    assert_eq!(said(read["events"].as_array().unwrap()), ["apple", "damson", "elderberry"]);
    let fork = client.ok("sessions.fork", json!({"sessionId": chat.id})).await;
    let copy = Chat::resume(&client, fork["sessionId"].as_str().unwrap(), json!({})).await;
    assert_eq!(said(&copy.history().await), ["apple", "damson", "elderberry"]);
    let gone = json!({"sessionId": chat.id, "toEventId": prompt_of(&history, "cherry")});
    client.refused("sessions.fork", gone).await;

    chat.ok("session.shutdown", json!({})).await;
    let mirror = program.home().join("session-state").join(&chat.id).join("events.jsonl");
    let lines = std::fs::read_to_string(mirror).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(said(&lines), ["apple", "damson", "elderberry"], "the file beside the store goes back, too");
}

#[tokio::test]
async fn going_back_is_for_sessions_at_rest_and_for_events_that_are_there() {
    let (program, model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::create(&client, json!({})).await;
    chat.turn("first").await;
    let history = chat.history().await;
    let truncate = |event: &Value| json!({"sessionId": chat.id, "eventId": event});
    for (event, why) in [
        (json!("missing-event"), "Event missing-event not found in session"),
        (history[0]["id"].clone(), "the beginning of a session"),
    ] {
        let error = client.refused("session.history.truncate", truncate(&event)).await;
        assert!(error["message"].as_str().unwrap().contains(why), "{error}");
    }
    let from = client.count();
    chat.send("[[hold:door]] wait").await;
    model.wait_for_hold("door").await;
    let first = prompt_of(&history, "first").clone();
    let error = client.refused("session.history.truncate", truncate(&first)).await;
    assert!(error["message"].as_str().unwrap().contains("busy"), "{error}");
    let rewind = json!({"eventId": first, "mode": "conversation"});
    assert_eq!(chat.ok("session.history.rewind", rewind.clone()).await["outcome"], "session-busy");
    model.release("door");
    chat.until_idle(from).await;

    let points = chat.ok("session.history.listRewindPoints", json!({})).await;
    let named: Vec<&str> = points["points"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|point| point["userMessage"].as_str())
        .collect();
    assert_eq!(named, ["first", "[[hold:door]] wait"]);
    let files = json!({"eventId": first, "mode": "conversation-and-files"});
    let refused = chat.ok("session.history.rewind", files).await;
    assert_eq!(refused["outcome"], "file-change-tracking-disabled");
    let done = chat.ok("session.history.rewind", rewind).await;
    assert_eq!((&done["outcome"], &done["restoredFiles"]), (&json!("success"), &json!([])));
    assert_eq!(said(&chat.history().await), Vec::<&str>::new());
    let summary = client.ok("session.getMetadata", json!({"sessionId": chat.id})).await;
    assert_eq!(summary["session"]["summary"], Value::Null, "what it was called after is gone: {summary}");
    chat.assert_usable().await;
}
