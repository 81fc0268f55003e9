//! The laws of the permission policy, checked with random requests, rules, grants, modes and advice.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "policy/arbitrary.rs"]
mod arbitrary;

use baton_core::policy::shell::Line;
use baton_core::policy::{
    Advice, Decision, Grant, Reason, Situation, decide, grant_of, is_denied, offers, with_offers,
};
use baton_protocol::event::PermissionMode;
use baton_protocol::permission::{Approval, PermissionRequest};
use baton_protocol::rules::{LocationRules, Rule, RuleKind, Rules};
use baton_protocol::sandbox::SandboxLevel;
use proptest::prelude::*;

use arbitrary::{advice, grant, grants, level, mode, request, rule, rules, territory};

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
    let situation = Situation {
        mode,
        rules: &none,
        grants: &grants,
        territory,
        advice,
        cwd: "/w",
        sandbox: SandboxLevel::Off,
    };
    let allowed = |files: &str| matches!(decide(&write(files), &situation), Decision::Allow(_));
    assert!(allowed("/w/a") && allowed("/w/a\n/w/b"));
    for files in ["/w/a\n/etc/passwd", "/etc/passwd\n/w/a", "/w/a\n/w/.git/config", "/w/a\n", ""] {
        assert!(!allowed(files), "{files:?}");
        assert!(offers(&write(files), territory).is_empty(), "{files:?}");
    }
    let rules = Rules { denied: vec![Rule::new(RuleKind::Write, Some("/etc"))], ..Rules::default() };
    assert!(is_denied(&write("/w/a\n/etc/passwd"), &rules));
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
        sandbox: None,
        request_sandbox_bypass: None,
        request_sandbox_bypass_reason: None,
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
        let situation = Situation {
            mode,
            rules: &none,
            grants: &grants,
            territory,
            advice,
            cwd: "/w",
            sandbox: SandboxLevel::Off,
        };
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
            let situation = Situation {
                mode,
                rules: &none,
                grants: &grants,
                territory,
                advice,
                cwd: "/w",
                sandbox: SandboxLevel::Off,
            };
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

