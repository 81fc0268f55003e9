//! Printing, and what belongs to it. The only place that writes to standard output and error.
#![expect(clippy::disallowed_methods, reason = "runs on the main thread, before or after the server's work")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is where printing lives")]

use std::io::{IsTerminal, Read, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;
use tokio::sync::mpsc;

use crate::args::Cli;

/// A line on standard output, flushed: somebody may be waiting for it.
pub(crate) fn line(text: &str) {
    let mut out = std::io::stdout().lock();
    // A reader that has gone away is no reason to fail.
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// Text on standard output, without an end of line.
pub(crate) fn text(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// A note for people, on standard error.
pub(crate) fn note(text: &str) {
    complain(&dim_for(text, std::io::stderr().is_terminal()));
}

/// What went wrong.
pub(crate) fn error(text: &str) {
    complain(&format!("baton: {text}"));
}

/// A line on standard error, in one piece, so that nothing comes between. Not `eprintln`: that panics when nobody reads.
fn complain(text: &str) {
    let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
}

/// Help, the version, or what is wrong with the flags.
pub(crate) fn wrong_usage(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    if error.exit_code() != 0 && std::env::args().any(|arg| arg == "--stdio") {
        wait_for_caller();
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// An SDK writes to the program it has started before it looks whether it still runs. Gone too soon, we would leave it
/// with a broken pipe instead of our message; so stay until it has written, or for a moment.
fn wait_for_caller() {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let _ = sender.send(std::io::stdin().read(&mut [0]));
    });
    let _ = receiver.recv_timeout(std::time::Duration::from_secs(1));
}

/// Text that stands back, where that can be shown.
pub(crate) fn dim(text: &str) -> String {
    dim_for(text, std::io::stdout().is_terminal())
}

fn dim_for(text: &str, terminal: bool) -> String {
    if terminal && std::env::var_os("NO_COLOR").is_none() {
        format!("\x1b[2m{text}\x1b[0m")
    } else {
        text.to_owned()
    }
}

/// Asks a question that is answered with a line. `None` when nobody can be asked.
pub(crate) fn ask(question: &str) -> Option<String> {
    if !std::io::stdin().is_terminal() {
        return None;
    }
    let _ = write!(std::io::stderr(), "{question} ").and_then(|()| std::io::stderr().flush());
    let mut answer = String::new();
    match std::io::stdin().read_line(&mut answer) {
        Ok(read) if read > 0 => Some(answer.trim().to_lowercase()),
        _ => None,
    }
}

/// Asks beside what else goes on. A thread of its own, which nobody waits for: there is no way to call back a read from a
/// terminal, and a program that is told to end must not hang in one.
pub(crate) async fn ask_aside(question: String) -> Option<String> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || sender.send(ask(&question)));
    receiver.await.ok().flatten()
}

/// What was typed.
pub(crate) enum Typed {
    Line(String),
    /// There is nothing more to come.
    End,
}

/// Lines from standard input, beside what else goes on. Read in a thread of its own, which nobody waits for: there is no
/// way to call back a read.
pub(crate) struct Keyboard {
    lines: Option<mpsc::UnboundedReceiver<String>>,
}

impl Keyboard {
    /// Nobody types.
    pub(crate) fn none() -> Self {
        Self { lines: None }
    }

    pub(crate) fn listen() -> Self {
        let (sender, lines) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            let lines = std::io::stdin().lines().map_while(Result::ok);
            for line in lines {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { lines: Some(lines) }
    }

    /// Whether a person may be typing.
    pub(crate) fn is_terminal(&self) -> bool {
        std::io::stdin().is_terminal()
    }

    /// Whether more can come.
    pub(crate) fn is_open(&self) -> bool {
        self.lines.is_some()
    }

    /// The next line. The end is said once; after it, nothing comes.
    pub(crate) async fn next(&mut self) -> Typed {
        let Some(lines) = &mut self.lines else { return std::future::pending().await };
        match lines.recv().await {
            Some(line) => Typed::Line(line),
            None => {
                self.lines = None;
                Typed::End
            }
        }
    }
}

/// A completion script.
pub(crate) fn completions(shell: Shell) -> anyhow::Result<ExitCode> {
    // Written down first: the generator panics when whoever reads has had enough.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "baton", &mut script);
    text(&String::from_utf8_lossy(&script));
    Ok(ExitCode::SUCCESS)
}

/// The manual: one page on standard output, or all pages in a directory.
pub(crate) fn manual(directory: Option<&Path>) -> anyhow::Result<ExitCode> {
    match directory {
        None => clap_mangen::Man::new(Cli::command()).render(&mut std::io::stdout())?,
        Some(directory) => {
            std::fs::create_dir_all(directory)?;
            clap_mangen::generate_to(Cli::command(), directory)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
