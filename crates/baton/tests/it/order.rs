//! The order of events and answers on one connection.

use std::collections::HashSet;

use baton_testkit::chat::{Chat, Turn};
use baton_testkit::client::{event_of, frame};
use baton_testkit::model_server::{End, ReplyAction, ScriptedReply};
use serde_json::{Value, json};

use crate::scripted;

/// The index of the first frame that matches.
fn position(frames: &[Value], what: &str, is_it: impl Fn(&Value) -> bool) -> usize {
    frames.iter().position(is_it).unwrap_or_else(|| panic!("{what} is missing"))
}

fn is_event(frame: &Value, session: &str, kind: &str) -> bool {
    event_of(frame, session).is_some_and(|event| event["type"] == kind)
}

#[tokio::test]
async fn session_start_comes_before_the_answer_to_create() {
    let (program, _model) = scripted().await;
    let (_server, client) = program.pipes().await;
    let id = client.start("session.create", json!({"sessionId": "s"})).await;
    client.answer(id).await.unwrap();
    let frames = client.frames();
    let start = position(&frames, "session.start", |f| is_event(f, "s", "session.start"));
    let answer = position(&frames, "the answer", |f| f["id"] == id && f.get("method").is_none());
    assert!(start < answer, "{}", client.digest());
    let lifecycle = position(&frames, "the lifecycle event", |f| f["method"] == "session.lifecycle");
    assert_eq!(frames[lifecycle]["params"]["type"], "session.created");
    assert!(lifecycle < answer, "{}", client.digest());
}

#[tokio::test]
async fn answer_to_send_comes_before_events_of_its_turn() {
    let (program, model) = scripted().await;
    let (_server, client) = program.pipes().await;
    let chat = Chat::create(&client, json!({"streaming": true})).await;
    model.push(ScriptedReply::new([ReplyAction::Hold("gate".into()), ReplyAction::Text("hello".into())]));
    let from = client.count();
    let id = client.start("session.send", json!({"sessionId": chat.id, "prompt": "p"})).await;
    model.wait_for_hold("gate").await;
    assert!(
        client.frames().iter().any(|f| f["id"] == id),
        "answered before the model was: {}",
        client.digest()
    );
    model.release("gate");
    chat.until_idle(from).await;
    let frames = client.frames();
    let answer = position(&frames, "the answer", |f| f["id"] == id && f.get("method").is_none());
    for kind in [
        "user.message",
        "assistant.turn_start",
        "assistant.message_start",
        "assistant.message",
        "session.idle",
    ] {
        assert!(
            answer < position(&frames, kind, |f| is_event(f, &chat.id, kind)),
            "{kind} came before the answer"
        );
    }
}

