//! The command line for scripts: `--json` of commands that change something, and exit codes.

use std::path::Path;

use baton_testkit::program::{Finished, Program};
use serde_json::{Value, json};

use crate::baton;

/// Runs a command, given as words.
async fn run(program: &Program, line: &str) -> Finished {
    program.run(&line.split(' ').collect::<Vec<_>>()).await
}

/// Runs a command that prints one JSON object and nothing else.
async fn change(program: &Program, line: &str, code: i32) -> Value {
    let done = run(program, line).await;
    assert_eq!(done.code(), Some(code), "{line}: {done:?}");
    assert_eq!(done.stdout.lines().count(), 1, "{line}: {done:?}");
    let value: Value = serde_json::from_str(&done.stdout).unwrap();
    assert!(value.is_object(), "{line}: {done:?}");
    value
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

#[tokio::test]
async fn changes_of_sessions_are_printed_as_json() {
    let program = baton();
    let answered = run(&program, "run --demo --no-server hello").await;
    assert_eq!(answered.code(), Some(0), "{answered:?}");
    let all: Value = serde_json::from_str(&run(&program, "sessions list --json").await.stdout).unwrap();
    let id = all["sessions"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(run(&program, &format!("sessions export {id} -o s.jsonl")).await.code(), Some(0));

    let renamed = change(&program, &format!("sessions rename {id} the flaky test --json"), 0).await;
    assert_eq!(renamed, json!({ "renamed": id, "name": "the flaky test" }));
    let imported = change(&program, "sessions import s.jsonl --id copy --json", 0).await;
    assert_eq!((&imported["imported"], imported["events"].as_u64() > Some(2)), (&json!("copy"), true));
    let deleted = change(&program, &format!("sessions delete {id} copy --yes --json"), 0).await;
    assert_eq!(deleted, json!({ "deleted": [id, "copy"] }));
    assert_eq!(run(&program, "sessions delete copy --yes --json").await.code(), Some(3));

    let backup = change(&program, "backup b.tar --json", 0).await;
    assert_eq!((&backup["file"], &backup["sessions"]), (&json!("b.tar"), &json!(0)));
    let restored = change(&program, "restore b.tar --force --json", 0).await;
    assert_eq!(restored["sessions"], 0);
}

#[tokio::test]
async fn changes_of_settings_are_printed_as_json() {
    let program = baton();
    let work = program.work();
    write(&work.join(".github/skills/pdf/SKILL.md"), "---\nname: pdf\ndescription: Reads.\n---\nRead it.\n");
    write(&work.join("tool/.claude-plugin/plugin.json"), r#"{ "name": "tool", "version": "1" }"#);
    write(&work.join(".mcp.json"), r#"{ "mcpServers": { "theirs": { "command": "true" } } }"#);
    for (line, code, expected) in [
        ("mcp add files --json -- true", 0, json!({ "added": "files", "file": null })),
        ("mcp disable files --json", 0, json!({ "disabled": ["files"] })),
        ("mcp enable files --json", 0, json!({ "enabled": ["files"] })),
        ("mcp remove files --json", 0, json!({ "removed": "files" })),
        ("mcp trust --yes --json", 0, json!({ "trusted": [work.join(".mcp.json")] })),
        ("skills disable pdf --json", 0, json!({ "disabled": ["pdf"] })),
        ("skills enable pdf --json", 0, json!({ "enabled": ["pdf"] })),
        ("plugins disable tool --json", 0, json!({ "disabled": ["tool"] })),
        ("plugins uninstall tool --json", 0, json!({ "uninstalled": ["tool"] })),
        ("people remove ada --json", 0, json!({ "removed": "ada" })),
        ("grants revoke 0190c2f0 --json", 3, json!({ "revoked": null })),
        ("service uninstall --json", 3, json!({ "removed": null })),
        ("stop --json", 3, json!({ "stopped": [], "running": [] })),
    ] {
        match line.split(' ').collect::<Vec<_>>()[..2] {
            ["plugins", "disable"] => {
                let installed = run(&program, "plugins install ./tool --json").await;
                assert_eq!(installed.code(), Some(0), "{installed:?}");
            }
            ["people", "remove"] => {
                let added = change(&program, "people add ada --role viewer --json", 0).await;
                let renewed = change(&program, "people token ada --json", 0).await;
                assert_eq!((&added["name"], &renewed["role"]), (&json!("ada"), &json!("viewer")));
                assert_ne!(added["token"], renewed["token"]);
                let changed = change(&program, "people role ada driver --json", 0).await;
                assert_eq!(changed, json!({ "name": "ada", "role": "driver" }));
            }
            _ => {}
        }
        assert_eq!(change(&program, line, code).await, expected, "{line}");
    }
}

#[tokio::test]
async fn lists_are_printed_as_one_object_with_a_named_array() {
    let program = baton();
    for (line, name) in [
        ("sessions list --json", "sessions"),
        ("sessions search nothing --json", "sessions"),
        ("grants list --json", "sessions"),
        ("mcp list --json", "servers"),
        ("skills list --json", "skills"),
        ("skills path --json", "paths"),
        ("plugins list --json", "plugins"),
        ("plugins marketplace list --json", "marketplaces"),
        ("people list --json", "people"),
        ("notify test --json", "receivers"),
        ("doctor --json", "findings"),
    ] {
        let listed = run(&program, line).await;
        let list: Value = serde_json::from_str(&listed.stdout).unwrap();
        assert!(list[name].is_array(), "{line}: {listed:?}");
    }
}

#[tokio::test]
async fn service_without_systemd_is_reported_as_json() {
    let program = baton().env("PATH", "/nonexistent");
    let installed = change(&program, "service install --json", 3).await;
    assert!(installed["installed"].as_str().unwrap().ends_with("systemd/user/baton.service"), "{installed}");
    assert!(installed["problem"].as_str().unwrap().contains("systemctl"), "{installed}");
    assert_eq!(installed["commands"][0], "systemctl --user daemon-reload");
    assert_eq!(change(&program, "service uninstall --json", 3).await["removed"], installed["installed"]);
}

#[tokio::test]
async fn commands_without_a_server_or_session_have_an_exit_code_of_their_own() {
    let program = baton();
    for line in ["attach", "attach 3f2a", "attach --new", "link --json", "mcp list --session 3f2a"] {
        let done = run(&program, line).await;
        assert_eq!((done.code(), done.stdout.as_str()), (Some(3), ""), "{line}: {done:?}");
        assert!(done.stderr.contains("baton serve"), "{line}: {done:?}");
    }
    let unreachable = run(&program, "attach --url http://127.0.0.1:9").await;
    assert_eq!(unreachable.code(), Some(1));
    assert!(unreachable.stderr.contains("cannot attach at http://127.0.0.1:9: "), "{unreachable:?}");
}
