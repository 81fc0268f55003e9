//! Permission requests, grants and rules, as the session handles them.

use super::*;
use baton_core::policy::Advice;
use baton_core::{Change, Prepared, ReplyTo};
use baton_protocol::Author;
use baton_protocol::event::{ApprovalsChanged, PermissionMode, WorkContext};
use baton_protocol::permission::Approval;
use baton_protocol::rules::{Rule, RuleKind};

fn commands(identifiers: &[&str]) -> Approval {
    Approval::Commands { command_identifiers: identifiers.iter().map(|id| (*id).to_owned()).collect() }
}

fn allow_all(world: &mut World) {
    let change = Change::Permissions(PermissionMode::AllowAll);
    world.take(Input::Change { reply: ReplyTo(9100), change });
}

/// Whether the next call that wants this shell line runs without anybody being asked.
fn runs_unasked(world: &mut World, line: &str) -> bool {
    world.abort();
    world.prompt(SendMode::Enqueue);
    world.finish(world.only(|w| matches!(w, Work::PreparePrompt { .. })), prepared_prompt());
    world.finish(world.only(is_ask), said(world.log.len() as u64, &["bash"]));
    let prepare = world.only(|w| matches!(w, Work::PrepareCall { .. }));
    world.finish(prepare, wants_shell(line));
    world.running.values().any(|work| matches!(work, Work::RunTool { .. }))
}

#[test]
fn a_grant_covers_what_was_shown_and_nothing_else() {
    let mut world = acting("bash", |_| wants_shell("echo hello"));
    world.answer(&only_request(&world), decided(Verdict::ApproveForSession(None)));
    assert_eq!(world.session.durable.grants[0].approval, commands(&["echo"]));
    assert!(runs_unasked(&mut world, "echo another"));
    for line in ["echo $(id)", "echo x; rm -rf y", "echo ${_@P}", "echo x > file", "echo `id`", "./echo x"] {
        assert!(!runs_unasked(&mut world, line), "{line}");
    }
}

#[test]
fn a_grant_that_was_not_offered_is_refused_and_the_request_stays_open() {
    let mut world = acting("bash", |_| wants_shell("make test"));
    let request = only_request(&world);
    for approval in [commands(&["rm"]), commands(&[]), Approval::Write {}] {
        let reply = world.answer(&request, decided(Verdict::ApproveForSession(Some(approval))));
        assert!(matches!(world.replies[&reply], Reply::NotOffered(_)), "{:?}", world.replies[&reply]);
        assert_eq!(only_request(&world), request);
    }
    let wide = decided(Verdict::ApproveForSession(Some(commands(&["make:*"]))));
    let reply = world.answer(&request, wide);
    assert_eq!(world.replies[&reply], Reply::Counted);
    assert!(runs_unasked(&mut world, "make install"));
}

#[test]
fn an_opaque_line_offers_no_grant() {
    let mut world = acting("bash", |_| wants_shell("for f in *; do rm $f; done"));
    let request = only_request(&world);
    let reply = world.answer(&request, decided(Verdict::ApproveForSession(None)));
    assert!(matches!(world.replies[&reply], Reply::NotOffered(_)));
    let reply = world.answer(&request, approve());
    assert_eq!(world.replies[&reply], Reply::Counted);
    assert!(world.session.durable.grants.is_empty());
}

#[test]
fn a_grant_for_a_location_counts_once_it_is_stored() {
    let mut world = acting("bash", |_| wants_shell("echo hello"));
    let request = only_request(&world);
    let verdict = Verdict::ApproveForLocation { approval: None, location_key: "/work".into() };
    let reply = world.answer(&request, decided(verdict.clone()));
    assert!(!world.replies.contains_key(&reply), "not before it is stored");
    let rival = world.answer(&request, approve());
    assert_eq!(world.replies[&rival], Reply::TooLate);
    let save = world.only(|w| matches!(w, Work::SaveGrant { .. }));
    world.finish(save, WorkResult::SaveGrant(Err("disk full".into())));
    assert_eq!(world.replies[&reply], Reply::Refused("disk full".into()));
    assert_eq!(only_request(&world), request, "the request is open again");
    let reply = world.answer(&request, decided(verdict));
    let save = world.only(|w| matches!(w, Work::SaveGrant { .. }));
    world.finish(save, WorkResult::SaveGrant(Ok(())));
    assert_eq!(world.replies[&reply], Reply::Counted);
    world.only(|w| matches!(w, Work::RunTool { .. }));
}

