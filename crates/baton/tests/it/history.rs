//! Rewinds and compactions of a conversation: for the model, for every client, and after a kill.

use baton_testkit::chat::Chat;
use serde_json::{Value, json};

use crate::scripted;

fn prompts(history: &[Value]) -> Vec<&str> {
    let messages = history.iter().filter(|event| event["type"] == "user.message");
    messages.filter_map(|event| event["data"]["content"].as_str()).collect()
}

fn prompt_of<'a>(history: &'a [Value], text: &str) -> &'a Value {
    let mut prompts = history.iter().filter(|event| event["type"] == "user.message");
    &prompts.find(|event| event["data"]["content"] == text).unwrap()["id"]
}

#[tokio::test]
async fn rewind_applies_to_every_client_and_survives_a_kill() {
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
    let (_, rewound) = watching.event("session.snapshot_rewind", 0).await;
    assert_eq!(rewound["data"]["upToEventId"], cut["eventId"], "other clients are notified");
    assert_eq!(chat.history().await, history[..before], "only earlier events remain");
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
    assert_eq!(prompts(&after), ["apple", "damson"]);
    let damson = after.iter().find(|event| event["id"] == *prompt_of(&after, "damson")).unwrap();
    let parent = after.iter().find(|event| event["id"] == damson["parentId"]);
    assert!(parent.is_some(), "the parent is among the remaining events");
    chat.turn("elderberry").await;
    let asked = model.requests().pop().unwrap().body.to_string();
    assert!(asked.contains("damson") && !asked.contains("cherry"), "{asked}");

    let read = chat.ok("session.eventLog.read", json!({"direction": "backward", "max": 1000})).await;
    let mut backward = read["events"].as_array().unwrap().clone();
    backward.reverse();
    assert_eq!(prompts(&backward), ["apple", "damson", "elderberry"]);
    let read = chat.ok("session.eventLog.read", json!({"max": 1000})).await;
    assert_eq!(prompts(read["events"].as_array().unwrap()), ["apple", "damson", "elderberry"]);
    let fork = client.ok("sessions.fork", json!({"sessionId": chat.id})).await;
    let copy = Chat::resume(&client, fork["sessionId"].as_str().unwrap(), json!({})).await;
    assert_eq!(prompts(&copy.history().await), ["apple", "damson", "elderberry"]);
    let gone = json!({"sessionId": chat.id, "toEventId": prompt_of(&history, "cherry")});
    client.refused("sessions.fork", gone).await;

    chat.ok("session.shutdown", json!({})).await;
    let mirror = program.home().join("session-state").join(&chat.id).join("events.jsonl");
    let lines = std::fs::read_to_string(mirror).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(prompts(&lines), ["apple", "damson", "elderberry"], "the mirror file is truncated, too");
}

