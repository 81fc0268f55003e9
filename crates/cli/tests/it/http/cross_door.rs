//! One set of sessions for all doors: what an SDK made is used over HTTP, and the other way round.

use baton_testkit::chat::Chat;
use baton_testkit::client::Client;
use serde_json::{Value, json};

use super::House;

const WRITE: &str = r#"[[tool:bash {"command":"echo done > made"}]]"#;

impl House {
    /// A client of the other door.
    async fn sdk(&self) -> Client {
        let client = self.server.greetless().await;
        client.ok("connect", json!({"token": self.program.token()})).await;
        client
    }
}

fn content(event: &Value) -> &str {
    event["data"]["content"].as_str().unwrap()
}

#[tokio::test]
async fn a_session_of_an_sdk_is_seen_prompted_approved_and_cancelled_over_http() {
    let house = House::open().await;
    let client = house.sdk().await;
    let chat =
        Chat::create(&client, json!({"sessionId": "s", "workingDirectory": house.program.work()})).await;
    assert_eq!(chat.turn("[[text:from the SDK]]").await.text(), "from the SDK");

    let listed = house.http.get("/api/sessions").await.expect(200);
    assert_eq!((&listed["sessions"][0]["id"], &listed["sessions"][0]["busy"]), (&json!("s"), &json!(false)));
    let mut events = house.http.events("s", 0).await;
    assert_eq!(content(&events.kind("assistant.message").await.event), "from the SDK");

    let from = client.count();
    house.http.prompt("s", "[[text:from HTTP]]").await;
    assert_eq!(chat.until_idle(from).await.text(), "from HTTP", "the SDK sees it");

    let from = client.count();
    chat.send(WRITE).await;
    let request = house.http.pending("s").await["requestId"].as_str().unwrap().to_owned();
    let path = format!("/api/sessions/s/requests/{request}");
    let yes = json!({"kind": "permission", "decision": "approve"});
    let _ = house.http.post(&path, yes).await.expect(200);
    let (_, decided) = chat.event("permission.completed", from).await;
    assert_eq!(decided["data"]["requestId"], request.as_str(), "the SDK sees the decision");
    chat.until_idle(from).await;
    assert!(house.program.work().join("made").exists());

    let from = client.count();
    chat.send("[[hold:never]]").await;
    house.model.wait_for_hold("never").await;
    let cancelled = house.http.post("/api/sessions/s/cancel", json!({})).await.expect(200);
    assert_eq!(cancelled, json!({"hadWork": true}));
    let turn = chat.until_idle(from).await;
    assert!(turn.errors().is_empty(), "a cancel is not an error: {turn:?}");
    assert_eq!(
        house.http.post("/api/sessions/s/cancel", json!({})).await.expect(200),
        json!({"hadWork": false})
    );
    chat.assert_usable().await;
}

#[tokio::test]
async fn a_session_of_http_is_seen_prompted_approved_and_cancelled_by_an_sdk() {
    let house = House::open().await;
    house.http.create("s", json!({"cwd": house.program.work()})).await;
    house.usable("s").await;
    let client = house.sdk().await;
    let listed = client.ok("session.list", json!({})).await;
    assert_eq!(listed["sessions"][0]["sessionId"], "s");
    let chat = Chat::resume(&client, "s", json!({})).await;
    assert!(chat.history().await.iter().any(|event| event["type"] == "assistant.message"));

    let mut events = house.http.events("s", house.history("s").await.len() as u64).await;
    assert_eq!(chat.turn("[[text:from the SDK]]").await.text(), "from the SDK");
    assert_eq!(content(&events.kind("assistant.message").await.event), "from the SDK");

    let from = client.count();
    let prompt = house.http.prompt("s", WRITE).await;
    let (_, asked) = chat.event("permission.requested", from).await;
    let answer = json!({"requestId": asked["data"]["requestId"], "result": {"kind": "approve-once"}});
    chat.ok("session.permissions.handlePendingPermissionRequest", answer).await;
    assert_eq!(house.http.outcome("s", &prompt).await, "completed");
    assert!(house.program.work().join("made").exists());

    let prompt = house.http.prompt("s", "[[hold:never]]").await;
    house.model.wait_for_hold("never").await;
    chat.ok("session.abort", json!({})).await;
    assert_eq!(house.http.outcome("s", &prompt).await, "cancelled");
    chat.assert_usable().await;
}

#[tokio::test]
async fn a_run_goes_on_when_everybody_has_left() {
    let house = House::open().await;
    let client = house.sdk().await;
    let chat = Chat::create(&client, json!({"sessionId": "s"})).await;
    let prompt = chat.send("[[hold:gate]][[text:finished alone]]").await;
    house.model.wait_for_hold("gate").await;
    drop(client);
    house.model.release("gate");
    assert_eq!(house.http.outcome("s", &prompt).await, "completed");
}

