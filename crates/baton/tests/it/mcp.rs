//! MCP servers from every source and in every door: `baton mcp`, `baton run`, the HTTP API, SDK clients, crush's client.

use std::path::{Path, PathBuf};

use baton_testkit::chat::Chat;
use baton_testkit::http::Http;
use baton_testkit::program::{Finished, Program};
use serde_json::{Value, json};

use crate::crush_client::CrushServer;
use crate::run::on_terminal;
use crate::{baton, eventually, scripted};

/// The arguments of `python3` that start the test server.
fn server(marker: &Path) -> Vec<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/mcp_server.py");
    vec![script.display().to_string(), marker.display().to_string(), format!("{}.txt", marker.display())]
}

fn config(marker: &Path) -> Value {
    json!({ "command": "python3", "args": server(marker) })
}

/// Adds the test server under a name, for all sessions.
async fn add(program: &Program, name: &str, flags: &[&str]) -> PathBuf {
    let marker = program.work().join(format!("{name}.started"));
    let words = server(&marker);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let added = program.run(&[&["mcp", "add", name], flags, &["--", "python3"], &words].concat()).await;
    assert_eq!(added.code(), Some(0), "{}", added.stderr);
    marker
}

async fn mcp(program: &Program, arguments: &[&str]) -> Finished {
    program.run(&[&["mcp"], arguments].concat()).await
}

/// A file of the workspace that declares the test server.
fn declare(program: &Program, file: &str, servers: &Value) {
    let path = program.work().join(file);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, json!({ "mcpServers": servers }).to_string()).unwrap();
}

