//! What waits: commands among the prompts, and rearranging all of it.

use baton_core::{Arrangement, Profile};
use baton_protocol::ClientId;
use baton_protocol::event::Prompt;
use baton_protocol::tool::Command;

use super::*;

const HANDLED: Answer = Answer::QueuedCommand { handled: true, stop: false };

/// A session whose client runs whatever commands come.
fn hosted() -> World {
    let mut world = World::new();
    world.host(1, true);
    world
}

/// How often clients were asked to run a command, by the kind of the event.
fn asked(world: &World, kind: &str) -> usize {
    world.shown.iter().filter(|event| event.body.kind() == kind).count()
}

/// What a client brings that has a command of its own.
fn with_deploy() -> Profile {
    let commands = vec![Command { name: "deploy".into(), description: None }];
    Profile { commands, ..profile(&[]) }
}

fn went_wrong(client: u64, why: &str) -> Answer {
    Answer::Command { by: ClientId(client), error: Some(why.into()) }
}

fn is_preparing(work: &Work) -> bool {
    matches!(work, Work::PreparePrompt { .. })
}

#[test]
fn a_command_waits_for_the_turn_before_it_and_what_comes_after_waits_for_the_command() {
    let mut world = hosted();
    world.prompt(SendMode::Enqueue);
    world.finish(world.only(is_preparing), prepared_prompt());
    let command = world.enqueue("/deploy now");
    world.prompt(SendMode::Enqueue);
    assert_eq!((world.command(), world.waiting()[0]), (None, command));
    world.finish(world.only(is_ask), said(1, &[]));
    let request = world.command().expect("it is the command's turn");
    assert_eq!(request, RequestId(command.to_string()));
    assert!(world.running.is_empty() && world.waiting().len() == 1, "the prompt waits for the command");
    let reply = world.answer(&request, HANDLED);
    assert_eq!(world.replies[&reply], Reply::Counted);
    assert_eq!(outcome(&world).0, Outcome::Completed);
    world.only(is_preparing);
    let late = world.answer(&request, HANDLED);
    assert_eq!(world.replies[&late], Reply::TooLate);
}

#[test]
fn a_command_of_a_client_goes_to_that_client() {
    let mut world = hosted();
    world.resume_with(2, with_deploy(), None);
    world.enqueue("/deploy now");
    assert_eq!((asked(&world, "command.execute"), asked(&world, "command.queued")), (1, 0));
    let request = world.command().expect("asked");
    world.answer(&request, went_wrong(2, "no such host"));
    assert_eq!(outcome(&world), (Outcome::Failed, "no such host".into()));
    assert_eq!(world.last_shown(), Some("session.idle"));
}

#[test]
fn a_command_that_no_client_runs_is_the_servers() {
    let mut world = World::new();
    world.enqueue("/usage");
    world.enqueue("/nonsense");
    let run = |world: &World| world.only(|w| matches!(w, Work::RunCommand { .. }));
    world.finish(run(&world), WorkResult::RunCommand(Ok(Some("2 prompts".into()))));
    assert!(world.kinds().contains(&"session.info"), "people are told what it says");
    world.finish(run(&world), WorkResult::RunCommand(Err("there is none".into())));
    assert!(world.kinds().contains(&"session.warning"), "people are told what went wrong");
    assert_eq!(outcome(&world), (Outcome::Failed, "there is none".into()));
    assert!(!world.session.is_busy());
}

#[test]
fn a_command_that_clients_run_is_still_pending_after_a_crash_under_the_same_name() {
    let mut world = hosted();
    world.enqueue("/deploy");
    world.enqueue("/test");
    let request = world.command().expect("asked");
    world.crash();
    let before = asked(&world, "command.queued");
    world.resume(2, &[], Some(true));
    assert_eq!(world.command(), Some(request.clone()));
    world.host(2, true);
    assert_eq!(asked(&world, "command.queued"), before + 1, "who can run it is asked, once");
    world.answer(&request, HANDLED);
    assert!(world.command().is_some_and(|next| next != request), "the one behind it waits for clients, too");
}

#[test]
fn who_runs_a_command_is_not_asked_again_whoever_else_comes() {
    let mut world = World::new();
    world.resume_with(2, with_deploy(), None);
    world.enqueue("/deploy");
    world.crash();
    world.shown.clear();
    world.resume_with(2, with_deploy(), Some(true));
    assert_eq!(asked(&world, "command.execute"), 1, "the resume asks once");
    world.resume_with(2, with_deploy(), Some(true));
    world.resume_with(3, with_deploy(), Some(true));
    world.host(3, true);
    assert_eq!((asked(&world, "command.execute"), asked(&world, "command.queued")), (1, 0));
    world.detach(2);
    world.resume_with(4, with_deploy(), Some(true));
    assert_eq!(asked(&world, "command.execute"), 2, "who was asked has left");
}

#[test]
fn a_host_at_work_is_not_asked_again() {
    let mut world = hosted();
    world.enqueue("/deploy");
    world.host(1, true);
    world.resume(2, &[], None);
    world.host(2, true);
    assert_eq!(asked(&world, "command.queued"), 1);
}

#[test]
fn a_client_that_does_not_have_a_command_does_not_fail_it_for_the_one_that_does() {
    let mut world = hosted();
    world.resume_with(2, with_deploy(), None);
    world.enqueue("/deploy");
    world.prompt(SendMode::Enqueue);
    let request = world.command().expect("asked");
    let reply = world.answer(&request, went_wrong(1, "Unknown command: deploy"));
    assert_eq!(world.replies[&reply], Reply::TooLate);
    assert!(world.command().is_some() && world.running.is_empty(), "the prompt still waits");
    world.answer(&request, Answer::Command { by: ClientId(2), error: None });
    assert_eq!(outcome(&world).0, Outcome::Completed);
}

