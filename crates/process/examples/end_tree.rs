//! Measures how long ending a process tree takes that obeys SIGTERM.
//!
//! `cargo run --release -p baton-process --example end_tree [rounds]`
#![allow(clippy::print_stdout, reason = "it is a program")]

use std::process::Stdio;
use std::time::{Duration, Instant};

use baton_process::{Ledger, Supervised};
use tokio::io::AsyncReadExt;
use tokio::process::Command;

/// Name, shell line, and whether its leader is waited for before the tree is ended.
const TREES: [(&str, &str, bool); 4] = [
    ("one process", "echo; exec sleep 1000", false),
    ("shell with two children", "sleep 1000 & sleep 1000 & echo; wait", false),
    ("daemon in its own session", "setsid sleep 1000 & echo; wait", false),
    ("child left by a program that exited", "sleep 1000 & echo", true),
];

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let rounds = std::env::args().nth(1).and_then(|rounds| rounds.parse().ok()).unwrap_or(50);
    for (name, line, exits) in TREES {
        let mut times = Vec::new();
        for round in 0..rounds {
            times.push(end(line, exits, format!("end-tree/{}/{round}/", std::process::id())).await?);
        }
        times.sort();
        let (median, worst) = (times[times.len() / 2], times[times.len() - 1]);
        println!("{name}: median {median:.1?}, worst {worst:.1?}");
    }
    Ok(())
}

async fn end(line: &str, exits: bool, tag: String) -> std::io::Result<Duration> {
    let mut command = Command::new("sh");
    command.args(["-c", line]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut program = Supervised::spawn(command, tag, Ledger::default())?;
    if let (_, Some(mut stdout), _) = program.pipes() {
        stdout.read_exact(&mut [0]).await?;
    }
    if exits {
        program.wait().await?;
    }
    // Let the children reach their program, so that each round measures the same.
    tokio::time::sleep(Duration::from_millis(20)).await;
    let begun = Instant::now();
    program.end(Duration::from_secs(2)).await;
    Ok(begun.elapsed())
}
