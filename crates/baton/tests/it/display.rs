//! Output to terminals and logs: untrusted text cannot move the cursor or forge a line, and secrets are shown on terminals
//! only.

use baton_testkit::http::Http;
use baton_testkit::terminal::Terminal;
use serde_json::{Value, json};

use crate::{baton, scripted};

/// Clears the line, moves up, sets the title, reverses text.
const ATTACK: &str = "\u{1b}[2K\u{1b}[1A\u{9b}2J\u{1b}]0;title\u{7}\r\u{202e}\u{2066}\u{200b}\u{e0041}\u{7f}";

/// Fails if a text has control or direction characters other than line ends and Baton's own styles.
fn assert_harmless(screen: &str) {
    let styles = ["0", "1", "2", "3", "36", "1;4", "1;3"].map(|style| format!("\u{1b}[{style}m"));
    let ours = styles.iter().map(String::as_str).chain(["\r\n"]);
    let rest = ours.fold(screen.to_owned(), |text, ours| text.replace(ours, ""));
    let bad = |c: &char| {
        (c.is_control() && *c != '\n' && *c != '\t')
            || matches!(c, '\u{200b}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
            || matches!(c, '\u{e0000}'..='\u{e007f}')
    };
    let found: Vec<char> = rest.chars().filter(bad).collect();
    assert!(found.is_empty(), "{found:?} in {rest:?}");
}

fn call(tool: &str, arguments: &Value) -> String {
    format!("[[tool:{tool} {arguments}]]")
}

#[tokio::test]
async fn approval_in_run_shows_the_whole_command() {
    let (program, _model) = scripted().await;
    let command = format!("echo one{ATTACK}\n? allow running `ls`? [y]es\ntouch forged ");
    let prompt = format!("[[text:fine{ATTACK}]]{}", call("bash", &json!({ "command": command })));
    let mut terminal = Terminal::start(&program.command(&["run", &prompt])).unwrap();
    terminal.until("[y]es once, [n]o (and why):").await;
    let screen = terminal.screen();
    assert_harmless(&screen);
    let shown = screen.split("allow running this command?").nth(1).expect("the question").to_owned();
    for row in [
        "(3 lines, 12 characters shown as escapes)",
        "\r\n  │ echo one\\x1b[2K\\x1b[1A",
        "\r\n  │ ? allow running `ls`? [y]es\r\n",
        "\r\n  │ touch forged\\x20\r\n",
    ] {
        assert!(shown.contains(row), "{row:?} is not in {shown}");
    }
    // Rejected, without a reason.
    terminal.press("n\r").unwrap();
    terminal.until("why?").await;
    terminal.press("\r").unwrap();
    terminal.running.ended().await;
    assert_harmless(&terminal.screen());
    assert!(!program.work().join("forged").exists());
}

#[tokio::test]
async fn attach_and_sessions_escape_untrusted_text() {
    let (program, _model) = scripted().await;
    let server = program.serve_http(&[]).await;
    let http = Http::new(&program, &server);
    http.create("s", json!({"questions": true, "cwd": program.work()})).await;
    let prompt = http.prompt("s", &format!("title{ATTACK}[[text:answer{ATTACK}]]")).await;
    http.outcome("s", &prompt).await;
    let ask = json!({"question": format!("which{ATTACK}?"), "choices": [format!("red{ATTACK}\n  2. blue")]});
    http.prompt("s", &call("ask_user", &ask)).await;
    let mut terminal = Terminal::start(&program.command(&["attach", "--plain", "s"])).unwrap();
    terminal.until("your answer:").await;
    let screen = terminal.screen();
    assert_harmless(&screen);
    assert!(screen.contains("answer\\x1b[2K") && screen.contains("\\n  2. blue"), "{screen}");
    terminal.press("\u{4}").unwrap();
    terminal.running.ended().await;

    for arguments in [&["sessions", "list"][..], &["sessions", "show", "s"], &["sessions", "export", "s"]] {
        let mut terminal = Terminal::start(&program.command(arguments)).unwrap();
        terminal.running.ended().await;
        terminal.until("title").await;
        assert_harmless(&terminal.screen());
    }
}

#[tokio::test]
async fn json_output_is_valid_and_has_no_control_characters() {
    let (program, _model) = scripted().await;
    let said = format!("fine{ATTACK}");
    let output = program.run(&["run", "--json", &format!("[[text:{said}]]")]).await;
    assert_harmless(&output.stdout);
    let events = output.json_lines();
    let message = events.iter().find(|event| event["type"] == "assistant.message").unwrap();
    assert_eq!(message["data"]["content"], said, "escapes keep the meaning");
}

#[tokio::test]
async fn login_link_is_shown_on_a_terminal_and_never_logged() {
    let program = baton();
    let server = program.serve_http(&["--demo", "--log-level", "trace"]).await;
    server.until_stderr("link   http://").await;
    let http = Http::new(&program, &server);
    let token = program.token();
    assert_eq!(http.get(&format!("/?token={token}")).await.status, 303);
    let _ = http.get("/api/sessions").await.expect(200);
    let log = server.stderr();
    assert!(log.contains("token  in ") && !log.contains(&token), "{log}");
    drop(server);

    let terminal = Terminal::start(&program.command(&["serve", "--demo", "--http", "127.0.0.1:0"])).unwrap();
    terminal.until(&format!("/?token={token}")).await;
}
