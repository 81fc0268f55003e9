//! Requests of programs in the sandbox, and the sandbox of a session.

use baton_core::ask::{ReportFile, RequestHost};
use baton_core::{AskId, Change, FileVerdict, HostAnswer};
use baton_protocol::Author;
use baton_protocol::event::PermissionMode;
use baton_protocol::permission::{Approval, PermissionRequest};
use baton_protocol::rules::{Rule, RuleKind};
use baton_protocol::sandbox::{SandboxChoice, SandboxLevel, SandboxNetwork, SandboxPolicy};

use super::*;

const ORIGIN: &str = "https://x.example";

fn connect(world: &mut World) -> AskId {
    world.send(RequestHost { call: Some("c".into()), origin: ORIGIN.into() })
}

fn answered(world: &World, ask: AskId) -> Option<HostAnswer> {
    world.reply::<RequestHost>(ask).map(|reply| reply.expect("hosts are never refused"))
}

fn is_denied(answer: Option<HostAnswer>) -> bool {
    answer.is_some_and(|answer| answer != HostAnswer::Allowed)
}

fn pending(world: &World) -> Vec<RequestId> {
    world.session.durable.walls.iter().map(|wall| wall.request.clone()).collect()
}

fn report(world: &mut World, path: &str, kept: &str) -> FileVerdict {
    let ask = ReportFile { call: None, path: path.into(), kept: kept.into(), content: "use nix\n".into() };
    world.ask(ask).expect("few files wait")
}

/// Runs a turn to its end.
fn turn(world: &mut World) {
    world.prompt(SendMode::Enqueue);
    world.finish(world.only(|w| matches!(w, Work::PreparePrompt { .. })), prepared_prompt());
    world.finish(world.only(is_ask), model_answer(world.log.len() as u64, &[]));
}

#[test]
fn programs_that_want_the_same_host_share_a_request() {
    let mut world = World::new();
    let asks = [connect(&mut world), connect(&mut world)];
    assert!(asks.iter().all(|ask| answered(&world, *ask).is_none()));
    let [request] = &*pending(&world) else { panic!("one request") };
    let answer = world.answer(request, approve());
    assert_eq!(world.outcome_of(answer), Some(AnswerOutcome::Counted));
    assert!(asks.iter().all(|ask| answered(&world, *ask) == Some(HostAnswer::Allowed)));
    let late = world.answer(request, reject());
    assert_eq!(world.outcome_of(late), Some(AnswerOutcome::TooLate));
}

#[test]
fn answer_about_a_host_holds_until_a_turn_ends_also_across_crashes() {
    for (answer, admits) in [(approve(), true), (reject(), false)] {
        let mut world = World::new();
        connect(&mut world);
        world.crash();
        let [request] = &*pending(&world) else { panic!("the request stays open") };
        world.answer(request, answer);
        world.crash();
        world.attach(1, &[]);
        let again = connect(&mut world);
        let expected = |answer: Option<HostAnswer>| match admits {
            true => answer == Some(HostAnswer::Allowed),
            false => is_denied(answer),
        };
        assert!(expected(answered(&world, again)));
        turn(&mut world);
        let later = connect(&mut world);
        assert_eq!(answered(&world, later), None, "asked again after the turn");
    }
}

#[test]
fn policy_decides_about_hosts_first() {
    let mut world = World::new();
    let waiting = connect(&mut world);
    world.deny(Rule::new(RuleKind::Url, Some("x.example")));
    let denied = connect(&mut world);
    assert!(is_denied(answered(&world, denied)));
    assert!(is_denied(answered(&world, waiting)), "the open request is closed, too");
    assert!(pending(&world).is_empty());
    let mut world = World::new();
    world.allow_all();
    let allowed = connect(&mut world);
    assert_eq!(answered(&world, allowed), Some(HostAnswer::Allowed));
}

