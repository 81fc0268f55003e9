//! Requests over crush's workspace API: shown to every client, and answered once, over any API.

use baton_testkit::chat::Chat;
use serde_json::{Value, json};

use crate::crush_client::{Crush, CrushServer, Stream, finish};
use crate::eventually;

const TOOL: &str = r#"[[tool:bash {"command":"echo it-ran","description":"Say so"}]]"#;

async fn grant(client: &Crush, request: &Value, action: &str) -> Value {
    client.ok("/permissions/grant", json!({"permission": request, "action": action})).await["resolved"]
        .clone()
}

/// Runs the tool until it waits for a permission.
async fn permission_request(client: &Crush, stream: &mut Stream, run: &str) -> (String, Value) {
    let session = client.session().await;
    client.prompt(&session, TOOL, Some(run)).await;
    let request = stream.next("permission_request").await;
    (session, request)
}

#[tokio::test]
async fn first_answer_counts_and_every_client_is_notified() {
    let server = CrushServer::start().await;
    let (a, mut a_events) = server.attached().await;
    let (b, mut b_events) = server.attached().await;
    let (session, request) = permission_request(&a, &mut a_events, "r").await;
    assert_eq!((&request["tool_name"], &request["session_id"]), (&json!("bash"), &json!(session)));
    assert_eq!(request["params"]["command"], "echo it-ran");
    assert_eq!(b_events.next("permission_notification").await["granted"], false, "requested");
    assert_eq!(b_events.next("permission_request").await, request);
    assert_eq!(grant(&a, &request, "allow").await, true);
    let granted = b_events.next("permission_notification").await;
    assert_eq!((&granted["tool_call_id"], &granted["granted"]), (&request["tool_call_id"], &json!(true)));
    assert_eq!(grant(&b, &request, "deny").await, false, "too late");
    assert!(b_events.run_complete("r").await["text"].as_str().unwrap().contains("it-ran"));
    assert_eq!(b_events.count("permission_request"), 1);
    assert_eq!(a.post("/permissions/grant", json!({"permission": request, "action": "maybe"})).await.0, 400);
}

#[tokio::test]
async fn denial_ends_the_turn() {
    let server = CrushServer::start().await;
    let (a, mut a_events) = server.attached().await;
    let (session, request) = permission_request(&a, &mut a_events, "r").await;
    assert_eq!(grant(&a, &request, "deny").await, true);
    a_events.run_complete("r").await;
    assert_eq!(server.model_requests().len(), 1, "the model is not asked again");
    let messages = a.get(&format!("/sessions/{session}/messages")).await;
    assert_eq!(finish(&messages[1]), "end_turn");
    let result = &messages[2]["parts"][0]["data"];
    assert!(
        result["is_error"] == true && result["content"].as_str().unwrap().contains("rejected"),
        "{result}"
    );
}

#[tokio::test]
async fn one_permission_is_shown_at_a_time_and_a_session_grant_lasts() {
    let server = CrushServer::start().await;
    let (a, mut a_events) = server.attached().await;
    let (_, first) = permission_request(&a, &mut a_events, "r1").await;
    let other = a.session().await;
    a.prompt(&other, TOOL, Some("r2")).await;
    // It waits behind the first: crush shows one request at a time.
    eventually("the second run", async || {
        let busy = a.get(&format!("/agent/sessions/{other}")).await;
        (busy["is_busy"] == true).then_some(())
    })
    .await;
    assert_eq!(grant(&a, &first, "allow_session").await, true);
    let second = a_events.next("permission_request").await;
    assert_eq!(second["session_id"], json!(other));
    assert_eq!(grant(&a, &second, "allow").await, true);
    a_events.run_complete("r2").await;
    let session = first["session_id"].as_str().unwrap();
    a.prompt(session, TOOL, Some("r3")).await;
    assert!(a_events.run_complete("r3").await["text"].as_str().unwrap().contains("it-ran"));
    assert_eq!(a_events.count("permission_request"), 2, "the session grant covers it");
}

