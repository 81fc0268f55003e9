//! The queue: commands among prompts, and edits.

use std::collections::BTreeSet;

use baton_core::ask::{
    DuplicateQueued, HoldQueue, InsertPrompt, InvokeCommand, MoveQueued, RewordQueued, SteerQueued,
};
use baton_core::{Profile, Registered};
use baton_protocol::ClientId;
use baton_protocol::event::Prompt;
use baton_protocol::tool::SlashCommand;

use super::*;

const HANDLED: RequestAnswer = RequestAnswer::QueuedCommand { handled: true, stop: false };

/// A session whose client is a runner.
fn with_runner() -> World {
    let mut world = World::new();
    world.register_runner(1, true);
    world
}

/// Number of shown events of a type.
fn count_shown(world: &World, kind: &str) -> usize {
    world.shown.iter().filter(|event| event.body.kind() == kind).count()
}

/// The profile of a client that has a command.
fn with_deploy() -> Profile {
    let commands = vec![SlashCommand { name: "deploy".into(), description: None }];
    Profile { commands, ..profile(&[]) }
}

fn command_error(client: u64, why: &str) -> RequestAnswer {
    RequestAnswer::Command { by: ClientId(client), error: Some(why.into()) }
}

fn is_preparing(work: &Work) -> bool {
    matches!(work, Work::PreparePrompt { .. })
}

#[test]
fn commands_and_prompts_run_in_queue_order() {
    let mut world = with_runner();
    world.prompt(SendMode::Enqueue);
    world.finish(world.only(is_preparing), prepared_prompt());
    let command = world.enqueue("/deploy now");
    world.prompt(SendMode::Enqueue);
    assert_eq!((world.command(), world.queue()[0]), (None, command));
    world.finish(world.only(is_ask), model_answer(1, &[]));
    let request = world.command().expect("the command was started");
    assert_eq!(request, RequestId(command.to_string()));
    assert!(world.running.is_empty() && world.queue().len() == 1, "the prompt waits for the command");
    let reply = world.answer(&request, HANDLED);
    assert_eq!(world.outcome_of(reply), Some(AnswerOutcome::Counted));
    assert_eq!(outcome(&world).0, Outcome::Completed);
    world.only(is_preparing);
    let late = world.answer(&request, HANDLED);
    assert_eq!(world.outcome_of(late), Some(AnswerOutcome::TooLate));
}

#[test]
fn client_command_goes_to_the_client_that_has_it() {
    let mut world = with_runner();
    world.resume_with(2, with_deploy(), None);
    world.enqueue("/deploy now");
    assert_eq!((count_shown(&world, "command.execute"), count_shown(&world, "command.queued")), (1, 0));
    let request = world.command().expect("asked");
    world.answer(&request, command_error(2, "no such host"));
    assert_eq!(outcome(&world), (Outcome::Failed, "no such host".into()));
    assert_eq!(world.last_shown(), Some("session.idle"));
}

#[test]
fn command_without_a_runner_is_run_by_the_server() {
    let mut world = World::new();
    world.enqueue("/usage");
    world.enqueue("/nonsense");
    let run = |world: &World| world.only(|w| matches!(w, Work::RunCommand { .. }));
    world.finish(run(&world), WorkResult::RunCommand(Ok(Some("2 prompts".into()))));
    assert!(world.kinds().contains(&"session.info"), "its message is recorded");
    world.finish(run(&world), WorkResult::RunCommand(Err("there is none".into())));
    assert!(world.kinds().contains(&"session.warning"), "its error is recorded");
    assert_eq!(outcome(&world), (Outcome::Failed, "there is none".into()));
    assert!(!world.session.is_busy());
}

#[test]
fn client_command_stays_pending_under_its_id_after_a_crash() {
    let mut world = with_runner();
    world.enqueue("/deploy");
    world.enqueue("/test");
    let request = world.command().expect("asked");
    world.crash();
    let before = count_shown(&world, "command.queued");
    world.resume(2, &[], Some(true));
    assert_eq!(world.command(), Some(request.clone()));
    world.register_runner(2, true);
    assert_eq!(count_shown(&world, "command.queued"), before + 1, "the runner is asked once");
    world.answer(&request, HANDLED);
    assert!(world.command().is_some_and(|next| next != request), "the next command is also for clients");
}

