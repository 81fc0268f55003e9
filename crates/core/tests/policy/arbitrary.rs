//! Random requests, rules, grants, modes and advice.

use std::path::Path;

use baton_core::policy::territory::Territory;
use baton_core::policy::{Advice, Grant, offers, with_offers};
use baton_protocol::event::PermissionMode;
use baton_protocol::permission::{Approval, PermissionRequest, PossibleUrl};
use baton_protocol::rules::{LocationRules, Rule, RuleKind, Rules};
use baton_protocol::sandbox::SandboxLevel;
use proptest::prelude::*;

/// Pieces of shell lines: plain, risky and opaque.
const PIECES: &[&str] = &[
    "echo",
    "ls",
    "-la",
    "hello",
    "'quoted; rm'",
    "git",
    "status",
    "push",
    "make",
    "rm",
    "-rf",
    "/bin/rm",
    "./ls",
    "&&",
    "||",
    ";",
    "|",
    "$HOME",
    "\"$HOME\"",
    "${x}",
    "$(id)",
    "`id`",
    "${_@P}",
    "$[1]",
    ">",
    "/dev/null",
    "2>&1",
    "file",
    "env",
    "xargs",
    "command",
    "builtin",
    "exec",
    "(",
    ")",
    "{",
    "}",
    "\n",
    "&",
    "*",
    "a=b",
    "cat",
    "sudo",
];
const PATHS: &[&str] = &[
    "/w",
    "/w/a",
    "/w/a/b",
    "/w/.git/hooks/pre-commit",
    "/home/.baton/token",
    "/etc/passwd",
    "/w/../etc",
    "/",
];
const URLS: &[&str] = &[
    "https://example.org/",
    "https://example.org/docs/a",
    "http://example.org/",
    "https://example.org:8443/",
    r"https://evil.org\@example.org/",
    "https://example.org@evil.org/",
    "http://127.0.0.1:3000/",
    "not a url",
];
const NAMES: &[&str] = &["one", "two", "server"];

fn pick(from: &'static [&'static str]) -> impl Strategy<Value = String> {
    proptest::sample::select(from).prop_map(str::to_owned)
}

fn line() -> impl Strategy<Value = String> {
    proptest::collection::vec(pick(PIECES), 1..6).prop_map(|pieces| pieces.join(" "))
}

pub(crate) fn request() -> impl Strategy<Value = PermissionRequest> {
    let shell = (
        line(),
        proptest::bool::weighted(0.1),
        proptest::option::of(pick(PATHS)),
        proptest::option::of(pick(URLS)),
        proptest::bool::weighted(0.3),
        proptest::option::of(level()),
        proptest::bool::weighted(0.2),
    );
    prop_oneof![
        4 => shell.prop_map(|(text, typed, path, url, runs, sandbox, leaves)| PermissionRequest::Shell {
            tool_call_id: None,
            full_command_text: text,
            intention: String::new(),
            commands: Vec::new(),
            possible_paths: path.into_iter().collect(),
            possible_urls: url.into_iter().map(|url| PossibleUrl { url }).collect(),
            has_write_file_redirection: false,
            can_offer_session_approval: false,
            warning: None,
            input_to: typed.then(|| "shell-1".to_owned()),
            repository_runs: runs.then(|| "filter.x.clean".to_owned()),
            sandbox: sandbox.filter(|level| level.is_inside() && !leaves),
            request_sandbox_bypass: leaves.then_some(true),
            request_sandbox_bypass_reason: leaves.then(|| "it needs the network".to_owned()),
        }),
        2 => pick(PATHS).prop_map(|file_name| PermissionRequest::Write {
            tool_call_id: None,
            file_name,
            diff: String::new(),
            intention: String::new(),
            new_file_contents: None,
            can_offer_session_approval: false,
        }),
        2 => pick(PATHS).prop_map(|path| PermissionRequest::Read { tool_call_id: None, path, intention: String::new() }),
        2 => pick(URLS).prop_map(|url| PermissionRequest::Url { tool_call_id: None, url, intention: String::new() }),
        1 => (pick(NAMES), pick(NAMES)).prop_map(|(server_name, tool_name)| PermissionRequest::Mcp {
            tool_call_id: None,
            server_name,
            tool_title: tool_name.clone(),
            tool_name,
            args: None,
            read_only: true,
            binding: None,
        }),
        1 => pick(NAMES).prop_map(|tool_name| PermissionRequest::CustomTool {
            tool_call_id: None,
            tool_name,
            tool_description: String::new(),
            args: None,
        }),
        1 => Just(PermissionRequest::Memory { tool_call_id: None, fact: None }),
    ]
    .prop_map(|request| with_offers(request, territory()))
}

pub(crate) fn rule() -> impl Strategy<Value = Rule> {
    let kinds = [
        RuleKind::Shell,
        RuleKind::Read,
        RuleKind::Write,
        RuleKind::Url,
        RuleKind::Mcp,
        RuleKind::CustomTool,
        RuleKind::Memory,
    ];
    (proptest::sample::select(kinds.to_vec()), any::<bool>(), line(), pick(PATHS), pick(URLS), pick(NAMES))
        .prop_map(|(kind, all, line, path, url, name)| {
            let argument = match kind {
                RuleKind::Shell => line.split(' ').next().unwrap_or_default().to_owned(),
                RuleKind::Read | RuleKind::Write => path,
                RuleKind::Url => url,
                RuleKind::Mcp | RuleKind::CustomTool | RuleKind::Memory => name,
            };
            Rule { kind, argument: (!all).then_some(argument), binding: None }
        })
}

pub(crate) fn rules() -> impl Strategy<Value = Rules> {
    let list = || proptest::collection::vec(rule(), 0..4);
    (list(), list(), list(), any::<bool>()).prop_map(|(approved, denied, location, all_reads)| Rules {
        approved,
        denied,
        location: Some(LocationRules { key: "/w".into(), rules: location }),
        all_reads,
        ..Rules::default()
    })
}

pub(crate) fn territory() -> Territory<'static> {
    let (cwd, home) = (Path::new("/w"), Some(Path::new("/home/.baton")));
    Territory { cwd, home, workspace: None, engine_files: &[] }
}

pub(crate) fn grant(approval: Approval) -> Grant {
    Grant { approval, id: None, by: None, at: None, cwd: Some("/w".into()), binding: None }
}

/// The grants that the default answers to some requests give.
pub(crate) fn grants() -> impl Strategy<Value = Vec<Grant>> {
    proptest::collection::vec((request(), any::<usize>()), 0..4).prop_map(|asked| {
        let given = asked.into_iter().filter_map(|(request, which)| {
            let offers = offers(&request, territory());
            let count = offers.len().max(1);
            offers.into_iter().nth(which % count)
        });
        given.map(|offer| grant(offer.approval)).collect()
    })
}

pub(crate) fn level() -> impl Strategy<Value = SandboxLevel> {
    proptest::sample::select(SandboxLevel::ALL.to_vec())
}

pub(crate) fn mode() -> impl Strategy<Value = PermissionMode> {
    prop_oneof![Just(PermissionMode::Manual), Just(PermissionMode::Assisted), Just(PermissionMode::AllowAll)]
}

pub(crate) fn advice() -> impl Strategy<Value = Advice> {
    prop_oneof![Just(Advice::None), Just(Advice::Allow), Just(Advice::EachTime), Just(Advice::Ask)]
}
