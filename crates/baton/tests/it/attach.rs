//! `baton attach`: watching and steering a session from a terminal or a script.

use std::process::Stdio;
use std::time::Duration;

use baton_testkit::http::Http;
use baton_testkit::model_server::ModelServer;
use baton_testkit::program::{Program, Running};
use baton_testkit::terminal::Terminal;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::{baton, scripted};

/// A server with a session `s`.
struct AttachTest {
    program: Program,
    model: ModelServer,
    server: Running,
    http: Http,
}

impl AttachTest {
    async fn new() -> Self {
        let (program, model) = scripted().await;
        let server = program.serve_http(&[]).await;
        let http = Http::new(&program, &server);
        let test = Self { program, model, server, http };
        let setup = json!({"questions": true, "cwd": test.program.work()});
        test.http.create("s", setup).await;
        test
    }

    /// Runs `baton attach` on a terminal.
    async fn attach(&self, arguments: &[&str]) -> Terminal {
        let command = self.program.command(&[&["attach", "--plain"], arguments].concat());
        let terminal = Terminal::start(&command).unwrap();
        terminal.until("Ctrl-C").await;
        terminal
    }

    async fn restart(&mut self) {
        self.server.kill().await;
        self.server = self.program.serve_http(&[]).await;
        self.http = Http::new(&self.program, &self.server);
    }
}

#[tokio::test]
async fn attach_shows_history_and_live_events_and_sends_prompts() {
    let test = AttachTest::new().await;
    let prompt = test.http.prompt("s", "[[text:long ago]]").await;
    test.http.outcome("s", &prompt).await;
    let mut terminal = test.attach(&[]).await;
    terminal.until("> [[text:long ago]]").await;
    terminal.until("\r\nlong ago\r\n").await;
    test.http.prompt("s", "[[text:from elsewhere]]").await;
    terminal.until("\r\nfrom elsewhere\r\n").await;
    terminal.press("[[slow:3:5]]\r").unwrap();
    terminal.until("word1 word2 word3").await;
    test.http.prompt("s", "[[text:the end]]").await;
    terminal.until("\r\nthe end\r\n").await;
    let screen = terminal.screen();
    assert_eq!(
        screen.matches("word1").count(),
        1,
        "printed once, although streamed and repeated in full: {screen}"
    );
    assert_eq!(screen.matches("[[slow:3:5]]").count(), 1, "the typed prompt is not repeated: {screen}");
    terminal.press("\u{4}").unwrap();
    assert!(terminal.running.ended().await.success(), "Ctrl-D leaves");
}

#[tokio::test]
async fn attach_answers_permissions_and_questions() {
    let test = AttachTest::new().await;
    let mut terminal = test.attach(&["s"]).await;
    terminal.press("[[tool:bash {\"command\":\"echo one > made\"}]][[text:written]]\r").unwrap();
    terminal.until("allow running `echo one > made`?").await;
    terminal.press("what?\r").unwrap();
    terminal.until("not an answer").await;
    assert!(!test.program.work().join("made").exists());
    terminal.press("y\r").unwrap();
    terminal.until("\r\nwritten\r\n").await;
    assert!(test.program.work().join("made").exists());

    terminal.press("[[tool:bash {\"command\":\"rm made\"}]]\r").unwrap();
    terminal.until("allow running `rm made`?").await;
    terminal.press("n, it is needed\r").unwrap();
    terminal.until("it is needed").await;
    test.model.wait_for_requests(4).await;
    assert!(test.program.work().join("made").exists());

    let ask = r#"[[tool:ask_user {"question":"which colour?","choices":["red","blue"]}]]"#;
    terminal.press(&format!("{ask}\r")).unwrap();
    terminal.until("2. blue").await;
    terminal.press("2\r").unwrap();
    terminal.until("User selected: blue").await;
}

#[tokio::test]
async fn attach_approves_a_plan() {
    let test = AttachTest::new().await;
    let _ = test.http.send("PATCH", "/api/sessions/s", &[], Some(&json!({"mode": "plan"}))).await.expect(200);
    let mut terminal = test.attach(&["s"]).await;
    let propose = r#"[[tool:exit_plan_mode {"summary":"greet","actions":["autopilot","interactive"]}]]"#;
    terminal.press(&format!("{propose}\r")).unwrap();
    terminal.until("is this plan good?").await;
    terminal.until("2. carry it out, asking for permissions").await;
    terminal.press("2\r").unwrap();
    terminal.until("You are now in interactive mode").await;
}