/// Checks ids, parents, timestamps and the end of the events of a turn.
fn check_stream(turn: &Turn, first_parent: &Value) {
    let ids: HashSet<&str> = turn.events.iter().map(|event| event["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), turn.events.len(), "ids are unique");
    let mut parent = first_parent;
    for event in &turn.events {
        assert_eq!(&event["parentId"], parent, "the parent of {event}");
        if event["ephemeral"] != true {
            parent = &event["id"];
        }
    }
    let times: Vec<&str> = turn.events.iter().map(|event| event["timestamp"].as_str().unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
    assert_eq!(turn.kinds().last(), Some(&"session.idle"));
}

#[tokio::test]
async fn events_of_a_turn_form_a_chain_that_ends_in_idle() {
    let (program, _model) = scripted().await;
    let (_server, client) = program.pipes().await;
    let chat = Chat::trusting(&client, json!({"streaming": true})).await;
    let before = client.events(&chat.id);
    let last = |events: &[Value]| events.iter().rev().find(|e| e["ephemeral"] != true).unwrap()["id"].clone();
    let turn = chat.turn(r#"[[think:hm]][[tool:bash {"command":"echo one"}]][[text:two words]]"#).await;
    check_stream(&turn, &last(&before));
    let wanted = [
        "user.message",
        "assistant.turn_start",
        "assistant.message",
        "tool.execution_start",
        "tool.execution_complete",
        "assistant.turn_end",
        "assistant.turn_start",
        "assistant.message_start",
        "assistant.message_delta",
        "assistant.message",
        "assistant.turn_end",
        "assistant.idle",
        "session.idle",
    ];
    let kinds = turn.kinds();
    let mut rest = kinds.iter();
    for kind in wanted {
        assert!(rest.any(|k| *k == kind), "{kind} is missing, or in the wrong place, in {kinds:?}");
    }
    let again = chat.turn("once more").await;
    check_stream(&again, &last(&turn.events));
    let history = chat.history().await;
    let seen: Vec<Value> =
        client.events(&chat.id).into_iter().filter(|event| event["ephemeral"] != true).collect();
    assert_eq!(history, seen, "clients see the history, in the same order");
}

#[tokio::test]
async fn deltas_come_before_their_message_and_add_up_to_it() {
    let (program, _model) = scripted().await;
    let (_server, client) = program.pipes().await;
    let chat = Chat::create(&client, json!({"streaming": true})).await;
    let turn = chat.turn("[[text:one two three]][[text: four]]").await;
    let message = turn.of("assistant.message")[0];
    let id = &message["data"]["messageId"];
    assert_eq!(&turn.of("assistant.message_start")[0]["data"]["messageId"], id);
    let deltas = turn.of("assistant.message_delta");
    assert!(deltas.len() > 2 && deltas.iter().all(|delta| &delta["data"]["messageId"] == id));
    let text: String = deltas.iter().map(|delta| delta["data"]["deltaContent"].as_str().unwrap()).collect();
    assert_eq!(text, message["data"]["content"].as_str().unwrap());
    let kinds = turn.kinds();
    let last_delta = kinds.iter().rposition(|kind| *kind == "assistant.message_delta");
    assert!(last_delta < kinds.iter().position(|kind| *kind == "assistant.message"), "{kinds:?}");
    // When an answer breaks off and is retried, its deltas have another message id than those of the first half.
    let turn = chat.turn("[[drop*1]][[text:whole again]]").await;
    let message = &turn.of("assistant.message")[0]["data"];
    assert_eq!(message["content"], "whole again");
    let deltas = turn.of("assistant.message_delta");
    let ids: HashSet<&str> =
        deltas.iter().map(|delta| delta["data"]["messageId"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 2, "the first half has another id");
    let of_whole = deltas.iter().filter(|delta| delta["data"]["messageId"] == message["messageId"]);
    let text: String = of_whole.map(|delta| delta["data"]["deltaContent"].as_str().unwrap()).collect();
    assert_eq!(text, "whole again");
}

#[tokio::test]
async fn prompt_and_cancel_in_one_write_are_handled_in_order() {
    let (program, model) = scripted().await;
    let (_server, client) = program.pipes().await;
    let chat = Chat::create(&client, json!({})).await;
    for round in 0..20 {
        let from = client.count();
        let call = |id: String, method: &str| {
            frame(
                &json!({"id": id, "method": method, "params": {"sessionId": chat.id, "prompt": "[[hang]]"}}),
            )
        };
        let (send, abort) = (format!("send{round}"), format!("abort{round}"));
        let both = [call(send.clone(), "session.send"), call(abort.clone(), "session.abort")].concat();
        client.send_bytes(&both).await.unwrap();
        let message = client.answer_to(&json!(send)).await.unwrap()["messageId"].clone();
        assert_eq!(client.answer_to(&json!(abort)).await.unwrap()["success"], true);
        let turn = chat.until_idle(from).await;
        assert_eq!(turn.of("session.idle")[0]["data"]["aborted"], true);
        assert_eq!(turn.of("user.message")[0]["data"]["messageId"], message, "the prompt is in the history");
        let frames = client.frames();
        let answered = |id: &str| position(&frames, id, |f| f["id"] == id);
        assert!(answered(&send) < answered(&abort));
    }
    assert!(model.requests().is_empty(), "no model request was made");
    chat.assert_usable().await;
}

#[tokio::test]
async fn no_delta_comes_after_a_cancel() {
    let (program, model) = scripted().await;
    let (_server, client) = program.pipes().await;
    let chat = Chat::create(&client, json!({"streaming": true})).await;
    let from = client.count();
    chat.send("[[slow:1000:1]]").await;
    let (_, _) = chat.event("assistant.message_delta", from).await;
    chat.ok("session.abort", json!({})).await;
    assert_eq!(model.wait_for_end(1).await, End::ClientLeft, "the model call is cancelled too");
    let turn = chat.until_idle(from).await;
    let kinds = turn.kinds();
    let abort = kinds.iter().position(|kind| *kind == "abort").unwrap();
    assert!(!kinds[abort..].contains(&"assistant.message_delta"), "{kinds:?}");
    assert!(turn.errors().is_empty() && turn.of("assistant.message").is_empty(), "{kinds:?}");
    let after = client.count();
    chat.assert_usable().await;
    let late =
        client.frames()[after..].iter().filter(|f| is_event(f, &chat.id, "assistant.message_delta")).count();
    assert_eq!(late, 2, "only the two deltas of the next answer");
}

#[tokio::test]
async fn two_clients_see_the_same_order() {
    let (program, _model) = scripted().await;
    let server = program.serve().await;
    let (first, second) = (server.connect().await, server.connect().await);
    let chat = Chat::create(&first, json!({"streaming": true})).await;
    let same = Chat::resume(&second, &chat.id, json!({"streaming": true})).await;
    let (from_first, from_second) = (first.count(), second.count());
    // Both send at once.
    tokio::join!(chat.send("[[text:to the first]]"), same.send("[[text:to the second]]"));
    let seen_by = async |chat: &Chat<'_>, from| {
        let (middle, _) = chat.event("assistant.message", from).await;
        let (middle, _) = chat.event("assistant.message", middle + 1).await;
        chat.event("session.idle", middle).await;
        let frames = chat.client.frames();
        let events = frames[from..].iter().filter_map(|f| event_of(f, &chat.id));
        let durable = events.filter(|event| event["ephemeral"] != true);
        durable.cloned().collect::<Vec<Value>>()
    };
    let (a, b) = tokio::join!(seen_by(&chat, from_first), seen_by(&same, from_second));
    assert_eq!(a, b);
    assert!(a.len() > 8);
}
