//! Commands of sessions: the same walls, and what a person is asked.

use baton_testkit::http::Http;
use baton_testkit::processes::Marker;
use baton_testkit::program::Program;
use serde_json::{Value, json};

use super::arena::needs_walls;
use crate::scripted;

/// Runs a command in a session that never asks what runs inside, and returns what the model was told.
async fn run(http: &Http, session: &str, command: &str) -> String {
    let arguments = json!({ "command": command, "description": "test" });
    let prompt = http.prompt(session, &format!("[[tool:bash {arguments}]][[text:done]]")).await;
    assert_eq!(http.outcome(session, &prompt).await, "completed", "{command}");
    let page = http.get(&format!("/api/sessions/{session}/events?limit=1000")).await.expect(200);
    let entries = page["events"].as_array().unwrap();
    let done =
        entries.iter().rev().find(|entry| entry["event"]["type"] == "tool.execution_complete").unwrap();
    done["event"]["data"].to_string()
}

async fn session(http: &Http, program: &Program, id: &str) {
    http.create(id, json!({ "cwd": program.work() })).await;
    let change = json!({ "permissions": "assisted" });
    let changed = http.send("PATCH", &format!("/api/sessions/{id}"), &[], Some(&change)).await;
    let _ = changed.expect(200);
}

#[tokio::test]
async fn assisted_session_works_without_a_question_and_cannot_leave() {
    needs_walls!();
    let (program, _model) = scripted().await;
    let server = program.serve_http(&[]).await;
    let http = Http::new(&program, &server);
    session(&http, &program, "s").await;
    std::fs::create_dir(program.work().parent().unwrap().join("outside")).unwrap();
    let said = run(
        &http,
        "s",
        "echo inside > file; echo x > $HOME/outside/file; cat file; ls $HOME/home; echo $BATON_HOME",
    )
    .await;
    assert!(said.contains("inside"), "{said}");
    assert!(program.work().join("file").exists());
    assert!(!program.work().parent().unwrap().join("outside/file").exists());
    assert!(!said.contains("baton.db"), "{said}");
}

#[tokio::test]
async fn server_of_one_command_is_reached_by_the_next_and_by_no_other_session() {
    needs_walls!();
    let (program, _model) = scripted().await;
    let server = program.serve_http(&[]).await;
    let http = Http::new(&program, &server);
    session(&http, &program, "a").await;
    session(&http, &program, "b").await;
    let marker = Marker::new();
    let start = json!({
        "command": format!("echo served > page; exec -a {} /usr/bin/python3 -m http.server 8765", marker.word()),
        "description": "serve", "mode": "async",
    });
    let prompt = http.prompt("a", &format!("[[tool:bash {start}]][[text:done]]")).await;
    assert_eq!(http.outcome("a", &prompt).await, "completed");
    let fetch = "for n in $(seq 100); do curl -sf http://127.0.0.1:8765/page && break; sleep 0.1; done";
    assert!(run(&http, "a", fetch).await.contains("served"));
    let once = "curl -sf http://127.0.0.1:8765/page || echo nothing there";
    assert!(run(&http, "b", once).await.contains("nothing there"));
    let _ = http.send("DELETE", "/api/sessions/a", &[], None).await;
    marker.until_gone("the session").await;
}

#[tokio::test]
async fn sessions_share_no_temporary_files_and_no_memory() {
    needs_walls!();
    let (program, _model) = scripted().await;
    let server = program.serve_http(&[]).await;
    let http = Http::new(&program, &server);
    session(&http, &program, "a").await;
    session(&http, &program, "b").await;
    run(&http, "a", "echo mine > /tmp/file; echo mine > /dev/shm/file; echo mine > /var/tmp/file").await;
    assert!(run(&http, "a", "cat /tmp/file").await.contains("mine"), "the next command finds it");
    let said = run(&http, "b", "cat /tmp/file /dev/shm/file /var/tmp/file; echo end").await;
    assert!(!said.contains("mine") && said.contains("end"), "{said}");
}

#[tokio::test]
async fn kill_of_the_server_ends_what_commands_have_left() {
    needs_walls!();
    let (program, _model) = scripted().await;
    let mut server = program.serve_http(&[]).await;
    let http = Http::new(&program, &server);
    session(&http, &program, "s").await;
    let marker = Marker::new();
    let command = format!(
        "cp /bin/sleep {0}; (trap '' TERM HUP INT; setsid env -i ./{0} 600 & ) ; exec ./{0} 601",
        marker.word()
    );
    let arguments = json!({ "command": command, "description": "test", "mode": "async" });
    let prompt = http.prompt("s", &format!("[[tool:bash {arguments}]][[text:done]]")).await;
    assert_eq!(http.outcome("s", &prompt).await, "completed");
    marker.until_at_least(2).await;
    server.kill().await;
    marker.until_gone("kill -9 of the server").await;
}

#[tokio::test]
async fn created_file_that_acts_is_a_request() {
    needs_walls!();
    let (program, _model) = scripted().await;
    let server = program.serve_http(&[]).await;
    let http = Http::new(&program, &server);
    session(&http, &program, "s").await;
    let said = run(&http, "s", "mkdir .vscode; echo '{}' > .vscode/tasks.json").await;
    assert!(said.contains("moved away .vscode/tasks.json"), "{said}");
    assert!(!program.work().join(".vscode/tasks.json").exists());
    let request: Value = http.pending("s").await;
    let path = format!("/api/sessions/s/requests/{}", request["requestId"].as_str().unwrap());
    let _ = http.post(&path, json!({ "kind": "permission", "decision": "approve" })).await.expect(200);
    crate::eventually("the file", async || program.work().join(".vscode/tasks.json").exists().then_some(()))
        .await;
}
