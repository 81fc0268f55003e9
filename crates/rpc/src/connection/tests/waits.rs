//! `session.sendAndWait`: its result for each way in which a turn can end.

use super::*;

/// A client with one session, which waits for the result of a prompt.
struct Waiting {
    pair: Pair,
    /// Events of the session so far.
    events: Vec<Value>,
}

impl Waiting {
    /// Creates a session, and sends a prompt with the id `"wait"`.
    async fn new(session: Value, prompt: &str) -> Self {
        let mut waiting = Self { pair: Pair::new(None), events: Vec::new() };
        waiting.pair.call("connect", json!({})).await;
        waiting.send(1, "session.create", session).await;
        assert!(waiting.response(&json!(1)).await["result"].is_object());
        waiting.send("wait", "session.sendAndWait", json!({ "sessionId": "s", "prompt": prompt })).await;
        waiting
    }

    async fn send(&self, id: impl Into<Value>, method: &str, params: Value) {
        let id: Value = id.into();
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.pair.send(&request.to_string()).await;
    }

    /// Returns the next frame to the client, after noting its event.
    async fn next(&mut self) -> Value {
        let frame = self.pair.received().await;
        if frame["method"] == "session.event" {
            self.events.push(frame["params"]["event"].clone());
        }
        frame
    }

    async fn response(&mut self, id: &Value) -> Value {
        loop {
            let frame = self.next().await;
            if frame["id"] == *id && frame.get("method").is_none() {
                return frame;
            }
        }
    }

    async fn event(&mut self, kind: &str) -> Value {
        loop {
            if let Some(event) = self.events.iter().rev().find(|event| event["type"] == kind) {
                return event.clone();
            }
            self.next().await;
        }
    }
}

fn session() -> Value {
    json!({ "sessionId": "s", "requestPermission": true })
}

#[tokio::test]
async fn send_and_wait_returns_the_last_message_and_the_idle_event() {
    let mut waiting = Waiting::new(session(), "hello").await;
    let response = waiting.response(&json!("wait")).await;
    let result = &response["result"];
    assert_eq!(result["aborted"], false, "{response}");
    assert_eq!(result["completionEventId"], waiting.event("session.idle").await["id"]);
    assert_eq!(result["messageId"], waiting.event("user.message").await["data"]["messageId"]);
    assert_eq!(result["response"], waiting.event("assistant.message").await);
}

#[tokio::test]
async fn send_and_wait_of_a_cancelled_prompt_is_aborted() {
    let mut waiting = Waiting::new(session(), "run `sleep 1`").await;
    waiting.event("permission.requested").await;
    waiting.send(2, "session.abort", json!({ "sessionId": "s" })).await;
    let response = waiting.response(&json!("wait")).await;
    assert_eq!(response["result"]["aborted"], true, "{response}");
    assert_eq!(response["result"]["completionEventId"], waiting.event("session.idle").await["id"]);
}

#[tokio::test]
async fn send_and_wait_of_a_failed_prompt_names_the_error_event() {
    let provider = json!({ "type": "openai", "baseUrl": "http://127.0.0.1:1/v1", "apiKey": "k" });
    let session = json!({ "sessionId": "s", "model": "m", "provider": provider });
    let mut waiting = Waiting::new(session, "hello").await;
    let response = waiting.response(&json!("wait")).await;
    let error = waiting.event("session.error").await;
    assert_eq!(response["error"]["data"], json!({ "completionEventId": error["id"] }), "{response}");
    assert_eq!(response["error"]["message"], error["data"]["message"]);
}

#[tokio::test]
async fn cancelled_wait_ends_and_the_turn_continues() {
    let mut waiting = Waiting::new(session(), "run `echo hi`").await;
    let request = waiting.event("permission.requested").await;
    let cancel = json!({ "jsonrpc": "2.0", "method": "$/cancelRequest", "params": { "id": "wait" } });
    waiting.pair.send(&cancel.to_string()).await;
    let response = waiting.response(&json!("wait")).await;
    assert_eq!(response["error"]["code"], code::REQUEST_CANCELLED, "{response}");
    let params = json!({
        "sessionId": "s", "requestId": request["data"]["requestId"], "result": { "kind": "approve-once" },
    });
    waiting.send(2, "session.permissions.handlePendingPermissionRequest", params).await;
    assert!(waiting.event("session.idle").await["data"].is_object());
    assert!(waiting.pair.connection.lock().waits.is_empty());
}

#[tokio::test]
async fn wait_ends_with_the_session() {
    let mut waiting = Waiting::new(session(), "run `echo hi`").await;
    waiting.event("permission.requested").await;
    waiting.send(2, "session.destroy", json!({ "sessionId": "s" })).await;
    let response = waiting.response(&json!("wait")).await;
    assert_eq!(response["result"]["aborted"], true, "the last client ends its turn: {response}");
}

#[tokio::test]
async fn earlier_prompt_does_not_end_the_wait_for_a_later_one() {
    let mut waiting = Waiting::new(session(), "run `echo one`").await;
    waiting.event("permission.requested").await;
    waiting.send("later", "session.sendAndWait", json!({ "sessionId": "s", "prompt": "two" })).await;
    let request = waiting.event("permission.requested").await;
    let params = json!({
        "sessionId": "s", "requestId": request["data"]["requestId"], "result": { "kind": "reject" },
    });
    waiting.send(2, "session.permissions.handlePendingPermissionRequest", params).await;
    let first = waiting.response(&json!("wait")).await;
    let second = waiting.response(&json!("later")).await;
    assert_ne!(first["result"]["messageId"], second["result"]["messageId"], "{first} {second}");
    assert_ne!(first["result"]["response"]["id"], second["result"]["response"]["id"]);
    assert_eq!(first["result"].get("completionEventId"), None, "the session was not idle in between");
    assert_eq!(second["result"]["completionEventId"], waiting.event("session.idle").await["id"]);
}

#[tokio::test]
async fn structured_response_is_refused() {
    let mut waiting = Waiting::new(session(), "hello").await;
    let schema = json!({ "type": "json_schema", "jsonSchema": { "name": "n", "schema": {} } });
    let params = json!({ "sessionId": "s", "prompt": "hello", "responseFormat": schema });
    for method in ["session.send", "session.sendAndWait"] {
        waiting.send(2, method, params.clone()).await;
        let response = waiting.response(&json!(2)).await;
        assert_eq!(response["error"]["code"], code::INVALID_PARAMS, "{response}");
    }
}
