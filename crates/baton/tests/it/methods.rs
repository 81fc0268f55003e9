//! Session methods beyond the conversation.

use baton_testkit::chat::Chat;
use serde_json::{Value, json};

use crate::{eventually, scripted};

/// Whether `value` equals `expected`, apart from further keys of objects.
fn fits(value: &Value, expected: &Value) -> bool {
    match (value, expected) {
        (Value::Object(value), Value::Object(expected)) => {
            expected.iter().all(|(key, expected)| fits(value.get(key).unwrap_or(&Value::Null), expected))
        }
        (value, expected) => value == expected,
    }
}

#[tokio::test]
async fn absent_features_have_empty_answers() {
    let (program, _model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::create(&client, json!({})).await;
    let off = json!({"status": {"state": "off"}});
    for (method, params, expected) in [
        ("session.completions.request", json!({"text": "@", "offset": 1}), json!({"items": []})),
        ("session.completions.getTriggerCharacters", json!({}), json!({"triggerCharacters": []})),
        ("session.visibility.set", json!({"status": "repo"}), json!({"synced": false})),
        ("session.schedule.list", json!({}), json!({"entries": []})),
        ("session.tasks.list", json!({}), json!({"tasks": []})),
        ("session.tasks.cancel", json!({"id": "none"}), json!({"cancelled": false})),
        ("session.remote.enable", json!({"mode": "off"}), json!({"remoteSteerable": false})),
        ("session.ui.handlePendingSampling", json!({"requestId": "none"}), json!({"success": false})),
        ("session.shell.kill", json!({"processId": "none"}), json!({"killed": false})),
        ("session.plan.readSqlTodos", json!({}), json!({"rows": []})),
        ("session.gitHubAuth.getStatus", json!({}), json!({"login": null})),
        ("sessions.getRemoteControlStatus", json!({}), off.clone()),
        ("sessions.stopRemoteControl", json!({}), json!({"stopped": false})),
        ("sessions.findByTaskId", json!({"taskId": "none"}), json!({"sessionId": null})),
        ("sessions.pruneOld", json!({"olderThanDays": 1, "dryRun": true}), json!({"candidates": []})),
    ] {
        let mut params = params;
        params["sessionId"] = json!(chat.id);
        let answer = client.ok(method, params).await;
        assert!(fits(&answer, &expected), "{method}: {answer}");
    }
    for (method, params, expected) in [
        ("agentRegistry.spawn", json!({"cwd": "/"}), "agentRegistry.spawn is not enabled"),
        ("sessions.connect", json!({"sessionId": "far"}), "No remote session found for 'far'"),
        ("sessions.startRemoteControl", json!({"sessionId": "far"}), "session not found: far"),
        (
            "session.tasks.startAgent",
            json!({"sessionId": chat.id, "agentType": "x", "name": "n", "prompt": "p"}),
            "Unknown agent type: x",
        ),
        ("session.unheardOf", json!({"sessionId": chat.id}), "Unhandled method session.unheardOf"),
    ] {
        let error = client.refused(method, params).await;
        assert!(error["message"].as_str().unwrap().contains(expected), "{method}: {error}");
    }
}

#[tokio::test]
async fn fork_has_the_history_up_to_an_event_and_is_independent() {
    let (program, _model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::create(&client, json!({})).await;
    chat.turn("say one").await;
    chat.turn("say two").await;
    chat.ok("session.queue.setDrainPaused", json!({"paused": true})).await;
    let said = |events: &Value| -> Vec<String> {
        let events = events["events"].as_array().unwrap().iter();
        let prompts = events.filter(|event| event["type"] == "user.message");
        prompts.map(|event| event["data"]["content"].as_str().unwrap().to_owned()).collect()
    };
    let history = client.ok("session.getMessages", json!({"sessionId": chat.id})).await;
    let second = history["events"].as_array().unwrap().iter().filter(|e| e["type"] == "user.message").nth(1);
    let until = second.unwrap()["id"].clone();

    let whole = client.ok("sessions.fork", json!({"sessionId": chat.id, "name": "mine"})).await;
    assert_eq!(whole["name"], "mine");
    let part = client.ok("sessions.fork", json!({"sessionId": chat.id, "toEventId": until})).await;
    assert_eq!(part["name"], "say one (fork)");
    for (fork, expected) in [(&whole, vec!["say one", "say two"]), (&part, vec!["say one"])] {
        let id = fork["sessionId"].clone();
        client.ok("session.resume", json!({"sessionId": id})).await;
        let copied = client.ok("session.getMessages", json!({"sessionId": id})).await;
        assert_eq!(said(&copied), expected);
        assert_eq!(copied["events"][0]["data"]["sessionId"], id, "the first event has the id of the fork");
        let busy = client.ok("session.metadata.isProcessing", json!({"sessionId": id})).await;
        assert_eq!(busy["processing"], false, "no work of the source continues in the fork");
    }
    let copy = Chat { client: &client, id: whole["sessionId"].as_str().unwrap().to_owned() };
    copy.assert_usable().await;
    chat.ok("session.queue.setDrainPaused", json!({"paused": false})).await;
    for (params, expected) in [
        (json!({"sessionId": "nobody"}), "Session nobody not found or has no persisted events"),
        (json!({"sessionId": chat.id, "toEventId": "x"}), "Event x not found in session"),
    ] {
        let error = client.refused("sessions.fork", params).await;
        assert!(error["message"].as_str().unwrap().contains(expected), "{error}");
    }
    chat.assert_usable().await;
}

#[tokio::test]
async fn user_commands_are_run_and_killed() {
    let (program, _model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::create(&client, json!({})).await;
    let run = |command: &str| json!({"sessionId": chat.id, "requestId": "r", "command": command});
    let ran = client.ok("session.shell.executeUserRequested", run("echo out; exit 3")).await;
    let expected = json!({"success": false, "exitCode": 3, "output": "out"});
    assert!(fits(&ran, &expected), "{ran}");

    let started =
        client.ok("session.shell.exec", json!({"sessionId": chat.id, "command": "sleep 600"})).await;
    let kill = json!({"sessionId": chat.id, "processId": started["processId"]});
    assert_eq!(client.ok("session.shell.kill", kill.clone()).await["killed"], true);
    assert_eq!(client.ok("session.shell.kill", kill).await["killed"], false);

    let waiting = client.start("session.shell.executeUserRequested", run("sleep 600")).await;
    let cancel = json!({"sessionId": chat.id, "requestId": "r"});
    // Until the command has started, there is nothing to cancel.
    eventually("the cancel", async || {
        let answer = client.ok("session.shell.cancelUserRequested", cancel.clone()).await;
        (answer["cancelled"] == true).then_some(())
    })
    .await;
    let cancelled = client.answer(waiting).await.unwrap();
    assert!(fits(&cancelled, &json!({"success": false, "error": "Shell command canceled."})), "{cancelled}");
    // After the turn, the note about the cancelled command is in the history.
    chat.assert_usable().await;
    let audit = program.run(&["audit", "--json"]).await.json_lines();
    let ran: Vec<_> = audit.iter().filter(|entry| entry["action"] == "command_run").collect();
    let commands: Vec<_> = ran.iter().map(|entry| entry["detail"].as_str().unwrap()).collect();
    assert_eq!(commands, ["echo out; exit 3", "sleep 600", "sleep 600"], "also those that were stopped");
    assert!(ran.iter().all(|entry| entry["by"].is_string()), "{ran:?}");
}

#[tokio::test]
async fn session_reports_its_context_moves_and_shuts_down() {
    let (program, _model) = scripted().await;
    let server = program.serve().await;
    let (client, other) = (server.connect().await, server.connect().await);
    let chat = Chat::create(&client, json!({})).await;
    let this = json!({"sessionId": chat.id});
    other.ok("session.resume", this.clone()).await;
    chat.turn("say one").await;
    let info = client.ok("session.metadata.contextInfo", this.clone()).await["contextInfo"].clone();
    let parts = ["systemTokens", "conversationTokens", "toolDefinitionsTokens"];
    let sum: u64 = parts.iter().map(|part| info[part].as_u64().unwrap()).sum();
    assert!(sum > 0 && info["totalTokens"] == sum, "{info}");
    let mut one = this.clone();
    one["limit"] = json!(1);
    let heaviest = client.ok("session.metadata.getContextHeaviestMessages", one).await;
    assert_eq!(heaviest["messages"].as_array().unwrap().len(), 1, "{heaviest}");

    let mut moved = this.clone();
    moved["workingDirectory"] = json!("/");
    client.ok("session.options.update", moved).await;
    let snapshot = client.ok("session.metadata.snapshot", this.clone()).await;
    assert_eq!((&snapshot["workingDirectory"], &snapshot["workspace"]["id"]), (&json!("/"), &json!(chat.id)));

    let mut end = this.clone();
    end["type"] = json!("error");
    end["reason"] = json!("enough");
    client.ok("session.shutdown", end).await;
    let (_, event) = other
        .find("the end", 0, |frame| {
            let event = &frame["params"]["event"];
            (event["type"] == "session.shutdown").then(|| event.clone())
        })
        .await;
    assert!(fits(&event["data"], &json!({"shutdownType": "error", "errorReason": "enough"})), "{event}");
    assert_eq!(
        other.ok("session.destroy", this.clone()).await["success"],
        true,
        "the client has left it already"
    );
    client.ok("session.resume", this).await;
    chat.assert_usable().await;
}

#[tokio::test]
async fn ignored_options_of_a_resume_are_shown_and_not_recorded() {
    let (program, _model) = scripted().await;
    let server = program.serve().await;
    let options = || json!({"sessionId": "s", "remoteSession": "on"});
    let first = server.connect().await;
    Chat::create(&first, options()).await.event("session.warning", 0).await;
    let second = server.connect().await;
    let chat = Chat::resume(&second, "s", options()).await;
    chat.event("session.warning", 0).await;
    let history = chat.history().await;
    let recorded = history.iter().filter(|event| event["type"] == "session.warning").count();
    assert_eq!(recorded, 1, "{history:?}");
}
