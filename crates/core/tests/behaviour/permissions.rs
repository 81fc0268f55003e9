//! Permission requests, grants and rules, as the session handles them.

use super::*;
use baton_core::policy::Advice;
use baton_core::{Change, Prepared};
use baton_protocol::Author;
use baton_protocol::event::{ApprovalsChanged, WorkContext};
use baton_protocol::permission::{Approval, PermissionRequest};
use baton_protocol::rules::{Rule, RuleKind};

fn commands(identifiers: &[&str]) -> Approval {
    Approval::Commands { command_identifiers: identifiers.iter().map(|id| (*id).to_owned()).collect() }
}

/// Whether a call of this shell line runs without a permission request.
fn runs_unasked(world: &mut World, line: &str) -> bool {
    world.abort();
    world.prompt(SendMode::Enqueue);
    world.finish(world.only(|w| matches!(w, Work::PreparePrompt { .. })), prepared_prompt());
    world.finish(world.only(is_ask), model_answer(world.log.len() as u64, &["bash"]));
    let prepare = world.only(|w| matches!(w, Work::PrepareCall { .. }));
    world.finish(prepare, wants_shell(line));
    world.running.values().any(|work| matches!(work, Work::RunTool { .. }))
}

#[test]
fn grant_covers_only_what_was_shown() {
    let mut world = acting("bash", |_| wants_shell("echo hello"));
    world.answer(&the_request(&world), permission_answer(Verdict::ApproveForSession(None)));
    assert_eq!(world.session.durable.grants[0].approval, commands(&["echo"]));
    assert!(runs_unasked(&mut world, "echo another"));
    for line in ["echo $(id)", "echo x; rm -rf y", "echo ${_@P}", "echo x > file", "echo `id`", "./echo x"] {
        assert!(!runs_unasked(&mut world, line), "{line}");
    }
}

#[test]
fn unoffered_grant_is_refused_and_the_request_stays_open() {
    let mut world = acting("bash", |_| wants_shell("make test"));
    let request = the_request(&world);
    for approval in [commands(&["rm"]), commands(&[]), Approval::Write {}] {
        let reply = world.answer(&request, permission_answer(Verdict::ApproveForSession(Some(approval))));
        assert!(
            matches!(world.outcome_of(reply), Some(AnswerOutcome::NotOffered(_))),
            "{:?}",
            world.outcome_of(reply)
        );
        assert_eq!(the_request(&world), request);
    }
    let wide = permission_answer(Verdict::ApproveForSession(Some(commands(&["make:*"]))));
    let reply = world.answer(&request, wide);
    assert_eq!(world.outcome_of(reply), Some(AnswerOutcome::Counted));
    assert!(runs_unasked(&mut world, "make install"));
}

#[test]
fn opaque_line_offers_no_grant() {
    let mut world = acting("bash", |_| wants_shell("for f in *; do rm $f; done"));
    let request = the_request(&world);
    let reply = world.answer(&request, permission_answer(Verdict::ApproveForSession(None)));
    assert!(matches!(world.outcome_of(reply), Some(AnswerOutcome::NotOffered(_))));
    let reply = world.answer(&request, approve());
    assert_eq!(world.outcome_of(reply), Some(AnswerOutcome::Counted));
    assert!(world.session.durable.grants.is_empty());
}

#[test]
fn location_grant_counts_once_it_is_stored() {
    let mut world = acting("bash", |_| wants_shell("echo hello"));
    let request = the_request(&world);
    let verdict = Verdict::ApproveForLocation { approval: None, location_key: "/work".into() };
    let reply = world.answer(&request, permission_answer(verdict.clone()));
    assert!(world.outcome_of(reply).is_none(), "not before it is stored");
    let rival = world.answer(&request, approve());
    assert_eq!(world.outcome_of(rival), Some(AnswerOutcome::TooLate));
    let save = world.only(|w| matches!(w, Work::SaveGrant { .. }));
    world.finish(save, WorkResult::SaveGrant(Err("disk full".into())));
    assert_eq!(world.outcome_of(reply), Some(AnswerOutcome::Refused("disk full".into())));
    assert_eq!(the_request(&world), request, "the request is open again");
    let reply = world.answer(&request, permission_answer(verdict));
    let save = world.only(|w| matches!(w, Work::SaveGrant { .. }));
    world.finish(save, WorkResult::SaveGrant(Ok(())));
    assert_eq!(world.outcome_of(reply), Some(AnswerOutcome::Counted));
    world.only(|w| matches!(w, Work::RunTool { .. }));
}

