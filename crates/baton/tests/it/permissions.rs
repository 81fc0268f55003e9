//! Permission rules of clients and locations.

use baton_testkit::chat::{Chat, Turn};
use serde_json::{Value, json};

use crate::scripted;

const TOUCH: &str = r#"[[tool:bash {"command":"touch made.txt"}]]"#;

/// The number of permission requests in a turn.
fn requests(turn: &Turn) -> usize {
    turn.of("permission.requested").len()
}

/// The results of the tool calls of a turn: success, or the error message.
fn outcomes(turn: &Turn) -> Vec<(bool, Value)> {
    let ended = turn.of("tool.execution_complete").into_iter();
    ended.map(|event| (event["data"]["success"] == true, event["data"]["error"]["message"].clone())).collect()
}

#[tokio::test]
async fn allow_rules_skip_requests_and_deny_rules_always_win() {
    let (program, _model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::create(&client, json!({"workingDirectory": program.work()})).await;
    let shell = |name: &str| json!({"kind": "shell", "argument": name});
    let set = |approved: Value, denied: Value| json!({"rules": {"approved": approved, "denied": denied}});

    chat.ok("session.permissions.configure", set(json!([shell("touch")]), json!([]))).await;
    let turn = chat.turn(TOUCH).await;
    assert_eq!((requests(&turn), outcomes(&turn)[0].0), (0, true), "no request");
    assert!(program.work().join("made.txt").exists());

    chat.ok("session.permissions.configure", set(json!([shell("touch")]), json!([shell("touch")]))).await;
    chat.ok("session.permissions.setApproveAll", json!({"enabled": true})).await;
    let turn = chat.turn(TOUCH).await;
    let refused = "Permission denied by a rule of this session";
    assert_eq!((requests(&turn), outcomes(&turn)), (0, vec![(false, json!(refused))]));

    let error = client
        .refused(
            "session.permissions.modifyRules",
            json!({"sessionId": chat.id, "scope": "session", "add": [{"kind": "sorcery"}]}),
        )
        .await;
    assert!(error["message"].as_str().unwrap().contains("sorcery"), "{error}");
    chat.assert_usable().await;
}

#[tokio::test]
async fn allowed_directories_can_be_added_and_checked() {
    let (program, _model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::create(&client, json!({"workingDirectory": program.work()})).await;
    let more = program.work().join("more");
    std::fs::create_dir_all(&more).unwrap();
    std::fs::write(more.join("a.txt"), "alpha").unwrap();
    let paths = json!({"workspacePath": program.work(), "includeTempDirectory": false});
    chat.ok("session.permissions.configure", json!({"paths": paths})).await;
    let view = format!(r#"[[tool:view {{"path":"{}"}}]]"#, more.join("a.txt").display());
    chat.ok("session.permissions.paths.add", json!({"path": more})).await;
    let listed = chat.ok("session.permissions.paths.list", json!({})).await;
    assert_eq!(listed, json!({"primary": program.work(), "directories": [program.work(), more]}));
    let turn = chat.turn(&view).await;
    assert_eq!(requests(&turn), 0, "reading needs no permission");

    for (method, path, allowed) in [
        ("session.permissions.paths.isPathWithinAllowedDirectories", more.join("new.txt"), true),
        ("session.permissions.paths.isPathWithinAllowedDirectories", "/etc/passwd".into(), false),
        ("session.permissions.paths.isPathWithinWorkspace", program.work().join("x"), true),
        ("session.permissions.paths.isPathWithinWorkspace", program.work().join("../x"), false),
    ] {
        let answer = chat.ok(method, json!({"path": path})).await;
        assert_eq!(answer["allowed"], allowed, "{method} {}", path.display());
    }
    let missing = json!({"sessionId": chat.id, "path": "/no/such/directory"});
    client.refused("session.permissions.paths.add", missing).await;
}

#[tokio::test]
async fn location_grants_survive_a_kill() {
    let (program, _model) = scripted().await;
    let mut server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::create(&client, json!({"workingDirectory": program.work()})).await;
    // A repository, so that its root is the location, whatever surrounds the test's directory.
    std::fs::create_dir_all(program.work().join(".git")).unwrap();
    std::fs::write(program.work().join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    std::fs::create_dir_all(program.work().join("below")).unwrap();
    let here = json!({"workingDirectory": program.work().join("below")});
    let location = chat.ok("session.permissions.locations.resolve", here.clone()).await;
    assert_eq!(location, json!({"locationKey": program.work(), "locationType": "repo"}));

    let from = client.count();
    chat.send(TOUCH).await;
    let (_, request) = chat.event("permission.requested", from).await;
    let decision = json!({"kind": "approve-for-location", "locationKey": location["locationKey"]});
    let answer = json!({"requestId": request["data"]["requestId"], "result": decision});
    chat.ok("session.permissions.handlePendingPermissionRequest", answer).await;
    chat.until_idle(from).await;
    let trust = json!({"path": program.work()});
    assert_eq!(chat.ok("session.permissions.folderTrust.isTrusted", trust.clone()).await["trusted"], false);
    chat.ok("session.permissions.folderTrust.addTrusted", trust).await;
    server.kill().await;

    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::create(&client, json!({"workingDirectory": program.work()})).await;
    let below = json!({"path": program.work().join("below")});
    assert_eq!(chat.ok("session.permissions.folderTrust.isTrusted", below).await["trusted"], true);
    let applied = chat.ok("session.permissions.locations.apply", here.clone()).await;
    assert_eq!(applied["appliedRules"], json!([{"kind": "shell", "argument": "touch"}]), "{applied}");
    assert_eq!(applied["changed"], true);
    assert_eq!(chat.ok("session.permissions.locations.apply", here.clone()).await["changed"], false);
    assert_eq!(requests(&chat.turn(TOUCH).await), 0);

    let clear = json!({"scope": "location", "removeAll": true});
    chat.ok("session.permissions.modifyRules", clear).await;
    let applied = chat.ok("session.permissions.locations.apply", here).await;
    assert_eq!(applied["appliedRuleCount"], 0, "{applied}");
}

/// A cloned repository has links to the token of the server, with names that variables of the shell have as values.
#[tokio::test]
async fn grant_does_not_reach_the_home_through_variables_of_the_shell() {
    let (program, _model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::create(&client, json!({"workingDirectory": program.work()})).await;
    let token = program.home().join("token");
    std::fs::write(&token, "the secret token of this server").unwrap();
    std::fs::create_dir_all(program.work().join("docs/bin")).unwrap();
    for name in ["cat", "noninteractive", "bin/bash", "bin/sh"] {
        std::os::unix::fs::symlink(&token, program.work().join("docs").join(name)).unwrap();
    }
    std::fs::write(program.work().join("plain"), "abc").unwrap();
    let rules = json!({"rules": {"approved": [{"kind": "shell", "argument": "rev"}], "denied": []}});
    chat.ok("session.permissions.configure", rules).await;
    let line = |command: &str| format!("[[tool:bash {}]]", json!({ "command": command }));

    let turn = chat.turn(&line("rev \"$PWD/plain\"")).await;
    assert_eq!((requests(&turn), outcomes(&turn)[0].0), (0, true), "the grant covers other files");
    for command in [
        "rev docs/cat",
        "rev \"docs/$PAGER\"",
        "rev \"docs/$DEBIAN_FRONTEND\"",
        "rev \"docs$SHELL\"",
        "rev \"docs/bin/$NOTHING\"",
    ] {
        let from = client.count();
        chat.send(&line(command)).await;
        let (_, asked) = chat.event("permission.requested", from).await;
        let id = &asked["data"]["requestId"];
        let refusal = json!({"requestId": id, "result": {"kind": "reject"}});
        chat.ok("session.permissions.handlePendingPermissionRequest", refusal).await;
        let turn = chat.until_idle(from).await;
        assert!(!outcomes(&turn)[0].0, "{command}");
    }
}
