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
async fn plain_no_asks_why_and_goes_on_only_with_a_reason() {
    let (program, model) = scripted().await;
    let prompt = call("echo one > made") + "[[text:understood]]";
    for (why, answers) in [("", false), ("that file is precious", true)] {
        let mut terminal = on_terminal(&program, &[&prompt]);
        terminal.until("[n]o (and why):").await;
        terminal.press("n\r").unwrap();
        terminal.until("why? (the model goes on with your reason; Enter alone ends the turn):").await;
        terminal.press(&format!("{why}\r")).unwrap();
        assert_eq!(terminal.running.ended().await.code(), Some(5), "{}", terminal.screen());
        let screen = terminal.screen();
        assert_eq!(screen.contains("\r\nunderstood\r\n"), answers, "{screen}");
        let told = model.requests().pop().unwrap().body.to_string();
        assert_eq!(told.contains("rejected this tool call"), answers, "{told}");
        assert_eq!(told.contains("that file is precious"), answers, "{told}");
    }
    assert!(!program.work().join("made").exists());
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
async fn ctrl_c_and_ctrl_d_at_a_question_cancel_a_call_that_did_not_run() {
    let (program, _model) = scripted().await;
    for (key, said) in
        [("\u{3}", "cancelling; press Ctrl-C again"), ("\u{4}", "cancelling: the input has ended")]
    {
        let mut terminal = on_terminal(&program, &[&call("touch made")]);
        terminal.until("[a]lways in this session:").await;
        terminal.press(key).unwrap();
        assert_eq!(terminal.running.ended().await.code(), Some(130));
        let screen = terminal.screen();
        assert!(screen.contains(&format!("\n\u{1b}[2m{said}")), "on a line of its own: {screen}");
        assert!(screen.contains("✗ cancelled; it did not run"), "{screen}");
        assert!(!screen.contains("execution") && !screen.contains("elsewhere"), "{screen}");
        assert_eq!(screen.contains("Ctrl-C"), key == "\u{3}", "{screen}");
        assert!(!program.work().join("made").exists());
    }
}

#[tokio::test]
async fn ctrl_c_during_an_answer_is_told_on_a_line_of_its_own() {
    let (program, model) = scripted().await;
    let mut terminal = on_terminal(&program, &["[[hold:never]]"]);
    model.wait_for_hold("never").await;
    terminal.press("\u{3}").unwrap();
    terminal.until("cancelling; press Ctrl-C again").await;
    assert!(!terminal.screen().contains("^Ccancelling"), "{}", terminal.screen());
    assert!(!terminal.screen().contains("^C\u{1b}[2mcancelling"), "{}", terminal.screen());
    assert_eq!(terminal.running.ended().await.code(), Some(130));
}

#[tokio::test]
async fn question_of_a_killed_run_is_asked_again() {
    let (program, _model) = scripted().await;
    for (prompt, answers) in [(None, "first"), (Some("[[text:second]]"), "second")] {
        let first = call("echo one >> made") + "[[text:first]]";
        let mut killed = on_terminal(&program, &[&first]);
        killed.until("allow running").await;
        killed.running.kill().await;
        let again = on_terminal(&program, &[&["--continue"], prompt.as_slice()].concat());
        again.until("allow running `echo one >> made`?").await;
        let mut again = again;
        assert!(!program.work().join("made").exists());
        again.press("y\r").unwrap();
        again.until("\r\nfirst\r\n").await;
        again.until(&format!("\r\n{answers}\r\n")).await;
        assert_eq!(again.running.ended().await.code(), Some(0), "{}", again.screen());
        std::fs::remove_file(program.work().join("made")).unwrap();
    }
    let nothing = program.run(&["run", "--continue"]).await;
    assert_eq!(nothing.code(), Some(1));
    assert!(
        nothing.stderr.contains("no request that waits for an answer; write a prompt"),
        "{}",
        nothing.stderr
    );
}