#[test]
fn a_deny_rule_wins_over_allow_all_hooks_declarations_and_answers() {
    let mut world = acting("bash", |_| wants_shell("rm file"));
    deny(&mut world, Rule::new(RuleKind::Shell, Some("rm")));
    let reply = world.answer(&only_request(&world), approve());
    assert_eq!(world.replies[&reply], Reply::Counted);
    assert_eq!(last_result(&world).1, "Permission denied by a rule");
    allow_all(&mut world);
    assert!(!runs_unasked(&mut world, "rm file"));
    assert!(world.open_requests().is_empty(), "nobody is asked for what a rule denies");
    assert!(runs_unasked(&mut world, "ls"));
}

#[test]
fn an_allowing_hook_does_not_beat_a_deny_rule() {
    let mut world = asking();
    deny(&mut world, Rule::new(RuleKind::CustomTool, Some("client_tool")));
    world.finish(world.only(is_ask), said(1, &["client_tool"]));
    let prepare = world.only(|w| matches!(w, Work::PrepareCall { .. }));
    let wants = Some(wish(&"call-1-0".into(), Route::Client));
    let (route, advice) = (Route::Client, Advice::Allow);
    let prepared = Prepared::Runnable { route, wants, advice, cwd: None, arguments: None };
    world.finish(prepare, WorkResult::PrepareCall(prepared));
    assert_eq!(last_result(&world), (false, "Permission denied by a rule of this session".into()));
}

#[test]
fn a_deny_rule_survives_a_crash() {
    let mut world = World::new();
    allow_all(&mut world);
    deny(&mut world, Rule::new(RuleKind::Shell, Some("rm")));
    world.crash();
    world.resume(1, &[], None);
    assert!(!runs_unasked(&mut world, "rm file"));
    assert!(runs_unasked(&mut world, "ls"));
}

#[test]
fn what_may_be_denied_is_asked_even_where_everything_is_allowed() {
    let mut world = World::new();
    allow_all(&mut world);
    assert!(runs_unasked(&mut world, "for f in *; do rm $f; done"), "allow-all covers opaque lines");
    deny(&mut world, Rule::new(RuleKind::Shell, Some("rm")));
    assert!(!runs_unasked(&mut world, "for f in *; do rm $f; done"));
}

#[test]
fn unattended_approval_leaves_to_a_person_what_may_be_denied() {
    let mut world = acting("bash", |_| wants_shell("bash script.sh"));
    deny(&mut world, Rule::new(RuleKind::Shell, Some("rm")));
    let request = only_request(&world);
    let reply = world.answer(&request, Answer::ApproveUnattended);
    assert!(matches!(world.replies[&reply], Reply::Refused(_)));
    assert_eq!(only_request(&world), request);
    let mut world = acting("bash", |_| wants_shell("bash script.sh"));
    let reply = world.answer(&only_request(&world), Answer::ApproveUnattended);
    assert_eq!(world.replies[&reply], Reply::Counted);
}

#[test]
fn grants_say_who_gave_them_and_can_be_revoked_one_by_one() {
    let mut world = acting("bash", |_| wants_shell("echo hello"));
    world.answer(&only_request(&world), decided(Verdict::ApproveForSession(None)));
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
    world.take(Input::Change { reply: ReplyTo(9101), change: change.clone() });
    assert!(world.session.durable.grants.is_empty());
    assert!(!runs_unasked(&mut world, "echo hello"));
    world.take(Input::Change { reply: ReplyTo(9102), change });
    assert_eq!(world.replies[&ReplyTo(9102)], Reply::Done(None), "there is no such grant any more");
}

#[test]
fn a_server_that_allows_all_reaches_native_tools_except_where_a_deny_rule_stands() {
    let mut world = World::new();
    world.session.live.allow_all = true;
    assert!(runs_unasked(&mut world, "make install"));
    deny(&mut world, Rule::new(RuleKind::Shell, Some("make")));
    assert!(!runs_unasked(&mut world, "make install"));
}

#[test]
fn a_grant_holds_only_in_the_directory_that_it_was_given_in() {
    let mut world = acting("bash", |_| wants_shell("sh run.sh"));
    world.answer(&only_request(&world), decided(Verdict::ApproveForSession(None)));
    assert!(runs_unasked(&mut world, "sh run.sh"));
    let context = WorkContext { cwd: "/elsewhere".into(), ..WorkContext::default() };
    world.take(Input::Change { reply: ReplyTo(9103), change: Change::Context(context) });
    assert!(!runs_unasked(&mut world, "sh run.sh"), "another run.sh may be there");
}