#[test]
fn asked_client_is_not_asked_again_while_attached() {
    let mut world = World::new();
    world.resume_with(2, with_deploy(), None);
    world.enqueue("/deploy");
    world.crash();
    world.shown.clear();
    world.resume_with(2, with_deploy(), Some(true));
    assert_eq!(count_shown(&world, "command.execute"), 1, "the resuming client is asked once");
    world.resume_with(2, with_deploy(), Some(true));
    world.resume_with(3, with_deploy(), Some(true));
    world.register_runner(3, true);
    assert_eq!((count_shown(&world, "command.execute"), count_shown(&world, "command.queued")), (1, 0));
    world.detach(2);
    world.resume_with(4, with_deploy(), Some(true));
    assert_eq!(count_shown(&world, "command.execute"), 2, "the client that was asked has detached");
}

#[test]
fn runner_that_outlived_its_server_stays_registered() {
    let mut world = with_runner();
    world.enqueue("/deploy");
    let request = world.command().expect("asked");
    let registered = |asked_command: Option<&RequestId>| {
        let runners = BTreeSet::from(["runner-1".to_owned()]);
        let registered =
            Registered { runners, asked_command: asked_command.cloned(), ..Registered::default() };
        Profile { registered, ..profile(&[]) }
    };
    world.crash();
    world.shown.clear();
    world.resume_with(1, registered(Some(&request)), Some(true));
    assert_eq!(count_shown(&world, "command.queued"), 0, "it may be running the command");
    world.answer(&request, HANDLED);
    world.enqueue("/deploy again");
    assert_eq!(count_shown(&world, "command.queued"), 1, "it is a runner");
    world.crash();
    world.shown.clear();
    world.resume_with(1, registered(None), Some(true));
    assert_eq!(count_shown(&world, "command.queued"), 1, "it was not asked to run this one");
    world.register_runner(1, false);
    world.enqueue("/deploy");
    assert_eq!(world.session.live.runners.len(), 0, "the registration keeps its name");
}

#[test]
fn asked_runner_is_not_asked_again() {
    let mut world = with_runner();
    world.enqueue("/deploy");
    world.register_runner(1, true);
    world.resume(2, &[], None);
    world.register_runner(2, true);
    assert_eq!(count_shown(&world, "command.queued"), 1);
}

#[test]
fn error_of_a_bystander_does_not_fail_a_queued_command() {
    let mut world = with_runner();
    world.resume_with(2, with_deploy(), None);
    world.enqueue("/deploy");
    world.prompt(SendMode::Enqueue);
    let request = world.command().expect("asked");
    let reply = world.answer(&request, command_error(1, "Unknown command: deploy"));
    assert_eq!(world.outcome_of(reply), Some(AnswerOutcome::TooLate));
    assert!(world.command().is_some() && world.running.is_empty(), "the prompt is still queued");
    world.answer(&request, RequestAnswer::Command { by: ClientId(2), error: None });
    assert_eq!(outcome(&world).0, Outcome::Completed);
}

#[test]
fn error_of_a_bystander_does_not_fail_an_invoked_command() {
    let mut world = World::new();
    world.resume_with(2, with_deploy(), None);
    let asker = world.invoke("deploy");
    let request = world.session.live.asks.keys().next().expect("asked").clone();
    world.answer(&request, command_error(1, "Unknown command: deploy"));
    assert_eq!(world.reply::<InvokeCommand>(asker), None);
    world.answer(&request, command_error(2, "no such host"));
    assert_eq!(world.reply::<InvokeCommand>(asker), Some(Ok(Some("no such host".into()))));
}

#[test]
fn started_command_can_be_withdrawn_after_its_runner_detached() {
    let mut world = with_runner();
    world.resume_with(2, with_deploy(), None);
    let command = world.enqueue("/deploy");
    world.prompt(SendMode::Enqueue);
    assert_eq!(world.withdraw(Withdrawn::One(command)), 0, "it was started");
    world.detach(2);
    assert!(world.session.is_abandoned(command));
    assert_eq!(world.withdraw(Withdrawn::One(command)), 1);
    assert_eq!((outcome(&world).0, count_shown(&world, "command.completed")), (Outcome::Cancelled, 1));
    world.only(is_preparing);
}

