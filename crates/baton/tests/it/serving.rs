//! `baton serve` and what other commands say about it: readiness, warnings, retention, a second server.

use baton_testkit::http::Http;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::run::on_terminal;
use crate::{baton, scripted};

#[tokio::test]
async fn server_tells_the_service_manager_that_it_is_ready() {
    let program = baton();
    let socket = program.work().join("notify");
    let manager = tokio::net::UnixDatagram::bind(&socket).unwrap();
    let program = program.env("NOTIFY_SOCKET", &socket);
    let _server = program.serve_http(&["--demo"]).await;
    let mut buffer = [0; 64];
    let received = tokio::time::timeout(baton_testkit::client::LIMIT, manager.recv(&mut buffer)).await;
    let count = received.expect("the server reports").unwrap();
    assert_eq!(&buffer[..count], b"READY=1");
}

#[tokio::test]
async fn stop_leaves_a_run_that_holds_its_session_alone() {
    let (program, _model) = scripted().await;
    let prompt = r#"[[tool:bash {"command":"echo one > made"}]][[text:understood]]"#;
    let mut terminal = on_terminal(&program, &[prompt]);
    terminal.until("[y]es once").await;
    let stopped = program.run(&["stop"]).await;
    assert_eq!(stopped.code(), Some(3), "{stopped:?}");
    assert!(stopped.stderr.contains("no server is running"), "{stopped:?}");
    terminal.press("y\r").unwrap();
    terminal.until("\r\nunderstood\r\n").await;
    assert_eq!(terminal.running.ended().await.code(), Some(0));
    assert!(program.work().join("made").exists());
}

#[tokio::test]
async fn running_servers_are_shown_by_doctor_and_by_a_second_server() {
    let program = baton();
    let finding = async || {
        let checked = program.run(&["doctor", "--json"]).await;
        let checked: Value = serde_json::from_str(&checked.stdout).unwrap();
        let findings = checked["findings"].as_array().unwrap().clone();
        findings.into_iter().find(|finding| finding["what"] == "server").unwrap()
    };
    let none = finding().await;
    assert!(none["state"] == "note" && none["advice"].as_str().unwrap().contains("baton serve"), "{none}");
    let first = program.serve_http(&["--demo"]).await;
    let found = finding().await["detail"].as_str().unwrap().to_owned();
    let (pid, url) = (first.pid(), format!("http://{}", first.http.unwrap()));
    assert!(found.contains(&format!("process {pid}: {url}, unix://")), "{found}");
    assert!(!first.stderr().contains("another server"), "{}", first.stderr());

    let second = program.serve_http(&["--demo"]).await;
    second.until_stderr(&format!("another server of this home is running (process {pid})")).await;
}

#[tokio::test]
async fn addresses_are_announced_for_programs_and_with_warnings() {
    let program = baton();
    let mut command = program.command(&["serve", "--demo", "--port", "0", "--allow-host", "baton.example"]);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut server = baton_testkit::program::Running::spawn(command);
    server.until_stderr("--allow-host without effect").await;
    server.stop().await;
    let mut printed = String::new();
    let mut out = server.child.stdout.take().unwrap();
    tokio::io::AsyncReadExt::read_to_string(&mut out, &mut printed).await.unwrap();
    // Programs read the port: what it is for is told on terminals only.
    let port = printed.lines().next().unwrap().strip_prefix("listening on port ").unwrap_or_default();
    assert!(port.parse::<u16>().is_ok(), "{printed}");

    let mut command =
        program.command(&["serve", "--demo", "--http", "0.0.0.0:0", "--allow-host", "x.example"]);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let server = baton_testkit::program::Running::spawn(command);
    server.until_stderr("no TLS: anyone on the network can read the token").await;
    assert!(!server.stderr().contains("without effect"), "{}", server.stderr());
}

/// Pretends that sessions were last used long ago.
fn age(program: &baton_testkit::program::Program, sessions: &[&str]) {
    let file = rusqlite::Connection::open(program.database()).unwrap();
    for session in sessions {
        let changed = file.execute("UPDATE sessions SET modified = 1000 WHERE id = ?1", [session]).unwrap();
        assert_eq!(changed, 1, "{session}");
    }
}

#[tokio::test]
async fn server_deletes_old_sessions_only_if_configured_and_only_unused_ones() {
    let (program, _model) = scripted().await;
    let mut server = program.serve_http(&[]).await;
    let http = Http::new(&program, &server);
    for session in ["old", "young", "busy"] {
        http.create(session, json!({"cwd": program.work()})).await;
        let prompt = http.prompt(session, "[[text:done]]").await;
        assert_eq!(http.outcome(session, &prompt).await, "completed");
    }
    http.prompt("busy", r#"[[tool:bash {"command":"echo one > made"}]]"#).await;
    let _ = http.pending("busy").await;
    server.signal(Signal::KILL);
    let _ = server.ended().await;
    age(&program, &["old", "busy"]);
    let stored = async || {
        let listed = program.run(&["sessions", "list", "--json"]).await;
        let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
        let sessions = listed["sessions"].as_array().unwrap();
        let mut ids: Vec<String> =
            sessions.iter().map(|session| session["id"].as_str().unwrap().to_owned()).collect();
        ids.sort_unstable();
        ids
    };

    let mut server = program.serve_http(&["--log-level", "info"]).await;
    let http = Http::new(&program, &server);
    let prompt = http.prompt("young", "[[text:still here]]").await;
    assert_eq!(http.outcome("young", &prompt).await, "completed");
    assert!(server.stop().await.success());
    assert_eq!(stored().await, ["busy", "old", "young"], "nothing is deleted unless it is configured");

    let config = program.work().join("config.toml");
    std::fs::write(&config, "[store]\nkeep = \"6m\"\n").unwrap();
    let refused = program.run(&["--config", config.to_str().unwrap(), "serve"]).await;
    assert_eq!(refused.code(), Some(1), "{refused:?}");
    assert!(refused.stderr.contains("weeks"), "{refused:?}");

    std::fs::write(&config, "[store]\nkeep = \"90d\"\n").unwrap();
    age(&program, &["old", "busy"]);
    let server = program.serve_http(&["--log-level", "info", "--config", config.to_str().unwrap()]).await;
    server.until_stderr("deleted old sessions").await;
    assert_eq!(stored().await, ["busy", "young"]);
}
