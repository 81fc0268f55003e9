//! Runs of the workspace API: accepted at once, owned by nobody, cancelled by anybody, and told to everybody once.

use baton_testkit::chat::Chat;
use baton_testkit::model_server::Reply;
use baton_testkit::processes::Marker;
use serde_json::{Value, json};

use crate::v1_client::{Served, finish, short};

#[tokio::test]
async fn a_prompt_is_accepted_run_and_told_to_everybody() {
    let server = Served::start().await;
    let (a, mut of_a) = server.attached().await;
    let (b, mut of_b) = server.attached().await;
    assert_eq!(a.workspace, b.workspace, "one directory is one workspace");
    let session = a.session().await;
    a.prompt(&session, "count [[text:one ]][[hold:more]][[text:two]]", Some("r")).await;
    server.model.wait_for_hold("more").await;
    for stream in [&mut of_a, &mut of_b] {
        let user = stream.next("message").await;
        assert!(short(&user).starts_with("user count"), "{user}");
        stream
            .find("the first half", |kind, object| {
                (kind == "message" && short(object) == "assistant one ").then_some(())
            })
            .await;
    }
    assert_eq!(a.messages(&session).await[1], "assistant one ", "a list has what was streamed");
    server.model.release("more");
    for stream in [&mut of_a, &mut of_b] {
        let answer = stream.finished("end_turn").await;
        assert_eq!(short(&answer), "assistant one two end_turn");
        let run = stream.run_complete("r").await;
        assert_eq!((&run["text"], &run["message_id"]), (&json!("one two"), &answer["id"]));
        assert!(run.get("error").is_none() && run.get("cancelled").is_none(), "{run}");
        assert_eq!(stream.next("agent_event").await["type"], "agent_finished");
        assert_eq!(stream.count("run_complete"), 1);
    }
}

#[tokio::test]
async fn a_cancel_by_somebody_else_is_no_error_for_the_prompter() {
    let server = Served::start().await;
    let (a, mut of_a) = server.attached().await;
    let (b, mut of_b) = server.attached().await;
    let session = a.session().await;
    // Between the start of the run and the first word of the answer.
    a.prompt(&session, "wait [[hold:never]]", Some("r")).await;
    server.model.wait_for_hold("never").await;
    b.cancel(&session).await;
    for stream in [&mut of_a, &mut of_b] {
        let answer = stream.finished("canceled").await;
        assert_eq!(answer["session_id"], json!(session));
        let run = stream.run_complete("r").await;
        assert_eq!((&run["cancelled"], run.get("error")), (&json!(true), None), "{run}");
    }
    assert!(a.messages(&session).await[1].ends_with("canceled"));
    // Whatever would still be told comes before the end of the next run.
    a.prompt(&session, "[[text:fine]]", Some("next")).await;
    for stream in [&mut of_a, &mut of_b] {
        assert_eq!(stream.run_complete("next").await["text"], "fine");
        assert!(stream.errors().is_empty(), "{:?}", stream.errors());
    }
}

#[tokio::test]
async fn a_cancel_right_after_the_acceptance_is_not_lost() {
    let server = Served::start().await;
    let (a, mut of_a) = server.attached().await;
    for attempt in 0..10 {
        let session = a.session().await;
        a.prompt(&session, "wait [[hold:never]]", Some("r")).await;
        a.cancel(&session).await;
        of_a.find("the prompt", |kind, object| (kind == "message" && object["role"] == "user").then_some(()))
            .await;
        of_a.finished("canceled").await;
        of_a.run_complete("r").await;
        let messages = a.messages(&session).await;
        assert!(messages.len() == 2 && messages[1].ends_with("canceled"), "{attempt}: {messages:?}");
        assert_eq!(a.get(&format!("/sessions/{session}")).await["is_busy"], false);
    }
    assert!(of_a.errors().is_empty());
}