#[test]
fn deny_rule_wins_over_answers_and_allow_all() {
    let mut world = acting("bash", |_| wants_shell("rm file"));
    world.deny(Rule::new(RuleKind::Shell, Some("rm")));
    let reply = world.answer(&the_request(&world), approve());
    assert_eq!(world.outcome_of(reply), Some(AnswerOutcome::Counted));
    assert_eq!(last_result(&world).1, "Permission denied by a rule");
    world.allow_all();
    assert!(!runs_unasked(&mut world, "rm file"));
    assert!(world.open_requests().is_empty(), "there is no request for a denied line");
    assert!(runs_unasked(&mut world, "ls"));
}

#[test]
fn deny_rule_wins_over_a_hook() {
    let mut world = asking();
    world.deny(Rule::new(RuleKind::CustomTool, Some("client_tool")));
    world.finish(world.only(is_ask), model_answer(1, &["client_tool"]));
    let prepare = world.only(|w| matches!(w, Work::PrepareCall { .. }));
    let wants = Some(permission_request(&"call-1-0".into(), Route::Client));
    let (route, advice) = (Route::Client, Advice::Allow);
    let prepared = Prepared::Runnable { route, wants, advice, cwd: None, arguments: None };
    world.finish(prepare, WorkResult::PrepareCall(prepared));
    assert_eq!(last_result(&world), (false, "Permission denied by a rule of this session".into()));
}

#[test]
fn deny_rule_survives_a_crash() {
    let mut world = World::new();
    world.allow_all();
    world.deny(Rule::new(RuleKind::Shell, Some("rm")));
    world.crash();
    world.resume(1, &[], None);
    assert!(!runs_unasked(&mut world, "rm file"));
    assert!(runs_unasked(&mut world, "ls"));
}

#[test]
fn allow_all_asks_for_what_a_deny_rule_may_name() {
    let mut world = World::new();
    world.allow_all();
    assert!(runs_unasked(&mut world, "for f in *; do rm $f; done"), "allow-all covers opaque lines");
    world.deny(Rule::new(RuleKind::Shell, Some("rm")));
    assert!(!runs_unasked(&mut world, "for f in *; do rm $f; done"));
}

#[test]
fn unattended_approval_does_not_cover_what_a_deny_rule_may_name() {
    let mut world = acting("bash", |_| wants_shell("bash script.sh"));
    world.deny(Rule::new(RuleKind::Shell, Some("rm")));
    let request = the_request(&world);
    let reply = world.answer(&request, RequestAnswer::ApproveUnattended(Author("ada".into())));
    assert!(matches!(world.outcome_of(reply), Some(AnswerOutcome::Refused(_))));
    assert_eq!(the_request(&world), request);
    let mut world = acting("bash", |_| wants_shell("bash script.sh"));
    let reply = world.answer(&the_request(&world), RequestAnswer::ApproveUnattended(Author("ada".into())));
    assert_eq!(world.outcome_of(reply), Some(AnswerOutcome::Counted));
    let by = world.log.iter().find_map(|event| match &event.body {
        Body::PermissionCompleted(completed) => completed.by.clone(),
        _ => None,
    });
    assert_eq!(by, Some(Author("ada".into())), "the person whose client it is");
}

#[test]
fn grants_have_authors_and_can_be_revoked() {
    let mut world = acting("bash", |_| wants_shell("echo hello"));
    world.answer(&the_request(&world), permission_answer(Verdict::ApproveForSession(None)));
    let grant = world.session.durable.grants[0].clone();
    assert_eq!(grant.by, Some(Author::http()));
    let given = world.log.iter().find_map(|event| match &event.body {
        Body::ApprovalsChanged(change) => Some((event.id, change.clone())),
        _ => None,
    });
    let recorded = ApprovalsChanged {
        approval: Some(commands(&["echo"])),
        by: Some(Author::http()),
        ..ApprovalsChanged::default()
    };
    assert_eq!(given, Some((grant.id.unwrap(), recorded)));
    let change = Change::Revoke { grant: grant.id, by: Author::crush() };
    world.change(change.clone());
    assert!(world.session.durable.grants.is_empty());
    assert!(!runs_unasked(&mut world, "echo hello"));
    assert_eq!(world.change(change), None, "the grant is gone");
}

