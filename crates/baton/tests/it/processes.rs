//! No process survives its turn, session or server, however it was started.

use std::process::Stdio;

use baton_testkit::chat::Chat;
use baton_testkit::client::Client;
use baton_testkit::processes::Marker;
use baton_testkit::program::{Program, Running};
use rustix::process::Signal;
use serde_json::json;

use crate::scripted;

/// A command that is hard to end: it ignores SIGTERM, starts a session, forks twice, and its descendants keep its output
/// open.
fn stubborn(marker: &Marker) -> String {
    let word = marker.word();
    format!(
        "trap '' TERM INT HUP
         export MARK={word}
         (setsid sh -c 'trap \"\" TERM HUP; sleep 600' &)
         sh -c 'trap \"\" TERM; sleep 600' &
         sleep 600 >/dev/null 2>&1 &
         echo started; wait"
    )
}

fn prompt(marker: &Marker) -> String {
    let arguments = json!({"command": stubborn(marker), "initial_wait": 600});
    format!("[[tool:bash {arguments}]]")
}

/// A server with a session whose turn runs the stubborn command.
async fn busy(program: &Program, marker: &Marker) -> (Running, Client) {
    let (server, client) = program.pipes().await;
    let chat = Chat::trusting(&client, json!({"sessionId": "busy"})).await;
    chat.send(&prompt(marker)).await;
    marker.until_at_least(5).await;
    (server, client)
}

#[tokio::test]
async fn cancel_ends_the_whole_process_tree() {
    let (program, _model) = scripted().await;
    let marker = Marker::new();
    let (_server, client) = busy(&program, &marker).await;
    let chat = Chat { client: &client, id: "busy".into() };
    chat.ok("session.abort", json!({})).await;
    marker.until_gone("session.abort").await;
    chat.until_idle(0).await;
    chat.assert_usable().await;
}

#[tokio::test]
async fn closing_a_session_ends_the_whole_process_tree() {
    let (program, _model) = scripted().await;
    for method in ["session.detach", "session.destroy", "session.delete"] {
        let marker = Marker::new();
        let (mut server, client) = busy(&program, &marker).await;
        client.ok(method, json!({"sessionId": "busy"})).await;
        marker.until_gone(method).await;
        assert!(server.is_alive());
        client.ok("session.delete", json!({"sessionId": "busy"})).await;
    }
}

#[tokio::test]
async fn stopping_the_server_ends_the_whole_process_tree() {
    for end in ["SIGTERM", "SIGINT", "the end of its input", "runtime.shutdown"] {
        let (program, _model) = scripted().await;
        let marker = Marker::new();
        let (mut server, client) = busy(&program, &marker).await;
        match end {
            "SIGTERM" => server.signal(Signal::TERM),
            "SIGINT" => server.signal(Signal::INT),
            "runtime.shutdown" => drop(client.ok("runtime.shutdown", json!({})).await),
            _ => client.hang_up().await,
        }
        assert_eq!(server.ended().await.code(), Some(0), "{end}: {}", server.stderr());
        let left = marker.alive();
        assert!(left.is_empty(), "after {end} these are left running: {left:?}");
    }
}

#[tokio::test]
async fn next_server_ends_processes_of_a_killed_one() {
    let (program, _model) = scripted().await;
    let marker = Marker::new();
    let (mut server, _client) = busy(&program, &marker).await;
    server.kill().await;
    assert!(!marker.alive().is_empty(), "processes survive the kill");
    let _next = program.serve().await;
    marker.until_gone("the start of the next server").await;
}

