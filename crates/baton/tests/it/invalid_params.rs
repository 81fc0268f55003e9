//! Calls with invalid parameters: every parameter of the common methods, with values of every wrong type.

use baton_testkit::chat::Chat;
use baton_testkit::client::{Client, frame_of};
use serde_json::{Value, json};

use crate::scripted;

const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;
const FAILED: i64 = -32603;

/// The type of a parameter.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Text,
    Flag,
    /// An enumeration, a list or a map whose values match none of the samples.
    Special,
    AnyList,
    Object,
}
use Kind::{AnyList, Flag, Object, Special, Text};

/// Samples of every JSON type, except those that are valid.
fn wrong(kind: Kind) -> Vec<Value> {
    let samples = [json!("text"), json!(true), json!({"a": 7}), json!([7]), json!(7), json!(-1.5e300)];
    let fits = |value: &Value| match kind {
        Text => value.is_string(),
        Flag => value.is_boolean(),
        AnyList => value.is_array(),
        Object => value.is_object(),
        Special => false,
    };
    samples.into_iter().filter(|value| !fits(value)).collect()
}

/// Checks that invalid values of these fields are refused with an error that names the field.
async fn check_fields(client: &Client, method: &str, params: &Value, fields: &[(&str, Kind)]) {
    for (field, kind) in fields {
        for value in wrong(*kind) {
            let mut params = params.clone();
            params[field] = value.clone();
            let error = client.refused(method, params).await;
            let (code, message) = (&error["code"], error["message"].as_str().unwrap());
            assert_eq!(code, INVALID_PARAMS, "{method} {field}={value}: {error}");
            assert!(message.contains(method) && message.contains(field), "{field}={value}: {message}");
        }
    }
}