#[test]
fn nor_does_it_fail_one_that_somebody_waits_for() {
    let mut world = World::new();
    world.resume_with(2, with_deploy(), None);
    let asker = world.invoke("deploy");
    let request = world.session.live.asks.keys().next().expect("asked").clone();
    world.answer(&request, went_wrong(1, "Unknown command: deploy"));
    assert!(!world.replies.contains_key(&asker));
    world.answer(&request, went_wrong(2, "no such host"));
    assert_eq!(world.replies[&asker], Reply::CommandDone(Some("no such host".into())));
}

#[test]
fn a_command_can_be_taken_back_when_who_ran_it_has_left() {
    let mut world = hosted();
    world.resume_with(2, with_deploy(), None);
    let command = world.enqueue("/deploy");
    world.prompt(SendMode::Enqueue);
    assert_eq!(world.withdraw_one(command), Reply::Withdrew(0), "it is being run");
    world.detach(2);
    assert!(world.session.is_abandoned(command));
    assert_eq!(world.withdraw_one(command), Reply::Withdrew(1));
    assert_eq!((outcome(&world).0, asked(&world, "command.completed")), (Outcome::Cancelled, 1));
    world.only(is_preparing);
}

#[test]
fn after_a_crash_that_nobody_continues_a_command_is_interrupted() {
    let mut world = hosted();
    world.enqueue("/deploy");
    world.crash();
    world.resume(2, &[], None);
    assert_eq!((outcome(&world).0, world.session.is_busy()), (Outcome::Interrupted, false));
}

#[test]
fn a_cancel_closes_commands_and_leaves_nothing_of_them_in_the_conversation() {
    let mut world = hosted();
    world.enqueue("/deploy");
    world.enqueue("/test");
    world.abort();
    assert_eq!((world.command(), world.session.is_busy()), (None, false));
    assert_eq!((asked(&world, "command.completed"), world.outcomes().len()), (1, 2));
    assert!(!world.kinds().contains(&"user.message"));
}

#[test]
fn what_waits_can_be_taken_back_and_what_is_being_run_cannot() {
    let mut world = hosted();
    let running = world.enqueue("/deploy");
    let waiting = world.enqueue("/test");
    world.withdraw(true);
    assert!(world.outcomes().contains_key(&waiting) && !world.outcomes().contains_key(&running));
}

#[test]
fn a_client_can_stop_what_waits_behind_its_command_until_somebody_sends_something() {
    let mut world = hosted();
    world.enqueue("/deploy");
    world.prompt(SendMode::Enqueue);
    let request = world.command().expect("asked");
    world.answer(&request, Answer::QueuedCommand { handled: true, stop: true });
    assert!(world.running.is_empty() && world.session.is_busy());
    assert_eq!(world.last_shown(), Some("session.idle"));
    world.prompt(SendMode::Enqueue);
    world.only(is_preparing);
    assert_eq!(world.waiting().len(), 1);
}

#[test]
fn what_waits_is_rearranged_and_stays_so_after_a_crash() {
    let mut world = asking();
    let [first, second, third] = ["/one", "/two", "/three"].map(|command| world.enqueue(command));
    assert_eq!(world.arrange(Arrangement::Move(third, 0)), Reply::Arranged(true));
    assert_eq!(
        world.arrange(Arrangement::Move(second, 99)),
        Reply::Arranged(false),
        "it is the last already"
    );
    let Reply::Accepted(copy) = world.arrange(Arrangement::Duplicate(third)) else { panic!("no copy") };
    let prompt = Prompt { text: "between".into(), mode: SendMode::Immediate, ..Prompt::default() };
    let Reply::Accepted(between) = world.arrange(Arrangement::Insert(prompt, 1)) else { panic!("no prompt") };
    let words = Arrangement::Reword { prompt: between, text: "other words".into(), display: None };
    assert_eq!(world.arrange(words.clone()), Reply::Arranged(true));
    assert_eq!(world.arrange(words), Reply::Arranged(false));
    let order = vec![third, between, copy, first, second];
    assert_eq!(world.waiting(), order);
    world.crash();
    assert_eq!(world.waiting(), order);
    let text = world.session.waiting().nth(1).map(|waiting| waiting.prompt.text.clone());
    assert_eq!(text.as_deref(), Some("other words"));
}

#[test]
fn a_prompt_that_waits_can_join_the_running_turn() {
    let mut world = asking();
    world.prompt(SendMode::Enqueue);
    let waiting = world.waiting()[0];
    assert_eq!(world.arrange(Arrangement::Steer(waiting)), Reply::Arranged(true));
    world.finish(world.only(is_ask), said(1, &["builtin"]));
    world.abort();
    world.prompt(SendMode::Enqueue);
    let begun = world.session.durable.inbox.peek().expect("it is being prepared").id;
    assert!(matches!(world.arrange(Arrangement::Steer(begun)), Reply::Refused(_)));
}

#[test]
fn what_waits_is_held_back_until_somebody_lets_it_go_also_across_a_crash() {
    let mut world = World::new();
    assert_eq!(world.arrange(Arrangement::Hold(true)), Reply::Arranged(true));
    assert!(matches!(world.arrange(Arrangement::Hold(true)), Reply::Refused(_)), "somebody holds it already");
    world.prompt(SendMode::Enqueue);
    world.crash();
    world.resume(1, &[], Some(true));
    assert!(world.running.is_empty());
    world.arrange(Arrangement::Hold(false));
    world.only(is_preparing);
}