/// A hook of an SDK client holds the prompt back: it is accepted, and has not entered the conversation.
#[tokio::test]
async fn a_cancel_before_the_prompt_has_entered_is_not_lost() {
    let server = Served::start().await;
    let (a, mut of_a) = server.attached().await;
    let sdk = server.running.connect().await;
    let session = a.session().await;
    let _chat = Chat::resume(&sdk, &session, json!({"hooks": true})).await;
    let from = sdk.count();
    a.prompt(&session, "held back", Some("r")).await;
    sdk.asked("hooks.invoke", from).await;
    assert_eq!(a.get(&format!("/agent/sessions/{session}")).await["is_busy"], true);
    a.cancel(&session).await;
    of_a.finished("canceled").await;
    assert_eq!(of_a.run_complete("r").await["cancelled"], true);
    assert_eq!(a.messages(&session).await, ["user held back stop", "assistant canceled"]);
    assert!(server.asked().is_empty(), "no model was asked");
    assert!(of_a.errors().is_empty());
}

#[tokio::test]
async fn a_cancel_during_a_tool_ends_the_tool() {
    let server = Served::start().await;
    let mut a = server.client().await;
    a.create(json!({"yolo": true})).await;
    let mut of_a = a.stream().await;
    let session = a.session().await;
    let marked = Marker::new();
    let command = format!("MARK={} sleep 600", marked.word());
    a.prompt(&session, &format!("[[tool:bash {}]]", json!({"command": command})), Some("r")).await;
    marked.until_at_least(1).await;
    a.cancel(&session).await;
    assert_eq!(of_a.run_complete("r").await["cancelled"], true);
    marked.until_gone("a cancel").await;
    let messages = a.get(&format!("/sessions/{session}/messages")).await;
    let [_, answer, result] = messages.as_array().unwrap().as_slice() else { panic!("{messages}") };
    assert_eq!(finish(answer), "canceled");
    assert_eq!(result["parts"][0]["data"]["is_error"], true, "{result}");
    assert!(of_a.errors().is_empty());
}

#[tokio::test]
async fn a_cancel_covers_what_was_accepted_before_it_and_nothing_after() {
    let server = Served::start().await;
    let (a, mut of_a) = server.attached().await;
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
        assert_eq!(of_a.run_complete(run).await["cancelled"], true);
    }
    assert_eq!(of_a.run_complete("r3").await["text"], "after all");
    let ended: Vec<String> =
        a.messages(&session).await.into_iter().filter(|m| m.starts_with("assistant")).collect();
    assert_eq!(ended.iter().filter(|m| m.ends_with("canceled")).count(), 3, "{ended:?}");
    assert_eq!(ended.iter().filter(|m| m.ends_with("end_turn")).count(), 1, "{ended:?}");
    let runs = of_a
        .seen
        .iter()
        .filter(|e| e["type"] == "run_complete")
        .map(|e| e["payload"]["payload"]["run_id"].clone());
    let mut runs: Vec<Value> = runs.filter(|run| !run.is_null()).collect();
    runs.sort_by_key(ToString::to_string);
    assert_eq!(runs, ["r1", "r2", "r3"], "each run is told of once");
}

#[tokio::test]
async fn a_cancel_of_an_idle_session_leaves_nothing_behind() {
    let server = Served::start().await;
    let (a, mut of_a) = server.attached().await;
    let session = a.session().await;
    a.cancel(&session).await;
    a.cancel("no-such-session").await;
    a.prompt(&session, "[[text:fine]]", Some("r")).await;
    assert_eq!(of_a.run_complete("r").await["text"], "fine");
    a.cancel(&session).await;
    a.prompt(&session, "[[text:still fine]]", Some("r2")).await;
    assert_eq!(of_a.run_complete("r2").await["text"], "still fine");
    assert!(a.messages(&session).await.iter().all(|message| !message.contains("canceled")));
}

