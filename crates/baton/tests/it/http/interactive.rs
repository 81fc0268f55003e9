//! What an interactive client needs: joining in mid-message, cancel of one turn, slash commands, completion of paths.

use std::fs;
use std::os::unix::fs::symlink;

use baton_testkit::http::{Events, Streamed};
use serde_json::{Value, json};

use super::TestServer;

/// Returns the text that a reader has of the streamed message when it is complete, and the message. Parts are added;
/// `baton.stream_so_far` replaces them.
async fn streamed_text(events: &mut Events) -> (String, String) {
    let mut text = String::new();
    loop {
        let streamed = events.next().await.expect("the stream goes on");
        let data = &streamed.event["data"];
        match streamed.kind.as_str() {
            "baton.stream_so_far" => text = data["text"].as_str().unwrap().to_owned(),
            "assistant.message_delta" => text.push_str(data["deltaContent"].as_str().unwrap()),
            "assistant.message" => return (text, data["content"].as_str().unwrap().to_owned()),
            _ => {}
        }
    }
}

#[tokio::test]
async fn reader_that_joins_in_the_middle_of_a_message_gets_its_beginning() {
    let test = TestServer::start().await;
    test.http.create("s", json!({})).await;
    let mut first = test.http.events("s", 0).await;
    test.http.prompt("s", "[[think:hm]][[text:one ]][[hold:middle]][[text:two]]").await;
    first.kind("assistant.message_delta").await;
    let mut late = test.http.events("s", 0).await;
    let is_text = |streamed: &Streamed| streamed.event["data"]["messageId"].is_string();
    let so_far = late.until(|streamed| streamed.kind == "baton.stream_so_far" && is_text(streamed)).await;
    assert_eq!(so_far.id, None, "it does not move the cursor");
    assert_eq!(so_far.event["data"]["text"], "one ");
    let mut returning = test.http.events("s", 3).await;
    returning.kind("baton.stream_so_far").await;
    test.model.release("middle");
    assert_eq!(late.kind("assistant.message_delta").await.event["data"]["deltaContent"], "two");
    let (text, message) = streamed_text(&mut returning).await;
    assert!(text.ends_with("two") && message == "one two", "{text}");
    let mut after = test.http.events("s", 0).await;
    after.kind("assistant.message").await;
    let next = after.kind("baton.turn_settled").await;
    assert!(next.id.is_some(), "nothing is streamed any more");
}

/// Nobody watches while the output is written.
#[tokio::test]
async fn first_reader_of_a_running_tool_gets_its_output_so_far() {
    let test = TestServer::start().await;
    test.http.create("s", json!({"cwd": test.program.work(), "allowAllTools": true})).await;
    let command = "echo first; while [ ! -e go ]; do sleep 0.05; done; echo last";
    test.http.prompt("s", &format!("[[tool:bash {}]]", json!({"command": command}))).await;
    let mut text = String::new();
    while !text.contains("first") {
        let mut events = test.http.events("s", 0).await;
        // The reader may come before the first output.
        let shown = events.until(|streamed| {
            matches!(streamed.kind.as_str(), "baton.stream_so_far" | "tool.execution_partial_result")
        });
        let shown = shown.await;
        let data = &shown.event["data"];
        text = data["text"].as_str().or(data["partialOutput"].as_str()).unwrap().to_owned();
    }
    let mut events = test.http.events("s", 0).await;
    let so_far = events.kind("baton.stream_so_far").await;
    assert_eq!((so_far.id, so_far.event["data"]["toolCallId"].is_string()), (None, true));
    assert!(so_far.event["data"]["text"].as_str().unwrap().starts_with("first"), "{so_far:?}");
    fs::write(test.program.work().join("go"), "").unwrap();
    events.kind("session.idle").await;
}

async fn state(test: &TestServer) -> Value {
    test.http.get("/api/sessions/s/state").await.expect(200)
}

