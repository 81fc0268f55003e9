//! Runs over crush's workspace API: accepted at once, independent of their client, and reported once to every client.

use baton_testkit::chat::Chat;
use baton_testkit::model_server::ScriptedReply;
use serde_json::{Value, json};

use crate::crush_client::{CrushServer, finish, short};
use crate::eventually;

#[tokio::test]
async fn run_is_streamed_to_every_client() {
    let server = CrushServer::start().await;
    let (a, mut a_events) = server.attached().await;
    let (b, mut b_events) = server.attached().await;
    assert_eq!(a.workspace, b.workspace, "one directory is one workspace");
    let session = a.session().await;
    a.prompt(&session, "count [[text:one ]][[hold:more]][[text:two]]", Some("r")).await;
    server.model.wait_for_hold("more").await;
    for stream in [&mut a_events, &mut b_events] {
        let user = stream.next("message").await;
        assert!(short(&user).starts_with("user count"), "{user}");
        stream
            .find("the first half", |kind, object| {
                (kind == "message" && short(object) == "assistant one ").then_some(())
            })
            .await;
    }
    assert_eq!(a.messages(&session).await[1], "assistant one ", "the list includes streamed text");
    server.model.release("more");
    for stream in [&mut a_events, &mut b_events] {
        let answer = stream.finished("end_turn").await;
        assert_eq!(short(&answer), "assistant one two end_turn");
        let run = stream.run_complete("r").await;
        assert_eq!((&run["text"], &run["message_id"]), (&json!("one two"), &answer["id"]));
        assert!(run.get("error").is_none() && run.get("cancelled").is_none(), "{run}");
        assert_eq!(stream.next("agent_event").await["type"], "agent_finished");
        assert_eq!(stream.count("run_complete"), 1);
    }
}

/// The client disconnects without reading the response.
#[tokio::test]
async fn run_continues_when_its_request_is_dropped() {
    let server = CrushServer::start().await;
    let (a, mut a_events) = server.attached().await;
    let session = a.session().await;
    a.prompt(&session, "[[hold:go]][[text:done]]", Some("r")).await;
    server.model.wait_for_hold("go").await;
    let body = json!({"session_id": session, "prompt": "[[text:too]]", "run_id": "hasty"});
    let request = a.send("POST", &format!("{}/agent", a.workspace), Some(&body)).await;
    // Once the prompt is in the queue, it runs whether or not its response is read.
    let queued = format!("/agent/sessions/{session}/prompts/queued");
    eventually("the prompt in the queue", async || (a.get(&queued).await != 0).then_some(())).await;
    drop(request);
    server.model.release("go");
    assert_eq!(a_events.run_complete("r").await["text"], "done");
    assert_eq!(a_events.run_complete("hasty").await["text"], "too");
}

#[tokio::test]
async fn run_continues_while_another_client_is_attached() {
    let server = CrushServer::without_grace().await;
    let (a, a_events) = server.attached().await;
    let (b, mut b_events) = server.attached().await;
    let session = a.session().await;
    a.prompt(&session, "[[hold:go]][[text:done]]", Some("r")).await;
    server.model.wait_for_hold("go").await;
    drop(a_events);
    a.retire().await;
    assert_eq!(b.get(&format!("/agent/sessions/{session}")).await["is_busy"], true);
    server.model.release("go");
    assert_eq!(finish(&b_events.finished("end_turn").await), "end_turn");
    assert_eq!(b_events.run_complete("r").await["text"], "done");
}

#[tokio::test]
async fn run_is_cancelled_when_the_last_client_leaves() {
    let server = CrushServer::without_grace().await;
    let (a, a_events) = server.attached().await;
    let session = a.session().await;
    a.prompt(&session, "[[hold:never]]", Some("r")).await;
    server.model.wait_for_hold("never").await;
    drop(a_events);
    a.until_gone().await;
    let (b, _b_events) = server.attached().await;
    assert_ne!(a.workspace, b.workspace);
    server.first_model_request_ended().await;
    let messages = b.messages(&session).await;
    assert!(messages[1].ends_with("canceled"), "{messages:?}");
}

