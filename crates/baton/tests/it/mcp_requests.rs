//! MCP servers in whole sessions: requests of servers that any client answers, and processes that end with Baton.

use baton_testkit::http::Http;
use baton_testkit::processes::Marker;
use baton_testkit::program::{Program, Running};
use serde_json::{Value, json};

use crate::{eventually, scripted};

/// Configures the server that misbehaves on request (`odd_server.py`) for all sessions of a home.
fn configure(program: &Program, mode: &str, env: &Value) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../mcp/tests/odd_server.py");
    let odd = json!({ "command": "python3", "args": [script, mode], "env": env });
    std::fs::create_dir_all(program.home()).unwrap();
    let file = json!({ "mcpServers": { "odd": odd } });
    std::fs::write(program.home().join("mcp-config.json"), file.to_string()).unwrap();
}

async fn session(program: &Program) -> (Running, Http) {
    let server = program.serve_http(&[]).await;
    let http = Http::new(program, &server);
    http.create("s", json!({ "questions": true, "allowAllTools": true })).await;
    (server, http)
}

async fn result(http: &Http) -> Value {
    let events = http.get("/api/sessions/s/events?limit=1000").await.expect(200);
    let events = events["events"].as_array().unwrap().clone();
    let done = events.iter().rev().find(|entry| entry["event"]["type"] == "tool.execution_complete");
    done.unwrap_or_else(|| panic!("{events:?}"))["event"]["data"].clone()
}

/// Calls a tool that asks something, answers it over HTTP, and returns the result of the call.
async fn answered(http: &Http, tool: &str, kind: &str, answer: Value) -> Value {
    let prompt = http.prompt("s", &format!("[[tool:odd-{tool} {{}}]]")).await;
    let pending = http.pending("s").await;
    assert_eq!(pending["kind"], kind, "{pending}");
    let listed = http.get("/api/requests").await.expect(200);
    assert_eq!(listed["requests"][0]["requestId"], pending["requestId"]);
    let path = format!("/api/sessions/s/requests/{}", pending["requestId"].as_str().unwrap());
    let _ = http.post(&path, json!({ "kind": "question", "answer": "x" })).await.refused(400);
    let _ = http.post(&path, answer.clone()).await.expect(200);
    let late = http.post(&path, answer).await.status;
    assert!(matches!(late, 404 | 409), "{late}");
    assert_eq!(http.outcome("s", &prompt).await, "completed");
    result(http).await
}

#[tokio::test]
async fn forms_pages_and_samples_are_answered_over_http() {
    let (program, _model) = scripted().await;
    configure(&program, "well", &json!({}));
    let (_server, http) = session(&program).await;
    let form = json!({ "kind": "elicitation", "action": "accept", "content": { "name": "Ada" } });
    let done = answered(&http, "ask", "elicitation", form).await;
    assert_eq!(done["result"]["content"], r#"{"action":"accept","content":{"name":"Ada"}}"#, "{done}");
    let declined = json!({ "kind": "elicitation", "action": "decline" });
    let done = answered(&http, "page", "elicitation", declined).await;
    assert_eq!(done["result"]["content"], r#"{"action":"decline"}"#, "{done}");
    let done = answered(&http, "sample", "sampling", json!({ "kind": "sampling", "approve": true })).await;
    let said: Value = serde_json::from_str(done["result"]["content"].as_str().unwrap()).unwrap();
    assert_eq!((&said["role"], &said["stopReason"]), (&json!("assistant"), &json!("endTurn")), "{said}");
    let done = answered(&http, "sample", "sampling", json!({ "kind": "sampling", "approve": false })).await;
    assert!(done["result"]["content"].as_str().unwrap().contains("declined"), "{done}");
}

#[tokio::test]
async fn credentials_of_a_server_are_redacted_in_what_it_asks_of_the_model() {
    let (program, model) = scripted().await;
    let secret = "odd-secret-0123456789";
    configure(&program, "well", &json!({ "ODD_TOKEN": secret }));
    let (_server, http) = session(&program).await;
    let done = answered(&http, "sample", "sampling", json!({ "kind": "sampling", "approve": true })).await;
    assert!(done["result"]["content"].as_str().unwrap().contains("endTurn"), "{done}");
    let events = http.get("/api/sessions/s/events?limit=1000").await.expect(200).to_string();
    assert!(events.contains("say hello [REDACTED]") && !events.contains(secret), "{events}");
    let sent: Vec<String> = model.requests().iter().map(|request| format!("{request:?}")).collect();
    assert!(sent.iter().any(|request| request.contains("say hello [REDACTED]")), "{sent:?}");
    assert!(!sent.iter().any(|request| request.contains(secret)), "{sent:?}");
}

#[tokio::test]
async fn request_of_a_server_ends_with_its_call() {
    let (program, _model) = scripted().await;
    configure(&program, "well", &json!({}));
    let (mut server, http) = session(&program).await;
    for end in ["cancel", "kill"] {
        let prompt = http.prompt("s", "[[tool:odd-ask {}]]").await;
        let pending = http.pending("s").await;
        assert_eq!(pending["kind"], "elicitation");
        if end == "cancel" {
            let _ = http.post("/api/sessions/s/cancel", json!({})).await.expect(200);
            assert_eq!(http.outcome("s", &prompt).await, "cancelled");
            eventually("the form to be withdrawn", async || {
                let listed = http.get("/api/sessions/s/requests").await.expect(200);
                (listed["requests"] == json!([])).then_some(())
            })
            .await;
        } else {
            server.kill().await;
        }
    }
    let server = program.serve_http(&[]).await;
    let http = Http::new(&program, &server);
    assert_eq!(http.get("/api/requests").await.expect(200)["requests"], json!([]), "withdrawn with its call");
    let prompt = http.prompt("s", "hello").await;
    assert_eq!(http.outcome("s", &prompt).await, "completed");
    let calls = http.get("/api/sessions/s/events?limit=1000").await.expect(200);
    let calls = calls["events"].as_array().unwrap().iter();
    let starts = calls.filter(|entry| entry["event"]["type"] == "tool.execution_start").count();
    assert_eq!(starts, 2, "the call that the crash interrupted was not repeated");
}

#[tokio::test]
async fn processes_of_mcp_servers_end_with_their_session_and_with_baton() {
    for end in ["delete", "SIGTERM", "kill -9"] {
        let (program, _model) = scripted().await;
        let marker = Marker::new();
        // The server ignores SIGTERM, or has a child in a session of its own.
        let mode = if end == "delete" { "ignores-eof" } else { "child" };
        configure(&program, mode, &json!({ "MARK": marker.word() }));
        let (mut server, http) = session(&program).await;
        let prompt = http.prompt("s", "hello").await;
        assert_eq!(http.outcome("s", &prompt).await, "completed");
        marker.until_at_least(if mode == "child" { 2 } else { 1 }).await;
        match end {
            "delete" => {
                http.send("DELETE", "/api/sessions/s", &[], None).await;
            }
            "SIGTERM" => {
                server.signal(rustix::process::Signal::TERM);
                server.ended().await;
            }
            _ => {
                server.kill().await;
                assert!(!marker.alive().is_empty(), "a child in a session of its own survives the kill");
                let _next = program.serve().await;
                marker.until_gone("the start of the next server").await;
            }
        }
        marker.until_gone(end).await;
    }
}