#[tokio::test]
async fn rewind_needs_an_idle_session_and_an_existing_event() {
    let (program, model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::create(&client, json!({})).await;
    chat.turn("first").await;
    let history = chat.history().await;
    let truncate = |event: &Value| json!({"sessionId": chat.id, "eventId": event});
    for (event, why) in [
        (json!("missing-event"), "Event missing-event not found in session"),
        (history[0]["id"].clone(), "the start of a session"),
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
    assert_eq!(prompts(&chat.history().await), Vec::<&str>::new());
    let summary = client.ok("session.getMetadata", json!({"sessionId": chat.id})).await;
    assert_eq!(summary["session"]["summary"], Value::Null, "its title came from a removed prompt: {summary}");
    chat.assert_usable().await;
}

/// The last request to the model.
fn last_model_request(model: &baton_testkit::model_server::ModelServer) -> String {
    model.requests().pop().unwrap().body.to_string()
}

#[tokio::test]
async fn compaction_replaces_the_conversation_and_survives_a_kill() {
    use baton_testkit::model_server::ScriptedReply;
    let (program, model) = scripted().await;
    let mut server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::create(&client, json!({})).await;
    let nothing = chat.ok("session.history.compact", json!({})).await;
    assert_eq!(nothing["success"], false, "nothing to summarise");
    assert_eq!(chat.ok("session.history.summarizeForHandoff", json!({})).await["summary"], "");
    chat.turn("tell me of the plum [[text:a long story]]").await;
    model
        .push(ScriptedReply::text("<overview>plums</overview><checkpoint_title>Of plums</checkpoint_title>"));
    let from = client.count();
    let compacted =
        chat.ok("session.history.compact", json!({"customInstructions": "mind the stones"})).await;
    assert_eq!(
        (&compacted["success"], &compacted["messagesRemoved"]),
        (&json!(true), &json!(1)),
        "{compacted}"
    );
    assert!(last_model_request(&model).contains("mind the stones"));
    let (_, start) = chat.event("session.compaction_start", from).await;
    assert!(start["data"]["conversationTokens"].as_u64().unwrap() > 0, "{start}");
    let (_, complete) = chat.event("session.compaction_complete", from).await;
    assert_eq!(complete["data"]["checkpointNumber"], 1, "{complete}");
    assert!(complete["data"]["compactionTokensUsed"]["inputTokens"].as_u64().unwrap() > 0, "{complete}");
    let known = chat.ok("session.workspaces.listCheckpoints", json!({})).await;
    assert_eq!(known["checkpoints"][0]["title"], "Of plums");
    server.kill().await;

    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::resume(&client, &chat.id, json!({})).await;
    chat.turn("go on").await;
    let asked = last_model_request(&model);
    assert!(asked.contains("<overview>plums</overview>") && asked.contains("tell me of the plum"), "{asked}");
    assert!(!asked.contains("\"a long story\""), "summarised messages are not sent again: {asked}");
    // A summary is part of the history: a rewind to before it restores the messages that it replaced.
    let history = chat.history().await;
    let start = history.iter().find(|event| event["type"] == "session.compaction_start").unwrap();
    chat.ok("session.history.truncate", json!({"eventId": start["id"]})).await;
    chat.turn("and now").await;
    let asked = last_model_request(&model);
    assert!(asked.contains("\"a long story\"") && !asked.contains("<overview>"), "{asked}");
}

#[tokio::test]
async fn growing_conversation_is_compacted_in_the_background() {
    use baton_testkit::model_server::ScriptedReply;
    let (program, model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    let low = json!({"infiniteSessions": {"enabled": true, "backgroundCompactionThreshold": 0.000_01}});
    let chat = Chat::create(&client, low).await;
    let first = chat.turn("[[text:one]] first").await;
    assert_eq!(first.of("session.compaction_start").len(), 0, "the conversation is too short");
    let from = client.count();
    chat.send("[[hold:door]] [[text:two]] second").await;
    // The turn and the summary send requests at the same time; the script of the last prompt answers both.
    model.wait_for_hold("door").await;
    chat.event("session.compaction_start", from).await;
    model.release("door");
    let (_, complete) = chat.event("session.compaction_complete", from).await;
    assert_eq!(complete["data"]["trigger"], "threshold", "{complete}");
    assert_eq!(complete["data"]["success"], true, "{complete}");
    chat.until_idle(from).await;
    model.push(ScriptedReply::text("three"));
    chat.turn("third").await;
    let history = chat.history().await;
    assert_eq!(prompts(&history).len(), 3, "clients still see all messages");

    let off = Chat::create(&client, json!({"infiniteSessions": {"enabled": false}})).await;
    off.turn("one").await;
    let turn = off.turn("two").await;
    assert_eq!(turn.of("session.compaction_start").len(), 0);
}

#[tokio::test]
async fn failed_or_cancelled_compaction_changes_nothing() {
    use baton_testkit::model_server::{ReplyAction, ScriptedReply};
    let (program, model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::create(&client, json!({})).await;
    chat.turn("[[text:kept]] first").await;
    model.push(ScriptedReply::error(400));
    chat.call("session.history.compact", json!({})).await.unwrap_err();
    model.push(ScriptedReply::new([ReplyAction::Hang]));
    let requests = model.requests().len();
    let waiting = client.start("session.history.compact", json!({"sessionId": chat.id})).await;
    model.wait_for_requests(requests + 1).await;
    let stopped = chat.ok("session.history.cancelBackgroundCompaction", json!({})).await;
    assert_eq!(stopped["cancelled"], false, "it does not run in the background");
    assert_eq!(chat.ok("session.history.abortManualCompaction", json!({})).await["aborted"], true);
    client.answer(waiting).await.unwrap_err();
    assert_eq!(chat.ok("session.history.abortManualCompaction", json!({})).await["aborted"], false);
    let turn = chat.turn("second").await;
    assert_eq!(turn.errors(), Vec::<&str>::new());
    assert!(last_model_request(&model).contains("kept"));
}
