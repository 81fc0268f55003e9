//! Prompts from arguments and pipes.

use std::os::unix::ffi::OsStrExt;

use super::{on_terminal_with_input, piped};
use crate::scripted;

#[tokio::test]
async fn piped_input_is_part_of_the_prompt() {
    let (program, model) = scripted().await;
    let ran = piped(&program, &["review", "this"], "+the change\n").await;
    assert_eq!(ran.code(), Some(0), "{}", ran.stderr);
    let sent = || model.requests().pop().unwrap().body.to_string();
    assert!(sent().contains(r"review this\n\n+the change\n"), "{}", sent());
    let ran = piped(&program, &["before", "-", "after"], "middle").await;
    assert_eq!(ran.code(), Some(0), "{}", ran.stderr);
    assert!(sent().contains("before middle after"), "{}", sent());
    let ran = piped(&program, &[], "[[text:only the pipe]]").await;
    assert_eq!(ran.stdout, "only the pipe\n", "{}", ran.stderr);
    let before = model.requests().len();
    let ran = piped(&program, &[], " \n").await;
    assert_eq!(ran.code(), Some(2), "{}", ran.stderr);
    assert!(ran.stderr.contains("the prompt is empty"), "{}", ran.stderr);
    assert_eq!(model.requests().len(), before);
}

#[tokio::test]
async fn text_that_is_not_utf8_is_no_panic() {
    let (program, _model) = scripted().await;
    let strange = std::ffi::OsStr::from_bytes(b"\xff");
    let ran = program.command(&["run", "[[text:fine]]"]).env("STRANGE", strange).output().await.unwrap();
    assert_eq!((ran.status.code(), ran.stdout.as_slice()), (Some(0), &b"fine\n"[..]));
    let ran = program.command(&["run"]).arg(strange).output().await.unwrap();
    assert_eq!(ran.status.code(), Some(2), "{}", String::from_utf8_lossy(&ran.stderr));
}

#[tokio::test]
async fn piped_input_leaves_the_terminal_for_questions() {
    let (program, _model) = scripted().await;
    let input = r#"[[tool:bash {"command":"echo one > made"}]][[text:written]]"#;
    let mut terminal = on_terminal_with_input(&program, input, &["do", "-"]);
    terminal.until("allow running").await;
    terminal.press("y\r").unwrap();
    terminal.until("\r\nwritten\r\n").await;
    assert!(terminal.running.ended().await.success());
    assert!(program.work().join("made").exists());
}