#[test]
fn server_in_allow_all_mode_keeps_deny_rules() {
    let mut world = World::new();
    world.session.live.allow_all = true;
    assert!(runs_unasked(&mut world, "make install"));
    world.deny(Rule::new(RuleKind::Shell, Some("make")));
    assert!(!runs_unasked(&mut world, "make install"));
}

#[test]
fn grant_holds_only_in_its_working_directory() {
    let mut world = acting("bash", |_| wants_shell("sh run.sh"));
    world.answer(&the_request(&world), permission_answer(Verdict::ApproveForSession(None)));
    assert!(runs_unasked(&mut world, "sh run.sh"));
    let context = WorkContext { cwd: "/elsewhere".into(), ..WorkContext::default() };
    world.change(Change::Context(context));
    assert!(!runs_unasked(&mut world, "sh run.sh"), "run.sh may be another file there");
}

/// A prepared call of an MCP server's tool, whose server and description have this digest.
fn wants_mcp(binding: &str) -> WorkResult {
    let wants = PermissionRequest::Mcp {
        tool_call_id: None,
        server_name: "s".into(),
        tool_name: "t".into(),
        tool_title: "T".into(),
        args: None,
        read_only: false,
        binding: Some(binding.into()),
    };
    let (route, advice) = (Route::BuiltIn, Advice::None);
    WorkResult::PrepareCall(Prepared::Runnable {
        route,
        wants: Some(wants),
        advice,
        cwd: None,
        arguments: None,
    })
}

#[test]
fn approval_of_an_mcp_tool_that_changed_meanwhile_is_asked_for_again() {
    for verdict in [Verdict::ApproveOnce, Verdict::ApproveForSession(None)] {
        let mut world = acting("s-t", |_| wants_mcp("c:d"));
        let request = the_request(&world);
        world.crash();
        world.resume(1, &[], Some(true));
        world.answer(&request, permission_answer(verdict.clone()));
        let run =
            world.only(|w| matches!(w, Work::RunTool { binding: Some(binding), .. } if binding == "c:d"));
        world.finish(run, WorkResult::Changed);
        let prepare = world.only(|w| matches!(w, Work::PrepareCall { .. }));
        world.finish(prepare, wants_mcp("c:other"));
        assert_ne!(the_request(&world), request, "{verdict:?}");
        world.answer(&the_request(&world), permission_answer(verdict));
        let run =
            world.only(|w| matches!(w, Work::RunTool { binding: Some(binding), .. } if binding == "c:other"));
        world.finish(run, WorkResult::RunTool(ToolResult::success("done")));
        assert_eq!(last_result(&world), (true, "done".into()));
    }
}

#[test]
fn location_grant_for_an_mcp_tool_is_bound_to_what_was_shown() {
    let mut world = acting("s-t", |_| wants_mcp("c:d"));
    let verdict = Verdict::ApproveForLocation { approval: None, location_key: "/work".into() };
    world.answer(&the_request(&world), permission_answer(verdict));
    world.only(|w| matches!(w, Work::SaveGrant { binding: Some(binding), .. } if binding == "c:d"));
}

#[test]
fn client_that_approves_everything_does_not_decide_for_a_hook() {
    let wants = |advice: Advice| {
        let wants = Some(shell_request("echo hello"));
        WorkResult::PrepareCall(Prepared::Runnable {
            route: Route::BuiltIn,
            wants,
            advice,
            cwd: None,
            arguments: None,
        })
    };
    let unattended = |world: &mut World| {
        let reply = world.answer(&the_request(world), RequestAnswer::ApproveUnattended(Author("ada".into())));
        world.outcome_of(reply)
    };
    let mut world = acting("bash", |_| wants(Advice::None));
    assert_eq!(unattended(&mut world), Some(AnswerOutcome::Counted));
    let mut world = acting("bash", |_| wants(Advice::Ask));
    world.crash();
    world.resume(1, &[], Some(true));
    assert!(matches!(unattended(&mut world), Some(AnswerOutcome::Refused(_))));
    let reply = world.answer(&the_request(&world), approve());
    assert_eq!(world.outcome_of(reply), Some(AnswerOutcome::Counted), "a user decides");
}
