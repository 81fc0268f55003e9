//! Questions at the terminal: typos, reasons, grants, and nobody there.

use super::on_terminal;
use crate::scripted;

fn call(command: &str) -> String {
    format!(r#"[[tool:bash {{"command":"{command}"}}]]"#)
}

#[tokio::test]
async fn typo_asks_again_and_rejection_has_a_reason_and_an_exit_code() {
    let (program, model) = scripted().await;
    let prompt = call("echo one > made") + "[[text:understood]]";
    let mut terminal = on_terminal(&program, &[&prompt]);
    terminal.until("[y]es once, [n]o (and why):").await;
    for typo in ["yy\r", "a\r", "always\r"] {
        let before = terminal.screen().matches("not an answer").count();
        terminal.press(typo).unwrap();
        crate::eventually("the question again", async || {
            (terminal.screen().matches("not an answer").count() > before).then_some(())
        })
        .await;
    }
    assert!(!terminal.screen().contains("[a]lways"), "no grant is offered for a redirection");
    terminal.press("n, that file is precious\r").unwrap();
    terminal.until("\r\nunderstood\r\n").await;
    assert_eq!(terminal.running.ended().await.code(), Some(5));
    assert!(!program.work().join("made").exists());
    let told = model.requests().pop().unwrap().body.to_string();
    assert!(told.contains("that file is precious"), "the model is told the reason: {told}");
}

#[tokio::test]
async fn always_is_offered_where_the_server_offers_it() {
    let (program, _model) = scripted().await;
    let prompt = call("touch made") + &call("touch made") + "[[text:both]]";
    let mut terminal = on_terminal(&program, &[&prompt]);
    terminal.until("[a]lways").await;
    terminal.press("a\r").unwrap();
    terminal.until("\r\nboth\r\n").await;
    assert_eq!(terminal.running.ended().await.code(), Some(0));
    assert_eq!(terminal.screen().matches("allow running").count(), 1, "{}", terminal.screen());
}

#[tokio::test]
async fn question_of_trust_is_shown_without_its_call() {
    let (program, _model) = scripted().await;
    let servers = r#"{"mcpServers":{"ws":{"command":"touch","args":["started"]}}}"#;
    std::fs::write(program.work().join(".mcp.json"), servers).unwrap();
    let mut terminal = on_terminal(&program, &["[[text:without it]]"]);
    terminal.until("[y]es, [n]o:").await;
    terminal.press("n\r").unwrap();
    terminal.until("\r\nwithout it\r\n").await;
    assert_eq!(terminal.running.ended().await.code(), Some(0));
    let screen = terminal.screen();
    assert!(
        screen.contains("trust the files of this workspace?") && screen.contains("touch started"),
        "{screen}"
    );
    assert!(!screen.contains("digest") && !screen.contains('✗'), "{screen}");
}

#[tokio::test]
async fn audit_names_the_terminal_and_its_user() {
    let (program, _model) = scripted().await;
    let program = program.env("USER", "ada");
    let server = program.serve_http(&[]).await;
    for place in [&[][..], &["--no-server"]] {
        let prompt = call("touch made");
        let mut terminal = on_terminal(&program, &[place, &[&*prompt]].concat());
        terminal.until("[a]lways").await;
        terminal.press("y\r").unwrap();
        assert_eq!(terminal.running.ended().await.code(), Some(0));
    }
    drop(server);
    let audit = program.run(&["audit", "--json"]).await.json_lines();
    let by = |action: &str| -> Vec<String> {
        let entries = audit.iter().filter(|entry| entry["action"] == action);
        entries.map(|entry| entry["by"].as_str().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(
        (by("prompted"), by("approved")),
        (vec!["terminal (ada)".into(); 2], vec!["terminal (ada)".into(); 2])
    );
}

#[tokio::test]
async fn without_a_terminal_tools_are_rejected() {
    let (program, _model) = scripted().await;
    let prompt = call("touch made") + "[[text:then not]]";
    let ran = program.run(&["run", &prompt]).await;
    assert_eq!((ran.code(), ran.stdout.as_str()), (Some(5), "then not\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains("use --yes"), "{}", ran.stderr);
    assert!(!program.work().join("made").exists());
}

#[tokio::test]
async fn ctrl_c_during_a_question_cancels() {
    let (program, _model) = scripted().await;
    let mut terminal = on_terminal(&program, &[&call("touch made")]);
    terminal.until("allow running").await;
    terminal.press("\u{3}").unwrap();
    assert_eq!(terminal.running.ended().await.code(), Some(130));
    assert!(!program.work().join("made").exists());
}
