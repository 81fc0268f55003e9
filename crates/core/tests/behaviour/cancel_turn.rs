//! Cancel of one turn: the queue is held.

use baton_core::ask::{DuplicateQueued, SteerQueued};
use baton_protocol::PromptId;

use super::*;

/// A turn that calls the model, with its id, and two prompts in the queue.
fn with_queue() -> (World, String, [PromptId; 2]) {
    let mut world = asking();
    let queued = [world.prompt(SendMode::Enqueue), world.prompt(SendMode::Enqueue)];
    let turn = world.session.durable.turn.as_ref().expect("a turn runs").interaction.clone();
    (world, turn, queued)
}

fn is_preparing(work: &Work) -> bool {
    matches!(work, Work::PreparePrompt { .. })
}

/// The prompt that is being prepared.
fn prepared_now(world: &World) -> PromptId {
    match world.running[&world.only(is_preparing)] {
        Work::PreparePrompt { prompt, .. } => prompt,
        _ => unreachable!("another kind was not selected"),
    }
}

#[test]
fn cancel_of_a_turn_holds_the_queue_across_a_crash() {
    let (mut world, turn, queued) = with_queue();
    assert_eq!(world.cancel_turn(Some(&turn)), Some(2));
    assert_eq!((outcome(&world).0, world.outcomes().len()), (Outcome::Cancelled, 1));
    assert_eq!((world.running.len(), world.last_shown()), (0, Some("session.idle")));
    world.crash();
    world.resume(2, &[], Some(true));
    assert!(world.running.is_empty() && world.queue() == queued);
    assert_eq!(world.resume_queue(), Ok(true));
    assert_eq!(prepared_now(&world), queued[0]);
    assert_eq!(world.resume_queue(), Ok(false), "nothing is held any more");
}

#[test]
fn late_cancel_does_not_touch_the_next_turn() {
    let (mut world, turn, queued) = with_queue();
    world.finish(world.only(is_ask), model_answer(1, &[]));
    world.finish(world.only(is_preparing), prepared_prompt());
    let before = world.session.clone();
    assert_eq!(world.cancel_turn(Some(&turn)), None);
    assert_eq!(world.session, before);
    assert_eq!(world.cancel_turn(Some(&queued[0].to_string())), Some(1), "a prompt names its turn");
}

#[test]
fn later_prompts_pass_the_held_queue() {
    let (mut world, _, queued) = with_queue();
    world.cancel_turn(None);
    let correction = world.prompt(SendMode::Enqueue);
    assert_eq!(prepared_now(&world), correction);
    world.finish(world.only(is_preparing), prepared_prompt());
    world.finish(world.only(is_ask), model_answer(1, &[]));
    assert!(world.running.is_empty() && world.queue() == queued);
    assert_eq!(world.last_shown(), Some("session.idle"));
}

#[test]
fn cancel_without_a_queue_holds_nothing() {
    let mut world = asking();
    assert_eq!(world.cancel_turn(None), Some(0));
    assert!(!world.kinds().contains(&"baton.prompts_held"));
    world.prompt(SendMode::Enqueue);
    world.only(is_preparing);
    world.cancel_turn(None);
    assert_eq!(world.cancel_turn(None), None, "nothing runs");
}

#[test]
fn prompt_in_preparation_is_cancelled_by_its_id() {
    let mut world = World::new();
    let prompt = world.prompt(SendMode::Enqueue);
    let queued = world.prompt(SendMode::Enqueue);
    assert_eq!(world.cancel_turn(Some(&queued.to_string())), None, "it does not run");
    assert_eq!(world.cancel_turn(Some(&prompt.to_string())), Some(1));
    assert!(world.outcomes().contains_key(&prompt) && world.running.is_empty());
    assert!(world.kinds().contains(&"user.message"), "its outcome refers to a message");
}

#[test]
fn steering_prompts_become_the_head_of_the_held_queue() {
    let (mut world, _, [first, second]) = with_queue();
    let steering = [world.prompt(SendMode::Immediate), world.prompt(SendMode::Immediate)];
    assert_eq!(world.cancel_turn(None), Some(4));
    assert_eq!(world.queue(), [steering[0], steering[1], first, second]);
    assert!(world.running.is_empty());
}

#[test]
fn held_item_can_be_copied_steered_with_and_withdrawn() {
    let (mut world, _, [first, second]) = with_queue();
    world.cancel_turn(None);
    let copy = world.ask(DuplicateQueued { prompt: first }).expect("a copy");
    assert!(world.running.is_empty(), "the copy of a held item is held");
    world.prompt(SendMode::Enqueue);
    world.finish(world.only(is_preparing), prepared_prompt());
    assert_eq!(world.ask(SteerQueued { prompt: copy }), Ok(true));
    assert_eq!(world.queue(), [first, second], "the copy joins the turn");
    assert_eq!(world.withdraw(Withdrawn::All), 3);
    assert!(!world.session.durable.holds_prompts());
}

#[test]
fn running_command_is_cancelled_by_its_id() {
    let mut world = World::new();
    let command = world.enqueue("/compact");
    let next = world.enqueue("/usage");
    assert_eq!(world.cancel_turn(Some(&command.to_string())), Some(1));
    assert_eq!((outcome(&world).0, world.running.len()), (Outcome::Cancelled, 0));
    assert_eq!(world.queue(), [next]);
}