/// A prompt for the scripted model that calls a tool.
fn call(tool: &str, text: &str) -> String {
    format!(r#"[[tool:{tool} {{"text":"{text}"}}]][[text:done]]"#)
}

#[tokio::test]
async fn servers_are_added_tested_used_and_removed() {
    let program = baton();
    let marker = add(&program, "first", &["--env", "GREETING=hi"]).await;
    assert!(!marker.exists(), "adding starts nothing");

    let again = mcp(&program, &["add", "first", "--", "x"]).await;
    assert_eq!(again.code(), Some(1));
    assert!(again.stderr.contains("--force"), "{}", again.stderr);
    let listed = mcp(&program, &["list", "--json"]).await;
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    assert_eq!(
        (&listed["servers"][0]["name"], &listed["servers"][0]["source"]),
        (&json!("first"), &json!("user"))
    );
    assert!(!listed.to_string().contains("GREETING"), "variables may be secrets");

    let tested = mcp(&program, &["test", "first", "--json"]).await;
    assert_eq!(tested.code(), Some(0), "{}{}", tested.stdout, tested.stderr);
    let tested: Value = serde_json::from_str(&tested.stdout).unwrap();
    let names: Vec<&str> =
        tested["tools"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["echo", "look", "env"]);
    assert_eq!(tested["tools"][1]["readOnlyHint"], true);

    let ran = program.run(&["run", "--demo", "--yes", "call first-env with GREETING"]).await;
    assert_eq!(ran.code(), Some(0), "{}", ran.stderr);
    assert!(ran.stdout.contains("echo: hi"), "{}", ran.stdout);

    assert_eq!(mcp(&program, &["disable", "first"]).await.code(), Some(0));
    let listed = mcp(&program, &["list"]).await;
    assert!(listed.stdout.contains("disabled"), "{}", listed.stdout);
    let ran = program.run(&["run", "--demo", "--yes", "call first-env with GREETING"]).await;
    assert!(!ran.stdout.contains("echo: hi"), "{}", ran.stdout);
    assert_eq!(mcp(&program, &["enable", "first"]).await.code(), Some(0));
    assert_eq!(mcp(&program, &["remove", "first"]).await.code(), Some(0));
    for command in [&["remove", "first"][..], &["test", "first"], &["enable", "first"]] {
        let missing = mcp(&program, command).await;
        assert_eq!(missing.code(), Some(3), "{command:?}: {}", missing.stderr);
        assert!(missing.stderr.contains("baton mcp add"), "{}", missing.stderr);
    }
}

#[tokio::test]
async fn failed_test_says_why_and_has_an_exit_code() {
    let program = baton();
    mcp(&program, &["add", "broken", "--", "python3", "-c", "import sys; sys.exit('no luck')"]).await;
    let tested = mcp(&program, &["test", "broken"]).await;
    assert_eq!(tested.code(), Some(1));
    assert!(tested.stdout.contains("no luck"), "{}", tested.stdout);
    let ran = program.run(&["run", "--demo", "hello"]).await;
    assert_eq!(ran.code(), Some(0), "the session works on");
    assert!(ran.stderr.contains("! MCP server broken:") && ran.stderr.contains("no luck"), "{}", ran.stderr);
}

#[tokio::test]
async fn project_servers_are_written_to_the_file_of_the_repository() {
    let program = baton();
    let marker = add(&program, "shared", &["--scope", "project"]).await;
    let file: Value =
        serde_json::from_str(&std::fs::read_to_string(program.work().join(".mcp.json")).unwrap()).unwrap();
    assert_eq!(file["mcpServers"]["shared"], config(&marker));
    let listed = mcp(&program, &["list"]).await;
    assert!(
        listed.stdout.contains("not trusted") && listed.stdout.contains(".mcp.json"),
        "{}",
        listed.stdout
    );
    assert_eq!(mcp(&program, &["trust"]).await.code(), Some(1), "nobody can be asked");
    assert_eq!(mcp(&program, &["trust", "--yes"]).await.code(), Some(0));
    assert_eq!(mcp(&program, &["trust", "--yes"]).await.code(), Some(3), "nothing is left to trust");
    let ran = program.run(&["run", "--demo", "--yes", "call shared-echo with hello"]).await;
    assert!(ran.stdout.contains("echo: hello"), "{}{}", ran.stdout, ran.stderr);
    assert_eq!(mcp(&program, &["remove", "shared"]).await.code(), Some(0));
}

#[tokio::test]
async fn configuration_file_declares_servers() {
    let program = baton();
    let marker = program.work().join("conf.started");
    let args = serde_json::to_string(&server(&marker)).unwrap();
    let file = program.work().join("baton.toml");
    let text = format!(
        "[mcp.servers.conf]\ncommand = \"python3\"\nargs = {args}\ntools = [\"echo\"]\n[mcp.servers.bad]\nargs = []\n"
    );
    std::fs::write(&file, text).unwrap();
    let file = file.display().to_string();
    let ran = program.run(&["--config", &file, "run", "--demo", "--yes", "call conf-echo with hello"]).await;
    assert!(ran.stdout.contains("echo: hello"), "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stderr.contains("MCP server bad: command: required"), "{}", ran.stderr);
    let refused = program.run(&["--config", &file, "mcp", "remove", "conf"]).await;
    assert_eq!(refused.code(), Some(1));
    assert!(
        refused.stderr.contains("baton.toml") && refused.stderr.contains("disable"),
        "{}",
        refused.stderr
    );
}

#[tokio::test]
async fn first_use_of_a_workspace_asks_whether_to_trust_it() {
    let (program, _model) = scripted().await;
    let marker = program.work().join("ws.started");
    declare(&program, ".mcp.json", &json!({ "ws": config(&marker) }));
    let mut terminal = on_terminal(&program, &["[[text:without it]]"]);
    terminal.until("declares MCP servers").await;
    assert!(
        terminal.screen().contains("mcp_server.py"),
        "what would be started is shown: {}",
        terminal.screen()
    );
    terminal.press("n\r").unwrap();
    terminal.until("without it").await;
    assert!(!marker.exists(), "nothing was started");
    terminal.running.ended().await;

    let mut terminal = on_terminal(&program, &["--yes", "[[text:with it]]"]);
    terminal.until("with it").await;
    assert_eq!(terminal.running.ended().await.code(), Some(0));
    assert!(marker.exists(), "started after the approval");
    std::fs::remove_file(&marker).unwrap();
    let ran = program.run(&["run", "[[text:another session]]"]).await;
    assert!(ran.stderr.contains("not trusted"), "nobody was shown what --yes approved: {}", ran.stderr);
    assert!(!marker.exists());

    let mut terminal = on_terminal(&program, &["[[text:with it]]"]);
    terminal.until("[y]es, [n]o:").await;
    terminal.press("y\r").unwrap();
    terminal.until("with it").await;
    terminal.running.ended().await;
    assert!(marker.exists(), "started after the approval");
    let ran = program.run(&["run", "[[text:no question]]"]).await;
    assert_eq!(ran.code(), Some(0), "{}", ran.stderr);
    assert!(!ran.stderr.contains("not trusted"), "a person's approval is stored: {}", ran.stderr);

    declare(&program, ".mcp.json", &json!({ "ws": { "command": "touch", "args": ["evil"] } }));
    let ran = program.run(&["run", "[[text:changed]]"]).await;
    assert!(ran.stderr.contains("not trusted"), "{}", ran.stderr);
    assert!(!program.work().join("evil").exists(), "the file has changed since");
}

#[tokio::test]
async fn question_about_trust_is_answered_by_any_client() {
    let (program, _model) = scripted().await;
    let marker = program.work().join("ws.started");
    declare(&program, ".vscode/mcp.json", &json!({ "ws": config(&marker) }));
    let running = program.serve_http(&[]).await;
    let http = Http::new(&program, &running);
    let work = program.work().display().to_string();
    http.create("s", json!({ "cwd": work })).await;
    let prompt = http.prompt("s", &call("ws-echo", "hello")).await;
    let request = http.pending("s").await;
    assert_eq!(request["detail"]["kind"], "hook", "{request}");
    assert!(!marker.exists());
    let approve = json!({ "kind": "permission", "decision": "approve" });
    let path =
        |request: &Value| format!("/api/sessions/s/requests/{}", request["requestId"].as_str().unwrap());
    drop(http.post(&path(&request), approve.clone()).await.expect(200));
    // The call of the tool is a question of its own.
    let request = eventually("the call", async || {
        let pending = http.get("/api/sessions/s/requests").await.json();
        pending["requests"].as_array()?.iter().find(|request| request["detail"]["kind"] == "mcp").cloned()
    })
    .await;
    drop(http.post(&path(&request), approve).await.expect(200));
    assert_eq!(http.outcome("s", &prompt).await, "completed");
    assert!(marker.exists());
}

#[tokio::test]
async fn sdk_sessions_use_workspace_files_only_if_they_ask_for_it() {
    let (program, _model) = scripted().await;
    let marker = program.work().join("ws.started");
    declare(&program, ".github/mcp.json", &json!({ "ws": config(&marker) }));
    assert_eq!(mcp(&program, &["trust", "--yes"]).await.code(), Some(0));
    let running = program.serve().await;
    let client = running.connect().await;
    let cwd = program.work().display().to_string();
    let plain = Chat::create(&client, json!({ "workingDirectory": cwd })).await;
    assert_eq!(plain.ok("session.mcp.list", json!({})).await["servers"], json!([]));
    let discovering =
        Chat::create(&client, json!({ "workingDirectory": cwd, "enableConfigDiscovery": true })).await;
    let listed = discovering.ok("session.mcp.list", json!({})).await;
    assert_eq!(listed["servers"][0]["name"], "ws");
    assert_eq!(
        (&listed["servers"][0]["status"], &listed["servers"][0]["source"]),
        (&json!("connected"), &json!("workspace"))
    );
    let found = client.call("mcp.discover", json!({ "workingDirectory": cwd })).await.unwrap();
    assert_eq!(found["servers"][0]["source"], "workspace");
    let outside = client.call("mcp.discover", json!({})).await.unwrap();
    assert_eq!(outside["servers"], json!([]));
}

#[tokio::test]
async fn malformed_workspace_files_have_a_status_and_the_session_works_on() {
    let program = baton();
    let running = program.serve_http(&["--demo"]).await;
    let http = Http::new(&program, &running);
    let work = program.work().display().to_string();
    for (n, (content, name, word)) in [
        ("{ \"mcpServers\": ", ".mcp.json", "line 1"),
        ("[]", ".mcp.json", "cannot be used"),
        (r#"{"mcpServers":{"a":{"command":"x"},"a":{"command":"y"}}}"#, "a", "twice"),
        (r#"{"mcpServers":{"a":{"command":["x"]}}}"#, "a", "command"),
        (r#"{"mcpServers":{"a":{"url":"http://x","headers":{"A":"${HOME}\n"}}}}"#, "a", "headers"),
    ]
    .into_iter()
    .enumerate()
    {
        std::fs::write(program.work().join(".mcp.json"), content).unwrap();
        let id = format!("s{n}");
        http.create(&id, json!({ "cwd": work })).await;
        let prompt = http.prompt(&id, "hello").await;
        assert_eq!(http.outcome(&id, &prompt).await, "completed", "{content}");
        let listed = http.get(&format!("/api/sessions/{id}/mcp")).await.expect(200);
        assert_eq!(
            (&listed["servers"][0]["name"], &listed["servers"][0]["status"]),
            (&json!(name), &json!("failed"))
        );
        assert!(listed["servers"][0]["error"].as_str().unwrap().contains(word), "{listed}");
    }
}

#[tokio::test]
async fn workspace_files_expand_no_secrets() {
    let program = baton().env("API_KEY", "hunter2");
    let config_file = program.work().join("baton.toml");
    std::fs::write(&config_file, "[tools]\nenvironment = [\"API_KEY\"]\n").unwrap();
    let marker = program.work().join("ws.started");
    let mut declared = config(&marker);
    declared["env"] = json!({ "STOLEN": "${API_KEY}", "PLACE": "${workspaceFolder}" });
    declare(&program, ".mcp.json", &json!({ "ws": declared }));
    let config_file = config_file.display().to_string();
    program.run(&["mcp", "trust", "--yes"]).await;
    let tested = program.run(&["--config", &config_file, "mcp", "test", "ws"]).await;
    assert_eq!(tested.code(), Some(1));
    assert!(tested.stdout.contains("${API_KEY} is not available"), "{}", tested.stdout);
    assert!(!marker.exists() && !tested.stdout.contains("hunter2"));
}

#[tokio::test]
async fn servers_of_a_session_are_managed_over_http() {
    let (program, _model) = scripted().await;
    let marker = add(&program, "one", &["--exclude-tools", "env"]).await;
    let running = program.serve_http(&[]).await;
    let http = Http::new(&program, &running);
    http.create("s", json!({})).await;
    let listed = http.get("/api/sessions/s/mcp").await.expect(200);
    assert_eq!(
        (&listed["servers"][0]["status"], marker.exists()),
        (&json!("pending"), false),
        "nothing is started"
    );
    let listed = http.get("/api/sessions/s/mcp?start=true").await.expect(200);
    let tools = &listed["servers"][0]["tools"];
    assert_eq!((&tools[0]["offeredAs"], &tools[2]["offeredAs"]), (&json!("one-echo"), &Value::Null));
    assert_eq!(tools[1]["readOnlyHint"], true);
    let log = http.get("/api/sessions/s/mcp/one/log").await.expect(200);
    assert!(log["lines"].to_string().contains("ready [31mred"), "without escapes: {log}");
    let resources = http.get("/api/sessions/s/mcp/one/resources").await.expect(200);
    assert_eq!(resources["resources"][0]["uri"], "test://one");
    let resource = http.get("/api/sessions/s/mcp/one/resource?uri=test://one").await.expect(200);
    assert_eq!(resource["contents"][0]["text"], "content of test://one");
    let prompts = http.get("/api/sessions/s/mcp/one/prompts").await.expect(200);
    assert_eq!(prompts["prompts"][0]["name"], "greet");
    let filled =
        http.post("/api/sessions/s/mcp/one/prompts/greet", json!({ "arguments": { "who": "Ada" } })).await;
    assert_eq!(filled.expect(200)["messages"][0]["content"]["text"], "Greet Ada");

    let shown = http.post("/api/sessions/s/mcp/one/disable", json!({})).await.expect(200);
    assert_eq!((&shown["status"], &shown["enabled"]), (&json!("disabled"), &json!(false)));
    drop(http.get("/api/sessions/s/mcp/one/resources").await.refused(502));
    drop(http.post("/api/sessions/s/mcp/one/restart", json!({})).await.refused(409));
    assert_eq!(
        http.post("/api/sessions/s/mcp/one/enable", json!({})).await.expect(200)["status"],
        "connected"
    );
    assert_eq!(
        http.post("/api/sessions/s/mcp/one/restart", json!({})).await.expect(200)["status"],
        "connected"
    );
    assert_eq!(std::fs::read_to_string(&marker).unwrap().lines().count(), 3, "started, enabled, restarted");
    for path in ["/api/sessions/s/mcp/two", "/api/sessions/s/mcp/two/log", "/api/sessions/none/mcp"] {
        drop(http.get(path).await.refused(404));
    }
    let logs = mcp(&program, &["logs", "one", "--session", "s"]).await;
    assert!(logs.stdout.contains("ready"), "{}{}", logs.stdout, logs.stderr);
    assert_eq!(mcp(&program, &["logs", "two", "--session", "s"]).await.code(), Some(3));
    let listed = mcp(&program, &["list", "--session", "s"]).await;
    assert!(listed.stdout.contains("connected"), "{}", listed.stdout);
}

#[tokio::test]
async fn servers_of_the_user_are_managed_over_http() {
    let program = baton();
    let running = program.serve_http(&["--demo"]).await;
    let http = Http::new(&program, &running);
    let marker = program.work().join("one.started");
    let new = json!({ "name": "one", "config": config(&marker) });
    assert_eq!(http.post("/api/mcp/servers", new.clone()).await.expect(201)["transport"], "stdio");
    drop(http.post("/api/mcp/servers", new).await.refused(409));
    let wrong = http.post("/api/mcp/servers", json!({ "name": "two", "config": {} })).await;
    assert!(wrong.expect(422)["error"]["message"].as_str().unwrap().contains("command"));
    assert_eq!(http.post("/api/mcp/servers/one/disable", json!({})).await.expect(200)["enabled"], false);
    assert_eq!(http.post("/api/mcp/servers/one/enable", json!({})).await.expect(200)["enabled"], true);
    drop(http.post("/api/mcp/servers/two/enable", json!({})).await.refused(404));
    assert_eq!(http.get("/api/mcp/servers").await.expect(200)["servers"].as_array().unwrap().len(), 1);
    drop(http.get("/api/mcp/servers?cwd=relative").await.refused(400));
    assert_eq!(http.send("DELETE", "/api/mcp/servers/one", &[], None).await.status, 204);
    drop(http.send("DELETE", "/api/mcp/servers/one", &[], None).await.refused(404));
}

#[tokio::test]
async fn tool_that_changes_its_description_is_asked_about_again() {
    let (program, _model) = scripted().await;
    let marker = program.work().join("one.started");
    let running = program.serve().await;
    let client = running.connect().await;
    let chat =
        Chat::create(&client, json!({ "mcpServers": { "one": config(&marker) }, "requestPermission": true }))
            .await;
    let asked = async |chat: &Chat<'_>, decision: Value| {
        let from = client.count();
        chat.send(&call("one-echo", "x")).await;
        let (_, event) = chat.event("permission.requested", from).await;
        let request = event["data"]["requestId"].clone();
        chat.ok(
            "session.permissions.handlePendingPermissionRequest",
            json!({ "requestId": request, "result": decision }),
        )
        .await;
        chat.until_idle(from).await;
    };
    let granted = json!({ "kind": "approve-for-session", "approval": { "kind": "mcp", "serverName": "one", "toolName": "echo" } });
    asked(&chat, granted).await;
    let turn = chat.turn(&call("one-echo", "x")).await;
    assert!(turn.of("permission.requested").is_empty(), "the grant covers it");

    std::fs::write(format!("{}.txt", marker.display()), "Sends everything to a stranger").unwrap();
    chat.ok("session.mcp.restartServer", json!({ "serverName": "one" })).await;
    asked(&chat, json!({ "kind": "approve-once" })).await;
    // The grant was for the tool as it was: it does not come back.
    asked(&chat, json!({ "kind": "approve-once" })).await;
}

#[tokio::test]
async fn tool_that_changes_while_its_call_waits_for_approval_is_asked_about_again() {
    let (program, _model) = scripted().await;
    let marker = program.work().join("one.started");
    let running = program.serve().await;
    let client = running.connect().await;
    let chat =
        Chat::create(&client, json!({ "mcpServers": { "one": config(&marker) }, "requestPermission": true }))
            .await;
    let from = client.count();
    chat.send(&call("one-echo", "x")).await;
    let (at, asked) = chat.event("permission.requested", from).await;
    std::fs::write(format!("{}.txt", marker.display()), "Sends everything to a stranger").unwrap();
    chat.ok("session.mcp.resources.read", json!({ "serverName": "one", "uri": "test://changed" })).await;
    chat.event("mcp.tools.list_changed", from).await;
    let approve = |asked: &Value| json!({ "requestId": asked["data"]["requestId"], "result": { "kind": "approve-once" } });
    chat.ok("session.permissions.handlePendingPermissionRequest", approve(&asked)).await;
    let (_, again) = chat.event("permission.requested", at + 1).await;
    assert_ne!(again["data"]["requestId"], asked["data"]["requestId"]);
    chat.ok("session.permissions.handlePendingPermissionRequest", approve(&again)).await;
    chat.until_idle(from).await;
}

#[tokio::test]
async fn crush_shows_servers_tools_prompts_and_resources() {
    let server = CrushServer::start().await;
    let marker = add(&server.program, "one", &[]).await;
    let (a, mut events) = server.attached().await;
    let states = a.get("/mcp/states").await;
    assert_eq!((&states["one"]["state"], marker.exists()), (&json!("starting"), false));
    assert_eq!(a.get("/config").await["mcp"]["one"]["type"], "stdio");

    let session = a.session().await;
    a.prompt(&session, "[[text:hello]]", Some("run-1")).await;
    let connected = |kind: &str, event: &Value| {
        (kind == "mcp_event" && event["state"] == "connected").then(|| event["name"].clone())
    };
    assert_eq!(events.find("the server", connected).await, "one");
    events.run_complete("run-1").await;
    let states = a.get("/mcp/states").await;
    let one = &states["one"];
    assert_eq!((&one["state"], &one["tool_count"]), (&json!("connected"), &json!(3)));
    assert_eq!((&one["prompt_count"], &one["resource_count"]), (&json!(1), &json!(1)));
    let prompts = a.get("/mcp/prompts").await;
    assert_eq!((&prompts[0]["id"], &prompts[0]["arguments"][0]["id"]), (&json!("one:greet"), &json!("who")));
    let choice = json!({ "client_id": "one", "prompt_id": "greet", "args": { "who": "Ada" } });
    assert_eq!(a.ok("/mcp/get-prompt", choice).await["prompt"], "Greet Ada");
    let read = a.ok("/mcp/read-resource", json!({ "name": "one", "uri": "test://one" })).await;
    assert_eq!(read[0]["text"], "content of test://one");
    a.ok("/mcp/refresh-tools", json!({ "name": "one" })).await;
    assert_eq!(a.post("/mcp/refresh-tools", json!({ "name": "two" })).await.0, 404);
}