#[tokio::test]
async fn session_parameters_are_validated() {
    let (program, _model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    let texts = ["sessionId", "clientName", "model", "reasoningEffort", "toolFilterPrecedence"];
    let paths = ["workingDirectory", "configDir", "gitHubToken"];
    let flags = ["requestPermission", "requestUserInput", "requestElicitation", "hooks", "streaming"];
    let resume_flags = ["disableResume", "continuePendingWork"];
    let lists = [
        "availableTools",
        "excludedTools",
        "additionalDirectories",
        "instructionDirectories",
        "tools",
        "commands",
    ];
    let objects = ["systemMessage", "defaultAgent", "provider", "largeOutput"];
    let fields: Vec<(&str, Kind)> = texts
        .iter()
        .chain(&paths)
        .map(|name| (*name, Text))
        .chain(flags.iter().chain(&resume_flags).map(|name| (*name, Flag)))
        .chain(lists.iter().map(|name| (*name, Special)))
        .chain(objects.iter().map(|name| (*name, Object)))
        .collect();
    for method in ["session.create", "session.resume"] {
        check_fields(&client, method, &json!({"sessionId": "s"}), &fields).await;
    }
    for (inner, place) in [
        (json!({"tools": [{"name": "fine"}, {"name": 7}]}), "tools[1].name"),
        (json!({"tools": [{"description": "nameless"}]}), "tools[0]"),
        (json!({"commands": [{"name": []}]}), "commands[0].name"),
        (json!({"systemMessage": {"mode": "sideways"}}), "systemMessage.mode"),
        (
            json!({"systemMessage": {"sections": {"tone": {"action": "shout"}}}}),
            "systemMessage.sections.tone",
        ),
        (json!({"provider": {"baseUrl": 7}}), "provider.baseUrl"),
        (json!({"provider": {"headers": {"a": 7}}}), "provider.headers.a"),
        (json!({"largeOutput": {"maxSizeBytes": -1}}), "largeOutput.maxSizeBytes"),
    ] {
        let message = client.refused("session.create", inner).await["message"].to_string();
        assert!(message.contains(place), "{place}: {message}");
    }
    assert_eq!(client.ok("session.list", json!({})).await["sessions"], json!([]), "nothing was created");
    Chat::create(&client, json!({"fromTheFuture": {"x": 1}, "model": null})).await.assert_usable().await;
}

#[tokio::test]
async fn prompt_and_answer_parameters_are_validated() {
    let (program, model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::create(&client, json!({})).await;
    let session = json!({"sessionId": chat.id, "prompt": "never sent", "requestId": "r", "content": "c"});
    let send = [
        ("sessionId", Text),
        ("prompt", Text),
        ("displayPrompt", Text),
        ("mode", Special),
        ("agentMode", Special),
        ("requestHeaders", Special),
        // Elements are not checked: newer clients attach types that this version does not know.
        ("attachments", AnyList),
    ];
    check_fields(&client, "session.send", &session, &send).await;
    check_fields(&client, "session.abort", &session, &[("reason", Special)]).await;
    let tool = "session.tools.handlePendingToolCall";
    check_fields(&client, tool, &session, &[("requestId", Text), ("error", Text)]).await;
    let permission = "session.permissions.handlePendingPermissionRequest";
    let mut decision = session.clone();
    decision["result"] = json!({"kind": "approve-once"});
    check_fields(&client, permission, &decision, &[("requestId", Text), ("result", Special)]).await;
    let input = "session.ui.handlePendingUserInput";
    let mut answer = session.clone();
    answer["response"] = json!({"answer": "a"});
    check_fields(&client, input, &answer, &[("requestId", Text), ("response", Special)]).await;
    for (method, params, expected) in [
        ("session.send", json!({"sessionId": chat.id}), "missing field `prompt`"),
        ("session.send", json!({"prompt": "p"}), "missing field `sessionId`"),
        ("session.send", json!(7), "invalid type"),
        (tool, json!({"sessionId": chat.id, "requestId": "r"}), "give a `result` or an `error`"),
        (permission, json!({"sessionId": chat.id, "requestId": "r"}), "missing field `result`"),
        (
            permission,
            json!({"sessionId": chat.id, "requestId": "r", "result": {"kind": "maybe"}}),
            "\"maybe\"",
        ),
        (
            input,
            json!({"sessionId": chat.id, "requestId": "r", "response": {"answer": 7}}),
            "response.answer",
        ),
    ] {
        let error = client.refused(method, params).await;
        assert_eq!(error["code"], INVALID_PARAMS, "{error}");
        assert!(error["message"].as_str().unwrap().contains(expected), "{expected}: {error}");
    }
    // Half a surrogate pair is valid JSON, but not text.
    let half = format!(
        r#"{{"id":"half","method":"session.send","params":{{"sessionId":"{}","prompt":"\ud800"}}}}"#,
        chat.id
    );
    client.send_bytes(&frame_of(half.as_bytes())).await.unwrap();
    assert_eq!(client.answer_to(&json!("half")).await.unwrap_err()["code"], INVALID_PARAMS);
    assert!(model.requests().is_empty(), "no invalid prompt reached the model");
    chat.assert_usable().await;
}

#[tokio::test]
async fn answers_to_unknown_requests_do_not_count() {
    let (program, _model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::create(&client, json!({})).await;
    let huge = "r".repeat(1 << 20);
    for request in ["never", "", "../..", "\u{0}", &huge] {
        for (method, answer) in [
            ("session.tools.handlePendingToolCall", json!({"result": "x"})),
            (
                "session.permissions.handlePendingPermissionRequest",
                json!({"result": {"kind": "approve-once"}}),
            ),
            ("session.ui.handlePendingUserInput", json!({"response": {"answer": "a"}})),
        ] {
            let mut params = answer;
            params["requestId"] = json!(request);
            assert_eq!(chat.ok(method, params).await, json!({"success": false}), "{method}");
        }
    }
    chat.assert_usable().await;
}

#[tokio::test]
async fn unknown_methods_are_named() {
    let (program, _model) = scripted().await;
    let (_server, client) = program.pipes().await;
    let huge = "x".repeat(1 << 20);
    for method in ["nope", "", "session", "session.", "session.canvas.list", "__proto__", "ünï\u{0}", &huge]
    {
        let error = client.refused(method, json!({})).await;
        assert_eq!(error["code"], METHOD_NOT_FOUND);
        assert_eq!(error["message"], format!("Unhandled method {method}"));
    }
}

#[tokio::test]
async fn unknown_sessions_are_named_by_every_method() {
    let (program, _model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    let methods = [
        "abort",
        "send",
        "resume",
        "getMessages",
        "eventLog.read",
        "eventLog.tail",
        "tools.handlePendingToolCall",
        "permissions.handlePendingPermissionRequest",
        "permissions.pendingRequests",
        "permissions.setApproveAll",
        "commands.handlePendingCommand",
        "model.getCurrent",
        "model.switchTo",
        "mode.get",
        "mode.set",
        "name.get",
        "name.set",
        "options.update",
        "log",
        "metadata.snapshot",
        "metadata.isProcessing",
        "usage.getMetrics",
        "plan.read",
        "plan.update",
        "workspaces.listFiles",
        "workspaces.readFile",
        "queue.pendingItems",
        "queue.clear",
        "tools.getCurrentMetadata",
    ];
    let everything = json!({
        "sessionId": "nobody", "prompt": "p", "requestId": "r", "result": {"kind": "approve-once"}, "enabled": true,
        "modelId": "m", "mode": "plan", "name": "n", "message": "m", "content": "c", "path": "p",
    });
    for method in methods {
        let mut params = everything.clone();
        if method == "send" {
            params["mode"] = json!("enqueue");
        }
        let error = client.refused(&format!("session.{method}"), params).await;
        assert_eq!(error["code"], FAILED, "{method}: {error}");
        assert!(
            error["message"].as_str().unwrap().contains("Session not found: nobody"),
            "{method}: {error}"
        );
    }
    // These methods accept unknown sessions.
    assert_eq!(client.ok("session.getMetadata", json!({"sessionId": "nobody"})).await, json!({}));
    assert_eq!(client.ok("session.delete", json!({"sessionId": "nobody"})).await["success"], false);
    for leave in ["session.detach", "session.destroy"] {
        assert_eq!(client.ok(leave, json!({"sessionId": "nobody"})).await["success"], true);
    }
}

#[tokio::test]
async fn session_id_cannot_be_a_path() {
    let (program, _model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    let long = "x".repeat(129);
    for id in
        ["../outside", "/etc/passwd", "a/b", "a\\b", "..", ".", ".hidden", "", "a\u{0}b", "a b", "ü", &long]
    {
        for method in
            ["session.create", "session.resume", "session.send", "session.delete", "session.destroy"]
        {
            let error = client.refused(method, json!({"sessionId": id, "prompt": "p"})).await;
            assert_eq!(error["code"], INVALID_PARAMS, "{method} {id:?}: {error}");
            assert!(error["message"].as_str().unwrap().contains("session id"), "{method} {id:?}: {error}");
        }
        assert_eq!(client.ok("session.getMetadata", json!({"sessionId": id})).await, json!({}));
    }
    let entries = |path: &std::path::Path| -> Vec<String> {
        let names = std::fs::read_dir(path).into_iter().flatten().flatten();
        names.map(|entry| entry.file_name().into_string().unwrap()).filter(|name| name != "home").collect()
    };
    assert!(entries(&program.home().join("session-state")).is_empty(), "nothing was created");
    assert_eq!(entries(program.home().parent().unwrap()), ["work"], "nor outside of the home");
}

#[tokio::test]
async fn session_files_stay_in_their_directory() {
    let (program, _model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::create(&client, json!({})).await;
    for path in ["../plan.md", "/etc/passwd", "a/../../../x", "..", "", "a\u{0}b"] {
        for method in ["session.workspaces.createFile", "session.workspaces.readFile"] {
            let answer = chat.call(method, json!({"path": path, "content": "c"})).await;
            assert!(answer.is_err(), "{method} {path:?} was allowed: {answer:?}");
        }
    }
    chat.ok("session.workspaces.createFile", json!({"path": "a/b.txt", "content": "c"})).await;
    assert_eq!(chat.ok("session.workspaces.readFile", json!({"path": "a/b.txt"})).await["content"], "c");
}

#[tokio::test]
async fn huge_texts_are_accepted() {
    let (program, _model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::create(&client, json!({})).await;
    let huge = "wörd ".repeat(500_000);
    chat.ok("session.name.set", json!({"name": huge})).await;
    assert_eq!(chat.ok("session.name.get", json!({})).await["name"], huge.trim_end());
    let turn = chat.turn(&format!("[[text:short]]{huge}")).await;
    assert_eq!(turn.text(), "short");
    let content = turn.of("user.message")[0]["data"]["content"].as_str().unwrap().len();
    assert_eq!(content, huge.len() + "[[text:short]]".len());
    chat.assert_usable().await;
}
