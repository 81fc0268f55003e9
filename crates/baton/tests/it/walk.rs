//! What a newcomer meets on the command line: lost output, sessions that are not there, engines, words.

use std::process::Stdio;

use baton_testkit::http::Http;
use baton_testkit::program::Program;
use baton_testkit::terminal::Terminal;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::{baton, scripted};

/// Runs the program in a shell script, as `"$@"`.
async fn in_shell(program: &Program, script: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let baton = program.command(arguments);
    let baton = baton.as_std();
    let mut shell = Command::new("sh");
    shell.args(["-c", script, "sh"]).arg(baton.get_program()).args(baton.get_args()).env_clear();
    shell.envs(baton.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ran = shell.current_dir(program.work()).stdin(Stdio::null()).output().await.unwrap();
    (ran.status.code(), String::from_utf8_lossy(&ran.stderr).into_owned())
}

#[tokio::test]
async fn lost_output_is_an_error_with_its_own_exit_code() {
    let (program, _model) = scripted().await;
    for arguments in [&["run", "--quiet", "[[text:hello]]"][..], &["run", "--json", "[[text:hello]]"]] {
        let (code, errors) = in_shell(&program, r#"exec "$@" > /dev/full"#, arguments).await;
        assert_eq!(code, Some(7), "{arguments:?}: {errors}");
        assert!(errors.contains("cannot write to the standard output: no storage space"), "{errors}");
    }
    let sessions = list(&program).await;
    let id = sessions["sessions"][0]["id"].as_str().unwrap();
    for arguments in [&["sessions", "list"][..], &["sessions", "export", id], &["sessions", "show", id]] {
        let (code, errors) = in_shell(&program, r#"exec "$@" > /dev/full"#, arguments).await;
        assert_eq!(code, Some(7), "{arguments:?}: {errors}");
    }
}

#[tokio::test]
async fn closed_pipe_ends_quietly() {
    let (program, _model) = scripted().await;
    let script = r#"{ "$@"; echo "code $?" >&2; } | true"#;
    for arguments in [&["run", "--quiet", "[[text:hello]]"][..], &["sessions", "list"]] {
        let (_, errors) = in_shell(&program, script, arguments).await;
        assert_eq!(errors, "code 0\n", "{arguments:?}");
    }
    let sessions = list(&program).await;
    let id = sessions["sessions"][0]["id"].as_str().unwrap();
    let (_, errors) = in_shell(&program, script, &["sessions", "show", id]).await;
    assert_eq!(errors, "code 0\n");
}

async fn list(program: &Program) -> Value {
    let listed = program.run(&["sessions", "list", "--json"]).await;
    serde_json::from_str(&listed.stdout).unwrap()
}

#[tokio::test]
async fn listed_sessions_have_the_field_names_of_the_http_api() {
    let (program, _model) = scripted().await;
    let server = program.serve_http(&[]).await;
    assert_eq!(program.run(&["run", "about apples [[text:hello]]"]).await.code(), Some(0));
    let listed = list(&program).await["sessions"][0].clone();
    let http = Http::new(&program, &server).get("/api/sessions").await.expect(200);
    let of_http = &http["sessions"][0];
    for name in ["id", "title", "cwd", "repository", "branch", "createdAt", "updatedAt", "model"] {
        assert_eq!(listed[name], of_http[name], "{name}: {listed} {of_http}");
    }
    assert_eq!(listed["title"], "about apples [[text:hello]]");
}

#[tokio::test]
async fn session_that_does_not_exist_has_one_exit_code_everywhere() {
    let (program, _model) = scripted().await;
    let commands = [
        &["run", "--session", "nobody", "hello"][..],
        &["run", "--continue", "hello"],
        &["sessions", "show", "nobody"],
        &["attach", "nobody"],
    ];
    for command in commands {
        let ran = program.run(command).await;
        assert_eq!(ran.code(), Some(3), "{command:?}: {ran:?}");
    }
    let _server = program.serve_http(&[]).await;
    for command in commands {
        let ran = program.run(command).await;
        assert_eq!(ran.code(), Some(3), "with a server: {command:?}: {ran:?}");
    }
}

/// Writes a program that answers as codex does.
async fn fake_codex(program: &Program) -> String {
    let codex = program.work().join("codex");
    let script = r#"#!/bin/sh
[ "$1" = --version ] && { echo codex-cli 0.166.0; exit; }
cat > /dev/null
echo '{"type":"thread.started","thread_id":"t-1"}'
echo '{"type":"item.completed","item":{"id":"i","type":"agent_message","text":"from codex"}}'
echo '{"type":"turn.completed","usage":{}}'
"#;
    // Another process writes it: one that is open for writing here cannot be executed.
    let mut write = Command::new("sh");
    write.args(["-c", r#"printf %s "$1" > "$0" && chmod +x "$0""#]).arg(&codex).arg(script);
    assert!(write.status().await.unwrap().success());
    let config = program.work().join("engines.toml");
    std::fs::write(&config, format!("[engines.codex]\nprogram = {codex:?}\nmode = \"exec\"\n")).unwrap();
    config.display().to_string()
}

#[tokio::test]
async fn continue_with_an_engine_means_the_last_session_of_that_engine() {
    let (program, _model) = scripted().await;
    let config = fake_codex(&program).await;
    let config = ["--config", config.as_str()];
    let run = async |more: &[&str]| program.run(&[&["run", "--quiet"], &config[..], more].concat()).await;
    for server in [false, true] {
        let _server = match server {
            true => Some(program.serve_http(&config).await),
            false => None,
        };
        let place: &[&str] = if server { &[] } else { &["--no-server"] };
        let run = async |more: &[&str]| run(&[place, more].concat()).await;
        assert_eq!(run(&["--engine", "codex", "hello"]).await.stdout, "from codex\n");
        let of_codex = list(&program).await["sessions"][0]["id"].clone();
        assert_eq!(run(&["[[text:own]]"]).await.stdout, "own\n");
        let own = list(&program).await["sessions"][0]["id"].clone();

        let continued = run(&["--continue", "--engine", "codex", "and on"]).await;
        assert_eq!(continued.stdout, "from codex\n", "{continued:?}");
        assert_eq!(list(&program).await["sessions"][0]["id"], of_codex, "not the session before it");
        let none = run(&["--continue", "--engine", "claude", "and on"]).await;
        assert_eq!(none.code(), Some(3), "{none:?}");
        assert!(none.stderr.contains("that claude has run"), "{none:?}");

        let other = run(&["--session", own.as_str().unwrap(), "--engine", "codex", "and on"]).await;
        assert_eq!(other.code(), Some(1), "{other:?}");
        assert!(other.stderr.contains("add --switch-engine to continue it with codex"), "{other:?}");
        let back = run(&["--session", of_codex.as_str().unwrap(), "--model", "scripted", "x"]).await;
        assert!(back.stderr.contains("was run by codex"), "{back:?}");
        let switched = ["--session", own.as_str().unwrap(), "--engine", "codex", "--switch-engine", "and on"];
        assert_eq!(run(&switched).await.stdout, "from codex\n");
    }
}

#[tokio::test]
async fn servers_of_a_home_are_listed_with_all_their_addresses() {
    let program = baton();
    let none = program.run(&["servers"]).await;
    assert!(none.code() == Some(0) && none.stderr.contains("no server of this home runs"), "{none:?}");
    let server = program.serve_http(&[]).await;
    let listed = program.run(&["servers", "--json"]).await;
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    let addresses = listed["servers"][0]["clientAddresses"].to_string();
    let http = server.http.unwrap().to_string();
    for part in [http.as_str(), "unix://", "(SDKs)"] {
        assert!(addresses.contains(part), "{part}: {addresses}");
    }
    assert!(program.run(&["servers"]).await.stdout.contains(&http));
}

#[tokio::test]
async fn server_ends_itself_when_it_is_idle_and_nothing_is_pending() {
    let (program, _model) = scripted().await;
    let mut server = program.serve_http(&["--exit-when-idle", "1s"]).await;
    let http = Http::new(&program, &server);
    http.create("s", json!({"cwd": program.work()})).await;
    http.prompt("s", r#"[[tool:bash {"command":"echo one > made"}]]"#).await;
    let request = http.pending("s").await["requestId"].as_str().unwrap().to_owned();
    let mut watching = http.events("s", 0).await;
    let yes = json!({"kind": "permission", "decision": "approve"});
    let _ = http.post(&format!("/api/sessions/s/requests/{request}"), yes).await.expect(200);
    watching.kind("session.idle").await;
    drop(watching);
    assert!(server.ended().await.success(), "nobody uses it any more");
    assert_eq!(program.run(&["serve", "--exit-when-idle", "soon"]).await.code(), Some(2));
}

/// Starts a command on a terminal of this many columns.
fn on_terminal(program: &Program, columns: u16, arguments: &[&str]) -> Terminal {
    let baton = program.command(arguments);
    let baton = baton.as_std();
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("stty cols {columns}; exec \"$@\""), "sh"]);
    shell.arg(baton.get_program()).args(baton.get_args()).env_clear();
    shell.envs(baton.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.current_dir(program.work());
    Terminal::start(&shell).unwrap()
}

#[tokio::test]
async fn audit_cuts_no_reason_on_a_narrow_terminal() {
    let (program, _model) = scripted().await;
    let prompt = r#"[[tool:bash {"command":"echo a command that is quite a bit longer than a row of it"}]]"#;
    assert_eq!(program.run(&["run", "--yes", prompt]).await.code(), Some(0));
    let whole = program.run(&["audit"]).await.stdout;
    let mut terminal = on_terminal(&program, 80, &["audit"]);
    assert!(terminal.running.ended().await.success());
    terminal.until("longer than").await;
    let words = |text: &str| -> Vec<String> { text.split_whitespace().map(ToOwned::to_owned).collect() };
    let shown = words(&terminal.screen());
    let longest = whole.lines().max_by_key(|line| line.len()).unwrap();
    let detail = longest.split("  ").filter(|cell| !cell.trim().is_empty()).last().unwrap();
    for word in words(detail) {
        assert!(shown.contains(&word), "{word}: {}", terminal.screen());
    }
    let rows = terminal.screen();
    assert!(shown.windows(2).any(|pair| pair == ["approves", "everything"]), "{rows}");
    assert!(rows.lines().all(|row| row.trim_end().chars().count() <= 80 && !row.contains('…')), "{rows}");
}

#[tokio::test]
async fn shown_session_has_a_heading_and_breaks_lines_between_words() {
    let (program, _model) = scripted().await;
    let prompt = "a question of many words that does not fit into one row of a narrow terminal at all";
    assert_eq!(program.run(&["run", &format!("{prompt} [[text:fine]]")]).await.code(), Some(0));
    let id = list(&program).await["sessions"][0]["id"].as_str().unwrap().to_owned();
    let shown = program.run(&["sessions", "show", &id]).await.stdout;
    assert!(shown.starts_with(prompt) && shown.lines().nth(1).unwrap().contains(&id), "{shown}");
    assert!(shown.lines().nth(1).unwrap().contains(" · scripted · "), "{shown}");
    let mut terminal = on_terminal(&program, 40, &["sessions", "show", &id]);
    assert!(terminal.running.ended().await.success());
    terminal.until("fine").await;
    let screen = terminal.screen();
    let all: Vec<&str> = prompt.split(' ').collect();
    let question = screen.lines().skip_while(|row| !row.starts_with("> ")).take(4);
    let words: Vec<&str> = question.flat_map(|row| row.trim_start_matches("> ").split_whitespace()).collect();
    assert!(words.starts_with(&all), "{screen}");
}
