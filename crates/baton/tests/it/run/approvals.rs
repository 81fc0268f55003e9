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