#[test]
fn grant_for_a_host_is_given_with_the_answer() {
    let mut world = World::new();
    connect(&mut world);
    world.answer(&pending(&world)[0], permission_answer(Verdict::ApproveForSession(None)));
    turn(&mut world);
    let later = connect(&mut world);
    assert_eq!(answered(&world, later), Some(HostAnswer::Allowed), "a grant outlives the turn");
    world.change(Change::Revoke { grant: None, by: Author::http() });
    let revoked = connect(&mut world);
    assert_eq!(answered(&world, revoked), None);
    let location = Verdict::ApproveForLocation { approval: None, location_key: "/work".into() };
    let answer = world.answer(&pending(&world)[0], permission_answer(location));
    world.abort();
    world.finish(world.only(|w| matches!(w, Work::SaveGrant { .. })), WorkResult::SaveGrant(Ok(())));
    assert_eq!(world.outcome_of(answer), Some(AnswerOutcome::Counted));
    assert_eq!(answered(&world, revoked), Some(HostAnswer::Allowed));
}

#[test]
fn hosts_follow_the_policy_of_the_sandbox() {
    let mut world = World::new();
    let choose = |world: &mut World, policy: SandboxPolicy| {
        world.change(Change::Sandbox(Some(Box::new(SandboxChoice { policy, chosen: true }))));
    };
    let hosts = vec!["x.example".to_owned()];
    choose(&mut world, SandboxPolicy { hosts: hosts.clone(), ..SandboxPolicy::default() });
    let named = connect(&mut world);
    assert_eq!(answered(&world, named), Some(HostAnswer::Allowed));
    choose(&mut world, SandboxPolicy { hosts, network: SandboxNetwork::None, ..SandboxPolicy::default() });
    let none = connect(&mut world);
    assert!(is_denied(answered(&world, none)));
}

#[test]
fn pending_hosts_are_limited() {
    let mut world = World::new();
    let wanted = |n: usize| RequestHost { call: None, origin: format!("https://{n}.example") };
    for n in 0..32 {
        world.send(wanted(n));
    }
    let one_too_many = world.send(wanted(32));
    assert!(is_denied(answered(&world, one_too_many)));
    let waiting: Vec<AskId> = (0..64).map(|_| world.send(wanted(0))).collect();
    assert_eq!(answered(&world, waiting[63]), None);
    let last = world.send(wanted(0));
    assert!(is_denied(answered(&world, waiting[0])), "the oldest gives way: {last:?}");
}

#[test]
fn closing_replies_to_programs_and_keeps_their_requests() {
    let mut world = World::new();
    let ask = connect(&mut world);
    report(&mut world, ".envrc", "1");
    let file = pending(&world)[1].clone();
    let answer = world.answer(&file, approve());
    world.close();
    assert!(is_denied(answered(&world, ask)));
    assert!(matches!(world.outcome_of(answer), Some(AnswerOutcome::Refused(_))));
    assert!(world.running.is_empty());
    assert_eq!(pending(&world).len(), 2);
}

#[test]
fn file_is_back_before_its_approval_counts() {
    let mut world = World::new();
    assert_eq!(report(&mut world, ".envrc", "1"), FileVerdict::Asked);
    let request = pending(&world)[0].clone();
    for verdict in [Verdict::ApproveForSession(None), Verdict::ApproveForSession(Some(Approval::Write {}))] {
        let answer = world.answer(&request, permission_answer(verdict));
        assert!(matches!(world.outcome_of(answer), Some(AnswerOutcome::NotOffered(_))));
    }
    let is_restore = |work: &Work| matches!(work, Work::RestoreFile { .. });
    let failing = world.answer(&request, approve());
    assert_eq!(world.outcome_of(failing), None);
    let second = world.answer(&request, approve());
    assert_eq!(world.outcome_of(second), Some(AnswerOutcome::TooLate));
    world.abort();
    world.finish(world.only(is_restore), WorkResult::HeldFile(Err("it exists".into())));
    assert!(
        matches!(world.outcome_of(failing), Some(AnswerOutcome::Refused(why)) if why.contains("it exists"))
    );
    world.crash();
    let answer = world.answer(&request, approve());
    world.finish(world.only(is_restore), WorkResult::HeldFile(Ok(())));
    assert_eq!(world.outcome_of(answer), Some(AnswerOutcome::Counted));
    assert!(pending(&world).is_empty());
}

