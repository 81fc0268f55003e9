//! Pending requests and prompts are durable: listed and answered over HTTP, also after `kill -9`.

use baton_testkit::http::Http;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::TestServer;

const WRITE: &str = r#"[[tool:bash {"command":"echo done > made"}]]"#;

#[tokio::test]
async fn permission_request_survives_a_kill_and_is_answered_once() {
    let mut test = TestServer::start().await;
    test.http.create("s", json!({"cwd": test.program.work()})).await;
    let prompt = test.http.prompt("s", WRITE).await;
    let before = test.http.pending("s").await;
    assert_eq!((&before["kind"], &before["toolName"]), (&json!("permission"), &json!("bash")));
    test.kill_and_restart().await;
    let everywhere = test.http.get("/api/requests").await.expect(200);
    assert_eq!(everywhere["requests"][0]["sessionId"], "s");
    assert_eq!(everywhere["requests"][0]["requestId"], before["requestId"]);
    assert_eq!(test.http.pending("s").await, before, "the same request with the same id");
    let opened = test.http.get("/api/requests").await.expect(200);
    assert_eq!(
        opened["requests"], everywhere["requests"],
        "still listed when somebody has opened the session"
    );
    assert!(!test.program.work().join("made").exists());

    let path = format!("/api/sessions/s/requests/{}", before["requestId"].as_str().unwrap());
    let wrong = json!({"kind": "question", "answer": "yes"});
    assert_eq!(test.http.post(&path, wrong).await.refused(400), "bad_request");
    let yes = json!({"kind": "permission", "decision": "approve"});
    assert_eq!(test.http.post(&path, yes.clone()).await.expect(200), json!({"counted": true}));
    assert_eq!(test.http.post(&path, yes).await.refused(409), "already_answered");
    assert_eq!(test.http.outcome("s", &prompt).await, "completed");
    assert!(test.program.work().join("made").exists());
    assert_eq!(test.http.get("/api/requests").await.expect(200)["requests"], json!([]));
}

#[tokio::test]
async fn permission_request_is_listed_after_a_graceful_stop_a_kill_and_a_restore() {
    let mut test = TestServer::start().await;
    test.http.create("s", json!({"cwd": test.program.work()})).await;
    let prompt = test.http.prompt("s", WRITE).await;
    let before = test.http.pending("s").await;
    let backup = test.program.work().join("backup.tar");
    let backup = backup.to_str().unwrap();
    assert_eq!(test.program.run(&["backup", backup]).await.code(), Some(0));
    test.stop_and_restart().await;
    let listed = async |test: &TestServer| {
        let everywhere = test.http.get("/api/requests").await.expect(200);
        everywhere["requests"][0]["requestId"].clone()
    };
    let shown = async |test: &TestServer| {
        let listed = test.program.run(&["sessions", "list", "--json"]).await;
        let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
        let session = test.http.get("/api/sessions/s").await.expect(200);
        (listed["sessions"][0]["state"].clone(), session["busy"].clone())
    };
    assert_eq!(shown(&test).await, (json!("waiting"), json!(true)), "not in memory");
    assert_eq!(listed(&test).await, before["requestId"], "after a stop");
    assert_eq!(shown(&test).await, (json!("waiting"), json!(true)), "opened, nothing written");
    // Nothing has been written since the session was opened.
    test.kill_and_restart().await;
    assert_eq!(listed(&test).await, before["requestId"], "after a kill");
    test.server.signal(Signal::TERM);
    assert!(test.server.ended().await.success());
    assert_eq!(test.program.run(&["restore", "--force", backup]).await.code(), Some(0));
    test.restart().await;
    assert_eq!(listed(&test).await, before["requestId"], "after a restore");

    let path = format!("/api/sessions/s/requests/{}", before["requestId"].as_str().unwrap());
    let yes = json!({"kind": "permission", "decision": "approve"});
    let _ = test.http.post(&path, yes).await.expect(200);
    assert_eq!(test.http.outcome("s", &prompt).await, "completed");
    test.stop_and_restart().await;
    assert_eq!(test.http.get("/api/requests").await.expect(200)["requests"], json!([]));
}

