//! What waits for an answer, over the workspace API: shown to whoever is there, answered once, by any door, at any time.

use baton_testkit::chat::Chat;
use serde_json::{Value, json};

use crate::v1_client::{Crush, Served, Stream, finish};

const TOOL: &str = r#"[[tool:bash {"command":"echo it-ran","description":"Say so"}]]"#;

async fn grant(client: &Crush, request: &Value, action: &str) -> Value {
    client.ok("/permissions/grant", json!({"permission": request, "action": action})).await["resolved"]
        .clone()
}

/// Runs the tool until somebody has to allow it.
async fn asked(client: &Crush, stream: &mut Stream, run: &str) -> (String, Value) {
    let session = client.session().await;
    client.prompt(&session, TOOL, Some(run)).await;
    let request = stream.next("permission_request").await;
    (session, request)
}

#[tokio::test]
async fn the_first_answer_counts_and_everybody_hears_of_it() {
    let server = Served::start().await;
    let (a, mut of_a) = server.attached().await;
    let (b, mut of_b) = server.attached().await;
    let (session, request) = asked(&a, &mut of_a, "r").await;
    assert_eq!((&request["tool_name"], &request["session_id"]), (&json!("bash"), &json!(session)));
    assert_eq!(request["params"]["command"], "echo it-ran");
    assert_eq!(of_b.next("permission_notification").await["granted"], false, "asked");
    assert_eq!(of_b.next("permission_request").await, request);
    assert_eq!(grant(&a, &request, "allow").await, true);
    let told = of_b.next("permission_notification").await;
    assert_eq!((&told["tool_call_id"], &told["granted"]), (&request["tool_call_id"], &json!(true)));
    assert_eq!(grant(&b, &request, "deny").await, false, "too late");
    assert!(of_b.run_complete("r").await["text"].as_str().unwrap().contains("it-ran"));
    assert_eq!(of_b.count("permission_request"), 1);
    assert_eq!(a.post("/permissions/grant", json!({"permission": request, "action": "maybe"})).await.0, 400);
}

#[tokio::test]
async fn a_denial_ends_the_turn() {
    let server = Served::start().await;
    let (a, mut of_a) = server.attached().await;
    let (session, request) = asked(&a, &mut of_a, "r").await;
    assert_eq!(grant(&a, &request, "deny").await, true);
    of_a.run_complete("r").await;
    assert_eq!(server.asked().len(), 1, "the model is not asked again");
    let messages = a.get(&format!("/sessions/{session}/messages")).await;
    assert_eq!(finish(&messages[1]), "end_turn");
    let result = &messages[2]["parts"][0]["data"];
    assert!(
        result["is_error"] == true && result["content"].as_str().unwrap().contains("rejected"),
        "{result}"
    );
}

#[tokio::test]
async fn one_permission_is_shown_at_a_time_and_a_grant_for_the_session_lasts() {
    let server = Served::start().await;
    let (a, mut of_a) = server.attached().await;
    let (_, first) = asked(&a, &mut of_a, "r1").await;
    let other = a.session().await;
    a.prompt(&other, TOOL, Some("r2")).await;
    // It waits behind the first: there is room for one question on the screen.
    while a.get(&format!("/agent/sessions/{other}")).await["is_busy"] == false {}
    assert_eq!(grant(&a, &first, "allow_session").await, true);
    let second = of_a.next("permission_request").await;
    assert_eq!(second["session_id"], json!(other));
    assert_eq!(grant(&a, &second, "allow").await, true);
    of_a.run_complete("r2").await;
    let session = first["session_id"].as_str().unwrap();
    a.prompt(session, TOOL, Some("r3")).await;
    assert!(of_a.run_complete("r3").await["text"].as_str().unwrap().contains("it-ran"));
    assert_eq!(of_a.count("permission_request"), 2, "granted for the session is not asked again");
}

