//! Private files and secrets: other users cannot read what Baton writes, and commands do not see Baton's keys.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use baton_testkit::chat::Chat;
use baton_testkit::processes::Marker;
use baton_testkit::program::{MODEL_KEY, Program, Running};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::{baton, eventually, scripted};

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

/// All files below a directory that other users can access.
fn open_to_others(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let found = entries.flat_map(|path| {
        let below = if path.is_dir() && !path.is_symlink() { open_to_others(&path) } else { Vec::new() };
        let own = (mode(&path) & 0o077 != 0).then(|| format!("{} {:o}", path.display(), mode(&path)));
        below.into_iter().chain(own)
    });
    found.collect()
}

fn call(tool: &str, arguments: &Value) -> String {
    format!("[[tool:{tool} {arguments}]]")
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[tokio::test]
async fn home_is_private_whatever_the_umask() {
    let (program, _model) = scripted().await;
    let program = program.in_sandbox("umask 000");
    fs::remove_dir(program.home()).unwrap();
    let socket = program.home().join("door.sock");
    // A first server creates the token.
    drop(program.serve_http(&[]).await);
    let arguments = ["serve", "--insecure-no-token", "--port", "0", "--socket", socket.to_str().unwrap()];
    let server = program.serve_with(&arguments).await;
    let client = server.connect().await;
    fs::write(program.work().join("old"), "old").unwrap();
    let session = json!({"workingDirectory": program.work(), "enableFileChangeTracking": true});
    let chat = Chat::trusting(&client, session).await;
    let directory = program.home().join("session-state").join(&chat.id);
    chat.ok("session.permissions.folderTrust.addTrusted", json!({"path": program.work()})).await;
    chat.ok("session.plan.update", json!({"content": "1. stay private"})).await;
    chat.ok("session.workspaces.createFile", json!({"path": "notes/a.txt", "content": "a"})).await;
    for prompt in [
        call("bash", &json!({"command": "head -c 200000 /dev/zero | tr '\\0' 'x'; echo; seq 200000"})),
        call(
            "sql",
            &json!({"query": "insert into todos (id, title) values ('a', 'b')", "description": "note"}),
        ),
        call("edit", &json!({"path": program.work().join("old"), "old_str": "old", "new_str": "new"})),
        call("create", &json!({"path": directory.join("files/deep/plan.txt"), "file_text": "x"})),
    ] {
        chat.turn(&prompt).await;
    }
    let expected = [
        "events.jsonl",
        "workspace.yaml",
        "session.db",
        "rewind",
        "plan.md",
        "temp",
        "files/notes/a.txt",
        "files/deep/plan.txt",
    ];
    for name in expected {
        assert!(directory.join(name).exists(), "{name} is missing: the test would show nothing");
    }
    assert!(
        socket.exists() && program.home().join("servers").exists() && program.home().join("token").exists()
    );
    assert_eq!(open_to_others(program.home()), Vec::<String>::new());
    assert_eq!(mode(program.home()), 0o700);
}

#[tokio::test]
async fn files_of_an_earlier_version_become_private_and_foreign_files_stay() {
    let (program, _model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::create(&client, json!({"workingDirectory": program.work()})).await;
    chat.turn("[[text:hello]]").await;
    let sessions = program.home().join("session-state");
    let (own, foreign) = (sessions.join(&chat.id), sessions.join("of-another-program"));
    drop((client, server));
    fs::create_dir(&foreign).unwrap();
    for file in [own.join("events.jsonl"), foreign.join("events.jsonl"), program.home().join("config.json")] {
        fs::OpenOptions::new().create(true).append(true).open(&file).unwrap();
        set_mode(&file, 0o644);
    }
    for directory in [&own, &foreign, &sessions, &program.home().to_owned()] {
        set_mode(directory, 0o755);
    }
    set_mode(&program.database(), 0o644);

    let _server = program.serve().await;
    eventually("a private session directory", async || (mode(&own) == 0o700).then_some(())).await;
    assert_eq!(mode(&own.join("events.jsonl")), 0o600);
    assert_eq!((mode(program.home()), mode(&program.database())), (0o700, 0o600));
    assert_eq!((mode(&foreign), mode(&foreign.join("events.jsonl"))), (0o755, 0o644));
    assert_eq!(mode(&program.home().join("config.json")), 0o644);
}

#[tokio::test]
async fn files_created_by_tools_have_the_users_umask() {
    let (program, _model) = scripted().await;
    let program = program.in_sandbox("umask 027");
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::trusting(&client, json!({"workingDirectory": program.work()})).await;
    chat.turn(&call("bash", &json!({"command": "echo x > by-bash; mkdir directory"}))).await;
    let created = program.work().join("below/by-create");
    chat.turn(&call("create", &json!({"path": created, "file_text": "x"}))).await;
    let made =
        ["by-bash", "directory", "below", "below/by-create"].map(|name| mode(&program.work().join(name)));
    assert_eq!(made.map(|mode| format!("{mode:o}")), ["640", "750", "750", "640"]);
}

#[tokio::test]
async fn commands_see_listed_and_configured_variables() {
    let (program, _model) = scripted().await;
    let file = program.work().join("config.toml");
    fs::write(&file, "[tools]\nenvironment = [\"MY_*\", \"GH_TOKEN\"]\n[model]\napi_key_env = \"MY_KEY\"\n")
        .unwrap();
    let program = program
        .env("LC_ALL", "C.UTF-8")
        .env("SSH_AUTH_SOCK", "/agent")
        .env("AWS_SECRET_ACCESS_KEY", "aws-secret")
        .env("MY_SETTING", "mine")
        .env("MY_KEY", "a-provider-key-of-mine")
        .env("MY_ALIAS", MODEL_KEY)
        .env("GH_TOKEN", "gh-token")
        .env("BATON_TOKEN", "baton-token");
    let prompt = call("bash", &json!({"command": "env"}));
    for level in ["off", "workspace"] {
        let config = file.to_str().unwrap();
        let done =
            program.run(&["run", "--json", "--yes", "--sandbox", level, "--config", config, &prompt]).await;
        let seen = tool_result(&done.json_lines());
        for shown in ["LC_ALL=C.UTF-8", "MY_SETTING=mine", "GH_TOKEN=gh-token", "BATON_HOME="] {
            assert!(seen.contains(shown), "{shown} is missing: {seen}");
        }
        for hidden in ["AWS_SECRET", "MY_KEY", "MY_ALIAS", "OPENAI_", "baton-token"] {
            assert!(!seen.contains(hidden), "{hidden} is visible: {seen}");
        }
        assert_eq!(
            seen.contains("SSH_AUTH_SOCK=/agent"),
            level == "off",
            "nothing leads to the agent: {seen}"
        );
    }
}

fn tool_result(events: &[Value]) -> String {
    let complete = events.iter().find(|event| event["type"] == "tool.execution_complete");
    complete.unwrap_or_else(|| panic!("no tool ran: {events:?}"))["data"].to_string()
}

/// The program's command, run by a user other than root, who owns its directories.
fn as_other_user(program: &Program, arguments: &[&str]) -> Command {
    let mut original = program.clone().env("BATON_DUMPABLE", "").command(arguments);
    if !rustix::process::geteuid().is_root() {
        return original;
    }
    const NOBODY: u32 = 65534;
    let root = program.work().parent().unwrap().to_owned();
    for directory in [root.clone(), program.work()] {
        std::os::unix::fs::chown(&directory, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    // Other users may not be able to read the build directory.
    let copy = root.join("baton");
    if !copy.exists() {
        fs::copy(env!("CARGO_BIN_EXE_baton"), &copy).unwrap();
    }
    let original = original.as_std_mut();
    let mut command = Command::new("setpriv");
    command.stdin(Stdio::null());
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(copy).args(original.get_args());
    command.env_clear().envs(original.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(program.work()).kill_on_drop(true);
    command
}

#[tokio::test]
async fn commands_cannot_read_environment_and_memory_of_the_server() {
    let (program, _model) = scripted().await;
    let command = "id -u; for f in environ mem maps fd/0; do head -c 1 /proc/$PPID/$f >/dev/null && echo OPENED $f; done; \
                   tr '\\0' '\\n' < /proc/$PPID/environ; echo done";
    let prompt = call("bash", &json!({ "command": command }));
    let done = as_other_user(&program, &["run", "--json", "--yes", &prompt]).output().await.unwrap();
    let text = String::from_utf8(done.stdout).unwrap();
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let seen = tool_result(&events);
    assert!(seen.contains("done") && seen.contains("Permission denied"), "{seen}");
    assert!(!seen.contains("OPENED ") && !seen.contains("OPENAI_"), "{seen}");
}

#[tokio::test]
async fn processes_of_a_killed_server_are_ended_without_root() {
    let (program, _model) = scripted().await;
    let marker = Marker::new();
    let command = format!("export MARK={}; (setsid sleep 600 &); sleep 600", marker.word());
    let prompt = call("bash", &json!({"command": command, "initial_wait": 600}));
    let mut killed = Running::spawn(as_other_user(&program, &["run", "--yes", &prompt]));
    marker.until_at_least(2).await;
    killed.kill().await;
    let mut next = as_other_user(&program, &["--headless", "--stdio"]);
    next.stdin(Stdio::piped());
    let _next = Running::spawn(next);
    marker.until_gone("the next server has started").await;
}

#[tokio::test]
async fn keys_of_the_server_are_redacted_in_tool_results() {
    let (program, _model) = scripted().await;
    fs::write(program.work().join("leak"), format!("key={MODEL_KEY};")).unwrap();
    let prompt = call("bash", &json!({"command": "cat leak"}));
    let done = program.run(&["run", "--json", "--yes", &prompt]).await;
    let seen = tool_result(&done.json_lines());
    assert!(seen.contains("key=[REDACTED];"), "{seen}");
    assert!(!done.stdout.contains(MODEL_KEY), "{}", done.stdout);
}

#[tokio::test]
async fn import_reports_what_it_drops() {
    let program = baton();
    let event = |n: u8, kind: &str, data: Value| {
        let id = format!("0190c2f0-0000-7000-8000-0000000000{n:02}");
        json!({"type": kind, "data": data, "id": id, "timestamp": "2026-11-15T20:30:53.223Z", "parentId": null}).to_string()
    };
    let start = json!({"sessionId": "s", "version": 1, "producer": "x", "copilotVersion": "1",
                       "startTime": "2026-11-15T20:30:53.223Z"});
    let lines = [
        event(1, "session.start", start),
        event(2, "session.permissions_changed", json!({"previousMode": "manual", "mode": "allow-all"})),
    ];
    let file = program.work().join("events.jsonl");
    fs::write(&file, lines.join("\n")).unwrap();
    let done = program.run(&["sessions", "import", file.to_str().unwrap()]).await;
    assert_eq!(done.code(), Some(0));
    assert!(done.stderr.contains("permission mode does not count here"), "{}", done.stderr);
}

/// Writes a program that records its environment and fails.
async fn engine_that_records_its_environment(program: &Program, name: &str, version: &str) -> PathBuf {
    let path = program.work().join(name);
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && {{ echo '{version}'; exit; }}\nenv > {name}.env\nexit 1\n"
    );
    // Another process writes it: one that is open for writing here cannot be executed.
    let mut write = Command::new("sh");
    write.args(["-c", r#"printf %s "$1" > "$0" && chmod +x "$0""#]).arg(&path).arg(script);
    assert!(write.status().await.unwrap().success());
    path
}

#[tokio::test]
async fn engine_sees_the_keys_of_its_own_models_only() {
    const KEYS: [&str; 3] = ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"];
    let program = KEYS.into_iter().fold(baton(), |program, key| program.env(key, format!("value-of-{key}")));
    for (name, version, own) in [
        ("codex", "codex-cli 0.166.0", "OPENAI_API_KEY"),
        ("claude", "2.1.0 (Claude Code)", "ANTHROPIC_API_KEY"),
    ] {
        let engine = engine_that_records_its_environment(&program, name, version).await;
        let config = program.work().join("engines.toml");
        fs::write(&config, format!("[engines.{name}]\nprogram = {engine:?}\nmode = \"exec\"\n")).unwrap();
        let ran =
            program.run(&["run", "--config", config.to_str().unwrap(), "--engine", name, "hello"]).await;
        let seen = fs::read_to_string(program.work().join(format!("{name}.env")));
        let seen = seen.unwrap_or_else(|error| panic!("{name} did not start: {error}: {}", ran.stderr));
        let keys: Vec<&str> =
            KEYS.into_iter().filter(|key| seen.contains(&format!("value-of-{key}"))).collect();
        assert_eq!(keys, [own], "{name}");
    }
}