/// Sends a prompt, disconnects during its turn, and returns the last message.
async fn last_message_after_leaving(server: &CrushServer, option: Value) -> String {
    let mut a = server.client().await;
    a.create(option).await;
    let a_events = a.stream().await;
    let session = a.session().await;
    a.prompt(&session, "[[hold:go]][[text:done alone]]", Some("r")).await;
    server.model.wait_for_hold("go").await;
    drop(a_events);
    a.until_gone().await;
    server.model.release("go");
    server.first_model_request_ended().await;
    let (b, _b_events) = server.attached().await;
    eventually("the end of the run", async || {
        let busy = b.get(&format!("/agent/sessions/{session}")).await;
        (busy["is_busy"] == false).then_some(())
    })
    .await;
    b.messages(&session).await.pop().unwrap()
}

#[tokio::test]
async fn keep_running_continues_runs_without_clients() {
    let config = "[workspaces]\ndetach_grace_seconds = 0\nkeep_running = true";
    let server = CrushServer::configured(config).await;
    assert_eq!(last_message_after_leaving(&server, json!({})).await, "assistant done alone end_turn");
    let server = CrushServer::without_grace().await;
    let kept = last_message_after_leaving(&server, json!({"keep_running": true})).await;
    assert_eq!(kept, "assistant done alone end_turn", "a workspace can set it for itself");
}

#[tokio::test]
async fn run_with_an_sdk_client_survives_the_workspace() {
    let server = CrushServer::without_grace().await;
    let (a, a_events) = server.attached().await;
    let session = a.session().await;
    let sdk = server.running.connect().await;
    let chat = Chat::resume(&sdk, &session, json!({})).await;
    let from = sdk.count();
    a.prompt(&session, "[[hold:go]][[text:for the SDK]]", Some("r")).await;
    server.model.wait_for_hold("go").await;
    drop(a_events);
    a.until_gone().await;
    server.model.release("go");
    assert_eq!(chat.until_idle(from).await.text(), "for the SDK");
}

#[tokio::test]
async fn failed_run_has_a_reason_and_the_next_one_runs() {
    let server = CrushServer::start().await;
    let (a, mut a_events) = server.attached().await;
    let session = a.session().await;
    a.prompt(&session, "[[hold:go]][[text:x]]", Some("r0")).await;
    server.model.wait_for_hold("go").await;
    a.prompt(&session, "[[error:400]]", Some("bad")).await;
    a.prompt(&session, "[[text:good]]", Some("good")).await;
    server.model.release("go");
    let bad = a_events.run_complete("bad").await;
    assert!(
        bad["error"].as_str().is_some_and(|why| why.len() > 10) && bad.get("cancelled").is_none(),
        "{bad}"
    );
    assert_eq!(a_events.run_complete("good").await["text"], "good");
    let failed = a_events
        .seen
        .iter()
        .map(|event| &event["payload"]["payload"])
        .find(|o| o["parts"].is_array() && finish(o) == "error");
    let part =
        failed.expect("a message with the error")["parts"].as_array().unwrap().last().cloned().unwrap();
    assert!(part["data"]["message"].is_string() && part["data"]["details"].is_string(), "{part}");
}

