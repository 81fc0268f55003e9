//! Cancelling runs over crush's workspace API.

use baton_testkit::chat::Chat;
use baton_testkit::processes::Marker;
use serde_json::{Value, json};

use crate::crush_client::{CrushServer, finish};

#[tokio::test]
async fn cancel_by_another_client_is_no_error() {
    let server = CrushServer::start().await;
    let (a, mut a_events) = server.attached().await;
    let (b, mut b_events) = server.attached().await;
    let session = a.session().await;
    // Between the start of the run and the first delta.
    a.prompt(&session, "wait [[hold:never]]", Some("r")).await;
    server.model.wait_for_hold("never").await;
    b.cancel(&session).await;
    for stream in [&mut a_events, &mut b_events] {
        let answer = stream.finished("canceled").await;
        assert_eq!(answer["session_id"], json!(session));
        let run = stream.run_complete("r").await;
        assert_eq!((&run["cancelled"], run.get("error")), (&json!(true), None), "{run}");
    }
    assert!(a.messages(&session).await[1].ends_with("canceled"));
    // A late error event would come before the end of the next run.
    a.prompt(&session, "[[text:fine]]", Some("next")).await;
    for stream in [&mut a_events, &mut b_events] {
        assert_eq!(stream.run_complete("next").await["text"], "fine");
        assert!(stream.errors().is_empty(), "{:?}", stream.errors());
    }
}

#[tokio::test]
async fn cancel_right_after_acceptance_is_not_lost() {
    let server = CrushServer::start().await;
    let (a, mut a_events) = server.attached().await;
    for attempt in 0..10 {
        let session = a.session().await;
        a.prompt(&session, "wait [[hold:never]]", Some("r")).await;
        a.cancel(&session).await;
        a_events
            .find("the prompt", |kind, object| (kind == "message" && object["role"] == "user").then_some(()))
            .await;
        a_events.finished("canceled").await;
        a_events.run_complete("r").await;
        let messages = a.messages(&session).await;
        assert!(messages.len() == 2 && messages[1].ends_with("canceled"), "{attempt}: {messages:?}");
        assert_eq!(a.get(&format!("/sessions/{session}")).await["is_busy"], false);
    }
    assert!(a_events.errors().is_empty());
}

/// A hook of an SDK client delays the prompt: it is accepted, but not yet part of the conversation.
#[tokio::test]
async fn cancel_before_the_prompt_enters_the_conversation_is_not_lost() {
    let server = CrushServer::start().await;
    let (a, mut a_events) = server.attached().await;
    let sdk = server.running.connect().await;
    let session = a.session().await;
    let _chat = Chat::resume(&sdk, &session, json!({"hooks": true})).await;
    let from = sdk.count();
    a.prompt(&session, "held back", Some("r")).await;
    sdk.asked("hooks.invoke", from).await;
    assert_eq!(a.get(&format!("/agent/sessions/{session}")).await["is_busy"], true);
    a.cancel(&session).await;
    a_events.finished("canceled").await;
    assert_eq!(a_events.run_complete("r").await["cancelled"], true);
    assert_eq!(a.messages(&session).await, ["user held back stop", "assistant canceled"]);
    assert!(server.model_requests().is_empty(), "no model request was made");
    assert!(a_events.errors().is_empty());
}

#[tokio::test]
async fn cancel_during_a_tool_ends_its_process() {
    let server = CrushServer::start().await;
    let mut a = server.client().await;
    a.create(json!({"yolo": true})).await;
    let mut a_events = a.stream().await;
    let session = a.session().await;
    let marked = Marker::new();
    let command = format!("MARK={} sleep 600", marked.word());
    a.prompt(&session, &format!("[[tool:bash {}]]", json!({"command": command})), Some("r")).await;
    marked.until_at_least(1).await;
    a.cancel(&session).await;
    assert_eq!(a_events.run_complete("r").await["cancelled"], true);
    marked.until_gone("a cancel").await;
    let messages = a.get(&format!("/sessions/{session}/messages")).await;
    let [_, answer, result] = messages.as_array().unwrap().as_slice() else { panic!("{messages}") };
    assert_eq!(finish(answer), "canceled");
    assert_eq!(result["parts"][0]["data"]["is_error"], true, "{result}");
    assert!(a_events.errors().is_empty());
}

#[tokio::test]
async fn cancel_covers_only_prompts_accepted_before_it() {
    let server = CrushServer::start().await;
    let (a, mut a_events) = server.attached().await;
    let session = a.session().await;
    a.prompt(&session, "first [[hold:never]]", Some("r1")).await;
    server.model.wait_for_hold("never").await;
    a.prompt(&session, "second [[text:must not be said]]", Some("r2")).await;
    a.prompt(&session, "third [[text:must not be said]]", None).await;
    a.cancel(&session).await;
    a.cancel(&session).await;
    a.prompt(&session, "[[text:after all]]", Some("r3")).await;
    server.model.release("never");
    for run in ["r1", "r2"] {
        assert_eq!(a_events.run_complete(run).await["cancelled"], true);
    }
    assert_eq!(a_events.run_complete("r3").await["text"], "after all");
    let ended: Vec<String> =
        a.messages(&session).await.into_iter().filter(|m| m.starts_with("assistant")).collect();
    assert_eq!(ended.iter().filter(|m| m.ends_with("canceled")).count(), 3, "{ended:?}");
    assert_eq!(ended.iter().filter(|m| m.ends_with("end_turn")).count(), 1, "{ended:?}");
    let runs = a_events
        .seen
        .iter()
        .filter(|e| e["type"] == "run_complete")
        .map(|e| e["payload"]["payload"]["run_id"].clone());
    let mut runs: Vec<Value> = runs.filter(|run| !run.is_null()).collect();
    runs.sort_by_key(ToString::to_string);
    assert_eq!(runs, ["r1", "r2", "r3"], "each run is reported once");
}

#[tokio::test]
async fn cancel_of_an_idle_session_has_no_effect() {
    let server = CrushServer::start().await;
    let (a, mut a_events) = server.attached().await;
    let session = a.session().await;
    a.cancel(&session).await;
    a.cancel("no-such-session").await;
    a.prompt(&session, "[[text:fine]]", Some("r")).await;
    assert_eq!(a_events.run_complete("r").await["text"], "fine");
    a.cancel(&session).await;
    a.prompt(&session, "[[text:still fine]]", Some("r2")).await;
    assert_eq!(a_events.run_complete("r2").await["text"], "still fine");
    assert!(a.messages(&session).await.iter().all(|message| !message.contains("canceled")));
}