#[tokio::test]
async fn every_kind_of_server_ends_processes_of_a_killed_one() {
    let (program, _model) = scripted().await;
    let socket = program.home().join("s.sock");
    let socket = socket.to_str().unwrap();
    for arguments in [&["serve", "--http", "127.0.0.1:0"][..], &["serve", "--socket", socket]] {
        let marker = Marker::new();
        let (mut server, client) = busy(&program, &marker).await;
        server.kill().await;
        drop(client);
        let mut command = program.command(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut next = Running::spawn(command);
        marker.until_gone("the start of the next server").await;
        next.kill().await;
        std::fs::remove_dir_all(program.home()).unwrap();
    }
}

/// The process has no marker in its environment, no parent and no open pipe; only its session id shows where it came from.
#[tokio::test]
async fn process_without_environment_is_ended_by_the_next_server() {
    let hidden = |marker: &Marker| {
        format!("(env -i bash -c 'MARK={0} exec sleep 600' {0} >/dev/null 2>&1 </dev/null &)", marker.word())
    };
    for then in ["", "; sleep 600"] {
        let (program, _model) = scripted().await;
        let marker = Marker::new();
        let (mut server, client) = program.pipes().await;
        let chat = Chat::trusting(&client, json!({})).await;
        let arguments = json!({"command": hidden(&marker) + then, "mode": "async"});
        chat.turn(&format!("[[tool:bash {arguments}]]")).await;
        marker.until_at_least(1).await;
        server.kill().await;
        assert!(!marker.alive().is_empty(), "processes survive the kill");
        let _next = program.serve().await;
        marker.until_gone("the start of the next server").await;
    }
}

#[tokio::test]
async fn background_command_ends_with_its_session() {
    let (program, _model) = scripted().await;
    let marker = Marker::new();
    let (_server, client) = program.pipes().await;
    let chat = Chat::trusting(&client, json!({})).await;
    let arguments = json!({"command": stubborn(&marker), "mode": "async"});
    chat.turn(&format!("[[tool:bash {arguments}]]")).await;
    marker.until_at_least(5).await;
    chat.ok("session.destroy", json!({})).await;
    marker.until_gone("session.destroy").await;
}

/// Withdrawing a queued prompt does not affect the running turn.
#[tokio::test]
async fn background_command_survives_a_withdrawn_prompt() {
    let (program, _model) = scripted().await;
    let (_server, client) = program.pipes().await;
    let chat = Chat::trusting(&client, json!({"workingDirectory": program.work()})).await;
    let waits_for_go = "until [ -e go ]; do sleep 0.05; done; touch gone";
    let background = json!({"command": waits_for_go, "mode": "async"});
    let foreground =
        json!({"command": "until [ -e gone ]; do sleep 0.05; done; echo seen", "initial_wait": 600});
    let from = client.count();
    chat.send(&format!("[[tool:bash {background}]][[tool:bash {foreground}]]")).await;
    chat.event("tool.execution_complete", from).await;
    let queued = chat.send("not now").await;
    assert_eq!(chat.ok("session.queue.removeAt", json!({"id": queued})).await["removed"], true);
    std::fs::write(program.work().join("go"), "").unwrap();
    let turn = chat.until_idle(from).await;
    assert!(turn.text().contains("seen"), "the background command continued: {turn:?}");
}

#[tokio::test]
async fn interrupted_run_leaves_no_processes() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let (program, _model) = scripted().await;
        let marker = Marker::new();
        let mut run = Running::spawn(program.command(&["run", "--yes", &prompt(&marker)]));
        // The program itself has the marker in its command line.
        marker.until_at_least(6).await;
        run.signal(signal);
        let status = run.ended().await;
        assert_eq!(status.code(), Some(130), "after {signal:?}: {status:?} {}", run.stderr());
        let left = marker.alive();
        assert!(left.is_empty(), "after {signal:?} these are left running: {left:?}");
    }
}

/// A server with a session whose turn runs SQL that spends minutes in one function. The id of the session is the marker: it is
/// in the path of the database, which the worker has as an argument.
async fn busy_with_sql(program: &Program, marker: &Marker) -> (Running, Client) {
    let (server, client) = program.pipes().await;
    let chat = Chat::create(&client, json!({"sessionId": marker.word()})).await;
    let query = "SELECT instr(hex(zeroblob(2000000)), hex(zeroblob(1000000)) || '1')";
    chat.send(&format!("[[tool:sql {}]]", json!({"query": query, "description": "busy"}))).await;
    marker.until_at_least(1).await;
    (server, client)
}

#[tokio::test]
async fn cancel_ends_running_sql() {
    let (program, _model) = scripted().await;
    let marker = Marker::new();
    let (_server, client) = busy_with_sql(&program, &marker).await;
    let chat = Chat { client: &client, id: marker.word().into() };
    chat.ok("session.abort", json!({})).await;
    marker.until_gone("session.abort").await;
    chat.until_idle(0).await;
    chat.assert_usable().await;
}

#[tokio::test]
async fn running_sql_does_not_delay_the_end_of_the_server() {
    let (program, _model) = scripted().await;
    let marker = Marker::new();
    let (mut server, _client) = busy_with_sql(&program, &marker).await;
    server.signal(Signal::TERM);
    assert_eq!(server.ended().await.code(), Some(0), "{}", server.stderr());
    assert!(!server.stderr().contains("did not stop"), "{}", server.stderr());
    let left = marker.alive();
    assert!(left.is_empty(), "these are left running: {left:?}");
}

#[tokio::test]
async fn next_server_ends_sql_of_a_killed_one() {
    let (program, _model) = scripted().await;
    let marker = Marker::new();
    let (mut server, _client) = busy_with_sql(&program, &marker).await;
    server.kill().await;
    assert!(!marker.alive().is_empty(), "the worker survives the kill");
    let _next = program.serve().await;
    marker.until_gone("the start of the next server").await;
}