/// A client that hangs up as soon as its request is out, with and without having read the answer.
#[tokio::test]
async fn the_request_does_not_own_the_run() {
    let server = Served::start().await;
    let (a, mut of_a) = server.attached().await;
    let session = a.session().await;
    a.prompt(&session, "[[hold:go]][[text:done]]", Some("r")).await;
    server.model.wait_for_hold("go").await;
    let body = json!({"session_id": session, "prompt": "[[text:too]]", "run_id": "hasty"});
    let request = a.send("POST", &format!("{}/agent", a.workspace), Some(&body)).await;
    // It is on its way; what it asks for is done whether or not anybody hears the answer.
    let queued = format!("/agent/sessions/{session}/prompts/queued");
    while a.get(&queued).await == 0 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    drop(request);
    server.model.release("go");
    assert_eq!(of_a.run_complete("r").await["text"], "done");
    assert_eq!(of_a.run_complete("hasty").await["text"], "too");
}

#[tokio::test]
async fn a_run_survives_its_poster_while_another_client_is_attached() {
    let server = Served::impatient().await;
    let (a, of_a) = server.attached().await;
    let (b, mut of_b) = server.attached().await;
    let session = a.session().await;
    a.prompt(&session, "[[hold:go]][[text:done]]", Some("r")).await;
    server.model.wait_for_hold("go").await;
    drop(of_a);
    a.retire().await;
    assert_eq!(b.get(&format!("/agent/sessions/{session}")).await["is_busy"], true);
    server.model.release("go");
    assert_eq!(finish(&of_b.finished("end_turn").await), "end_turn");
    assert_eq!(of_b.run_complete("r").await["text"], "done");
}

#[tokio::test]
async fn a_run_is_cancelled_when_the_last_client_leaves() {
    let server = Served::impatient().await;
    let (a, of_a) = server.attached().await;
    let session = a.session().await;
    a.prompt(&session, "[[hold:never]]", Some("r")).await;
    server.model.wait_for_hold("never").await;
    drop(of_a);
    a.until_gone().await;
    let (b, _of_b) = server.attached().await;
    assert_ne!(a.workspace, b.workspace);
    server.first_asked_is_over().await;
    let messages = b.messages(&session).await;
    assert!(messages[1].ends_with("canceled"), "{messages:?}");
}

