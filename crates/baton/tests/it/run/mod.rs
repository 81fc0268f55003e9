//! `baton run`, driven over a pseudo-terminal and pipes: what people see, and what scripts get.

mod answers;
mod approvals;
mod input;
mod places;

use std::process::Stdio;

use baton_testkit::program::{Finished, Program};
use baton_testkit::terminal::Terminal;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// Runs `baton run` on a terminal.
pub(crate) fn on_terminal(program: &Program, arguments: &[&str]) -> Terminal {
    Terminal::start(&program.command(&[&["run"], arguments].concat())).unwrap()
}

/// Runs `baton run` on a terminal with this text piped to its standard input.
fn on_terminal_with_input(program: &Program, text: &str, arguments: &[&str]) -> Terminal {
    let baton = program.command(&[&["run"], arguments].concat());
    let baton = baton.as_std();
    let mut shell = Command::new("sh");
    shell.args(["-c", r#"printf '%s' "$TEXT" | "$0" "$@""#]).arg(baton.get_program()).args(baton.get_args());
    shell
        .env_clear()
        .envs(baton.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .env("TEXT", text);
    shell.current_dir(program.work());
    Terminal::start(&shell).unwrap()
}

/// Runs `baton run` without a terminal, with this text on its standard input.
async fn piped(program: &Program, arguments: &[&str], input: &str) -> Finished {
    let mut command = program.command(&[&["run"], arguments].concat());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).await.unwrap();
    drop(stdin);
    let output = tokio::time::timeout(baton_testkit::client::LIMIT, child.wait_with_output());
    let output = output.await.expect("it ends").unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Finished { status: output.status, stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// The ids of the stored sessions.
async fn sessions(program: &Program) -> Vec<String> {
    let listed = program.run(&["sessions", "list", "--json"]).await;
    let listed: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap();
    let listed = listed["sessions"].as_array().unwrap();
    listed.iter().map(|session| session["id"].as_str().unwrap().to_owned()).collect()
}
