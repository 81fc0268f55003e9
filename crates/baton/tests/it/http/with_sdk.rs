//! Sessions shared by HTTP and SDK clients.

use baton_testkit::chat::Chat;
use baton_testkit::client::Client;
use serde_json::{Value, json};

use super::TestServer;

const WRITE: &str = r#"[[tool:bash {"command":"echo done > made"}]]"#;

impl TestServer {
    /// An SDK client of the same server.
    pub(super) async fn sdk(&self) -> Client {
        let client = self.server.greetless().await;
        client.ok("connect", json!({"token": self.program.token()})).await;
        client
    }
}

fn content(event: &Value) -> &str {
    event["data"]["content"].as_str().unwrap()
}

#[tokio::test]
async fn sdk_session_is_listed_prompted_approved_and_cancelled_over_http() {
    let test = TestServer::start().await;
    let client = test.sdk().await;
    let chat =
        Chat::create(&client, json!({"sessionId": "s", "workingDirectory": test.program.work()})).await;
    assert_eq!(chat.turn("[[text:from the SDK]]").await.text(), "from the SDK");

    let listed = test.http.get("/api/sessions").await.expect(200);
    assert_eq!((&listed["sessions"][0]["id"], &listed["sessions"][0]["busy"]), (&json!("s"), &json!(false)));
    let mut events = test.http.events("s", 0).await;
    assert_eq!(content(&events.kind("assistant.message").await.event), "from the SDK");

    let from = client.count();
    test.http.prompt("s", "[[text:from HTTP]]").await;
    assert_eq!(chat.until_idle(from).await.text(), "from HTTP", "the SDK client sees the turn");

    let from = client.count();
    chat.send(WRITE).await;
    let request = test.http.pending("s").await["requestId"].as_str().unwrap().to_owned();
    let path = format!("/api/sessions/s/requests/{request}");
    let yes = json!({"kind": "permission", "decision": "approve"});
    let _ = test.http.post(&path, yes).await.expect(200);
    let (_, decided) = chat.event("permission.completed", from).await;
    assert_eq!(decided["data"]["requestId"], request.as_str(), "the SDK client sees the decision");
    chat.until_idle(from).await;
    assert!(test.program.work().join("made").exists());

    let from = client.count();
    chat.send("[[hold:never]]").await;
    test.model.wait_for_hold("never").await;
    let cancelled = test.http.post("/api/sessions/s/cancel", json!({})).await.expect(200);
    assert_eq!(cancelled, json!({"hadWork": true, "held": 0}));
    let turn = chat.until_idle(from).await;
    assert!(turn.errors().is_empty(), "a cancel is not an error: {turn:?}");
    assert_eq!(
        test.http.post("/api/sessions/s/cancel", json!({})).await.expect(200),
        json!({"hadWork": false, "held": 0})
    );
    chat.assert_usable().await;
}

#[tokio::test]
async fn http_session_is_listed_prompted_approved_and_cancelled_by_an_sdk() {
    let test = TestServer::start().await;
    test.http.create("s", json!({"cwd": test.program.work()})).await;
    test.assert_usable("s").await;
    let client = test.sdk().await;
    let listed = client.ok("session.list", json!({})).await;
    assert_eq!(listed["sessions"][0]["sessionId"], "s");
    let chat = Chat::resume(&client, "s", json!({})).await;
    assert!(chat.history().await.iter().any(|event| event["type"] == "assistant.message"));

    let mut events = test.http.events("s", test.history("s").await.len() as u64).await;
    assert_eq!(chat.turn("[[text:from the SDK]]").await.text(), "from the SDK");
    assert_eq!(content(&events.kind("assistant.message").await.event), "from the SDK");

    let from = client.count();
    let prompt = test.http.prompt("s", WRITE).await;
    let (_, asked) = chat.event("permission.requested", from).await;
    let answer = json!({"requestId": asked["data"]["requestId"], "result": {"kind": "approve-once"}});
    chat.ok("session.permissions.handlePendingPermissionRequest", answer).await;
    assert_eq!(test.http.outcome("s", &prompt).await, "completed");
    assert!(test.program.work().join("made").exists());

    let prompt = test.http.prompt("s", "[[hold:never]]").await;
    test.model.wait_for_hold("never").await;
    let from = client.count();
    chat.ok("session.abort", json!({})).await;
    chat.until_idle(from).await;
    assert_eq!(test.http.outcome("s", &prompt).await, "cancelled");
    chat.assert_usable().await;
}