#[tokio::test]
async fn queue_is_listed_and_cleared() {
    let server = CrushServer::start().await;
    let (a, mut a_events) = server.attached().await;
    let session = a.session().await;
    let queue = format!("/agent/sessions/{session}/prompts");
    assert_eq!(a.get(&format!("{queue}/queued")).await, 0);
    a.prompt(&session, "[[hold:go]][[text:x]]", Some("r0")).await;
    server.model.wait_for_hold("go").await;
    assert_eq!(a.get(&format!("{queue}/queued")).await, 0, "the running prompt is not queued");
    a.prompt(&session, "one", Some("r1")).await;
    a.prompt(&session, "two", Some("r2")).await;
    assert_eq!(a.get(&format!("{queue}/list")).await, json!(["one", "two"]));
    a.ok(&format!("{queue}/clear"), json!({})).await;
    assert_eq!(a.get(&format!("{queue}/queued")).await, 0);
    for run in ["r1", "r2"] {
        assert_eq!(a_events.run_complete(run).await["cancelled"], true);
    }
    server.model.release("go");
    assert_eq!(a_events.run_complete("r0").await["text"], "x");
    assert_eq!(server.model_requests().len(), 1);
}

/// A prompt typed during a run joins it; a prompt with a run id gets its own turn.
#[tokio::test]
async fn typed_prompt_joins_the_run_and_a_run_id_runs_once() {
    let server = CrushServer::start().await;
    let mut a = server.client().await;
    a.create(json!({"yolo": true})).await;
    let mut a_events = a.stream().await;
    let session = a.session().await;
    a.prompt(&session, r#"[[hold:go]][[tool:bash {"command":"true"}]][[text:first]]"#, Some("r")).await;
    server.model.wait_for_hold("go").await;
    a.prompt(&session, "by the way", None).await;
    a.prompt(&session, "[[text:again]]", Some("r")).await;
    server.model.release("go");
    a_events.run_complete("r").await;
    let messages = a.get(&format!("/sessions/{session}/messages")).await;
    let roles: Vec<&str> = messages.as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "user", "assistant"], "the run id runs once: {messages}");
    let asked = server.model_requests();
    assert!(asked.len() == 2 && asked[1].to_string().contains("by the way"), "{asked:?}");
    assert_eq!(a_events.count("run_complete"), 1);
}

#[tokio::test]
async fn invalid_prompts_are_refused() {
    let server = CrushServer::start().await;
    let (a, _a_events) = server.attached().await;
    let session = a.session().await;
    for (body, status) in [
        (json!({"session_id": session, "prompt": " "}), 400),
        (json!({"prompt": "hi"}), 400),
        (json!({"session_id": "nobody", "prompt": "hi"}), 404),
        (json!({"session_id": "../../etc", "prompt": "hi"}), 404),
        (json!({"session_id": session, "prompt": 7}), 400),
        (json!([]), 400),
    ] {
        let (answered, error) = a.post("/agent", body.clone()).await;
        assert_eq!(answered, status, "{body}: {error}");
        assert!(error["message"].as_str().is_some_and(|text| text.len() > 10), "{error}");
    }
    assert_eq!(a.messages(&session).await, Vec::<String>::new());
}

#[tokio::test]
async fn summary_is_a_message_and_rewound_messages_are_gone() {
    let server = CrushServer::start().await;
    let (a, mut a_events) = server.attached().await;
    let session = a.session().await;
    for (run, text) in [("1", "first [[text:one]]"), ("2", "second [[text:two]]")] {
        a.prompt(&session, text, Some(run)).await;
        a_events.run_complete(run).await;
    }
    server.model.push(ScriptedReply::text("in short"));
    a.ok(&format!("/agent/sessions/{session}/summarize"), json!(null)).await;
    let messages = a.get(&format!("/sessions/{session}/messages")).await;
    let summary = messages.as_array().unwrap().last().unwrap();
    assert_eq!(short(summary), "assistant in short end_turn");
    assert_eq!(a.get(&format!("/sessions/{session}")).await["summary_message_id"], summary["id"]);

    let sdk = server.running.connect().await;
    let chat = Chat::resume(&sdk, &session, json!({})).await;
    let history = chat.history().await;
    let second = history.iter().rfind(|event| event["type"] == "user.message").unwrap();
    chat.ok("session.history.truncate", json!({"eventId": second["id"]})).await;
    assert_eq!(a.messages(&session).await, ["user first [[text:one]] stop", "assistant one end_turn"]);
}
