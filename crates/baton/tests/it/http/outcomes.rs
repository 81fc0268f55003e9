//! Outcomes and answers of prompts, also of sessions that another server has used meanwhile.

use baton_testkit::chat::Chat;
use baton_testkit::http::{Http, read_response};
use serde_json::json;
use tokio::io::AsyncWriteExt;

use super::TestServer;

#[tokio::test]
async fn waiting_for_a_prompt_returns_its_answer() {
    let test = TestServer::start().await;
    test.http.create("s", json!({"allowAllTools": true})).await;
    let first = test.http.prompt("s", r#"[[tool:bash {"command":"echo x"}]][[text:the first answer]]"#).await;
    let path = |prompt: &str, wait: u32| format!("/api/sessions/s/prompts/{prompt}?wait={wait}");
    let view = test.http.get(&path(&first, 60)).await.expect(200);
    assert_eq!((&view["state"], &view["text"]), (&json!("completed"), &json!("the first answer")));

    let second = test.http.prompt("s", "[[hold:on]][[text:the second]]").await;
    test.model.wait_for_hold("on").await;
    let view = test.http.get(&path(&second, 0)).await.expect(200);
    assert_eq!(
        (&view["state"], &view["text"]),
        (&json!("running"), &json!(null)),
        "an earlier answer is not its own"
    );
    test.model.release("on");
    let view = test.http.get(&path(&second, 60)).await.expect(200);
    assert_eq!((&view["state"], &view["text"]), (&json!("completed"), &json!("the second")));
    let view = test.http.get(&path(&first, 60)).await.expect(200);
    assert_eq!(view["text"], "the first answer");
    assert_eq!(test.http.get(&path(&first, 301)).await.refused(400), "bad_request");
}

#[tokio::test]
async fn wait_that_ends_before_the_outcome_returns_the_state_of_its_end() {
    let test = TestServer::start().await;
    let client = test.sdk().await;
    let chat =
        Chat::create(&client, json!({"sessionId": "s", "workingDirectory": test.program.work()})).await;
    chat.ok("session.queue.setDrainPaused", json!({"paused": true})).await;
    let prompt = test.http.prompt("s", "[[hold:on]][[text:done]]").await;
    let path = format!("/api/sessions/s/prompts/{prompt}");
    let mut waiting = test.http.dial().await;
    let request = test.http.head("GET", &format!("{path}?wait=3"), &[]) + "\r\n";
    waiting.write_all(request.as_bytes()).await.unwrap();
    // The server reads the state before this one is read.
    assert_eq!(test.http.get(&path).await.expect(200)["state"], "queued");
    chat.ok("session.queue.setDrainPaused", json!({"paused": false})).await;
    test.model.wait_for_hold("on").await;
    assert_eq!(read_response(waiting).await.expect(200)["state"], "running");
    test.model.release("on");
}

#[tokio::test]
async fn prompt_after_an_idle_session_was_used_by_another_server_is_accepted() {
    let test = TestServer::with_flags(&["--log-level", "info"]).await;
    test.http.create("s", json!({})).await;
    test.assert_usable("s").await;
    let mut other = test.program.serve_http(&[]).await;
    let there = Http::new(&test.program, &other);
    let prompt = there.prompt("s", "[[text:from there]]").await;
    assert_eq!(there.outcome("s", &prompt).await, "completed");
    other.kill().await;
    test.assert_usable("s").await;
    test.server.until_stderr("idle session released").await;
    let log = test.server.stderr();
    assert!(!log.contains("ERROR"), "an ordinary hand-over is no error: {log}");
}
