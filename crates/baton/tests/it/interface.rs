//! The full-screen interface on a pseudo-terminal, with the real server behind it.

use baton_testkit::http::Http;
use baton_testkit::program::Program;
use baton_testkit::screen::Screen;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::{baton, eventually, scripted};

/// A home whose server is stopped at the end: the interface starts one that outlives it.
struct Home {
    program: Program,
    /// Whether a test's own server serves it.
    is_served: bool,
}

impl Home {
    fn new(program: Program) -> Self {
        Self { program: program.env("TERM", "xterm-256color"), is_served: false }
    }

    fn open(&self, arguments: &[&str], columns: u16, rows: u16) -> Screen {
        Screen::start(&self.program.command(arguments), columns, rows).unwrap()
    }

    /// Returns the process of the server that was started in the background.
    fn server(&self) -> Pid {
        let files = std::fs::read_dir(self.program.home().join("servers")).unwrap();
        let names = files.map(|file| file.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned());
        let pids: Vec<i32> = names.map(|name| name.parse().unwrap()).collect();
        assert_eq!(pids.len(), 1, "one server");
        Pid::from_raw(pids[0]).unwrap()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if !self.is_served {
            let mut stop = std::process::Command::new(env!("CARGO_BIN_EXE_baton"));
            stop.arg("stop").env("BATON_HOME", self.program.home());
            let _ = stop.stdin(std::process::Stdio::null()).output();
        }
    }
}

/// Presses a key that answers, once it counts.
async fn answer(screen: &mut Screen, key: &str) {
    tokio::time::sleep(std::time::Duration::from_millis(1000)).await;
    screen.press(key);
}

#[tokio::test]
async fn first_start_runs_the_demo_model_and_approves_with_y() {
    let home = Home::new(baton());
    let mut screen = home.open(&[], 80, 24);
    screen.until("the built-in demo model answers").await;
    screen.until("started a server in the background").await;
    screen.press("run `echo hello > greeting.txt`\r");
    screen.until("Run this command?").await;
    screen.until("echo hello > greeting.txt").await;
    assert!(!home.program.work().join("greeting.txt").exists());
    answer(&mut screen, "y").await;
    screen.until_gone("Run this command?").await;
    screen.until("✓ bash").await;
    assert!(home.program.work().join("greeting.txt").exists());
    screen.press("\u{4}");
    assert!(screen.terminal.running.ended().await.success(), "Ctrl-D quits");
    assert!(!screen.is_full(), "the screen from before is back");
    screen.until("baton attach").await;
    let servers = home.program.run(&["sessions"]).await;
    assert!(servers.stdout.contains("echo hello"), "{servers:?}");
    home.server();
}

#[tokio::test]
async fn n_denies_and_enter_does_nothing() {
    let (program, _model) = scripted().await;
    let home = Home::new(program);
    let mut screen = home.open(&[], 100, 30);
    // The first frame is there before the server: what is sent then waits for it.
    screen.until("type a prompt").await;
    screen.press("[[tool:bash {\"command\":\"echo one > made\"}]][[text:done]]\r");
    screen.until("Run this command?").await;
    for key in ["\r", " ", "\u{1b}"] {
        answer(&mut screen, key).await;
    }
    screen.press("\u{7f}");
    screen.until("Run this command?").await;
    assert!(!home.program.work().join("made").exists());
    answer(&mut screen, "n").await;
    screen.until_gone("Run this command?").await;
    assert!(!home.program.work().join("made").exists());
    screen.press("\u{4}");
    screen.terminal.running.ended().await;
}

#[tokio::test]
async fn killed_server_with_an_open_approval_costs_nothing() {
    let (program, _model) = scripted().await;
    let home = Home::new(program);
    let mut screen = home.open(&[], 80, 24);
    screen.until("Enter sends it").await;
    screen.press("[[tool:bash {\"command\":\"echo one > made\"}]][[text:all is well]]\r");
    screen.until("Run this command?").await;
    screen.press("a draft");
    let killed = home.server();
    kill_process(killed, Signal::KILL).unwrap();
    screen.until("connected again").await;
    assert_ne!(home.server(), killed, "another one was started");
    screen.until("Run this command?").await;
    screen.until("a draft").await;
    // Ctrl-U empties the box.
    screen.press("\u{15}");
    answer(&mut screen, "y").await;
    screen.until("✓ bash").await;
    assert!(home.program.work().join("made").exists());
    screen.press("\u{4}");
    screen.terminal.running.ended().await;
}

#[tokio::test]
async fn ctrl_c_cancels_the_turn_and_holds_the_queue() {
    let (program, model) = scripted().await;
    let home = Home::new(program);
    let mut screen = home.open(&[], 80, 24);
    screen.until("Enter sends it").await;
    screen.press("[[hold:gate]][[text:never]]\r");
    model.wait_for_hold("gate").await;
    screen.press("[[text:the second]]\r");
    screen.until("1 queued").await;
    screen.press("\u{3}");
    screen.until("1 queued, held").await;
    // Alt-R releases it.
    screen.press("\u{1b}r");
    screen.until("the second").await;
    screen.until_gone("1 queued").await;
    screen.press("\u{3}");
    screen.until("Ctrl-D quits").await;
    screen.press("\u{4}");
    screen.terminal.running.ended().await;
}