#[tokio::test]
async fn request_answered_elsewhere_is_withdrawn_from_the_terminal() {
    let test = AttachTest::new().await;
    let terminal = test.attach(&["s"]).await;
    let prompt = test.http.prompt("s", r#"[[tool:bash {"command":"echo one > made"}]]"#).await;
    terminal.until("allow running").await;
    let request = test.http.pending("s").await["requestId"].as_str().unwrap().to_owned();
    let yes = json!({"kind": "permission", "decision": "approve"});
    let _ = test.http.post(&format!("/api/sessions/s/requests/{request}"), yes).await.expect(200);
    terminal.until("answered elsewhere").await;
    assert_eq!(test.http.outcome("s", &prompt).await, "completed");
}

#[tokio::test]
async fn first_ctrl_c_cancels_and_the_next_leaves() {
    let test = AttachTest::new().await;
    let mut terminal = test.attach(&["s"]).await;
    terminal.press("[[text:half an]][[hold:never]]\r").unwrap();
    test.model.wait_for_hold("never").await;
    terminal.press("\u{3}").unwrap();
    terminal.until("press Ctrl-C again to leave").await;
    // The turn is over, so the next Ctrl-C has nothing to cancel.
    terminal.press("[[text:still here]]\r").unwrap();
    terminal.until("\r\nstill here\r\n").await;
    terminal.press("\u{3}").unwrap();
    assert!(terminal.running.ended().await.success());
}

#[tokio::test]
async fn prompt_typed_during_a_turn_steers_it() {
    let test = AttachTest::new().await;
    let mut terminal = test.attach(&["s"]).await;
    terminal.press("[[hold:gate]][[tool:view {\"path\":\".\"}]][[text:first]]\r").unwrap();
    test.model.wait_for_hold("gate").await;
    terminal.press("[[text:steered]]\r").unwrap();
    let mut events = test.http.events("s", 0).await;
    let accepted = |text: &str| {
        let text = text.to_owned();
        move |e: &baton_testkit::http::Streamed| {
            e.kind == "baton.prompt_accepted" && e.event["data"]["prompt"]["text"] == text.as_str()
        }
    };
    let steering = events.until(accepted("[[text:steered]]")).await;
    assert_eq!(steering.event["data"]["prompt"]["mode"], "immediate");
    test.model.release("gate");
    terminal.until("allow reading").await;
    terminal.press("y\r").unwrap();
    terminal.until("\r\nsteered\r\n").await;
}

#[tokio::test]
async fn attach_reconnects_to_a_restarted_server_without_missing_events() {
    let mut test = AttachTest::new().await;
    let mut terminal = test.attach(&["s"]).await;
    terminal.press("[[tool:bash {\"command\":\"echo one > made\"}]][[text:after the crash]]\r").unwrap();
    terminal.until("allow running").await;
    test.server.kill().await;
    terminal.until("connection lost").await;
    terminal.press("y\r").unwrap();
    terminal.until("not connected; type it again").await;
    test.restart().await;
    // The request is still pending, and asked again.
    terminal.until("connected again\u{1b}[0m\r\n\u{1b}[1m? allow running").await;
    terminal.press("y\r").unwrap();
    terminal.until("\r\nafter the crash\r\n").await;
    test.http.prompt("s", "[[text:and on]]").await;
    terminal.until("\r\nand on\r\n").await;
    let screen = terminal.screen();
    for once in ["after the crash\r\n", "and on\r\n"] {
        assert_eq!(screen.matches(&format!("\n{once}")).count(), 1, "{once:?}: {screen}");
    }
}

#[tokio::test]
async fn attach_can_be_left_while_the_server_is_gone() {
    let mut test = AttachTest::new().await;
    let mut terminal = test.attach(&["s"]).await;
    // Connected: the echo of a prompt proves it.
    terminal.press("[[text:here]]\r").unwrap();
    terminal.until("\r\nhere\r\n").await;
    test.server.kill().await;
    terminal.until("connection lost").await;
    terminal.until_within("… reconnecting · ", Duration::from_secs(60)).await;
    terminal.press("\u{4}").unwrap();
    assert!(terminal.running.ended().await.success(), "Ctrl-D leaves");
}

#[tokio::test]
async fn read_only_client_changes_nothing() {
    let test = AttachTest::new().await;
    let mut terminal = test.attach(&["s", "--read-only"]).await;
    let prompt = test.http.prompt("s", r#"[[tool:bash {"command":"echo one > made"}]]"#).await;
    terminal.until("waiting for an answer").await;
    terminal.press("y\r").unwrap();
    terminal.press("\u{3}").unwrap();
    assert!(terminal.running.ended().await.success());
    let path = format!("/api/sessions/s/prompts/{prompt}");
    assert_eq!(test.http.get(&path).await.expect(200)["state"], "running");
    assert!(!test.program.work().join("made").exists());
}

/// Runs `baton attach` with this standard input.
async fn piped(program: &Program, arguments: &[&str], input: &str) -> (Option<i32>, String, String) {
    let mut command = program.command(&[&["attach"], arguments].concat());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).await.unwrap();
    drop(stdin);
    let output = tokio::time::timeout(baton_testkit::client::LIMIT, child.wait_with_output());
    let output = output.await.expect("it ends").unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[tokio::test]
async fn piped_prompt_is_followed_to_its_outcome() {
    let test = AttachTest::new().await;
    let (code, out, err) = piped(&test.program, &["s"], "[[text:for a script]]\n").await;
    assert_eq!((code, out.contains("for a script\n")), (Some(0), true), "{out} {err}");
    let (code, out, _) = piped(&test.program, &["s", "--json", "--history", "0"], "[[text:as JSON]]\n").await;
    assert_eq!(code, Some(0));
    let events: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let said = events.iter().find(|event| event["type"] == "assistant.message").unwrap();
    assert_eq!(said["data"]["content"], "as JSON");
    assert!(events.iter().all(|event| event["data"]["content"] != "for a script"), "--history 0");
    let (code, _, _) = piped(&test.program, &["s"], "[[error:400]]\n").await;
    assert_eq!(code, Some(1), "a failed prompt fails the command");
    let (code, _, _) = piped(&test.program, &["--new"], "[[text:new]]\n").await;
    assert_eq!(code, Some(0));
    assert_eq!(test.http.get("/api/sessions").await.expect(200)["sessions"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn server_is_found_by_home_url_or_socket() {
    let program = baton();
    let (code, _, err) = piped(&program, &[], "").await;
    assert_eq!(code, Some(3));
    assert!(err.contains("no running server") && err.contains("baton serve"), "{err}");

    // A server for SDKs has a socket file for commands of its home.
    let rpc_only = program.serve_with(&["serve", "--demo", "--port", "0"]).await;
    let (code, out, err) = piped(&program, &["--new"], "hello\n").await;
    assert_eq!((code, out.is_empty()), (Some(0), false), "{out} {err}");
    drop(rpc_only);

    // Without an address, the server opens a socket file.
    let server = program.serve_with(&["serve", "--demo"]).await;
    let (code, out, err) = piped(&program, &["--new"], "hello\n").await;
    assert_eq!((code, out.is_empty()), (Some(0), false), "{out} {err}");
    let socket = program.home().join("baton.sock");
    let elsewhere = baton();
    let (code, ..) = piped(&elsewhere, &["--socket", socket.to_str().unwrap()], "hello\n").await;
    assert_eq!(code, Some(0));
    drop(server);

    let server = program.serve_http(&["--demo"]).await;
    let url = format!("http://{}", server.http.unwrap());
    let (code, _, err) = piped(&elsewhere, &["--url", &url], "hello\n").await;
    assert!(code == Some(1) && err.contains("token"), "{err}");
    let file = program.home().join("token");
    let named = ["--url", &url, "--token-file", file.to_str().unwrap()];
    let (code, ..) = piped(&elsewhere, &named, "hello\n").await;
    assert_eq!(code, Some(0));
    let token = elsewhere.clone().env("BATON_TOKEN", program.token());
    let (code, ..) = piped(&token, &["--url", &url], "hello\n").await;
    assert_eq!(code, Some(0));
    let (code, _, err) = piped(&program, &["nobody"], "").await;
    assert!(code == Some(3) && err.contains("no session \"nobody\""), "{err}");
}
