//! Conflicts: two servers on one home; answers that come twice, late or from another session; sessions that are deleted or in
//! use. Each gets a clear error, and nothing is lost.

use baton_testkit::chat::Chat;
use baton_testkit::client::Client;
use baton_testkit::http::Http;
use baton_testkit::processes::Marker;
use baton_testkit::program::{Program, Running};
use serde_json::{Value, json};

use crate::{eventually, scripted};

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

/// A server whose session waits for a permission.
async fn with_pending_permission(program: &Program) -> (Running, Client, String) {
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::create(&client, json!({"sessionId": "shared"})).await;
    chat.send(r#"[[tool:bash {"command":"echo ran"}]]"#).await;
    let (_, asked) = chat.event("permission.requested", 0).await;
    let request = asked["data"]["requestId"].as_str().unwrap().to_owned();
    (server, client, request)
}

#[tokio::test]
async fn busy_session_stays_with_its_server_and_its_holder_is_named() {
    let (program, _model) = scripted().await;
    let (server, first, request) = with_pending_permission(&program).await;
    let other = program.serve().await;
    let second = other.connect().await;
    let refused = message(&second, "shared").await;
    assert!(refused.contains(&format!("process {}", server.pid())), "the holder is named: {refused}");
    let listed = second.ok("session.list", json!({})).await;
    assert_eq!(listed["sessions"][0]["sessionId"], "shared", "every server lists it");
    let brief = second.ok("sessions.list", json!({"metadataLimit": 0})).await;
    assert_eq!(brief["sessions"].as_array().map(Vec::len), Some(1), "also in the brief list");
    // The holder is not affected.
    let chat = Chat { client: &first, id: "shared".into() };
    let answer = json!({"requestId": request, "result": {"kind": "approve-once"}});
    assert_eq!(chat.ok(PERMIT, answer).await["success"], true);
    assert!(chat.until_idle(0).await.text().contains("ran"));
}

#[tokio::test]
async fn idle_session_moves_to_the_server_that_resumes_it() {
    let (program, _model) = scripted().await;
    let (server, other) = (program.serve().await, program.serve().await);
    let (first, second) = (server.connect().await, other.connect().await);
    let before = Chat::create(&first, json!({"sessionId": "shared"})).await;
    before.assert_usable().await;
    let after = Chat::resume(&second, "shared", json!({})).await;
    after.assert_usable().await;
    // The former holder refuses prompts instead of losing them.
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
async fn session_of_a_killed_server_is_taken_over_at_once() {
    let (program, _model) = scripted().await;
    let (mut server, _first, request) = with_pending_permission(&program).await;
    let other = program.serve().await;
    let second = other.connect().await;
    assert!(message(&second, "shared").await.contains("in use by process"));
    server.kill().await;
    // No lease has to expire: the next call gets the session with its pending request.
    let chat = Chat::resume(&second, "shared", json!({"continuePendingWork": true})).await;
    let answer = json!({"requestId": request, "result": {"kind": "approve-once"}});
    assert_eq!(chat.ok(PERMIT, answer).await["success"], true);
    assert!(chat.until_idle(0).await.text().contains("ran"));
}

#[tokio::test]
async fn only_one_of_two_concurrent_answers_counts() {
    let (program, model) = scripted().await;
    let (server, first, request) = with_pending_permission(&program).await;
    let second = server.connect().await;
    let chat = Chat::resume(&second, "shared", json!({})).await;
    let answer = |kind: &str| json!({"sessionId": "shared", "requestId": request, "result": {"kind": kind}});
    let (yes, no) =
        (first.start(PERMIT, answer("approve-once")).await, second.start(PERMIT, answer("reject")).await);
    let (yes, no) = (first.answer(yes).await.unwrap(), second.answer(no).await.unwrap());
    assert_ne!(yes["success"], no["success"], "exactly one counts: {yes} {no}");
    let turn = chat.until_idle(0).await;
    assert_eq!(turn.of("permission.completed").len(), 1);
    let ran = model.requests().pop().unwrap().body["messages"].to_string().contains("ran\\n");
    assert_eq!(yes["success"] == true, ran, "the answer that counts decides");
    // A late answer does not count.
    assert_eq!(second.ok(PERMIT, answer("approve-once")).await["success"], false);
    chat.assert_usable().await;
}

#[tokio::test]
async fn request_is_answered_only_in_its_own_session() {
    let (program, _model) = scripted().await;
    let (_server, client, request) = with_pending_permission(&program).await;
    let other = Chat::create(&client, with_tool(json!({"sessionId": "other"}))).await;
    let answer = json!({"requestId": request, "result": {"kind": "approve-once"}});
    assert_eq!(other.ok(PERMIT, answer.clone()).await["success"], false, "not its request");
    assert_eq!(other.ok(RETURN, json!({"requestId": request, "result": "x"})).await["success"], false);
    let owner = Chat { client: &client, id: "shared".into() };
    let wrong = owner.call(RETURN, json!({"requestId": request, "result": "x"})).await.unwrap_err();
    assert!(wrong["message"].as_str().unwrap().contains("of another kind"), "{wrong}");
    assert_eq!(owner.ok(PERMIT, answer).await["success"], true, "and it is still pending");
    assert!(owner.until_idle(0).await.text().contains("ran"));
}

#[tokio::test]
async fn only_one_of_two_client_tools_with_one_name_is_called() {
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
    assert_eq!(turn.of("external_tool.requested").len(), 1, "it is called once");
    let offered = model.requests().pop().unwrap().body["tools"].to_string();
    assert_eq!(offered.matches(r#""name":"lookup""#).count(), 1, "the model sees one tool");
    // The remaining client still has the tool.
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
async fn deleted_session_is_gone_for_every_client() {
    let (program, _model) = scripted().await;
    let (_server, client, request) = with_pending_permission(&program).await;
    client.ok("session.delete", json!({"sessionId": "shared"})).await;
    assert!(message(&client, "shared").await.contains("shared"), "the session is named");
    let answer = json!({"sessionId": "shared", "requestId": request, "result": {"kind": "approve-once"}});
    assert!(client.call(PERMIT, answer).await.is_err());
    Chat::create(&client, json!({"sessionId": "shared"})).await.assert_usable().await;
}

#[tokio::test]
async fn session_held_by_another_server_is_not_deleted() {
    let (program, _model) = scripted().await;
    let (server, first, _request) = with_pending_permission(&program).await;
    let other = program.serve_http(&[]).await;
    let http = Http::new(&program, &other);
    let refused = http.send("DELETE", "/api/sessions/shared", &[], None).await;
    assert_eq!(refused.refused(409), "in_use");
    let holder = format!("process {}", server.pid());
    assert!(refused.body.contains(&holder), "{refused:?}");
    let second = other.greetless().await;
    second.ok("connect", json!({"token": program.token()})).await;
    let refused = second.refused("session.delete", json!({"sessionId": "shared"})).await;
    assert!(refused["message"].as_str().unwrap().contains(&holder), "{refused}");
    let deleted = program.run(&["sessions", "delete", "--yes", "shared"]).await;
    assert!(deleted.code() == Some(1) && deleted.stderr.contains(&holder), "{deleted:?}");
    let chat = Chat { client: &first, id: "shared".into() };
    let from = first.count();
    chat.ok("session.abort", json!({})).await;
    chat.until_idle(from).await;
    chat.assert_usable().await;
}

/// Another server takes over the session because it believes its holder dead. The holder stops all work at once, not only
/// with its next write.
#[tokio::test]
async fn server_that_loses_its_lease_stops_its_work() {
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

/// A holder that lost its lease may not write. Its clients get an error at once, and the next holder records the outcome.
#[tokio::test]
async fn prompt_of_a_lost_session_fails_at_once_and_gets_its_outcome_from_the_next_holder() {
    let (program, _model) = scripted().await;
    let marker = Marker::new();
    let server = program.serve_http(&[]).await;
    let http = Http::new(&program, &server);
    let client = server.greetless().await;
    client.ok("connect", json!({"token": program.token()})).await;
    let chat = Chat::trusting(&client, json!({"sessionId": "shared"})).await;
    let command = format!("MARK={} sleep 600", marker.word());
    let prompt = format!("[[tool:bash {}]]", json!({"command": command, "initial_wait": 600}));
    let waiting = chat.call("session.sendAndWait", json!({"prompt": prompt}));
    let lose = async {
        marker.until_at_least(1).await;
        let file = rusqlite::Connection::open(program.database()).unwrap();
        let taken = "UPDATE sessions SET epoch = epoch + 1000000, busy = 0 WHERE id = 'shared'";
        assert_eq!(file.execute(taken, []).unwrap(), 1);
    };
    let (refused, ()) = tokio::join!(waiting, lose);
    let refused = refused.unwrap_err();
    assert!(refused["message"].as_str().unwrap().contains("closed before"), "{refused}");
    marker.until_gone("the session was taken over").await;
    let events = http.get("/api/sessions/shared/events?limit=1000").await.expect(200);
    let accepted = events["events"].as_array().unwrap().iter();
    let accepted =
        accepted.map(|entry| &entry["event"]).find(|event| event["type"] == "baton.prompt_accepted");
    let prompt = accepted.unwrap()["data"]["promptId"].as_str().unwrap().to_owned();
    assert!(!events.to_string().contains("baton.turn_settled"), "the loser writes nothing: {events}");

    let other = program.serve_http(&[]).await;
    let second = other.greetless().await;
    second.ok("connect", json!({"token": program.token()})).await;
    second.ok("session.resume", json!({"sessionId": "shared"})).await;
    assert_eq!(http.outcome("shared", &prompt).await, "interrupted", "also for clients of the loser");
    Chat { client: &second, id: "shared".into() }.assert_usable().await;
}

/// Another server may delete an idle session. Its holder then ends the processes of its commands, and notifies its clients.
#[tokio::test]
async fn deleted_idle_session_ends_at_its_holder_and_its_clients_are_notified() {
    let (program, _model) = scripted().await;
    let marker = Marker::new();
    let server = program.serve_http(&[]).await;
    let http = Http::new(&program, &server);
    let client = server.greetless().await;
    client.ok("connect", json!({"token": program.token()})).await;
    let chat = Chat::trusting(&client, json!({"sessionId": "shared"})).await;
    let command = format!("MARK={} sleep 600", marker.word());
    chat.turn(&format!("[[tool:bash {}]]", json!({"command": command, "mode": "async"}))).await;
    marker.until_at_least(1).await;
    let acting = Chat::create(&client, json!({"sessionId": "acting"})).await;
    acting.assert_usable().await;
    let mut watching = http.events("shared", 0).await;

    let other = program.serve_http(&[]).await;
    let elsewhere = Http::new(&program, &other);
    for session in ["shared", "acting"] {
        let path = format!("/api/sessions/{session}");
        assert_eq!(elsewhere.send("DELETE", &path, &[], None).await.status, 204);
    }
    // A client that acts is refused at once, and the session is not created again.
    let refused = acting.call("session.send", json!({"prompt": "[[text:late]]"})).await.unwrap_err();
    assert!(refused["message"].as_str().unwrap().contains("deleted"), "{refused}");
    let left = elsewhere.get("/api/sessions").await.expect(200);
    assert_eq!(left["sessions"], json!([]), "{left}");
    // A client that only watches is notified soon.
    let (_, error) = chat.event("session.error", 0).await;
    assert_eq!(error["data"]["errorType"], "taken_over", "{error}");
    let notified = watching.kind("session.error").await;
    assert_eq!(notified.event["data"]["errorType"], "taken_over");
    marker.until_gone("the session was deleted").await;
    assert_eq!(http.get("/api/sessions/shared").await.status, 404);
    // The id can be used again, as soon as the holder has forgotten the session; clients are notified a little earlier.
    eventually("the id", async || client.call("session.create", json!({"sessionId": "shared"})).await.ok())
        .await;
    chat.assert_usable().await;
}