/// Runs one prompt, leaves in the middle of it, and returns how it ended.
async fn ends_when_left(server: &Served, option: Value) -> String {
    let mut a = server.client().await;
    a.create(option).await;
    let of_a = a.stream().await;
    let session = a.session().await;
    a.prompt(&session, "[[hold:go]][[text:done alone]]", Some("r")).await;
    server.model.wait_for_hold("go").await;
    drop(of_a);
    a.until_gone().await;
    server.model.release("go");
    server.first_asked_is_over().await;
    let (b, _of_b) = server.attached().await;
    while b.get(&format!("/agent/sessions/{session}")).await["is_busy"] == true {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    b.messages(&session).await.pop().unwrap()
}

#[tokio::test]
async fn by_setting_a_run_goes_on_when_nobody_is_attached() {
    let config = "[workspaces]\ndetach_grace_seconds = 0\nkeep_running = true";
    let server = Served::configured(config).await;
    assert_eq!(ends_when_left(&server, json!({})).await, "assistant done alone end_turn");
    let server = Served::impatient().await;
    let kept = ends_when_left(&server, json!({"keep_running": true})).await;
    assert_eq!(kept, "assistant done alone end_turn", "a workspace may ask for it by itself");
}

#[tokio::test]
async fn what_another_door_watches_is_not_cancelled_when_the_workspace_goes() {
    let server = Served::impatient().await;
    let (a, of_a) = server.attached().await;
    let session = a.session().await;
    let sdk = server.running.connect().await;
    let chat = Chat::resume(&sdk, &session, json!({})).await;
    let from = sdk.count();
    a.prompt(&session, "[[hold:go]][[text:for the SDK]]", Some("r")).await;
    server.model.wait_for_hold("go").await;
    drop(of_a);
    a.until_gone().await;
    server.model.release("go");
    assert_eq!(chat.until_idle(from).await.text(), "for the SDK");
}

#[tokio::test]
async fn a_failed_run_says_why_and_the_next_one_has_its_turn() {
    let server = Served::start().await;
    let (a, mut of_a) = server.attached().await;
    let session = a.session().await;
    a.prompt(&session, "[[hold:go]][[text:x]]", Some("r0")).await;
    server.model.wait_for_hold("go").await;
    a.prompt(&session, "[[error:400]]", Some("bad")).await;
    a.prompt(&session, "[[text:good]]", Some("good")).await;
    server.model.release("go");
    let bad = of_a.run_complete("bad").await;
    assert!(
        bad["error"].as_str().is_some_and(|why| why.len() > 10) && bad.get("cancelled").is_none(),
        "{bad}"
    );
    assert_eq!(of_a.run_complete("good").await["text"], "good");
    let failed = of_a
        .seen
        .iter()
        .map(|event| &event["payload"]["payload"])
        .find(|o| o["parts"].is_array() && finish(o) == "error");
    let part = failed.expect("a message that says so")["parts"].as_array().unwrap().last().cloned().unwrap();
    assert!(part["data"]["message"].is_string() && part["data"]["details"].is_string(), "{part}");
}

#[tokio::test]
async fn the_queue_can_be_seen_and_cleared() {
    let server = Served::start().await;
    let (a, mut of_a) = server.attached().await;
    let session = a.session().await;
    let queue = format!("/agent/sessions/{session}/prompts");
    assert_eq!(a.get(&format!("{queue}/queued")).await, 0);
    a.prompt(&session, "[[hold:go]][[text:x]]", Some("r0")).await;
    server.model.wait_for_hold("go").await;
    assert_eq!(a.get(&format!("{queue}/queued")).await, 0, "what runs does not wait");
    a.prompt(&session, "one", Some("r1")).await;
    a.prompt(&session, "two", Some("r2")).await;
    assert_eq!(a.get(&format!("{queue}/list")).await, json!(["one", "two"]));
    a.ok(&format!("{queue}/clear"), json!({})).await;
    assert_eq!(a.get(&format!("{queue}/queued")).await, 0);
    for run in ["r1", "r2"] {
        assert_eq!(of_a.run_complete(run).await["cancelled"], true);
    }
    server.model.release("go");
    assert_eq!(of_a.run_complete("r0").await["text"], "x");
    assert_eq!(server.asked().len(), 1);
}

/// What a person types while the agent works joins the work; what a script runs has a turn of its own.
#[tokio::test]
async fn a_prompt_of_a_person_joins_the_run_and_a_run_is_run_once() {
    let server = Served::start().await;
    let mut a = server.client().await;
    a.create(json!({"yolo": true})).await;
    let mut of_a = a.stream().await;
    let session = a.session().await;
    a.prompt(&session, r#"[[hold:go]][[tool:bash {"command":"true"}]][[text:first]]"#, Some("r")).await;
    server.model.wait_for_hold("go").await;
    a.prompt(&session, "by the way", None).await;
    a.prompt(&session, "[[text:again]]", Some("r")).await;
    server.model.release("go");
    of_a.run_complete("r").await;
    let messages = a.get(&format!("/sessions/{session}/messages")).await;
    let roles: Vec<&str> = messages.as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(
        roles,
        ["user", "assistant", "tool", "user", "assistant"],
        "the same run is the same run: {messages}"
    );
    let asked = server.asked();
    assert!(asked.len() == 2 && asked[1].to_string().contains("by the way"), "{asked:?}");
    assert_eq!(of_a.count("run_complete"), 1);
}

#[tokio::test]
async fn what_cannot_be_run_is_refused_at_once() {
    let server = Served::start().await;
    let (a, _of_a) = server.attached().await;
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
async fn a_summary_is_a_message_and_what_was_taken_back_is_none() {
    let server = Served::start().await;
    let (a, mut of_a) = server.attached().await;
    let session = a.session().await;
    for (run, text) in [("1", "first [[text:one]]"), ("2", "second [[text:two]]")] {
        a.prompt(&session, text, Some(run)).await;
        of_a.run_complete(run).await;
    }
    server.model.push(Reply::text("in short"));
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