#[tokio::test]
async fn permissions_that_are_skipped_are_not_asked() {
    let server = Served::start().await;
    let (a, mut of_a) = server.attached().await;
    assert_eq!(a.get("/permissions/skip").await["skip"], false);
    a.ok("/permissions/skip", json!({"skip": true})).await;
    assert_eq!(a.get("/permissions/skip").await["skip"], true);
    let session = a.session().await;
    a.prompt(&session, TOOL, Some("r")).await;
    assert!(of_a.run_complete("r").await["text"].as_str().unwrap().contains("it-ran"));
    assert_eq!(of_a.count("permission_request"), 0);
    // It is this workspace's decision about its own runs, not one about the session for ever, nor about others' runs.
    let sdk = server.running.connect().await;
    let chat = Chat::create(&sdk, json!({"workingDirectory": server.program.work()})).await;
    let from = sdk.count();
    chat.send(TOOL).await;
    chat.event("permission.requested", from).await;
    let asked = of_a.next("permission_request").await;
    assert_eq!(asked["session_id"], json!(chat.id));
    a.ok("/permissions/skip", json!({"skip": false})).await;
    assert_eq!(grant(&a, &asked, "deny").await, true);
    a.prompt(&session, TOOL, Some("r2")).await;
    assert_eq!(of_a.next("permission_request").await["session_id"], json!(session));
}

/// Nobody sits in front of `crush run`, and it has no way to say yes.
#[tokio::test]
async fn by_setting_a_run_that_a_script_waits_for_is_not_asked() {
    let server = Served::configured("[workspaces]\napprove_runs = true").await;
    let (a, mut of_a) = server.attached().await;
    let session = a.session().await;
    a.prompt(&session, TOOL, Some("r")).await;
    assert!(of_a.run_complete("r").await["text"].as_str().unwrap().contains("it-ran"));
    assert_eq!(of_a.count("permission_request"), 0);
    a.prompt(&session, TOOL, None).await;
    assert_eq!(of_a.next("permission_request").await["session_id"], json!(session), "a person is asked");
}

#[tokio::test]
async fn what_an_sdk_session_waits_for_is_shown_to_who_comes_later_and_answered_there() {
    let server = Served::start().await;
    let sdk = server.running.connect().await;
    let chat = Chat::create(&sdk, json!({"workingDirectory": server.program.work()})).await;
    let from = sdk.count();
    chat.send(TOOL).await;
    chat.event("permission.requested", from).await;
    let (a, mut of_a) = server.attached().await;
    let request = of_a.next("permission_request").await;
    assert_eq!(request["session_id"], json!(chat.id));
    let listed = a.get("/sessions").await;
    assert_eq!((&listed[0]["id"], &listed[0]["is_busy"]), (&json!(chat.id), &json!(true)));
    assert_eq!(grant(&a, &request, "allow").await, true);
    assert!(chat.until_idle(from).await.text().contains("it-ran"));
    // And who answers at the SDK's side closes it here.
    let from = sdk.count();
    chat.send(TOOL).await;
    let request = of_a.next("permission_request").await;
    let answer = json!({"requestId": request["id"], "result": {"kind": "approve-once"}});
    chat.ok("session.permissions.handlePendingPermissionRequest", answer).await;
    chat.until_idle(from).await;
    assert_eq!(grant(&a, &request, "deny").await, false);
    let granted =
        |kind: &str, o: &Value| (kind == "permission_notification" && o["granted"] == true).then_some(());
    of_a.find("the grant", granted).await;
}

#[tokio::test]
async fn a_session_made_here_is_driven_by_an_sdk() {
    let server = Served::start().await;
    let (a, mut of_a) = server.attached().await;
    let session = a.session().await;
    let sdk = server.running.connect().await;
    let listed = sdk.ok("session.list", json!({})).await;
    assert!(
        listed["sessions"].as_array().unwrap().iter().any(|s| s["sessionId"] == json!(session)),
        "{listed}"
    );
    let chat = Chat::resume(&sdk, &session, json!({})).await;
    let turn = chat.turn("[[text:said to the SDK]]").await;
    assert_eq!(turn.text(), "said to the SDK");
    of_a.finished("end_turn").await;
    assert_eq!(a.messages(&session).await[1], "assistant said to the SDK end_turn");
}