#[tokio::test]
async fn cancel_of_a_turn_holds_the_queue_until_it_is_released_also_after_a_kill() {
    let mut test = TestServer::start().await;
    test.http.create("s", json!({})).await;
    let running = test.http.prompt("s", "[[hold:never]]").await;
    test.model.wait_for_hold("never").await;
    let queued = test.http.prompt("s", "[[text:later]]").await;
    let turn = state(&test).await["turn"].clone();
    assert_eq!((&turn["prompts"], &turn["engine"]), (&json!([running]), &Value::Null));
    let cancel = json!({"queue": "hold", "turn": turn["id"]});
    let cancelled = test.http.post("/api/sessions/s/cancel", cancel.clone()).await.expect(200);
    assert_eq!(cancelled, json!({"hadWork": true, "held": 1}));
    assert_eq!(test.http.outcome("s", &running).await, "cancelled");
    let again = test.http.post("/api/sessions/s/cancel", cancel).await.expect(200);
    assert_eq!(again, json!({"hadWork": false, "held": 0}));
    test.kill_and_restart().await;
    let passing = test.http.prompt("s", "[[text:now]]").await;
    assert_eq!(test.http.outcome("s", &passing).await, "completed");
    let state = state(&test).await;
    assert_eq!((&state["turn"], &state["paused"]), (&Value::Null, &json!(false)));
    assert_eq!((&state["queue"][0]["promptId"], &state["queue"][0]["held"]), (&json!(queued), &json!(true)));
    let release = |paused: bool| {
        let http = test.http.clone();
        async move { http.send("PATCH", "/api/sessions/s/queue", &[], Some(&json!({"paused": paused}))).await }
    };
    assert_eq!(release(false).await.expect(200), json!({"changed": true}));
    assert_eq!(test.http.outcome("s", &queued).await, "completed");
    assert_eq!(release(false).await.expect(200), json!({"changed": false}));
}

#[tokio::test]
async fn cancel_bodies_that_contradict_themselves_are_refused() {
    let test = TestServer::start().await;
    test.http.create("s", json!({})).await;
    for (body, status) in
        [(json!({"turn": "x"}), 422), (json!({"queue": "drop"}), 422), (json!({"turns": "x"}), 422)]
    {
        let answer = test.http.post("/api/sessions/s/cancel", body.clone()).await;
        assert_eq!(answer.status, status, "{body}: {answer:?}");
    }
    for body in [json!({}), json!({"queue": "end"}), json!({"queue": "hold"})] {
        let answer = test.http.post("/api/sessions/s/cancel", body).await.expect(200);
        assert_eq!(answer["hadWork"], false);
    }
    let bare = test.http.send("POST", "/api/sessions/s/cancel", &[("Content-Length", "0")], None).await;
    assert_eq!(bare.expect(200), json!({"hadWork": false, "held": 0}));
}

#[tokio::test]
async fn slash_commands_are_listed_run_and_enqueued() {
    let test = TestServer::start().await;
    test.http.create("s", json!({})).await;
    let listed = test.http.get("/api/sessions/s/commands").await.expect(200);
    let compact = listed["commands"].as_array().unwrap().iter().find(|command| command["name"] == "compact");
    assert_eq!(compact.unwrap()["hint"], "[instructions]");
    assert_eq!(compact.unwrap()["kind"], "builtin");
    let help = test.http.post("/api/sessions/s/commands/help", json!({})).await.expect(200);
    assert!(help["kind"] == "text" && help["text"].as_str().unwrap().contains("/compact"), "{help}");
    let rename = test.http.post("/api/sessions/s/commands/rename", json!({"input": "short"})).await;
    assert_eq!(rename.expect(200), json!({"kind": "completed"}));
    assert_eq!(state(&test).await["session"]["title"], "short");
    let unknown = test.http.post("/api/sessions/s/commands/nonsense", json!({})).await;
    assert_eq!(unknown.refused(422), "invalid_command");
    let sent = test.http.post("/api/sessions/s/commands", json!({"command": "/usage"})).await.expect(202);
    assert_eq!(test.http.outcome("s", sent["promptId"].as_str().unwrap()).await, "completed");
    let history = test.history("s").await;
    let said = history.iter().find(|(_, event)| event["type"] == "session.info").expect("its output");
    assert_eq!(said.1["data"]["infoType"], "command");
    let nothing = test.http.post("/api/sessions/s/commands", json!({"command": " / "})).await;
    assert_eq!(nothing.refused(400), "bad_request");
}

#[tokio::test]
async fn paths_below_the_working_directory_are_completed() {
    let test = TestServer::start().await;
    let (work, outside) = (test.program.work().join("project"), test.program.work().join("secret.txt"));
    fs::create_dir_all(work.join("src")).unwrap();
    fs::write(work.join("src/main.rs"), "").unwrap();
    fs::write(&outside, "").unwrap();
    symlink(&outside, work.join("secret.txt")).unwrap();
    test.http.create("s", json!({"cwd": work})).await;
    let find = async |query: &str| test.http.get(&format!("/api/sessions/s/files?{query}")).await;
    let main = json!({"path": "src/main.rs", "directory": false});
    assert_eq!(find("query=main").await.expect(200), json!({"files": [main], "truncated": false}));
    let src = json!({"path": "src", "directory": true});
    assert_eq!(find("").await.expect(200)["files"], json!([src]));
    for outside in ["query=secret", "query=../", "query=%2Fetc%2Fpasswd"] {
        assert_eq!(find(outside).await.expect(200)["files"], json!([]), "{outside}");
    }
    assert_eq!(find("limit=0").await.refused(400), "bad_request");
}

