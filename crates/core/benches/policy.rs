//! Decisions of the permission policy about shell commands, parsing included: `cargo bench -p baton-core --bench policy`.
//!
//! The limit is 20 µs for a typical line.

use std::path::Path;

use baton_core::policy::territory::Territory;
use baton_core::policy::{Advice, Grant, Situation, decide};
use baton_protocol::event::PermissionMode;
use baton_protocol::permission::{Approval, PermissionRequest};
use baton_protocol::rules::{Rule, RuleKind, Rules};
use baton_protocol::sandbox::SandboxLevel;
use divan::{Bencher, black_box};

const LINES: [&str; 5] = [
    "echo hello",
    "git status --short && ls -la src | head -20",
    "cargo test --workspace --no-fail-fast 2>&1 | tail -30",
    "grep -rn 'fn main' src | sort | uniq | wc -l; cat Cargo.toml",
    "for f in *.rs; do sed -i 's/a/b/' \"$f\"; done",
];

fn main() {
    divan::main();
}

#[divan::bench(args = LINES, sample_size = 100)]
fn decision(bencher: Bencher<'_, '_>, line: &str) {
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
        sandbox: SandboxLevel::Off,
    };
    let request = shell(line);
    bencher.bench_local(|| decide(black_box(&request), black_box(&situation)));
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
        sandbox: None,
        request_sandbox_bypass: None,
        request_sandbox_bypass_reason: None,
    }
}
