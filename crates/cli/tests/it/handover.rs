//! Hand-over on a bad day: two servers on one directory, answers that come twice, too late or from the wrong session, and
//! sessions that are gone, in use or damaged. Each gets a clear answer, and nothing is lost.

use baton_testkit::chat::Chat;
use baton_testkit::client::Client;
use baton_testkit::http::Http;
use baton_testkit::processes::Marker;
use baton_testkit::program::{Program, Running};
use serde_json::{Value, json};

use crate::scripted;

const PERMIT: &str = "session.permissions.handlePendingPermissionRequest";
const RETURN: &str = "session.tools.handlePendingToolCall";

fn with_tool(mut params: Value) -> Value {
    params["tools"] =
        json!([{"name": "lookup", "description": "looks up", "parameters": {"type": "object"}}]);
    params
}

async fn message(client: &Client, id: &str) -> String {
    let refused = client.refused("session.resume", json!({"sessionId": id})).await;
    refused["message"].as_str().unwrap().to_owned()
}

/// A server whose session waits for somebody's permission.
async fn waiting(program: &Program) -> (Running, Client, String) {
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::create(&client, json!({"sessionId": "shared"})).await;
    chat.send(r#"[[tool:bash {"command":"echo ran"}]]"#).await;
    let (_, asked) = chat.event("permission.requested", 0).await;
    let request = asked["data"]["requestId"].as_str().unwrap().to_owned();
    (server, client, request)
}

#[tokio::test]
async fn a_busy_session_stays_with_its_server_and_others_are_told_who_has_it() {
    let (program, _model) = scripted().await;
    let (server, first, request) = waiting(&program).await;
    let other = program.serve().await;
    let second = other.connect().await;
    let told = message(&second, "shared").await;
    assert!(told.contains(&format!("process {}", server.pid())), "who has it: {told}");
    let listed = second.ok("session.list", json!({})).await;
    assert_eq!(listed["sessions"][0]["sessionId"], "shared", "it is there for everybody to see");
    let in_short = second.ok("sessions.list", json!({"metadataLimit": 0})).await;
    assert_eq!(in_short["sessions"].as_array().map(Vec::len), Some(1), "in short is not left out");
    // The holder has noticed nothing.
    let chat = Chat { client: &first, id: "shared".into() };
    let answer = json!({"requestId": request, "result": {"kind": "approve-once"}});
    assert_eq!(chat.ok(PERMIT, answer).await["success"], true);
    assert!(chat.until_idle(0).await.text().contains("ran"));
}

#[tokio::test]
async fn an_idle_session_moves_to_whoever_asks_for_it() {
    let (program, _model) = scripted().await;
    let (server, other) = (program.serve().await, program.serve().await);
    let (first, second) = (server.connect().await, other.connect().await);
    let before = Chat::create(&first, json!({"sessionId": "shared"})).await;
    before.assert_usable().await;
    let after = Chat::resume(&second, "shared", json!({})).await;
    after.assert_usable().await;
    // Whoever had it finds that out, and nothing of what it sends is lost in between.
    let refused = before.call("session.send", json!({"prompt": "[[text:mine]]"})).await;
    let history = after.history().await;
    match refused {
        Ok(_) => panic!("two servers have written one session"),
        Err(error) => assert!(!error["message"].as_str().unwrap().is_empty()),
    }
    assert!(!history.iter().any(|event| event["data"]["content"] == "[[text:mine]]"));
    after.assert_usable().await;
}

#[tokio::test]
async fn a_dead_holder_is_recognised_at_once() {
    let (program, _model) = scripted().await;
    let (mut server, _first, request) = waiting(&program).await;
    let other = program.serve().await;
    let second = other.connect().await;
    assert!(message(&second, "shared").await.contains("in use by process"));
    server.kill().await;
    // No lease has to run out: the very next call gets it, with what was pending.
    let chat = Chat::resume(&second, "shared", json!({"continuePendingWork": true})).await;
    let answer = json!({"requestId": request, "result": {"kind": "approve-once"}});
    assert_eq!(chat.ok(PERMIT, answer).await["success"], true);
    assert!(chat.until_idle(0).await.text().contains("ran"));
}

#[tokio::test]
async fn of_two_answers_at_once_one_counts_and_the_other_is_told() {
    let (program, model) = scripted().await;
    let (server, first, request) = waiting(&program).await;
    let second = server.connect().await;
    let chat = Chat::resume(&second, "shared", json!({})).await;
    let answer = |kind: &str| json!({"sessionId": "shared", "requestId": request, "result": {"kind": kind}});
    let (yes, no) =
        (first.start(PERMIT, answer("approve-once")).await, second.start(PERMIT, answer("reject")).await);
    let (yes, no) = (first.answer(yes).await.unwrap(), second.answer(no).await.unwrap());
    assert_ne!(yes["success"], no["success"], "exactly one of them counts: {yes} {no}");
    let turn = chat.until_idle(0).await;
    assert_eq!(turn.of("permission.completed").len(), 1);
    let ran = model.requests().pop().unwrap().body["messages"].to_string().contains("ran\\n");
    assert_eq!(yes["success"] == true, ran, "and what it says is what happens");
    // An answer to what is over does not count, and harms nothing.
    assert_eq!(second.ok(PERMIT, answer("approve-once")).await["success"], false);
    chat.assert_usable().await;
}

#[tokio::test]
async fn a_request_is_answered_in_its_own_session_only() {
    let (program, _model) = scripted().await;
    let (_server, client, request) = waiting(&program).await;
    let stranger = Chat::create(&client, with_tool(json!({"sessionId": "stranger"}))).await;
    let answer = json!({"requestId": request, "result": {"kind": "approve-once"}});
    assert_eq!(stranger.ok(PERMIT, answer.clone()).await["success"], false, "not its request");
    assert_eq!(stranger.ok(RETURN, json!({"requestId": request, "result": "x"})).await["success"], false);
    let owner = Chat { client: &client, id: "shared".into() };
    let wrong = owner.call(RETURN, json!({"requestId": request, "result": "x"})).await.unwrap_err();
    assert!(wrong["message"].as_str().unwrap().contains("of another kind"), "{wrong}");
    assert_eq!(owner.ok(PERMIT, answer).await["success"], true, "and it is still pending");
    assert!(owner.until_idle(0).await.text().contains("ran"));
}

#[tokio::test]
async fn of_two_tools_of_one_name_one_is_called() {
    let (program, model) = scripted().await;
    let server = program.serve().await;
    let (first, second) = (server.connect().await, server.connect().await);
    let chat = Chat::create(&first, with_tool(json!({"sessionId": "shared"}))).await;
    Chat::resume(&second, "shared", with_tool(json!({}))).await;
    chat.ok("session.permissions.setApproveAll", json!({"enabled": true})).await;
    chat.send("[[tool:lookup {}]]").await;
    let (_, call) = chat.event("external_tool.requested", 0).await;
    let answer =
        |text: &str| json!({"sessionId": "shared", "requestId": call["data"]["requestId"], "result": text});
    let one = first.ok(RETURN, answer("of the first")).await;
    let two = second.ok(RETURN, answer("of the second")).await;
    assert_ne!(one["success"], two["success"], "one result counts: {one} {two}");
    let turn = chat.until_idle(0).await;
    assert_eq!(turn.of("external_tool.requested").len(), 1, "it is asked for once");
    let offered = model.requests().pop().unwrap().body["tools"].to_string();
    assert_eq!(offered.matches(r#""name":"lookup""#).count(), 1, "and the model is offered one");
    // The one that stays has it still.
    first.hang_up().await;
    let chat = Chat { client: &second, id: "shared".into() };
    let from = second.count();
    chat.send("[[tool:lookup {}]]").await;
    let (_, call) = chat.event("external_tool.requested", from).await;
    let late = json!({"requestId": call["data"]["requestId"], "result": "still here"});
    assert_eq!(chat.ok(RETURN, late).await["success"], true);
    assert!(chat.until_idle(from).await.text().contains("still here"));
}

#[tokio::test]
async fn a_session_that_was_deleted_is_gone_for_everybody() {
    let (program, _model) = scripted().await;
    let (_server, client, request) = waiting(&program).await;
    client.ok("session.delete", json!({"sessionId": "shared"})).await;
    assert!(message(&client, "shared").await.contains("shared"), "it is named");
    let answer = json!({"sessionId": "shared", "requestId": request, "result": {"kind": "approve-once"}});
    assert!(client.call(PERMIT, answer).await.is_err());
    Chat::create(&client, json!({"sessionId": "shared"})).await.assert_usable().await;
}

#[tokio::test]
async fn session_that_another_server_works_on_is_not_deleted() {
    let (program, _model) = scripted().await;
    let (server, first, _request) = waiting(&program).await;
    let other = program.serve_http(&[]).await;
    let http = Http::new(&program, &other);
    let refused = http.send("DELETE", "/api/sessions/shared", &[], None).await;
    assert_eq!(refused.refused(409), "in_use");
    let holder = format!("process {}", server.pid());
    assert!(refused.body.contains(&holder), "{refused:?}");
    let second = other.greetless().await;
    second.ok("connect", json!({"token": program.token()})).await;
    let told = second.refused("session.delete", json!({"sessionId": "shared"})).await;
    assert!(told["message"].as_str().unwrap().contains(&holder), "{told}");
    let by_hand = program.run(&["sessions", "delete", "--yes", "shared"]).await;
    assert!(by_hand.code() == Some(1) && by_hand.stderr.contains(&holder), "{by_hand:?}");
    let chat = Chat { client: &first, id: "shared".into() };
    chat.ok("session.abort", json!({})).await;
    chat.assert_usable().await;
}

/// Another server takes a session by force (it believes that its holder is dead): the holder stops all work on it, long
/// before it would have anything to write.
#[tokio::test]
async fn holder_that_loses_its_lease_ends_its_work() {
    let (program, _model) = scripted().await;
    let marker = Marker::new();
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::trusting(&client, json!({"sessionId": "shared"})).await;
    let command = format!("MARK={} sleep 600", marker.word());
    let arguments = json!({"command": command, "initial_wait": 600});
    chat.send(&format!("[[tool:bash {arguments}]]")).await;
    marker.until_at_least(1).await;
    let file = rusqlite::Connection::open(program.database()).unwrap();
    let taken = file
        .execute("UPDATE sessions SET epoch = epoch + 1000000, busy = 0 WHERE id = 'shared'", [])
        .unwrap();
    assert_eq!(taken, 1);
    marker.until_gone("the session was taken over").await;
    let (_, error) = chat.event("session.error", 0).await;
    assert_eq!(error["data"]["errorType"], "taken_over", "{error}");
}
