//! Where the session lives: in a running server, or in the command, to which others can attach.

use std::time::Duration;

use baton_testkit::http::Http;
use baton_testkit::model_server::ModelServer;
use baton_testkit::terminal::Terminal;
use serde_json::json;

use super::{on_terminal, sessions};
use crate::{eventually, scripted};

const ASK: &str = r#"[[tool:bash {"command":"echo one > made"}]][[text:written]]"#;

#[tokio::test]
async fn running_server_runs_the_session_and_others_watch_and_answer() {
    let (program, _model) = scripted().await;
    let server = program.serve_http(&[]).await;
    let http = Http::new(&program, &server);
    let mut terminal = on_terminal(&program, &[ASK]);
    terminal.until(" · on server ").await;
    terminal.until("allow running").await;
    let listed = http.get("/api/sessions").await.expect(200)["sessions"].clone();
    let id = listed[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(
        (&listed[0]["busy"], &listed[0]["heldBy"]),
        (&json!(true), &json!(null)),
        "the server holds it"
    );
    let request = http.pending(&id).await["requestId"].as_str().unwrap().to_owned();
    let yes = json!({"kind": "permission", "decision": "approve"});
    let _ = http.post(&format!("/api/sessions/{id}/requests/{request}"), yes).await.expect(200);
    terminal.until("answered elsewhere, by HTTP API").await;
    terminal.until("\r\nwritten\r\n").await;
    assert_eq!(terminal.running.ended().await.code(), Some(0));

    let continued = program.run(&["run", "--continue", "[[text:and on]]"]).await;
    assert_eq!((continued.code(), continued.stdout.as_str()), (Some(0), "and on\n"), "{}", continued.stderr);
    assert_eq!(sessions(&program).await, [id], "the same session");
}

#[tokio::test]
async fn server_on_all_addresses_is_used_by_local_commands() {
    let (program, _model) = scripted().await;
    let _server = program.serve_with(&["serve", "--http", "0.0.0.0:0", "--port", "0"]).await;
    let ran = program.run(&["run", "[[text:through the server]]"]).await;
    assert_eq!((ran.code(), ran.stdout.as_str()), (Some(0), "through the server\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains(" · on server "), "{}", ran.stderr);
}

#[tokio::test]
async fn server_and_command_behave_alike() {
    let (program, _model) = scripted().await;
    let server = program.serve_http(&[]).await;
    for place in [&[][..], &["--no-server"]] {
        let run = async |arguments: &[&str]| program.run(&[&["run"], place, arguments].concat()).await;
        let ran = run(&["[[text:half]][[finish:length]]"]).await;
        assert_eq!((ran.code(), ran.stdout.as_str()), (Some(6), "half\n"), "{}", ran.stderr);
        let ran = run(&[ASK]).await;
        assert_eq!((ran.code(), ran.stdout.as_str()), (Some(5), "written\n"), "{}", ran.stderr);
        let ran = run(&["--yes", ASK]).await;
        assert_eq!((ran.code(), ran.stdout.as_str()), (Some(0), "written\n"), "{}", ran.stderr);
        let before = sessions(&program).await;
        let ran = run(&["[[error:400]]"]).await;
        assert_eq!(ran.code(), Some(1), "{}", ran.stderr);
        assert_eq!(sessions(&program).await, before, "a failed start leaves no session");
        let mut terminal = on_terminal(&program, &[place, &["[[text:half]][[hang]]"]].concat());
        terminal.until("half").await;
        terminal.press("\u{3}").unwrap();
        assert_eq!(terminal.running.ended().await.code(), Some(130));
    }
    let log = server.stderr();
    assert!(!log.contains("replay failed"), "deleting a session is no failure: {log}");
}

#[tokio::test]
async fn another_model_than_the_servers_is_used() {
    let (program, model) = scripted().await;
    let server = program.serve_http(&[]).await;
    let other = ModelServer::start().await;
    let configured = program.clone().with_model(&other);
    let ran = configured.run(&["run", "[[text:from the other]]"]).await;
    assert_eq!((ran.code(), ran.stdout.as_str()), (Some(0), "from the other\n"), "{}", ran.stderr);
    assert!(model.requests().is_empty() && !other.requests().is_empty());
    assert!(ran.stderr.contains(&other.base_url()), "the header names it: {}", ran.stderr);
    assert!(ran.stderr.contains("on server"), "the server uses it for this session: {}", ran.stderr);
    let ran = configured.run(&["run", "--continue", "[[text:again]]"]).await;
    assert_eq!((ran.code(), ran.stdout.as_str()), (Some(0), "again\n"), "{}", ran.stderr);
    let ran = program.run(&["run", "[[text:of the server]]"]).await;
    assert_eq!((ran.code(), model.requests().is_empty()), (Some(0), false), "{}", ran.stderr);
    let asked = model.requests().len();
    let ran = program.run(&["run", "--demo", "hello"]).await;
    assert!(ran.stderr.contains("it does not use the demo model") && ran.stderr.contains("· demo model"));
    assert_eq!(model.requests().len(), asked, "{}", ran.stderr);
    drop(server);
}

#[tokio::test]
async fn endpoint_of_the_command_needs_no_model_name() {
    let (program, model) = scripted().await;
    let server = program.serve_http(&[]).await;
    let other = ModelServer::start().await;
    other.set_models(json!({"data": [{"id": "first-listed"}, {"id": "second"}]}));
    let configured = program.clone().with_model(&other).env("OPENAI_MODEL", "");
    let of_server = program.run(&["run", "[[text:of the server]]"]).await;
    assert_eq!(of_server.code(), Some(0), "{}", of_server.stderr);
    for arguments in [&["run", "--continue", "[[text:continued]]"][..], &["run", "[[text:new]]"]] {
        let asked = model.requests().len();
        let ran = configured.run(arguments).await;
        assert_eq!(ran.code(), Some(0), "{arguments:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("on server"), "{arguments:?}: {}", ran.stderr);
        assert_eq!(model.requests().len(), asked, "{arguments:?}: the endpoint of the server is not asked");
    }
    assert_eq!(other.requests().last().unwrap().body["model"], "first-listed");
    drop(server);
}

#[tokio::test]
async fn attach_streams_answers_and_steers_the_session_of_a_run() {
    let (program, model) = scripted().await;
    let prompt = r#"[[text:begun]][[hold:gate]][[tool:bash {"command":"echo one > made"}]][[text:first]]"#;
    let mut run = on_terminal(&program, &[prompt]);
    model.wait_for_hold("gate").await;
    let attached = eventually("the run to be found", async || {
        let terminal = Terminal::start(&program.command(&["attach", "--plain"])).unwrap();
        let shown =
            tokio::time::timeout(std::time::Duration::from_secs(2), terminal.until("Ctrl-D leaves")).await;
        shown.is_ok().then_some(terminal)
    });
    let mut attached = attached.await;
    attached.until("[[hold:gate]]").await;
    attached.press("[[text:steered]]\r").unwrap();
    let socket = std::fs::read_dir(program.home().join("runs")).unwrap().next().unwrap().unwrap().path();
    let id = sessions(&program).await.remove(0);
    let mut events = Http::socket(socket).events(&id, 0).await;
    let is_steering =
        |event: &baton_testkit::http::Streamed| event.event["data"]["prompt"]["mode"] == "immediate";
    events.until(is_steering).await;
    drop(events);
    model.release("gate");
    attached.until("allow running").await;
    run.until("allow running").await;
    attached.press("y\r").unwrap();
    run.until("answered elsewhere").await;
    run.until("\r\nsteered\r\n").await;
    attached.until("\r\nsteered\r\n").await;
    assert_eq!(run.running.ended().await.code(), Some(0));
    attached.until("the run that held the session has ended").await;
    assert!(!attached.screen().contains("connection lost"), "{}", attached.screen());
    assert!(attached.running.ended().await.success());
    assert!(program.work().join("made").exists());
    let left: Vec<_> = ["runs", "servers"]
        .iter()
        .flat_map(|name| std::fs::read_dir(program.home().join(name)))
        .flatten()
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn attach_finds_the_run_that_holds_a_session_beside_a_server() {
    let (program, model) = scripted().await;
    let server = program.serve_http(&[]).await;
    let mut run = on_terminal(&program, &["--no-server", "[[hold:gate]][[text:at last]]"]);
    model.wait_for_hold("gate").await;
    let id = sessions(&program).await.remove(0);
    let http = Http::new(&program, &server);
    eventually("the run to be found", async || {
        std::fs::read_dir(program.home().join("runs")).ok()?.next().map(drop)
    })
    .await;
    let attached = Terminal::start(&program.command(&["attach", "--plain", &id])).unwrap();
    attached.until("[[hold:gate]]").await;
    model.release("gate");
    attached.until("\r\nat last\r\n").await;
    assert_eq!(run.running.ended().await.code(), Some(0));
    // The server has the session now.
    let prompt = http.prompt(&id, "[[text:on the server]]").await;
    assert_eq!(http.outcome(&id, &prompt).await, "completed");
    attached.until("\r\non the server\r\n").await;
}

#[tokio::test]
async fn server_accepts_prompts_for_a_session_that_a_run_took_over() {
    let (program, _model) = scripted().await;
    let server = program.serve_http(&[]).await;
    let http = Http::new(&program, &server);
    http.create("shared", json!({"cwd": program.work()})).await;
    for round in 0..3 {
        // The server has the idle session open; the command takes it over, and ends.
        let prompt = http.prompt("shared", "[[text:on the server]]").await;
        assert_eq!(http.outcome("shared", &prompt).await, "completed", "round {round}");
        let ran =
            program.run(&["run", "--no-server", "--session", "shared", "[[text:in the command]]"]).await;
        assert_eq!((ran.code(), ran.stdout.as_str()), (Some(0), "in the command\n"), "{}", ran.stderr);
    }
}

#[tokio::test]
async fn run_survives_a_restart_of_the_server() {
    let (program, _model) = scripted().await;
    let mut server = program.serve_http(&[]).await;
    let mut run = on_terminal(&program, &[ASK]);
    run.until("allow running").await;
    server.kill().await;
    run.until("reconnecting").await;
    let screen = run.screen();
    let lost = screen.lines().last().unwrap_or_default();
    assert!(lost.contains("connection to the server lost") && !lost.contains("[y]es"), "own line: {screen}");
    run.press("y\r").unwrap();
    run.until("not connected; answer again").await;
    // Longer than the command waits for anything else at a time.
    run.until_within("… reconnecting · ", Duration::from_secs(60)).await;
    // The same address, because the client knows no other.
    let address = server.http.unwrap().to_string();
    let _again = program.serve_with(&["serve", "--port", "0", "--http", &address]).await;
    let again = "connected again\u{1b}[0m\r\n\u{1b}[1m? allow running";
    run.until_within(again, Duration::from_secs(60)).await;
    run.press("y\r").unwrap();
    run.until("\r\nwritten\r\n").await;
    assert_eq!(run.running.ended().await.code(), Some(0));
}

#[tokio::test]
async fn attach_in_the_middle_of_an_answer_prints_it_once() {
    let (program, model) = scripted().await;
    let server = program.serve_http(&[]).await;
    let mut run = on_terminal(&program, &["[[text:first half]][[hold:gate]][[text:second half]]"]);
    run.until("first half").await;
    model.wait_for_hold("gate").await;
    let attached = Terminal::start(&program.command(&["attach", "--plain"])).unwrap();
    attached.until("> [[text:first half]]").await;
    model.release("gate");
    assert_eq!(run.running.ended().await.code(), Some(0));
    attached.until("first halfsecond half").await;
    assert_eq!(attached.screen().matches("second half\r\n").count(), 1, "{}", attached.screen());
    drop(server);
}

#[tokio::test]
async fn demo_model_answers_for_demo_sessions_only() {
    let (program, _model) = scripted().await;
    let server = program.serve_http(&[]).await;
    let ran = program.run(&["run", "[[text:scripted]]"]).await;
    assert_eq!(ran.code(), Some(0), "{}", ran.stderr);
    for place in [&[][..], &["--no-server"]] {
        let ran = program.run(&[&["run", "--demo", "--continue"], place, &["hello"]].concat()).await;
        assert_eq!((ran.code(), ran.stdout.as_str()), (Some(1), ""), "{}", ran.stderr);
        assert!(ran.stderr.contains("uses scripted; continue it without --demo"), "{}", ran.stderr);
    }
    let ran = program.run(&["run", "--demo", "hello"]).await;
    assert!(ran.code() == Some(0) && !ran.stderr.contains("on server"), "{}", ran.stderr);
    drop(server);
}

#[tokio::test]
async fn run_says_that_another_client_cancelled_the_turn() {
    let (program, model) = scripted().await;
    let server = program.serve_http(&[]).await;
    let http = Http::new(&program, &server);
    let mut run = on_terminal(&program, &["[[hold:never]]"]);
    model.wait_for_hold("never").await;
    let id = sessions(&program).await.remove(0);
    let _ = http.post(&format!("/api/sessions/{id}/cancel"), json!({})).await.expect(200);
    run.until("baton: cancelled by a client").await;
    assert_eq!(run.running.ended().await.code(), Some(130));
}