#[tokio::test]
async fn a_session_made_here_is_seen_prompted_and_approved_over_the_session_api() {
    let server = Served::start().await;
    let (a, mut of_a) = server.attached().await;
    let (session, request) = asked(&a, &mut of_a, "r").await;
    let at = format!("/api/sessions/{session}");
    // Its bodies must say that they are JSON; those of this client do not.
    let (status, waiting) = a.ask("GET", &format!("{at}/requests"), None).await;
    assert_eq!((status, &waiting["requests"][0]["requestId"]), (200, &request["id"]), "{waiting}");
    let (status, counted) = a
        .ask_json(
            "POST",
            &format!("{at}/requests/{}", request["id"].as_str().unwrap()),
            &json!({
                "kind": "permission", "decision": "approve",
            }),
        )
        .await;
    assert_eq!(status, 200, "{counted}");
    assert!(of_a.run_complete("r").await["text"].as_str().unwrap().contains("it-ran"));
    assert_eq!(grant(&a, &request, "deny").await, false, "answered at the other door");
    let prompt = json!({"text": "[[text:from the other door]]"});
    assert_eq!(a.ask_json("POST", &format!("{at}/prompts"), &prompt).await.0, 202);
    of_a.finished("end_turn").await;
    let last = a.messages(&session).await.pop().unwrap();
    assert_eq!(last, "assistant from the other door end_turn");
}

#[tokio::test]
async fn what_waits_survives_the_death_of_the_server() {
    let mut server = Served::start().await;
    let (a, mut of_a) = server.attached().await;
    let (session, request) = asked(&a, &mut of_a, "r").await;
    server.running.kill().await;
    of_a.ended().await;
    server.restart().await;
    let (b, mut of_b) = server.attached().await;
    let again = of_b.next("permission_request").await;
    assert_eq!(again, request, "the same request under the same name");
    assert_eq!(grant(&b, &again, "allow").await, true);
    assert!(of_b.run_complete("r").await["text"].as_str().unwrap().contains("it-ran"));
    let messages = b.messages(&session).await;
    assert!(messages.last().unwrap().ends_with("end_turn"), "{messages:?}");
}

#[tokio::test]
async fn a_question_is_answered_or_closed() {
    let server = Served::start().await;
    let (a, mut of_a) = server.attached().await;
    let session = a.session().await;
    let ask = r#"[[tool:ask_user {"question":"which colour?","choices":["red","blue"]}]]"#;
    a.prompt(&session, ask, Some("r")).await;
    let batch = of_a.next("question_batch_request").await;
    let question = &batch["questions"][0];
    assert_eq!(
        (&question["question"], &question["type"]),
        (&json!("which colour?"), &json!("single_choice"))
    );
    let response = json!({"request_id": question["id"], "selected_ids": [question["choices"][1]["id"]]});
    let answer = json!({"batch_request_id": batch["id"], "responses": [response]});
    assert_eq!(a.ok("/questions/answer", answer.clone()).await["resolved"], true);
    assert_eq!(of_a.next("question_batch_notification").await["batch_id"], batch["id"]);
    assert!(of_a.run_complete("r").await["text"].as_str().unwrap().contains("User selected: blue"));
    assert_eq!(a.ok("/questions/answer", answer).await["resolved"], false);
    a.prompt(&session, ask, Some("r2")).await;
    of_a.next("question_batch_request").await;
    assert_eq!(a.ok("/questions/cancel", json!({})).await["resolved"], true);
    assert!(of_a.run_complete("r2").await["text"].as_str().unwrap().contains("closed the question"));
    assert_eq!(a.ok("/questions/cancel", json!({})).await["resolved"], false);
}

#[tokio::test]
async fn a_command_of_a_person_is_run_kept_and_told_to_the_model() {
    let server = Served::start().await;
    let (a, mut of_a) = server.attached().await;
    let session = a.session().await;
    let shell = format!("/agent/sessions/{session}/shell");
    let ran =
        a.ok(&shell, json!({"command": "basename $PWD; echo oops >&2; exit 3", "term_width": 80})).await;
    assert_eq!(ran, json!({"output": "work\noops", "exit_code": 3}));
    let message = of_a.next("message").await;
    assert_eq!((&message["role"], &message["parts"][0]["type"]), (&json!("user"), &json!("shell_command")));
    assert_eq!(a.post(&shell, json!({"command": ""})).await.0, 400);
    a.prompt(&session, "[[text:seen]]", Some("r")).await;
    of_a.run_complete("r").await;
    assert!(server.asked()[0].to_string().contains("oops"), "the model knows");
}