#[tokio::test]
async fn turn_continues_after_the_last_client_has_left() {
    let test = TestServer::start().await;
    let client = test.sdk().await;
    let chat = Chat::create(&client, json!({"sessionId": "s"})).await;
    let prompt = chat.send("[[hold:gate]][[text:finished alone]]").await;
    test.model.wait_for_hold("gate").await;
    drop(client);
    test.model.release("gate");
    assert_eq!(test.http.outcome("s", &prompt).await, "completed");
}

#[tokio::test]
async fn question_is_answered_over_http() {
    let test = TestServer::start().await;
    test.http.create("s", json!({"questions": true})).await;
    let prompt = test.http.prompt("s", r#"[[tool:ask_user {"question":"which colour?"}]]"#).await;
    let request = test.http.pending("s").await;
    assert_eq!(request["kind"], "question", "{request}");
    assert_eq!(request["detail"]["question"], "which colour?");
    let path = format!("/api/sessions/s/requests/{}", request["requestId"].as_str().unwrap());
    let blue = json!({"kind": "question", "answer": "blue"});
    let _ = test.http.post(&path, blue).await.expect(200);
    assert_eq!(test.http.outcome("s", &prompt).await, "completed");
    let said = test.history("s").await.into_iter().rfind(|(_, e)| e["type"] == "assistant.message").unwrap();
    assert!(content(&said.1).contains("User responded: blue"), "{said:?}");
}

#[tokio::test]
async fn plan_is_rejected_and_approved_over_http() {
    let test = TestServer::start().await;
    test.http.create("s", json!({"questions": true})).await;
    let _ = test.http.send("PATCH", "/api/sessions/s", &[], Some(&json!({"mode": "plan"}))).await.expect(200);
    let propose = r#"[[tool:exit_plan_mode {"summary":"greet","actions":["autopilot","exit_only"]}]]"#;
    let answer = async |answer: Value| {
        let request = test.http.pending("s").await;
        assert_eq!(request["kind"], "plan", "{request}");
        let path = format!("/api/sessions/s/requests/{}", request["requestId"].as_str().unwrap());
        (request["detail"].clone(), path.clone(), test.http.post(&path, answer).await)
    };
    let prompt = test.http.prompt("s", propose).await;
    let (plan, path, wrong) = answer(json!({"kind": "question", "answer": "yes"})).await;
    assert_eq!(plan["summary"], "greet");
    assert_eq!((&plan["planContent"], &plan["recommendedAction"]), (&json!(""), &json!("autopilot")));
    assert_eq!(wrong.status, 400, "the request is not a question");
    let rejection = json!({"kind": "plan", "response": "reject", "feedback": "louder"});
    let _ = test.http.post(&path, rejection.clone()).await.expect(200);
    assert_eq!(test.http.post(&path, rejection).await.status, 409, "the first answer counts");
    assert_eq!(test.http.outcome("s", &prompt).await, "completed");

    let prompt = test.http.prompt("s", propose).await;
    let (_, _, approved) = answer(json!({"kind": "plan", "response": "autopilot"})).await;
    let _ = approved.expect(200);
    assert_eq!(test.http.outcome("s", &prompt).await, "completed");
    let history = test.history("s").await;
    let said: Vec<&str> =
        history.iter().filter(|(_, e)| e["type"] == "assistant.message").map(|(_, e)| content(e)).collect();
    assert!(said.iter().any(|text| text.contains("User feedback: louder")), "{said:?}");
    assert!(said.last().unwrap().contains("You are now in autopilot mode"), "{said:?}");
    let modes: Vec<&Value> = history
        .iter()
        .filter(|(_, e)| e["type"] == "session.mode_changed")
        .map(|(_, e)| &e["data"]["newMode"])
        .collect();
    assert_eq!(modes, ["plan", "autopilot"]);
}

#[tokio::test]
async fn model_switch_offered_to_an_sdk_is_answered_over_http() {
    let test = TestServer::start().await;
    test.model.set_models(json!({"data": [{"id": "busy"}, {"id": "idle"}]}));
    let sdk = test.sdk().await;
    let chat = Chat::create(&sdk, json!({"requestAutoModeSwitch": true, "model": "busy"})).await;
    let from = sdk.count();
    chat.send("[[error:429*1:retry=600]][[text:at last]]").await;
    let request = test.http.pending(&chat.id).await;
    assert_eq!((&request["kind"], &request["toolName"]), (&json!("switch"), &json!(null)), "{request}");
    assert_eq!(request["detail"]["model"], "idle", "{request}");
    let path = format!("/api/sessions/{}/requests/{}", chat.id, request["requestId"].as_str().unwrap());
    let wrong = json!({"kind": "question", "answer": "yes"});
    assert_eq!(test.http.post(&path, wrong).await.status, 400, "the request is not a question");
    let yes = json!({"kind": "switch", "response": "yes"});
    let _ = test.http.post(&path, yes.clone()).await.expect(200);
    assert_eq!(test.http.post(&path, yes).await.status, 409, "the first answer counts");
    assert_eq!(chat.until_idle(from).await.text(), "at last");
}

#[tokio::test]
async fn queued_command_of_an_sdk_is_answered_over_http() {
    let test = TestServer::start().await;
    let sdk = test.sdk().await;
    let chat = Chat::create(&sdk, json!({"commands": [{"name": "deploy"}]})).await;
    let from = sdk.count();
    chat.ok("session.commands.enqueue", json!({"command": "/deploy now"})).await;
    let request = test.http.pending(&chat.id).await;
    assert_eq!((&request["kind"], &request["detail"]["command"]), (&json!("command"), &json!("/deploy now")));
    let path = format!("/api/sessions/{}/requests/{}", chat.id, request["requestId"].as_str().unwrap());
    let handled = json!({"kind": "command", "handled": true});
    let _ = test.http.post(&path, handled.clone()).await.expect(200);
    assert_eq!(test.http.post(&path, handled).await.status, 409, "the first answer counts");
    chat.until_idle(from).await;
    chat.assert_usable().await;
}

#[tokio::test]
async fn attachments_that_no_client_can_read_are_refused() {
    let test = TestServer::start().await;
    let client = test.sdk().await;
    let chat =
        Chat::create(&client, json!({"sessionId": "s", "workingDirectory": test.program.work()})).await;
    for malformed in [json!({"type": "file"}), json!({"path": "a"}), json!({"type": "blob", "data": "x"})] {
        let body = json!({"text": "x", "attachments": [malformed]});
        let refused = test.http.post("/api/sessions/s/prompts", body).await;
        assert_eq!(refused.refused(422), "invalid_attachment", "{malformed}");
        let params = json!({"sessionId": "s", "prompt": "x", "attachments": [malformed]});
        let error = client.refused("session.send", params).await;
        assert_eq!(error["code"], -32602, "{malformed}: {error}");
    }
    let unknown = json!([{"type": "hologram", "path": "a"}]);
    let refused =
        test.http.post("/api/sessions/s/prompts", json!({"text": "x", "attachments": unknown})).await;
    assert_eq!(refused.refused(422), "invalid_attachment");
    // A newer SDK may know the type.
    let from = client.count();
    client
        .ok("session.send", json!({"sessionId": "s", "prompt": "[[text:seen]]", "attachments": unknown}))
        .await;
    assert_eq!(chat.until_idle(from).await.text(), "seen");
}
