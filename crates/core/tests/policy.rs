//! The laws of the permission policy, checked with random requests, rules, grants, modes and advice.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::Path;

use baton_core::policy::shell::Line;
use baton_core::policy::territory::Territory;
use baton_core::policy::{
    Advice, Decision, Grant, Reason, Situation, decide, grant_of, is_denied, offers, with_offers,
};
use baton_protocol::event::PermissionMode;
use baton_protocol::permission::{Approval, PermissionRequest, PossibleUrl};
use baton_protocol::rules::{LocationRules, Rule, RuleKind, Rules};
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

fn request() -> impl Strategy<Value = PermissionRequest> {
    let shell = (
        line(),
        proptest::bool::weighted(0.1),
        proptest::option::of(pick(PATHS)),
        proptest::option::of(pick(URLS)),
        proptest::bool::weighted(0.3),
    );
    prop_oneof![
        4 => shell.prop_map(|(text, typed, path, url, runs)| PermissionRequest::Shell {
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

fn rule() -> impl Strategy<Value = Rule> {
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

fn rules() -> impl Strategy<Value = Rules> {
    let list = || proptest::collection::vec(rule(), 0..4);
    (list(), list(), list(), any::<bool>()).prop_map(|(approved, denied, location, all_reads)| Rules {
        approved,
        denied,
        location: Some(LocationRules { key: "/w".into(), rules: location }),
        all_reads,
        ..Rules::default()
    })
}

fn territory() -> Territory<'static> {
    Territory { cwd: Path::new("/w"), home: Some(Path::new("/home/.baton")), workspace: None }
}

fn grant(approval: Approval) -> Grant {
    Grant { approval, id: None, by: None, at: None, cwd: Some("/w".into()), binding: None }
}

#[test]
fn write_of_several_files_is_covered_only_if_each_file_is() {
    let write = |file_name: &str| {
        let request = PermissionRequest::Write {
            tool_call_id: None,
            file_name: file_name.into(),
            diff: String::new(),
            intention: String::new(),
            new_file_contents: None,
            can_offer_session_approval: false,
        };
        with_offers(request, territory())
    };
    let (grants, none) = ([grant(Approval::Write {})], Rules::default());
    let territory = territory();
    let (mode, advice) = (PermissionMode::Manual, Advice::None);
    let situation = Situation { mode, rules: &none, grants: &grants, territory, advice, cwd: "/w" };
    let allowed = |files: &str| matches!(decide(&write(files), &situation), Decision::Allow(_));
    assert!(allowed("/w/a") && allowed("/w/a\n/w/b"));
    for files in ["/w/a\n/etc/passwd", "/etc/passwd\n/w/a", "/w/a\n/w/.git/config", "/w/a\n", ""] {
        assert!(!allowed(files), "{files:?}");
        assert!(offers(&write(files), territory).is_empty(), "{files:?}");
    }
    let rules = Rules { denied: vec![Rule::new(RuleKind::Write, Some("/etc"))], ..Rules::default() };
    assert!(is_denied(&write("/w/a\n/etc/passwd"), &rules));
}

/// The grants that the default answers to some requests give.
fn grants() -> impl Strategy<Value = Vec<Grant>> {
    proptest::collection::vec((request(), any::<usize>()), 0..4).prop_map(|asked| {
        let given = asked.into_iter().filter_map(|(request, which)| {
            let offers = offers(&request, territory());
            let count = offers.len().max(1);
            offers.into_iter().nth(which % count)
        });
        given.map(|offer| grant(offer.approval)).collect()
    })
}

fn mode() -> impl Strategy<Value = PermissionMode> {
    prop_oneof![Just(PermissionMode::Manual), Just(PermissionMode::Assisted), Just(PermissionMode::AllowAll)]
}

fn advice() -> impl Strategy<Value = Advice> {
    prop_oneof![Just(Advice::None), Just(Advice::Allow), Just(Advice::Ask)]
}

fn is_understood(request: &PermissionRequest) -> bool {
    match request {
        PermissionRequest::Shell { input_to: Some(_), .. } => false,
        PermissionRequest::Shell { full_command_text, .. } => {
            matches!(Line::parse(full_command_text), Line::Commands(_))
        }
        _ => true,
    }
}

/// Whether git commands of the line count as able to run any program.
fn is_distrusted(request: &PermissionRequest) -> bool {
    match request {
        PermissionRequest::Shell { full_command_text, repository_runs, .. } => {
            repository_runs.is_some() && Line::parse(full_command_text).reads_repository()
        }
        _ => false,
    }
}

fn git_request(line: &str, repository_runs: Option<&str>) -> PermissionRequest {
    let request = PermissionRequest::Shell {
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
        repository_runs: repository_runs.map(str::to_owned),
    };
    with_offers(request, territory())
}

#[test]
fn grant_for_git_does_not_cover_a_repository_that_runs_programs() {
    let commands = |identifier: &str| Approval::Commands { command_identifiers: vec![identifier.to_owned()] };
    let (none, territory) = (Rules::default(), territory());
    let decided = |identifier: &str, line: &str, setting: Option<&str>| {
        let grants = [grant(commands(identifier))];
        let (mode, advice) = (PermissionMode::Manual, Advice::None);
        let situation = Situation { mode, rules: &none, grants: &grants, territory, advice, cwd: "/w" };
        decide(&git_request(line, setting), &situation)
    };
    let runs = Some("filter.x.clean");
    for line in ["git status", "git status -s", "git rev-parse HEAD", "echo a && git ls-files"] {
        let Some(offer) = offers(&git_request(line, None), territory).into_iter().next() else {
            panic!("{line} offers nothing")
        };
        let Approval::Commands { command_identifiers } = offer.approval else { panic!("{line}") };
        let grants: Vec<Grant> = command_identifiers.iter().map(|id| grant(commands(id))).collect();
        let in_state = |setting: Option<&str>| {
            let (mode, advice) = (PermissionMode::Manual, Advice::None);
            let situation = Situation { mode, rules: &none, grants: &grants, territory, advice, cwd: "/w" };
            decide(&git_request(line, setting), &situation)
        };
        assert!(matches!(in_state(None), Decision::Allow(_)), "{line}");
        assert_eq!(in_state(runs), Decision::Ask(Reason::Repository("filter.x.clean".into())), "{line}");
        assert!(offers(&git_request(line, runs), territory).is_empty(), "{line}: asked each time");
    }
    assert!(matches!(decided("git:*", "git status", runs), Decision::Allow(_)), "git can run anything");
    assert!(matches!(decided("echo", "echo git", runs), Decision::Allow(_)), "no git command");
    for line in
        ["git -C x status", "git --git-dir=x status", "git --work-tree x status", "cd x && git status"]
    {
        assert!(matches!(decided("git status", line, None), Decision::Ask(_)), "{line}");
    }
    let rules = Rules { denied: vec![Rule::new(RuleKind::Write, None)], ..Rules::default() };
    assert!(!is_denied(&git_request("git status", None), &rules));
    assert!(is_denied(&git_request("git status", runs), &rules), "a filter can write");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, max_global_rejects: 1_000_000, ..ProptestConfig::default() })]

    #[test]
    fn deny_rule_always_wins(request in request(), rules in rules(), grants in grants(), mode in mode(), advice in advice()) {
        let situation = Situation { mode, rules: &rules, grants: &grants, territory: territory(), advice, cwd: "/w" };
        let denied = matches!(decide(&request, &situation), Decision::Deny(_));
        prop_assert_eq!(denied, is_denied(&request, &rules));
    }

    #[test]
    fn opaque_requests_are_never_granted(request in request(), mut rules in rules(), grants in grants()) {
        prop_assume!(!is_understood(&request));
        let with = |mode, advice, rules: &Rules| {
            decide(&request, &Situation { mode, rules, grants: &grants, territory: territory(), advice, cwd: "/w" })
        };
        prop_assert!(!matches!(with(PermissionMode::Manual, Advice::None, &rules), Decision::Allow(_)));
        rules.denied.push(Rule::new(RuleKind::Shell, Some("never-seen")));
        for mode in [PermissionMode::Manual, PermissionMode::AllowAll] {
            for advice in [Advice::None, Advice::Allow] {
                prop_assert!(!matches!(with(mode, advice, &rules), Decision::Allow(_)));
            }
        }
    }

    #[test]
    fn grant_covers_only_requests_that_offer_it(
        asked in request(), which in any::<usize>(), other in request(),
    ) {
        let offered = offers(&asked, territory());
        prop_assume!(!offered.is_empty());
        let given = offered[which % offered.len()].approval.clone();
        let grants = [grant(given.clone())];
        let none = Rules::default();
        let situation = Situation {
            mode: PermissionMode::Manual,
            rules: &none,
            grants: &grants,
            territory: territory(),
            advice: Advice::None,
            cwd: "/w",
        };
        prop_assert!(matches!(decide(&asked, &situation), Decision::Allow(_)), "a grant covers what it was given for");
        if matches!(decide(&other, &situation), Decision::Allow(_)) {
            let part_of = |offer: &Approval| match (offer, &given) {
                (Approval::Commands { command_identifiers: a }, Approval::Commands { command_identifiers: b }) => {
                    a.iter().all(|id| b.contains(id))
                }
                (offer, given) => offer == given,
            };
            let is_wide = matches!(&given, Approval::Commands { command_identifiers } if command_identifiers.iter().any(|id| id.ends_with(":*")));
            let is_offered = offers(&other, territory()).iter().any(|offer| part_of(&offer.approval));
            prop_assert!(is_offered || (is_wide && is_distrusted(&other)), "{:?}", given);
        }
    }

    #[test]
    fn unoffered_grant_is_refused(request in request(), named in request()) {
        let foreign = offers(&named, territory());
        let own: Vec<Approval> = offers(&request, territory()).into_iter().map(|offer| offer.approval).collect();
        for offer in foreign {
            let accepted = grant_of(&request, territory(), Some(&offer.approval));
            let is_part = match &offer.approval {
                Approval::Commands { command_identifiers } => own.iter().any(|mine| {
                    matches!(mine, Approval::Commands { command_identifiers: all }
                        if command_identifiers.iter().all(|id| all.contains(id)))
                }),
                other => own.contains(other),
            };
            prop_assert_eq!(accepted.is_ok(), is_part);
        }
    }

    #[test]
    fn adding_a_deny_rule_never_allows_more(
        request in request(), rules in rules(), more in rule(), grants in grants(), mode in mode(), advice in advice(),
    ) {
        let situation = Situation { mode, rules: &rules, grants: &grants, territory: territory(), advice, cwd: "/w" };
        let before = decide(&request, &situation);
        let mut stricter = rules.clone();
        stricter.denied.push(more);
        let after = decide(&request, &Situation { rules: &stricter, ..situation });
        prop_assert!(!matches!(after, Decision::Allow(_)) || matches!(before, Decision::Allow(_)));
        prop_assert!(!matches!(before, Decision::Deny(_)) || matches!(after, Decision::Deny(_)));
    }

    #[test]
    fn batons_home_and_implicitly_executed_files_are_never_granted(rules in rules(), grants in grants()) {
        for path in ["/home/.baton/token", "/w/.git/hooks/pre-commit", "/w/sub/.bashrc"] {
            let request = PermissionRequest::Write {
                tool_call_id: None,
                file_name: path.into(),
                diff: String::new(),
                intention: String::new(),
                new_file_contents: None,
                can_offer_session_approval: true,
                };
            let mode = PermissionMode::Manual;
            let situation =
                Situation { mode, rules: &rules, grants: &grants, territory: territory(), advice: Advice::None, cwd: "/w" };
            prop_assert!(!matches!(decide(&request, &situation), Decision::Allow(_)), "{}", path);
        }
    }
}

#[test]
fn unresolved_paths_are_never_allowed_by_grants_or_past_deny_rules() {
    let read = |path: &str| PermissionRequest::Read {
        tool_call_id: None,
        path: path.into(),
        intention: String::new(),
    };
    let hook = PermissionRequest::Hook {
        tool_call_id: None,
        tool_name: "permissions".into(),
        tool_args: None,
        hook_message: None,
    };
    let (grants, territory) = ([grant(Approval::Read {})], territory());
    let denied = vec![Rule::new(RuleKind::Read, Some("/w/Secret"))];
    let (none, rules) = (Rules::default(), Rules { denied, ..Rules::default() });
    let with = |request: &PermissionRequest, rules: &Rules, mode: PermissionMode| {
        let (advice, cwd) = (Advice::None, "/w");
        decide(request, &Situation { mode, rules, grants: &grants, territory, advice, cwd })
    };
    for path in ["(unknown)", "~/x", "", "/w/../x"] {
        assert!(matches!(with(&read(path), &none, PermissionMode::Manual), Decision::Ask(_)), "{path}");
        assert!(offers(&read(path), territory).is_empty(), "{path}");
        assert!(!matches!(with(&read(path), &rules, PermissionMode::AllowAll), Decision::Allow(_)), "{path}");
    }
    assert!(
        matches!(with(&read("/w/secret/f"), &rules, PermissionMode::AllowAll), Decision::Deny(_)),
        "any case"
    );
    assert!(matches!(with(&hook, &rules, PermissionMode::AllowAll), Decision::Ask(_)));
    assert!(matches!(with(&read("/w/a"), &rules, PermissionMode::AllowAll), Decision::Allow(_)));
}

#[test]
fn grant_for_an_mcp_tool_ends_when_server_or_tool_change() {
    let request = |tool: &str, binding: &str| PermissionRequest::Mcp {
        tool_call_id: None,
        server_name: "s".into(),
        tool_name: tool.into(),
        tool_title: tool.into(),
        args: None,
        read_only: false,
        binding: Some(binding.into()),
    };
    let decided = |rules: &Rules, grants: &[Grant], request: &PermissionRequest| {
        let (mode, advice) = (PermissionMode::Manual, Advice::None);
        let situation = Situation { mode, rules, grants, territory: territory(), advice, cwd: "/w" };
        matches!(decide(request, &situation), Decision::Allow(_))
    };
    // A grant of the session and one of its location cover the same.
    let covers = |tool_name: Option<&str>, binding: Option<&str>, request: &PermissionRequest| {
        let approval = Approval::Mcp { server_name: "s".into(), tool_name: tool_name.map(str::to_owned) };
        let rules = Rule::of(&approval, binding);
        let location = Some(LocationRules { key: "/w".into(), rules });
        let grants = [Grant { binding: binding.map(str::to_owned), ..grant(approval) }];
        let by_location = decided(&Rules { location, ..Rules::default() }, &[], request);
        assert_eq!(decided(&Rules::default(), &grants, request), by_location);
        by_location
    };
    assert!(covers(Some("t"), Some("c:d"), &request("t", "c:d")));
    assert!(!covers(Some("t"), Some("c:d"), &request("t", "c:other")), "another description");
    assert!(!covers(Some("t"), Some("c:d"), &request("t", "other:d")), "another program");
    assert!(!covers(Some("t"), Some("c:d"), &request("u", "c:d")));
    assert!(covers(None, Some("c:d"), &request("u", "c:other")), "a tool that was added later");
    assert!(!covers(None, Some("c:d"), &request("u", "other:other")), "another program");
    assert!(covers(Some("t"), None, &request("t", "c:d")), "given by an older version");
}
