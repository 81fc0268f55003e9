//! What people and clients do beside a conversation: commands, checkpoints, pastes, a question aside, settings, accounts.

use baton_testkit::chat::Chat;
use serde_json::{Value, json};

use crate::scripted;

#[tokio::test]
async fn the_servers_own_commands_are_listed_and_run() {
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
    let told = chat.ok("session.commands.invoke", run("model", "")).await;
    assert!(told["text"].as_str().unwrap().contains("other-model"), "{told}");
    chat.ok("session.commands.invoke", run("rename", "mine")).await;
    assert_eq!(chat.ok("session.name.get", json!({})).await["name"], "mine");
    chat.ok("session.commands.invoke", run("allow-all", "on")).await;
    assert_eq!(chat.ok("session.permissions.getMode", json!({})).await["mode"], "allow-all");
    for (name, input) in [("nonsense", ""), ("rename", " "), ("allow-all", "perhaps")] {
        chat.call("session.commands.invoke", run(name, input)).await.unwrap_err();
    }
}

/// What waits, as the server tells it: kind and text.
async fn waiting(chat: &Chat<'_>) -> Vec<(String, String)> {
    let pending = chat.ok("session.queue.pendingItems", json!({})).await;
    let text = |item: &Value, name: &str| item[name].as_str().unwrap().to_owned();
    let items = pending["items"].as_array().unwrap();
    items.iter().map(|item| (text(item, "kind"), text(item, "displayText"))).collect()
}

fn command(text: &str) -> (String, String) {
    ("command".into(), text.into())
}