#[test]
fn file_that_is_not_approved_is_deleted() {
    let dropped = |world: &World| {
        world.running.values().any(|work| matches!(work, Work::DropFile { kept } if kept == "1"))
    };
    let mut world = World::new();
    report(&mut world, ".envrc", "1");
    world.answer(&pending(&world)[0], reject());
    assert!(dropped(&world) && pending(&world).is_empty());

    let mut world = World::new();
    report(&mut world, ".envrc", "1");
    report(&mut world, ".envrc", "2");
    assert!(dropped(&world), "a newer file replaces the older one");
    assert_eq!(pending(&world).len(), 1);

    let mut world = World::new();
    world.deny(Rule::new(RuleKind::Write, None));
    assert_eq!(report(&mut world, ".envrc", "1"), FileVerdict::Dropped);
    assert!(dropped(&world));

    let mut world = World::new();
    world.allow_all();
    assert_eq!(report(&mut world, ".envrc", "1"), FileVerdict::Restored);
    world.finish(world.only(|_| true), WorkResult::HeldFile(Err("it exists".into())));
    assert_eq!(world.kinds().last(), Some(&"session.warning"), "nobody waits for the failure");
}

#[test]
fn level_is_durable_and_holds_where_the_system_has_a_sandbox() {
    let mut world = World::new();
    let choice = SandboxChoice::of_user(SandboxPolicy::of(SandboxLevel::ReadOnly));
    assert!(world.change(Change::Sandbox(Some(Box::new(choice.clone())))).is_some());
    assert!(world.change(Change::Sandbox(Some(Box::new(choice.clone())))).is_none(), "nothing changed");
    world.crash();
    assert_eq!(world.session.sandbox(), &choice);
    assert_eq!(world.session.sandbox_level(), SandboxLevel::Off, "there is no sandbox");
    world.session.live.sandbox.missing = None;
    assert_eq!(world.session.sandbox_level(), SandboxLevel::ReadOnly);
    world.change(Change::Sandbox(None));
    assert_eq!(world.session.sandbox_level(), SandboxLevel::Workspace, "the default");
}

#[test]
fn command_that_leaves_the_sandbox_says_so_and_why() {
    let mut world = acting("bash", |_| {
        let mut wants = shell_request("curl https://x.example");
        if let PermissionRequest::Shell {
            request_sandbox_bypass: bypass,
            request_sandbox_bypass_reason: why,
            ..
        } = &mut wants
        {
            (*bypass, *why) = (Some(true), Some("ssh is not proxied".into()));
        }
        WorkResult::PrepareCall(baton_core::Prepared::Runnable {
            route: Route::BuiltIn,
            wants: Some(wants),
            advice: baton_core::policy::Advice::None,
            cwd: None,
            arguments: None,
        })
    });
    world.change(Change::Permissions(PermissionMode::Assisted));
    let requested = world.log.iter().rev().find_map(|event| match &event.body {
        Body::PermissionRequested(requested) => Some(requested.permission_request.clone()),
        _ => None,
    });
    let Some(PermissionRequest::Shell { warning: Some(warning), .. }) = requested else {
        panic!("asked, with a warning")
    };
    assert!(warning.contains("outside the sandbox") && warning.contains("ssh is not proxied"), "{warning}");
    let session = permission_answer(Verdict::ApproveForSession(None));
    let answer = world.answer(&the_request(&world), session);
    assert!(matches!(world.outcome_of(answer), Some(AnswerOutcome::NotOffered(_))));
}