#[tokio::test]
async fn skipped_permissions_are_not_requested() {
    let server = CrushServer::start().await;
    let (a, mut a_events) = server.attached().await;
    assert_eq!(a.get("/permissions/skip").await["skip"], false);
    a.ok("/permissions/skip", json!({"skip": true})).await;
    assert_eq!(a.get("/permissions/skip").await["skip"], true);
    let session = a.session().await;
    a.prompt(&session, TOOL, Some("r")).await;
    assert!(a_events.run_complete("r").await["text"].as_str().unwrap().contains("it-ran"));
    assert_eq!(a_events.count("permission_request"), 0);
    // The setting covers runs of this workspace only: not the session, nor runs of other clients.
    let sdk = server.running.connect().await;
    let chat = Chat::create(&sdk, json!({"workingDirectory": server.program.work()})).await;
    let from = sdk.count();
    chat.send(TOOL).await;
    chat.event("permission.requested", from).await;
    let asked = a_events.next("permission_request").await;
    assert_eq!(asked["session_id"], json!(chat.id));
    a.ok("/permissions/skip", json!({"skip": false})).await;
    assert_eq!(grant(&a, &asked, "deny").await, true);
    a.prompt(&session, TOOL, Some("r2")).await;
    assert_eq!(a_events.next("permission_request").await["session_id"], json!(session));
}

/// `crush run` cannot answer permission requests.
#[tokio::test]
async fn approve_runs_skips_permissions_of_scripts() {
    let server = CrushServer::configured("[workspaces]\napprove_runs = true").await;
    let (a, mut a_events) = server.attached().await;
    let session = a.session().await;
    a.prompt(&session, TOOL, Some("r")).await;
    assert!(a_events.run_complete("r").await["text"].as_str().unwrap().contains("it-ran"));
    assert_eq!(a_events.count("permission_request"), 0);
    a.prompt(&session, TOOL, None).await;
    assert_eq!(
        a_events.next("permission_request").await["session_id"],
        json!(session),
        "a typed prompt is asked for"
    );
}

#[tokio::test]
async fn request_of_an_sdk_session_is_shown_to_a_later_client_and_answered() {
    let server = CrushServer::start().await;
    let sdk = server.running.connect().await;
    let chat = Chat::create(&sdk, json!({"workingDirectory": server.program.work()})).await;
    let from = sdk.count();
    chat.send(TOOL).await;
    chat.event("permission.requested", from).await;
    let (a, mut a_events) = server.attached().await;
    let request = a_events.next("permission_request").await;
    assert_eq!(request["session_id"], json!(chat.id));
    let listed = a.get("/sessions").await;
    assert_eq!((&listed[0]["id"], &listed[0]["is_busy"]), (&json!(chat.id), &json!(true)));
    assert_eq!(grant(&a, &request, "allow").await, true);
    assert!(chat.until_idle(from).await.text().contains("it-ran"));
    // An answer of the SDK client closes the request here.
    let from = sdk.count();
    chat.send(TOOL).await;
    let request = a_events.next("permission_request").await;
    let answer = json!({"requestId": request["id"], "result": {"kind": "approve-once"}});
    chat.ok("session.permissions.handlePendingPermissionRequest", answer).await;
    chat.until_idle(from).await;
    assert_eq!(grant(&a, &request, "deny").await, false);
    let granted =
        |kind: &str, o: &Value| (kind == "permission_notification" && o["granted"] == true).then_some(());
    a_events.find("the grant", granted).await;
}

#[tokio::test]
async fn sdk_drives_a_session_of_a_workspace() {
    let server = CrushServer::start().await;
    let (a, mut a_events) = server.attached().await;
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
    a_events.finished("end_turn").await;
    assert_eq!(a.messages(&session).await[1], "assistant said to the SDK end_turn");
}

