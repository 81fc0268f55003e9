//! What waits is data: listed and answered over HTTP, also after `kill -9`.

use serde_json::json;

use super::House;

const WRITE: &str = r#"[[tool:bash {"command":"echo done > made"}]]"#;

#[tokio::test]
async fn a_permission_survives_the_server_and_is_answered_once() {
    let mut house = House::open().await;
    house.http.create("s", json!({"cwd": house.program.work()})).await;
    let prompt = house.http.prompt("s", WRITE).await;
    let before = house.http.pending("s").await;
    assert_eq!((&before["kind"], &before["toolName"]), (&json!("permission"), &json!("bash")));
    house.kill_and_restart().await;
    let everywhere = house.http.get("/api/requests").await.expect(200);
    assert_eq!(everywhere["requests"][0]["sessionId"], "s");
    assert_eq!(everywhere["requests"][0]["requestId"], before["requestId"]);
    assert_eq!(house.http.pending("s").await, before, "the same request, under the same name");
    assert!(!house.program.work().join("made").exists());

    let path = format!("/api/sessions/s/requests/{}", before["requestId"].as_str().unwrap());
    let wrong = json!({"kind": "question", "answer": "yes"});
    assert_eq!(house.http.post(&path, wrong).await.refused(400), "bad_request");
    let yes = json!({"kind": "permission", "decision": "approve"});
    assert_eq!(house.http.post(&path, yes.clone()).await.expect(200), json!({"counted": true}));
    assert_eq!(house.http.post(&path, yes).await.refused(409), "already_answered");
    assert_eq!(house.http.outcome("s", &prompt).await, "completed");
    assert!(house.program.work().join("made").exists());
    assert_eq!(house.http.get("/api/requests").await.expect(200), json!({"requests": []}));
}

#[tokio::test]
async fn a_refusal_reaches_the_model_with_its_reason() {
    let house = House::open().await;
    house.http.create("s", json!({"cwd": house.program.work()})).await;
    let prompt = house.http.prompt("s", WRITE).await;
    let request = house.http.pending("s").await["requestId"].as_str().unwrap().to_owned();
    let no = json!({"kind": "permission", "decision": "reject", "feedback": "use another file"});
    let _ = house.http.post(&format!("/api/sessions/s/requests/{request}"), no).await.expect(200);
    assert_eq!(house.http.outcome("s", &prompt).await, "completed");
    assert!(house.model.requests().last().unwrap().body.to_string().contains("use another file"));
    assert!(!house.program.work().join("made").exists());
}

#[tokio::test]
async fn what_a_killed_server_left_in_the_middle_goes_on_when_somebody_says_so() {
    let mut house = House::open().await;
    house.http.create("s", json!({})).await;
    let first = house.http.prompt("s", "[[hold:gate]][[text:first]]").await;
    let second = house.http.prompt("s", "[[text:second]]").await;
    house.model.wait_for_hold("gate").await;
    house.kill_and_restart().await;
    let session = house.http.get("/api/sessions/s").await.expect(200);
    assert_eq!((&session["busy"], &session["heldBy"]), (&json!(true), &json!(null)), "{session}");
    let state = |prompt: &str| {
        let (http, path) = (house.http.clone(), format!("/api/sessions/s/prompts/{prompt}"));
        async move { http.get(&path).await.expect(200)["state"].as_str().unwrap().to_owned() }
    };
    assert_eq!((state(&first).await.as_str(), state(&second).await.as_str()), ("running", "queued"));
    house.model.release("gate");
    let _ = house.http.post("/api/sessions/s/resume", json!({})).await.expect(200);
    assert_eq!(house.http.outcome("s", &first).await, "completed");
    assert_eq!(house.http.outcome("s", &second).await, "completed");
    let _ = house.http.post("/api/sessions/s/resume", json!({})).await.expect(200);
}

#[tokio::test]
async fn what_a_session_was_made_with_still_holds_after_a_restart() {
    let mut house = House::open().await;
    let setup = json!({"excludedTools": ["bash"], "instructions": "Speak like a sailor."});
    house.http.create("s", setup).await;
    house.usable("s").await;
    house.kill_and_restart().await;
    house.usable("s").await;
    let asked = house.model.requests().into_iter().filter(|request| request.path.ends_with("/completions"));
    for request in asked {
        let sent = request.body.to_string();
        assert!(sent.contains("Speak like a sailor.") && !sent.contains(r#""name":"bash""#), "{sent}");
    }
}