#[test]
fn command_is_interrupted_by_a_crash_that_is_not_continued() {
    let mut world = with_runner();
    world.enqueue("/deploy");
    world.crash();
    world.resume(2, &[], None);
    assert_eq!((outcome(&world).0, world.session.is_busy()), (Outcome::Interrupted, false));
}

#[test]
fn cancel_closes_commands_without_messages() {
    let mut world = with_runner();
    world.enqueue("/deploy");
    world.enqueue("/test");
    world.abort();
    assert_eq!((world.command(), world.session.is_busy()), (None, false));
    assert_eq!((count_shown(&world, "command.completed"), world.outcomes().len()), (1, 2));
    assert!(!world.kinds().contains(&"user.message"));
}

#[test]
fn queued_command_can_be_withdrawn_and_started_one_cannot() {
    let mut world = with_runner();
    let running = world.enqueue("/deploy");
    let waiting = world.enqueue("/test");
    world.withdraw(Withdrawn::All);
    assert!(world.outcomes().contains_key(&waiting) && !world.outcomes().contains_key(&running));
}

#[test]
fn command_result_can_pause_the_queue_until_the_next_prompt() {
    let mut world = with_runner();
    world.enqueue("/deploy");
    world.prompt(SendMode::Enqueue);
    let request = world.command().expect("asked");
    world.answer(&request, RequestAnswer::QueuedCommand { handled: true, stop: true });
    assert!(world.running.is_empty() && world.session.is_busy());
    assert_eq!(world.last_shown(), Some("session.idle"));
    world.prompt(SendMode::Enqueue);
    world.only(is_preparing);
    assert_eq!(world.queue().len(), 1);
}

#[test]
fn queue_edits_survive_a_crash() {
    let mut world = asking();
    let [first, second, third] = ["/one", "/two", "/three"].map(|command| world.enqueue(command));
    assert_eq!(world.ask(MoveQueued { prompt: third, position: 0 }), Ok(true));
    assert_eq!(world.ask(MoveQueued { prompt: second, position: 99 }), Ok(false), "it is already the last");
    let copy = world.ask(DuplicateQueued { prompt: third }).expect("a copy");
    let prompt = Prompt { text: "between".into(), mode: SendMode::Immediate, ..Prompt::default() };
    let inserted = InsertPrompt { prompt: Box::new(prompt), position: 1 };
    let between = world.ask(inserted).expect("a prompt");
    let reword = RewordQueued { prompt: between, text: "other words".into(), display: None };
    assert_eq!(world.ask(reword.clone()), Ok(true));
    assert_eq!(world.ask(reword), Ok(false));
    let order = vec![third, between, copy, first, second];
    assert_eq!(world.queue(), order);
    world.crash();
    assert_eq!(world.queue(), order);
    let text = world.session.queue().nth(1).map(|waiting| waiting.prompt.text.clone());
    assert_eq!(text.as_deref(), Some("other words"));
}

#[test]
fn queued_prompt_can_steer_the_running_turn() {
    let mut world = asking();
    world.prompt(SendMode::Enqueue);
    let waiting = world.queue()[0];
    assert_eq!(world.ask(SteerQueued { prompt: waiting }), Ok(true));
    world.finish(world.only(is_ask), model_answer(1, &["builtin"]));
    world.abort();
    world.prompt(SendMode::Enqueue);
    let begun = world.session.durable.inbox.peek().expect("it is being prepared").id;
    assert!(world.ask(SteerQueued { prompt: begun }).is_err());
}

#[test]
fn paused_queue_stays_paused_across_a_crash() {
    let mut world = World::new();
    assert_eq!(world.ask(HoldQueue { hold: true }), Ok(true));
    assert!(world.ask(HoldQueue { hold: true }).is_err(), "it is already paused");
    world.prompt(SendMode::Enqueue);
    world.crash();
    world.resume(1, &[], Some(true));
    assert!(world.running.is_empty());
    world.resume_queue().expect("resumed");
    world.only(is_preparing);
}
