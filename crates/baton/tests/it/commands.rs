//! Methods beside the conversation: slash commands, checkpoints, pastes, ephemeral queries, settings, accounts.

use baton_testkit::chat::Chat;
use serde_json::{Value, json};

use crate::directories::contents;
use crate::scripted;

#[tokio::test]
async fn built_in_commands_are_listed_and_run() {
    let (program, _model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    let commands = json!([{"name": "deploy", "description": "Ships it"}]);
    let chat = Chat::create(&client, json!({"commands": commands})).await;
    let listed = chat.ok("session.commands.list", json!({})).await;
    let kind = |name: &str| -> Value {
        let mut all = listed["commands"].as_array().unwrap().iter();
        all.find(|command| command["name"] == name).map_or(Value::Null, |command| command["kind"].clone())
    };
    assert_eq!((kind("model"), kind("deploy")), (json!("builtin"), json!("client")));
    let only = chat.ok("session.commands.list", json!({"includeBuiltins": false})).await;
    assert_eq!(only["commands"].as_array().unwrap().len(), 1);

    let run = |name: &str, input: &str| json!({"name": name, "input": input});
    assert_eq!(chat.ok("session.commands.invoke", run("/Model", "other-model")).await["kind"], "completed");
    assert_eq!(chat.ok("session.model.getCurrent", json!({})).await["modelId"], "other-model");
    let shown = chat.ok("session.commands.invoke", run("model", "")).await;
    assert!(shown["text"].as_str().unwrap().contains("other-model"), "{shown}");
    chat.ok("session.commands.invoke", run("rename", "mine")).await;
    assert_eq!(chat.ok("session.name.get", json!({})).await["name"], "mine");
    chat.ok("session.commands.invoke", run("allow-all", "on")).await;
    assert_eq!(chat.ok("session.permissions.getMode", json!({})).await["mode"], "allow-all");
    for (name, input) in [("nonsense", ""), ("rename", " "), ("allow-all", "perhaps")] {
        chat.call("session.commands.invoke", run(name, input)).await.unwrap_err();
    }
}

#[tokio::test]
async fn ephemeral_query_is_answered_and_leaves_no_history() {
    let (program, model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::create(&client, json!({})).await;
    chat.turn("remember the plum").await;
    let before = chat.history().await.len();
    let answer = chat.ok("session.ui.ephemeralQuery", json!({"question": "[[text:a plum]] what?"})).await;
    assert_eq!(answer["answer"], "a plum");
    assert_eq!(chat.history().await.len(), before);
    let asked = model.requests().pop().unwrap().body;
    assert!(asked.to_string().contains("remember the plum"), "the model gets the conversation");
    assert!(asked["tools"].is_null(), "the query has no tools: {asked}");
    let turn = chat.turn("go on").await;
    assert_eq!(turn.errors(), Vec::<&str>::new());
    let asked = model.requests().pop().unwrap().body.to_string();
    assert!(!asked.contains("a plum"), "the query is not part of the conversation");
}

#[tokio::test]
async fn workspace_has_pastes_checkpoints_and_diffs() {
    let (program, _model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::create(&client, json!({"workingDirectory": program.work()})).await;
    let pasted =
        chat.ok("session.workspaces.saveLargePaste", json!({"content": "päste"})).await["saved"].clone();
    assert_eq!(pasted["sizeBytes"], 6);
    let read = chat.ok("session.workspaces.readFile", json!({"path": pasted["filename"]})).await;
    assert_eq!(read["content"], "päste");

    assert_eq!(chat.ok("session.workspaces.listCheckpoints", json!({})).await["checkpoints"], json!([]));
    chat.ok("session.workspaces.addSummary", json!({"title": "One", "content": "what was"})).await;
    let known = chat.ok("session.workspaces.listCheckpoints", json!({})).await["checkpoints"].clone();
    assert_eq!(known, json!([{"number": 1, "title": "One", "filename": "001-one.md"}]));
    let read = chat.ok("session.workspaces.readCheckpoint", json!({"number": 1})).await;
    assert_eq!(read["content"], "what was");
    chat.ok("session.workspaces.truncateSummaries", json!({"keepCount": 0})).await;
    assert_eq!(
        chat.ok("session.workspaces.readCheckpoint", json!({"number": 1})).await["content"],
        Value::Null
    );

    let git = |arguments: &[&str]| {
        let settings = ["-c", "user.name=t", "-c", "user.email=t@example.org"];
        let mut git = std::process::Command::new("git");
        let done = git.args(settings).args(arguments).current_dir(program.work()).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    let file = program.work().join("a.txt");
    git(&["init", "-q", "-b", "main"]);
    std::fs::write(&file, "before\n").unwrap();
    git(&["add", "a.txt"]);
    git(&["commit", "-qm", "one"]);
    std::fs::write(&file, "after\n").unwrap();
    let diff = chat.ok("session.workspaces.diff", json!({"mode": "unstaged"})).await;
    let change = &diff["changes"][0];
    assert_eq!((&change["path"], &change["changeType"]), (&json!("a.txt"), &json!("modified")), "{diff}");
    assert!(change["diff"].as_str().unwrap().contains("+after"), "{diff}");
    git(&["checkout", "-qb", "topic"]);
    git(&["commit", "-qam", "two"]);
    let diff = chat.ok("session.workspaces.diff", json!({"mode": "branch"})).await;
    assert_eq!((&diff["baseBranch"], &diff["isFallback"]), (&json!("main"), &json!(false)));
    assert_eq!(diff["changes"].as_array().unwrap().len(), 1, "{diff}");
}

#[tokio::test]
async fn user_settings_apply_to_sessions_and_survive_a_restart() {
    let (program, _model) = scripted().await;
    let mut server = program.serve().await;
    let client = server.connect().await;
    let set = json!({"settings": {"model": "favourite", "askUser": false}});
    assert_eq!(client.ok("user.settings.set", set).await["shadowedKeys"], json!([]));
    server.kill().await;
    let server = program.serve().await;
    let client = server.connect().await;
    let settings = client.ok("user.settings.get", json!({})).await["settings"].clone();
    assert_eq!(settings["askUser"], json!({"value": false, "default": true, "isDefault": false}));
    let chat = Chat::create(&client, json!({"requestUserInput": true})).await;
    assert_eq!(chat.ok("session.model.getCurrent", json!({})).await["modelId"], "favourite");
    let tools = chat.ok("session.tools.getCurrentMetadata", json!({})).await;
    assert!(!tools.to_string().contains("ask_user"), "{tools}");
    client.ok("user.settings.set", json!({"settings": {"model": null}})).await;
    let chat = Chat::create(&client, json!({})).await;
    assert_eq!(chat.ok("session.model.getCurrent", json!({})).await["modelId"], Value::Null);
}

#[tokio::test]
async fn sessions_open_creates_attaches_and_resumes() {
    let (program, _model) = scripted().await;
    let server = program.serve().await;
    let (client, other) = (server.connect().await, server.connect().await);
    assert_eq!(
        client.ok("sessions.open", json!({"kind": "resumeLast"})).await,
        json!({"status": "not_found"})
    );
    let options = json!({"workingDirectory": program.work()});
    let made = client.ok("sessions.open", json!({"kind": "create", "options": options})).await;
    assert_eq!(made["status"], "created");
    let id = made["sessionId"].as_str().unwrap().to_owned();
    let attached = other.ok("sessions.open", json!({"kind": "attach", "sessionId": id})).await;
    assert_eq!((&attached["status"], &attached["sessionId"]), (&json!("resumed"), &json!(id)));
    let chat = Chat { client: &client, id: id.clone() };
    chat.turn("hello").await;
    chat.ok("session.shutdown", json!({})).await;
    assert_eq!(
        other.ok("sessions.open", json!({"kind": "attach", "sessionId": id})).await["status"],
        "not_found"
    );
    let back = client.ok("sessions.open", json!({"kind": "resume", "sessionId": &id[..8]})).await;
    assert_eq!((&back["status"], &back["sessionId"]), (&json!("resumed"), &json!(id)));
    chat.assert_usable().await;
    let last = json!({"kind": "resumeLast", "context": {"cwd": program.work()}});
    assert_eq!(other.ok("sessions.open", last).await["sessionId"], json!(id));
    client.refused("sessions.open", json!({"kind": "cloud"})).await;
    client.refused("sessions.open", json!({"kind": "nonsense"})).await;
}

#[tokio::test]
async fn accounts_log_in_and_out_and_secrets_are_redacted() {
    let (program, _model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    assert_eq!(client.ok("account.getCurrentAuth", json!({})).await, json!({}));
    for login in ["ada", "bob"] {
        let who = json!({"host": "https://github.com", "login": login, "token": format!("t-{login}")});
        assert_eq!(client.ok("account.login", who).await["storedInVault"], false);
    }
    let current = client.ok("account.getCurrentAuth", json!({})).await["authInfo"].clone();
    assert_eq!((&current["type"], &current["login"]), (&json!("user"), &json!("bob")));
    assert_eq!(client.ok("account.getAllUsers", json!({})).await, json!([]), "accounts are not stored");
    assert_eq!(client.ok("account.logout", json!({"authInfo": current})).await["hasMoreUsers"], true);
    assert_eq!(client.ok("account.logout", json!({})).await["hasMoreUsers"], false);

    client.ok("secrets.addFilterValues", json!({"values": ["swordfish"]})).await;
    let chat = Chat::trusting(&client, json!({})).await;
    let turn = chat.turn(r#"[[tool:bash {"command":"echo swo''rdfish"}]]"#).await;
    assert!(turn.text().contains("[REDACTED]"), "{turn:?}");
    assert!(!format!("{:?} {:?}", turn, chat.history().await).contains("swordfish"));
    let stored = contents(program.home());
    assert!(!stored.windows(5).any(|part| part == b"t-bob"), "tokens are not stored");
}

#[tokio::test]
async fn agent_types_can_change_model_or_be_disabled_and_fleet_starts_a_prompt() {
    let (program, model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::create(&client, json!({})).await;
    let settings = json!({"agents": {"explore": {"model": "small"}}, "disabledSubagents": ["research"]});
    chat.ok("session.tools.updateSubagentSettings", json!({"subagents": settings})).await;
    let start = |kind: &str| json!({"agentType": kind, "prompt": "[[text:seen]]", "name": "look"});
    let refused = chat.call("session.tasks.startAgent", start("research")).await.unwrap_err();
    assert!(refused["message"].as_str().unwrap().contains("Unknown agent type"), "{refused}");
    let from = client.count();
    chat.ok("session.tasks.startAgent", start("explore")).await;
    chat.until_idle(from).await;
    assert!(model.requests().iter().any(|request| request.body["model"] == "small"));
    chat.ok("session.tools.updateSubagentSettings", json!({})).await;
    let from = client.count();
    chat.ok("session.tasks.startAgent", start("research")).await;
    chat.until_idle(from).await;

    let from = client.count();
    assert_eq!(chat.ok("session.fleet.start", json!({"prompt": "[[text:all done]]"})).await["started"], true);
    let turn = chat.until_idle(from).await;
    assert_eq!(
        (turn.text(), &turn.of("user.message")[0]["data"]["content"]),
        ("all done", &json!("[[text:all done]]"))
    );
    assert!(
        model.requests().pop().unwrap().body.to_string().contains("sub-agents"),
        "the model gets instructions"
    );
}