#[tokio::test]
async fn answer_whose_response_was_lost_is_known_after_a_kill() {
    let mut test = TestServer::start().await;
    test.http.create("s", json!({"cwd": test.program.work()})).await;
    let prompt = test.http.prompt("s", WRITE).await;
    let request = test.http.pending("s").await["requestId"].as_str().unwrap().to_owned();
    let path = format!("/api/sessions/s/requests/{request}");
    let yes = json!({"kind": "permission", "decision": "approve"});
    let _ = test.http.post(&path, yes.clone()).await.expect(200);
    assert_eq!(test.http.outcome("s", &prompt).await, "completed");
    test.kill_and_restart().await;
    assert_eq!(test.http.post(&path, yes.clone()).await.refused(409), "already_answered");
    assert_eq!(test.http.post("/api/sessions/s/requests/none", yes).await.refused(404), "not_found");
}

#[tokio::test]
async fn work_left_by_a_stopped_server_continues_if_configured() {
    let mut test = TestServer::with_config("[recovery]\nunattended = \"continue\"\n").await;
    test.http.create("s", json!({})).await;
    let first = test.http.prompt("s", "[[hold:gate]][[text:first]]").await;
    let second = test.http.prompt("s", "[[text:second]]").await;
    test.model.wait_for_hold("gate").await;
    test.server.signal(Signal::TERM);
    assert!(test.server.ended().await.success());
    test.model.release("gate");
    let file = test.program.work().join("config.toml");
    test.server = test.program.serve_http(&["--config", file.to_str().unwrap()]).await;
    test.http = Http::new(&test.program, &test.server);
    assert_eq!(test.http.outcome("s", &first).await, "completed");
    assert_eq!(test.http.outcome("s", &second).await, "completed");
}

#[tokio::test]
async fn rejection_reaches_the_model_with_its_reason() {
    let test = TestServer::start().await;
    test.http.create("s", json!({"cwd": test.program.work()})).await;
    let prompt = test.http.prompt("s", WRITE).await;
    let request = test.http.pending("s").await["requestId"].as_str().unwrap().to_owned();
    let no = json!({"kind": "permission", "decision": "reject", "feedback": "use another file"});
    let _ = test.http.post(&format!("/api/sessions/s/requests/{request}"), no).await.expect(200);
    assert_eq!(test.http.outcome("s", &prompt).await, "completed");
    assert!(test.model.requests().last().unwrap().body.to_string().contains("use another file"));
    assert!(!test.program.work().join("made").exists());
}

#[tokio::test]
async fn interrupted_work_continues_on_resume() {
    let mut test = TestServer::start().await;
    test.http.create("s", json!({})).await;
    let first = test.http.prompt("s", "[[hold:gate]][[text:first]]").await;
    let second = test.http.prompt("s", "[[text:second]]").await;
    test.model.wait_for_hold("gate").await;
    test.kill_and_restart().await;
    let session = test.http.get("/api/sessions/s").await.expect(200);
    assert_eq!((&session["busy"], &session["heldBy"]), (&json!(true), &json!(null)), "{session}");
    let state = |prompt: &str| {
        let (http, path) = (test.http.clone(), format!("/api/sessions/s/prompts/{prompt}"));
        async move { http.get(&path).await.expect(200)["state"].as_str().unwrap().to_owned() }
    };
    assert_eq!((state(&first).await.as_str(), state(&second).await.as_str()), ("running", "queued"));
    test.model.release("gate");
    let _ = test.http.post("/api/sessions/s/resume", json!({})).await.expect(200);
    assert_eq!(test.http.outcome("s", &first).await, "completed");
    assert_eq!(test.http.outcome("s", &second).await, "completed");
    let _ = test.http.post("/api/sessions/s/resume", json!({})).await.expect(200);
}

#[tokio::test]
async fn session_settings_survive_a_restart() {
    let mut test = TestServer::start().await;
    let setup = json!({"excludedTools": ["bash"], "instructions": "Speak like a sailor."});
    test.http.create("s", setup).await;
    test.assert_usable("s").await;
    test.kill_and_restart().await;
    test.assert_usable("s").await;
    let requests = test.model.requests().into_iter().filter(|request| request.path.ends_with("/completions"));
    let bodies: Vec<String> = requests.map(|request| request.body.to_string()).collect();
    assert_eq!(bodies.len(), 2, "one request before the restart, and one after it");
    for sent in bodies {
        assert!(sent.contains("Speak like a sailor.") && !sent.contains(r#""name":"bash""#), "{sent}");
    }
}