#[tokio::test]
async fn a_queued_command_has_its_turn_among_the_prompts() {
    let (program, model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::create(&client, json!({})).await;
    chat.send("[[hold:a]][[text:first]]").await;
    model.wait_for_hold("a").await;
    assert_eq!(chat.ok("session.commands.enqueue", json!({"command": "/model other"})).await["queued"], true);
    chat.ok("session.commands.enqueue", json!({"command": "/nonsense"})).await;
    chat.send("[[text:second]]").await;
    let message = ("message".to_owned(), "[[text:second]]".to_owned());
    assert_eq!(waiting(&chat).await, [command("/model other"), command("/nonsense"), message]);
    let from = client.count();
    model.release("a");
    let turn = chat.until_idle(from).await;
    assert_eq!(turn.text(), "second");
    let models: Vec<&Value> =
        turn.of("assistant.message").iter().map(|event| &event["data"]["model"]).collect();
    assert_eq!(models[1], "other", "the command was run between the two turns");
    assert!(turn.of("session.warning")[0]["data"]["message"].as_str().unwrap().contains("/nonsense"));
    assert_eq!(chat.history().await.iter().filter(|event| event["type"] == "user.message").count(), 2);
}

/// Whoever looks at the queue first and at the history after it always finds an accepted prompt.
#[tokio::test]
async fn a_prompt_is_in_the_queue_until_it_is_in_the_history() {
    let (program, _model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::create(&client, json!({"hooks": true})).await;
    let from = client.count();
    chat.send("[[text:hello]]").await;
    // The client is asked about the prompt before it enters the conversation, and takes its time.
    client.asked("hooks.invoke", from).await;
    assert_eq!(waiting(&chat).await, [("message".to_owned(), "[[text:hello]]".to_owned())]);
    assert!(!chat.history().await.iter().any(|event| event["type"] == "user.message"));
}

#[tokio::test]
async fn a_queued_command_of_a_host_survives_a_kill_under_its_name() {
    let (program, _model) = scripted().await;
    let mut server = program.serve().await;
    let (id, request) = {
        let client = server.connect().await;
        let chat = Chat::create(&client, json!({})).await;
        chat.ok("session.eventLog.registerInterest", json!({"eventType": "command.queued"})).await;
        chat.ok("session.commands.enqueue", json!({"command": "/deploy now"})).await;
        let (_, asked) = chat.event("command.queued", 0).await;
        assert_eq!(asked["data"]["command"], "/deploy now");
        chat.ok("session.commands.enqueue", json!({"command": "/test"})).await;
        assert_eq!(waiting(&chat).await, [command("/test")], "what is being run does not wait");
        (chat.id.clone(), asked["data"]["requestId"].clone())
    };
    server.kill().await;
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::resume(&client, &id, json!({"continuePendingWork": true})).await;
    chat.ok("session.eventLog.registerInterest", json!({"eventType": "command.queued"})).await;
    let (_, asked) = chat.event("command.queued", 0).await;
    assert_eq!(asked["data"]["requestId"], request);
    let answer = json!({"requestId": request, "result": {"handled": true, "stopProcessingQueue": true}});
    let respond = "session.commands.respondToQueuedCommand";
    assert_eq!(chat.ok(respond, answer.clone()).await["success"], true);
    assert_eq!(chat.ok(respond, answer).await["success"], false, "the first answer counts");
    chat.event("command.completed", 0).await;
    assert_eq!(waiting(&chat).await, [command("/test")], "the client stopped what was behind it");
    chat.ok("session.abort", json!({})).await;
    assert!(waiting(&chat).await.is_empty());
    chat.assert_usable().await;
}

#[tokio::test]
async fn a_queued_command_whose_runner_has_left_is_listed_and_can_be_taken_back() {
    let (program, _model) = scripted().await;
    let server = program.serve().await;
    let (client, owner) = (server.connect().await, server.connect().await);
    let chat = Chat::create(&client, json!({})).await;
    let commands = json!([{"name": "deploy", "description": "Ships it"}]);
    let owned = Chat::resume(&owner, &chat.id, json!({"commands": commands})).await;
    chat.ok("session.commands.enqueue", json!({"command": "/deploy"})).await;
    let (_, asked) = owned.event("command.execute", 0).await;
    let request = asked["data"]["requestId"].clone();
    let unknown = json!({"requestId": request, "error": "Unknown command: deploy"});
    chat.ok("session.commands.handlePendingCommand", unknown).await;
    assert!(waiting(&chat).await.is_empty(), "its owner runs it");
    assert_eq!(chat.ok("session.queue.removeAt", json!({"id": request})).await["removed"], false);
    let from = client.count();
    owned.ok("session.detach", json!({})).await;
    chat.event("commands.changed", from).await;
    assert_eq!(waiting(&chat).await, [command("/deploy")]);
    assert_eq!(chat.ok("session.queue.removeAt", json!({"id": request})).await["removed"], true);
    chat.until_idle(from).await;
    chat.assert_usable().await;
}

#[tokio::test]
async fn what_waits_is_rearranged() {
    let (program, model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::create(&client, json!({})).await;
    chat.send("[[hold:a]]").await;
    model.wait_for_hold("a").await;
    let sent = [chat.send("one").await, chat.send("two").await];
    let moved = json!({"id": sent[1], "toPosition": -3});
    assert_eq!(chat.ok("session.queue.moveItem", moved.clone()).await["changed"], true);
    assert_eq!(chat.ok("session.queue.moveItem", moved).await["changed"], false);
    let insert = json!({"position": 1, "message": {"prompt": "between"}});
    let between = chat.ok("session.queue.insertAt", insert).await["id"].clone();
    let copy = chat.ok("session.queue.duplicateAt", json!({"id": between})).await["id"].clone();
    let words = json!({"id": copy, "prompt": "other words"});
    assert_eq!(chat.ok("session.queue.updateText", words.clone()).await["updated"], true);
    assert_eq!(chat.ok("session.queue.updateText", words).await["updated"], false);
    let texts = async || waiting(&chat).await.into_iter().map(|(_, text)| text).collect::<Vec<_>>();
    assert_eq!(texts().await, ["two", "between", "other words", "one"]);
    assert_eq!(chat.ok("session.queue.sendNow", json!({"id": between})).await["steered"], true);
    assert_eq!(chat.ok("session.queue.removeAt", json!({"id": copy})).await["removed"], true);
    assert_eq!(chat.ok("session.queue.removeAt", json!({"id": "never"})).await["removed"], false);
    chat.call("session.queue.moveItem", json!({"id": "never", "toPosition": 0})).await.unwrap_err();
    chat.ok("session.queue.setDrainPaused", json!({"paused": true})).await;
    chat.call("session.queue.setDrainPaused", json!({"paused": true})).await.unwrap_err();
    let from = client.count();
    model.release("a");
    chat.until_idle(from).await;
    assert_eq!(texts().await, ["two", "one"], "what waits is held back");
    let from = client.count();
    chat.ok("session.queue.setDrainPaused", json!({"paused": false})).await;
    let turn = chat.until_idle(from).await;
    let said: Vec<_> = turn.of("user.message").iter().map(|event| event["data"]["content"].clone()).collect();
    assert_eq!(said, ["two", "one"]);
}

#[tokio::test]
async fn a_question_aside_is_answered_and_leaves_no_trace() {
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
    assert!(asked.to_string().contains("remember the plum"), "the model has all that was said in view");
    assert!(asked["tools"].is_null(), "an answer that leaves no trace does nothing either: {asked}");
    let turn = chat.turn("go on").await;
    assert_eq!(turn.errors(), Vec::<&str>::new());
    let asked = model.requests().pop().unwrap().body.to_string();
    assert!(!asked.contains("a plum"), "what was asked aside is not part of the conversation");
}

#[tokio::test]
async fn pastes_checkpoints_and_changes_of_the_workspace() {
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
async fn settings_of_the_user_hold_for_sessions_and_outlive_the_server() {
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
async fn one_method_for_all_ways_to_a_session() {
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
async fn accounts_come_and_go_and_secrets_are_not_seen() {
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
    assert_eq!(client.ok("account.getAllUsers", json!({})).await, json!([]), "none is stored");
    assert_eq!(client.ok("account.logout", json!({"authInfo": current})).await["hasMoreUsers"], true);
    assert_eq!(client.ok("account.logout", json!({})).await["hasMoreUsers"], false);

    client.ok("secrets.addFilterValues", json!({"values": ["swordfish"]})).await;
    let chat = Chat::trusting(&client, json!({})).await;
    let turn = chat.turn(r#"[[tool:bash {"command":"echo swo''rdfish"}]]"#).await;
    assert!(turn.text().contains("[REDACTED]"), "{turn:?}");
    assert!(!format!("{:?} {:?}", turn, chat.history().await).contains("swordfish"));
    assert!(
        !std::fs::read_dir(program.home()).unwrap().any(|file| {
            std::fs::read(file.unwrap().path())
                .is_ok_and(|bytes| bytes.windows(5).any(|part| part == b"t-bob"))
        }),
        "tokens are not stored"
    );
}

#[tokio::test]
async fn kinds_of_agents_get_other_models_and_are_turned_off_and_a_fleet_is_a_prompt() {
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
    assert!(model.requests().pop().unwrap().body.to_string().contains("sub-agents"), "the model is told how");
}