#[tokio::test]
async fn two_terminals_and_another_client_see_one_session() {
    let (program, _model) = scripted().await;
    let server = program.serve_http(&[]).await;
    let http = Http::new(&program, &server);
    http.create("s", json!({ "questions": true, "cwd": program.work() })).await;
    let mut home = Home::new(program);
    home.is_served = true;
    let mut one = home.open(&["attach", "s"], 80, 24);
    let other = home.open(&["attach", "s"], 200, 60);
    one.until("Enter sends it").await;
    other.until("Enter sends it").await;
    one.press("[[text:seen by all]]\r");
    one.until("❯ [[text:seen by all]]").await;
    other.until("❯ [[text:seen by all]]").await;
    let prompt = http.prompt("s", "[[tool:bash {\"command\":\"echo one > made\"}]][[text:end]]").await;
    one.until("Run this command?").await;
    other.until("Run this command?").await;
    answer(&mut one, "y").await;
    one.until_gone("Run this command?").await;
    other.until_gone("Run this command?").await;
    assert_eq!(http.outcome("s", &prompt).await, "completed");
    other.until("end").await;
}

#[tokio::test]
async fn resize_in_mid_stream_redraws_for_the_new_size() {
    let (program, _model) = scripted().await;
    let home = Home::new(program);
    let mut screen = home.open(&[], 80, 24);
    screen.until("Enter sends it").await;
    screen.press("[[slow:200:5]]\r");
    screen.until("word20 ").await;
    screen.resize(200, 60).unwrap();
    screen.until("word100 ").await;
    screen.resize(50, 12).unwrap();
    screen.until("word200").await;
    let shown = screen.text();
    assert!(shown.lines().count() <= 12 && shown.contains('❯'), "{shown}");
    screen.press("\u{4}");
    screen.terminal.running.ended().await;
}

#[tokio::test]
async fn hostile_output_reaches_no_terminal() {
    const ATTACK: &str = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{1b}[?1049l\u{9b}31m\u{202e}txet";
    let (program, _model) = scripted().await;
    let home = Home::new(program);
    let mut screen = home.open(&[], 120, 40);
    screen.until("Enter sends it").await;
    let server = Http::socket(home.program.home().join("baton.sock"));
    let sessions = server.get("/api/sessions").await.expect(200);
    let id = sessions["sessions"][0]["id"].as_str().unwrap().to_owned();
    server.prompt(&id, &format!("[[text:begin {ATTACK} end]]")).await;
    screen.until("\\u{202e}txet end").await;
    screen.until("\\x1b]0;owned\\x07").await;
    assert!(screen.is_full());
    let bytes = String::from_utf8_lossy(&screen.terminal.bytes()).into_owned();
    assert!(!bytes.contains("\u{1b}]0") && !bytes.contains("owned\u{7}") && !bytes.contains('\u{9b}'));
    screen.press("\u{4}");
    screen.terminal.running.ended().await;
}

#[tokio::test]
async fn terminal_is_restored_however_the_program_ends() {
    for end in ["\u{4}", "TERM", "HUP", "INT"] {
        let home = Home::new(baton());
        let mut screen = home.open(&[], 80, 24);
        let before = screen.initial_settings();
        screen.until("Enter sends it").await;
        assert!(screen.is_full() && screen.has_modes());
        let child =
            screen.terminal.running.child.id().and_then(|id| Pid::from_raw(id.try_into().unwrap())).unwrap();
        match end {
            "TERM" => kill_process(child, Signal::TERM).unwrap(),
            "HUP" => kill_process(child, Signal::HUP).unwrap(),
            "INT" => kill_process(child, Signal::INT).unwrap(),
            key => screen.press(key),
        }
        screen.terminal.running.ended().await;
        let after = screen.settings().unwrap();
        assert_eq!(format!("{before:?}"), format!("{after:?}"), "{end:?}");
        assert!(!screen.is_full() && screen.has_cursor() && !screen.has_modes(), "{end:?}");
        let bytes = screen.terminal.bytes();
        for mode in ["\u{1b}[?1049l", "\u{1b}[?2004l", "\u{1b}[?1004l", "\u{1b}[<1u", "\u{1b}[?1006l"] {
            let end = &bytes[bytes.len().saturating_sub(400)..];
            assert!(String::from_utf8_lossy(end).contains(mode), "{end:?}: {mode:?}");
        }
    }
}

#[tokio::test]
async fn suspended_program_gives_the_terminal_back_and_comes_back() {
    let home = Home::new(baton());
    let mut screen = home.open(&[], 80, 24);
    let before = screen.initial_settings();
    screen.until("Enter sends it").await;
    screen.press("a draft");
    screen.until("a draft").await;
    let child =
        screen.terminal.running.child.id().and_then(|id| Pid::from_raw(id.try_into().unwrap())).unwrap();
    // Ctrl-Z.
    screen.press("\u{1a}");
    let status = format!("/proc/{}/stat", child.as_raw_nonzero());
    eventually("the program to stop", async || {
        std::fs::read_to_string(&status).ok()?.contains(") T ").then_some(())
    })
    .await;
    assert_eq!(format!("{before:?}"), format!("{:?}", screen.settings().unwrap()));
    assert!(!screen.is_full());
    kill_process(child, Signal::CONT).unwrap();
    screen.until("a draft").await;
    assert!(screen.is_full() && screen.has_modes());
    screen.press("\u{4}");
    screen.terminal.running.ended().await;
}

#[tokio::test]
async fn without_a_terminal_it_is_help_and_exit_code_2() {
    let program = baton();
    let finished = program.run(&[]).await;
    assert_eq!(finished.code(), Some(2));
    assert!(finished.stdout.contains("Commands, by what they are about"), "{finished:?}");
    assert!(!program.home().join("servers").exists(), "no server was started");
}