#[tokio::test]
async fn state_names_the_attached_clients_and_requests_their_time() {
    let test = TestServer::start().await;
    test.http.create("s", json!({"cwd": test.program.work()})).await;
    test.http.prompt("s", r#"[[tool:bash {"command":"echo done > made"}]]"#).await;
    let opened = test.http.pending("s").await["openedAt"].as_str().unwrap().to_owned();
    let history = test.history("s").await;
    let requested = history.iter().find(|(_, event)| event["type"] == "permission.requested").unwrap();
    assert_eq!(requested.1["timestamp"], opened.as_str());
    let mut watching = test.http.events("s", 0).await;
    watching.kind("permission.requested").await;
    let attached = &state(&test).await["attached"];
    assert_eq!(attached[0], json!({"door": "http", "user": "HTTP API", "program": null}));
}

#[tokio::test]
async fn models_name_the_default_and_the_demo_model() {
    let test = TestServer::start().await;
    let models = test.http.get("/api/models").await.expect(200);
    assert_eq!((&models["default"], &models["demo"]), (&json!("scripted"), &json!(false)), "{models}");
    let demo = TestServer::with_flags(&["--demo"]).await;
    let models = demo.http.get("/api/models").await.expect(200);
    assert_eq!((&models["default"], &models["demo"]), (&json!("baton-demo"), &json!(true)), "{models}");
}

#[tokio::test]
async fn health_tells_the_level_of_the_api() {
    let test = TestServer::start().await;
    assert_eq!(test.http.get("/api/health").await.expect(200)["api"], 1);
}

/// The last output of a tool of a session.
async fn last_output(test: &TestServer) -> String {
    let history = test.history("s").await;
    let done = history.iter().rev().find(|(_, event)| event["type"] == "tool.execution_complete");
    done.unwrap().1["data"]["result"]["content"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn commands_get_the_filtered_environment_of_the_client_which_is_never_returned() {
    let mut test = TestServer::start().await;
    let environment = json!({
        "EDITOR": "client-editor", "HOME": "/tmp", "PATH": "/client/bin:/usr/bin:/bin",
        "OPENAI_API_KEY": "client-key-4711", "UNLISTED": "client-unlisted",
    });
    let session = json!({"cwd": test.program.work(), "allowAllTools": true, "environment": environment});
    test.http.create("s", session).await;
    let command = r#"echo \"$EDITOR $PATH $HOME [$OPENAI_API_KEY$UNLISTED]\""#;
    let show = format!(r#"[[tool:bash {{"command":"{command}"}}]]"#);
    let prompt = test.http.prompt("s", &show).await;
    test.http.outcome("s", &prompt).await;
    let home = test.program.home().parent().unwrap().display().to_string();
    let shown = last_output(&test).await;
    assert!(shown.starts_with("client-editor /client/bin:/usr/bin:/bin "), "{shown}");
    assert!(shown.contains(" []") && !shown.contains(" /tmp ["), "{shown} {home}");

    let change = json!({"environment": {"EDITOR": "another"}});
    let _ = test.http.send("PATCH", "/api/sessions/s", &[], Some(&change)).await.expect(200);
    let prompt = test.http.prompt("s", &show).await;
    test.http.outcome("s", &prompt).await;
    assert!(last_output(&test).await.starts_with("another "));

    let state = state(&test).await.to_string();
    let files =
        fs::read_dir(test.program.home()).unwrap().filter_map(|entry| fs::read(entry.unwrap().path()).ok());
    let stored: Vec<u8> = files.flatten().collect();
    for secret in ["client-key-4711", "client-unlisted"] {
        assert!(!state.contains(secret), "{state}");
        assert!(!stored.windows(secret.len()).any(|part| part == secret.as_bytes()), "{secret} is stored");
    }
    test.kill_and_restart().await;
    let prompt = test.http.prompt("s", &show).await;
    test.http.outcome("s", &prompt).await;
    assert!(!last_output(&test).await.starts_with("another "), "it is in memory only");
    let wrong = json!({"id": "t", "environment": {"A=B": "client-key-4711"}});
    let refused = test.http.post("/api/sessions", wrong).await;
    assert!(refused.status == 422 && !refused.body.contains("4711"), "{refused:?}");
}