#[tokio::test]
async fn a_question_of_the_model_is_answered_over_http() {
    let house = House::open().await;
    house.http.create("s", json!({"questions": true})).await;
    let prompt = house.http.prompt("s", r#"[[tool:ask_user {"question":"which colour?"}]]"#).await;
    let request = house.http.pending("s").await;
    assert_eq!(request["kind"], "question", "{request}");
    assert_eq!(request["detail"]["question"], "which colour?");
    let path = format!("/api/sessions/s/requests/{}", request["requestId"].as_str().unwrap());
    let blue = json!({"kind": "question", "answer": "blue"});
    let _ = house.http.post(&path, blue).await.expect(200);
    assert_eq!(house.http.outcome("s", &prompt).await, "completed");
    let said = house.history("s").await.into_iter().rfind(|(_, e)| e["type"] == "assistant.message").unwrap();
    assert!(content(&said.1).contains("User responded: blue"), "{said:?}");
}

#[tokio::test]
async fn a_plan_is_sent_back_and_approved_over_http() {
    let house = House::open().await;
    house.http.create("s", json!({"questions": true})).await;
    let _ =
        house.http.send("PATCH", "/api/sessions/s", &[], Some(&json!({"mode": "plan"}))).await.expect(200);
    let propose = r#"[[tool:exit_plan_mode {"summary":"greet","actions":["autopilot","exit_only"]}]]"#;
    let answer = async |answer: Value| {
        let request = house.http.pending("s").await;
        assert_eq!(request["kind"], "plan", "{request}");
        let path = format!("/api/sessions/s/requests/{}", request["requestId"].as_str().unwrap());
        (request["detail"].clone(), path.clone(), house.http.post(&path, answer).await)
    };
    let prompt = house.http.prompt("s", propose).await;
    let (plan, path, wrong) = answer(json!({"kind": "question", "answer": "yes"})).await;
    assert_eq!(plan["summary"], "greet");
    assert_eq!((&plan["planContent"], &plan["recommendedAction"]), (&json!(""), &json!("autopilot")));
    assert_eq!(wrong.status, 400, "it is no question");
    let sent_back = json!({"kind": "plan", "response": "reject", "feedback": "louder"});
    let _ = house.http.post(&path, sent_back.clone()).await.expect(200);
    assert_eq!(house.http.post(&path, sent_back).await.status, 409, "the first answer counts");
    assert_eq!(house.http.outcome("s", &prompt).await, "completed");

    let prompt = house.http.prompt("s", propose).await;
    let (_, _, approved) = answer(json!({"kind": "plan", "response": "autopilot"})).await;
    let _ = approved.expect(200);
    assert_eq!(house.http.outcome("s", &prompt).await, "completed");
    let history = house.history("s").await;
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
async fn an_offer_of_another_model_to_an_sdk_is_answered_over_http() {
    let house = House::open().await;
    house.model.set_models(json!({"data": [{"id": "busy"}, {"id": "idle"}]}));
    let sdk = house.sdk().await;
    let chat = Chat::create(&sdk, json!({"requestAutoModeSwitch": true, "model": "busy"})).await;
    let from = sdk.count();
    chat.send("[[error:429*1:retry=600]][[text:at last]]").await;
    let request = house.http.pending(&chat.id).await;
    assert_eq!((&request["kind"], &request["toolName"]), (&json!("switch"), &json!(null)), "{request}");
    assert_eq!(request["detail"]["model"], "idle", "{request}");
    let path = format!("/api/sessions/{}/requests/{}", chat.id, request["requestId"].as_str().unwrap());
    let wrong = json!({"kind": "question", "answer": "yes"});
    assert_eq!(house.http.post(&path, wrong).await.status, 400, "it is no question of the model");
    let yes = json!({"kind": "switch", "response": "yes"});
    let _ = house.http.post(&path, yes.clone()).await.expect(200);
    assert_eq!(house.http.post(&path, yes).await.status, 409, "the first answer counts");
    assert_eq!(chat.until_idle(from).await.text(), "at last");
}

#[tokio::test]
async fn a_queued_command_that_an_sdk_was_to_run_is_answered_over_http() {
    let house = House::open().await;
    let sdk = house.sdk().await;
    let chat = Chat::create(&sdk, json!({"commands": [{"name": "deploy"}]})).await;
    let from = sdk.count();
    chat.ok("session.commands.enqueue", json!({"command": "/deploy now"})).await;
    let request = house.http.pending(&chat.id).await;
    assert_eq!((&request["kind"], &request["detail"]["command"]), (&json!("command"), &json!("/deploy now")));
    let path = format!("/api/sessions/{}/requests/{}", chat.id, request["requestId"].as_str().unwrap());
    let handled = json!({"kind": "command", "handled": true});
    let _ = house.http.post(&path, handled.clone()).await.expect(200);
    assert_eq!(house.http.post(&path, handled).await.status, 409, "the first answer counts");
    chat.until_idle(from).await;
    chat.assert_usable().await;
}