#[tokio::test]
async fn session_api_drives_a_session_of_a_workspace() {
    let server = CrushServer::start().await;
    let (a, mut a_events) = server.attached().await;
    let (session, request) = permission_request(&a, &mut a_events, "r").await;
    let at = format!("/api/sessions/{session}");
    // The session API needs a content type; crush's API does not.
    let (status, waiting) = a.request("GET", &format!("{at}/requests"), None).await;
    assert_eq!((status, &waiting["requests"][0]["requestId"]), (200, &request["id"]), "{waiting}");
    let (status, counted) = a
        .request_json(
            "POST",
            &format!("{at}/requests/{}", request["id"].as_str().unwrap()),
            &json!({
                "kind": "permission", "decision": "approve",
            }),
        )
        .await;
    assert_eq!(status, 200, "{counted}");
    assert!(a_events.run_complete("r").await["text"].as_str().unwrap().contains("it-ran"));
    assert_eq!(grant(&a, &request, "deny").await, false, "answered over the session API");
    let prompt = json!({"text": "[[text:from the session API]]"});
    assert_eq!(a.request_json("POST", &format!("{at}/prompts"), &prompt).await.0, 202);
    a_events.finished("end_turn").await;
    let last = a.messages(&session).await.pop().unwrap();
    assert_eq!(last, "assistant from the session API end_turn");
}

#[tokio::test]
async fn pending_request_survives_a_kill() {
    let mut server = CrushServer::start().await;
    let (a, mut a_events) = server.attached().await;
    let (session, request) = permission_request(&a, &mut a_events, "r").await;
    server.running.kill().await;
    a_events.ended().await;
    server.restart().await;
    let (b, mut b_events) = server.attached().await;
    let again = b_events.next("permission_request").await;
    assert_eq!(again, request, "the same request with the same id");
    assert_eq!(grant(&b, &again, "allow").await, true);
    assert!(b_events.run_complete("r").await["text"].as_str().unwrap().contains("it-ran"));
    let messages = b.messages(&session).await;
    assert!(messages.last().unwrap().ends_with("end_turn"), "{messages:?}");
}

#[tokio::test]
async fn question_is_answered_or_cancelled() {
    let server = CrushServer::start().await;
    let (a, mut a_events) = server.attached().await;
    let session = a.session().await;
    let ask = r#"[[tool:ask_user {"question":"which colour?","choices":["red","blue"]}]]"#;
    a.prompt(&session, ask, Some("r")).await;
    let batch = a_events.next("question_batch_request").await;
    let question = &batch["questions"][0];
    assert_eq!(
        (&question["question"], &question["type"]),
        (&json!("which colour?"), &json!("single_choice"))
    );
    let response = json!({"request_id": question["id"], "selected_ids": [question["choices"][1]["id"]]});
    let answer = json!({"batch_request_id": batch["id"], "responses": [response]});
    assert_eq!(a.ok("/questions/answer", answer.clone()).await["resolved"], true);
    assert_eq!(a_events.next("question_batch_notification").await["batch_id"], batch["id"]);
    assert!(a_events.run_complete("r").await["text"].as_str().unwrap().contains("User selected: blue"));
    assert_eq!(a.ok("/questions/answer", answer).await["resolved"], false);
    a.prompt(&session, ask, Some("r2")).await;
    a_events.next("question_batch_request").await;
    assert_eq!(a.ok("/questions/cancel", json!({})).await["resolved"], true);
    assert!(a_events.run_complete("r2").await["text"].as_str().unwrap().contains("closed the question"));
    assert_eq!(a.ok("/questions/cancel", json!({})).await["resolved"], false);
}

#[tokio::test]
async fn user_command_is_run_recorded_and_reported_to_the_model() {
    let server = CrushServer::start().await;
    let (a, mut a_events) = server.attached().await;
    let session = a.session().await;
    let shell = format!("/agent/sessions/{session}/shell");
    let ran =
        a.ok(&shell, json!({"command": "basename $PWD; echo oops >&2; exit 3", "term_width": 80})).await;
    assert_eq!(ran, json!({"output": "work\noops", "exit_code": 3}));
    let message = a_events.next("message").await;
    assert_eq!((&message["role"], &message["parts"][0]["type"]), (&json!("user"), &json!("shell_command")));
    assert_eq!(a.post(&shell, json!({"command": ""})).await.0, 400);
    a.prompt(&session, "[[text:seen]]", Some("r")).await;
    a_events.run_complete("r").await;
    assert!(server.model_requests()[0].to_string().contains("oops"), "the model gets the output");
}