/// Ways to run `rm` in bash.
const LINES_THAT_RUN_RM: &[&str] = &[
    "rm x",
    "/bin/rm x",
    "./rm x",
    "r\"\"m x",
    "'rm' x",
    r"\rm x",
    "command rm x",
    "builtin command rm x",
    "exec rm x",
    "a=b rm x",
    "ls && rm x",
    "ls || rm x",
    "ls; rm x",
    "ls | rm x",
    "ls & rm x",
    "ls\nrm x",
    "(rm x)",
    "{ rm x; }",
    "! rm x",
    "time rm x",
    "echo $(rm x)",
    "echo `rm x`",
    "cat <(rm x)",
    "if true; then rm x; fi",
    "while rm x; do :; done",
    "for f in a; do rm $f; done",
    "case a in a) rm x;; esac",
    "f() { rm x; }; f",
    "eval rm x",
    "bash -c 'rm x'",
    "x=rm; $x y",
    "alias y=rm; y x",
    "trap 'rm x' EXIT",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, max_global_rejects: 1_000_000, ..ProptestConfig::default() })]

    /// Knows nothing of how rules are compared: whatever allows everything else, a line that runs `rm` is not allowed.
    #[test]
    fn denied_program_never_runs(
        line in proptest::sample::select(LINES_THAT_RUN_RM),
        mut rules in rules(), mut grants in grants(), mode in mode(), advice in advice(), sandbox in level(),
    ) {
        rules.approved.push(Rule::new(RuleKind::Shell, None));
        rules.denied.push(Rule::new(RuleKind::Shell, Some("rm")));
        let exact = vec![line.to_owned(), "rm".to_owned(), "rm:*".to_owned()];
        grants.push(grant(Approval::Commands { command_identifiers: exact }));
        let situation = Situation { mode, rules: &rules, grants: &grants, territory: territory(), advice, cwd: "/w", sandbox };
        let decided = decide(&git_request(line, None), &situation);
        prop_assert!(!matches!(decided, Decision::Allow(_)), "{}: {:?}", line, decided);
    }

    #[test]
    fn deny_rule_always_wins(request in request(), rules in rules(), grants in grants(), mode in mode(), advice in advice(), sandbox in level()) {
        let situation = Situation { mode, rules: &rules, grants: &grants, territory: territory(), advice, cwd: "/w", sandbox };
        let denied = matches!(decide(&request, &situation), Decision::Deny(_));
        prop_assert_eq!(denied, is_denied(&request, &rules));
    }

    #[test]
    fn opaque_requests_are_never_granted(request in request(), mut rules in rules(), grants in grants()) {
        prop_assume!(!is_understood(&request));
        let with = |mode, advice, rules: &Rules| {
            decide(&request, &Situation { mode, rules, grants: &grants, territory: territory(), advice, cwd: "/w", sandbox: SandboxLevel::Off })
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
            sandbox: SandboxLevel::Off,
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
    fn command_that_leaves_the_sandbox_is_covered_by_nothing(
        mut request in request(), mut rules in rules(), mut grants in grants(), assisted in any::<bool>(),
        advice in advice(), sandbox in level(),
    ) {
        let PermissionRequest::Shell { request_sandbox_bypass, full_command_text, .. } = &mut request else {
            return Err(TestCaseError::reject("no command"));
        };
        *request_sandbox_bypass = Some(true);
        rules.approved.push(Rule::new(RuleKind::Shell, None));
        grants.push(grant(Approval::Commands { command_identifiers: vec![full_command_text.clone()] }));
        let mode = if assisted { PermissionMode::Assisted } else { PermissionMode::Manual };
        let situation = Situation { mode, rules: &rules, grants: &grants, territory: territory(), advice, cwd: "/w", sandbox };
        prop_assert!(!matches!(decide(&request, &situation), Decision::Allow(_)));
        prop_assert!(offers(&request, territory()).is_empty());
        prop_assert!(grant_of(&request, territory(), None).is_err());
    }

    #[test]
    fn sandbox_changes_nothing_in_other_modes(
        request in request(), rules in rules(), grants in grants(), all in any::<bool>(), advice in advice(), sandbox in level(),
    ) {
        let mode = if all { PermissionMode::AllowAll } else { PermissionMode::Manual };
        let situation = Situation { mode, rules: &rules, grants: &grants, territory: territory(), advice, cwd: "/w", sandbox };
        let outside = Situation { sandbox: SandboxLevel::Off, ..situation };
        prop_assert_eq!(decide(&request, &situation), decide(&request, &outside));
        let mut asked_outside = request.clone();
        if let PermissionRequest::Shell { sandbox, .. } = &mut asked_outside {
            *sandbox = None;
        }
        prop_assert_eq!(decide(&request, &situation), decide(&asked_outside, &outside));
    }

    /// Assisted mode allows what manual mode allows, and beyond that only what cannot leave the sandbox.
    #[test]
    fn assisted_mode_allows_more_only_inside(
        request in request(), rules in rules(), grants in grants(), advice in advice(), sandbox in level(),
    ) {
        let mode = PermissionMode::Assisted;
        let situation = Situation { mode, rules: &rules, grants: &grants, territory: territory(), advice, cwd: "/w", sandbox };
        let decided = decide(&request, &situation);
        if decided != Decision::Allow(Reason::Inside) {
            prop_assert_eq!(decided, decide(&request, &Situation { mode: PermissionMode::Manual, ..situation }));
            return Ok(());
        }
        prop_assert!(matches!(advice, Advice::None));
        let below_cwd = |file: &str| file.starts_with("/w/") && !file.contains("/../") || file == "/w";
        match &request {
            PermissionRequest::Shell { sandbox, .. } => prop_assert!(sandbox.is_some()),
            PermissionRequest::Write { .. } => {
                prop_assert_eq!(sandbox, SandboxLevel::Workspace);
                prop_assert!(request.files().all(|file| below_cwd(file) && !file.contains("/.git/")));
            }
            PermissionRequest::Read { .. } => {
                prop_assert!(sandbox.is_inside() && request.files().all(below_cwd));
            }
            other => prop_assert!(false, "{:?} has no sandbox", other),
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
        request in request(), rules in rules(), more in rule(), grants in grants(), mode in mode(), advice in advice(), sandbox in level(),
    ) {
        let situation = Situation { mode, rules: &rules, grants: &grants, territory: territory(), advice, cwd: "/w", sandbox };
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
                Situation { mode, rules: &rules, grants: &grants, territory: territory(), advice: Advice::None, cwd: "/w", sandbox: SandboxLevel::Off };
            prop_assert!(!matches!(decide(&request, &situation), Decision::Allow(_)), "{}", path);
        }
    }
}

#[test]
fn assisted_mode_runs_commands_inside_and_asks_about_others() {
    let (none, territory) = (Rules::default(), territory());
    let decided = |request: &PermissionRequest| {
        let (mode, advice, sandbox) = (PermissionMode::Assisted, Advice::None, SandboxLevel::Workspace);
        decide(request, &Situation { mode, rules: &none, grants: &[], territory, advice, cwd: "/w", sandbox })
    };
    let with = |level: Option<SandboxLevel>| {
        let mut request = git_request("curl $(id) | sh", None);
        if let PermissionRequest::Shell { sandbox, .. } = &mut request {
            *sandbox = level;
        }
        request
    };
    assert_eq!(decided(&with(Some(SandboxLevel::Workspace))), Decision::Allow(Reason::Inside));
    assert_eq!(decided(&with(Some(SandboxLevel::ReadOnly))), Decision::Allow(Reason::Inside));
    assert_eq!(decided(&with(Some(SandboxLevel::Off))), Decision::Ask(Reason::NothingCovers));
    assert_eq!(decided(&with(None)), Decision::Ask(Reason::NothingCovers));
    let url = PermissionRequest::Url {
        tool_call_id: None,
        url: "https://x.example/".into(),
        intention: String::new(),
    };
    assert_eq!(decided(&url), Decision::Ask(Reason::NothingCovers));
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
        decide(
            request,
            &Situation { mode, rules, grants: &grants, territory, advice, cwd, sandbox: SandboxLevel::Off },
        )
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
        let situation = Situation {
            mode,
            rules,
            grants,
            territory: territory(),
            advice,
            cwd: "/w",
            sandbox: SandboxLevel::Off,
        };
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

#[test]
fn rule_for_an_mcp_tool_covers_no_server_of_that_name() {
    let rules = Rules {
        location: Some(LocationRules {
            key: "/w".into(),
            rules: vec![Rule::new(RuleKind::Mcp, Some("s(echo)"))],
        }),
        ..Rules::default()
    };
    let covers = |server: &str, tool: &str| {
        let request = PermissionRequest::Mcp {
            tool_call_id: None,
            server_name: server.into(),
            tool_name: tool.into(),
            tool_title: tool.into(),
            args: None,
            read_only: false,
            binding: None,
        };
        let (mode, advice) = (PermissionMode::Manual, Advice::None);
        let situation = Situation {
            mode,
            rules: &rules,
            grants: &[],
            territory: territory(),
            advice,
            cwd: "/w",
            sandbox: SandboxLevel::Off,
        };
        matches!(decide(&request, &situation), Decision::Allow(_))
    };
    assert!(covers("s", "echo") && !covers("s", "shell"));
    assert!(!covers("s(echo)", "shell"), "a server that is called like the rule");
}
