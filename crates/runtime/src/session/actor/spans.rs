//! Spans of the log below a session's: its turns, their work, and asks that are served beside the actor.

use baton_core::{Durable, Work};
use tracing::Span;

use super::Actor;

/// Span of a turn.
pub(super) struct TurnSpan {
    /// Id of the turn: its first prompt, or its interaction if it has no prompt.
    id: String,
    span: Span,
}

impl Actor {
    /// Creates the span of a piece of work, inside the span of its turn.
    pub(super) fn work_span(&mut self, work: &Work) -> Span {
        let agent = work.agent().map(tracing::field::display);
        let kind = kind_of(work);
        match self.turn_span(work) {
            Some(turn) => tracing::info_span!(parent: turn, "work", kind, agent),
            None => tracing::info_span!("work", kind, agent),
        }
    }

    /// Returns the span of the turn that work belongs to, and creates it with the first work of the turn.
    fn turn_span(&mut self, work: &Work) -> Option<&Span> {
        let id = turn_of(&self.session.durable, work)?;
        if self.turn_span.as_ref().is_none_or(|turn| turn.id != id) {
            let span = tracing::info_span!("turn", turn = id);
            self.turn_span = Some(TurnSpan { id, span });
        }
        self.turn_span.as_ref().map(|turn| &turn.span)
    }
}

/// Creates the span of a compaction.
pub(super) fn compaction() -> Span {
    tracing::info_span!("work", kind = "compact")
}

/// Creates the span of an ask that is served beside the actor.
pub(super) fn ask(name: &'static str) -> Span {
    tracing::info_span!("ask", ask = name)
}

/// Returns the id of the turn that work belongs to. A prompt that is being prepared has no turn yet; its id will be the
/// turn's.
fn turn_of(durable: &Durable, work: &Work) -> Option<String> {
    let prompt = match (&durable.turn, work) {
        (Some(turn), _) => match turn.prompts.first() {
            Some(prompt) => prompt,
            None => return Some(turn.interaction.clone()),
        },
        (None, Work::PreparePrompt { prompt, .. } | Work::RunCommand { command: prompt }) => prompt,
        (None, _) => return None,
    };
    Some(prompt.to_string())
}

fn kind_of(work: &Work) -> &'static str {
    match work {
        Work::PreparePrompt { .. } => "prepare_prompt",
        Work::RunCommand { .. } => "run_command",
        Work::CallModel { .. } => "call_model",
        Work::PrepareCall { .. } => "prepare_call",
        Work::RunTool { .. } => "run_tool",
        Work::Trust { .. } => "trust",
        Work::FinishCall { .. } => "finish_call",
        Work::DeliverQuestion { .. } => "deliver_question",
        Work::SaveGrant { .. } => "save_grant",
        Work::RestoreFile { .. } => "restore_file",
        Work::DropFile { .. } => "drop_file",
        Work::Review => "review",
        Work::Drive { .. } => "drive",
    }
}
