//! Measures the cost of a decision of the permission policy, parsing included. The limit is 20 µs a call for a typical
//! line.
//!
//! `cargo run --release -p baton-core --example policy_cost`
#![allow(clippy::print_stdout, reason = "a program for people")]

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use baton_core::policy::territory::Territory;
use baton_core::policy::{Advice, Grant, Situation, decide};
use baton_protocol::event::PermissionMode;
use baton_protocol::permission::{Approval, PermissionRequest};
use baton_protocol::rules::{Rule, RuleKind, Rules};

const LINES: [&str; 5] = [
    "echo hello",
    "git status --short && ls -la src | head -20",
    "cargo test --workspace --no-fail-fast 2>&1 | tail -30",
    "grep -rn 'fn main' src | sort | uniq | wc -l; cat Cargo.toml",
    "for f in *.rs; do sed -i 's/a/b/' \"$f\"; done",
];
const ROUNDS: u32 = 20_000;

fn main() {
    let identifiers = ["echo", "ls", "head", "git status", "grep", "sort", "uniq", "wc", "cat", "make:*"];
    let grants = identifiers.map(|id| Grant {
        approval: Approval::Commands { command_identifiers: vec![id.to_owned()] },
        id: None,
        by: None,
        at: None,
        cwd: Some("/work".into()),
        binding: None,
    });
    let denied = ["rm", "git push"].map(|name| Rule::new(RuleKind::Shell, Some(name))).to_vec();
    let rules = Rules { denied, ..Rules::default() };
    let (cwd, home) = (Path::new("/work"), Some(Path::new("/home/u/.baton")));
    let territory = Territory { cwd, home, workspace: None, engine_files: &[] };
    let situation = Situation {
        mode: PermissionMode::Manual,
        rules: &rules,
        grants: &grants,
        territory,
        advice: Advice::None,
        cwd: "/work",
    };
    for line in LINES {
        let request = shell(line);
        let start = Instant::now();
        for _ in 0..ROUNDS {
            black_box(decide(black_box(&request), &situation));
        }
        println!("{:>8.2} µs  {line}", start.elapsed().as_secs_f64() * 1e6 / f64::from(ROUNDS));
    }
}

fn shell(line: &str) -> PermissionRequest {
    PermissionRequest::Shell {
        tool_call_id: None,
        full_command_text: line.into(),
        intention: String::new(),
        commands: Vec::new(),
        possible_paths: Vec::new(),
        possible_urls: Vec::new(),
        has_write_file_redirection: false,
        can_offer_session_approval: false,
        warning: None,
        input_to: None,
        repository_runs: None,
    }
}
