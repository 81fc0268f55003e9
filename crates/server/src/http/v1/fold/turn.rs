//! The events of a turn: answers of the model, their calls, and the turn's one outcome.

use std::collections::BTreeMap;

use baton_protocol::event::{AssistantMessage, Body, Outcome, SessionError, ToolStart, TurnSettled};
use baton_protocol::{PromptId, Timestamp, ToolCallId};

use super::answer::Answer;
use super::{Change, Fold, Item, MOST_PARTIALS};
use crate::http::v1::tools::Call;
use crate::http::v1::wire::{Finish, FinishReason, RunComplete, What, seconds};

/// A turn that has had no outcome.
#[derive(Debug, Default)]
pub(super) struct Turn {
    pub(super) prompts: Vec<PromptId>,
    pub(super) calls: BTreeMap<ToolCallId, Call>,
    pub(super) error: Option<SessionError>,
    /// Where the newest answer is.
    answer: Option<usize>,
}

impl Fold {
    pub(super) fn turn_event(&mut self, id: String, at: Timestamp, body: &Body) -> Vec<Change> {
        match body {
            Body::TurnStart(start) => vec![self.new_answer(id, start.model.clone().unwrap_or_default(), at)],
            Body::AssistantMessage(message) => self.said(id, at, message),
            Body::ToolStart(start) => self.tool_start(id, at, start),
            Body::CallAmended(amended) => {
                let Some(turn) = &mut self.turn else { return Vec::new() };
                let Some(call) = turn.calls.get_mut(&amended.tool_call_id) else { return Vec::new() };
                call.arguments = Some(amended.arguments.clone());
                let call = call.clone();
                self.change_answer(|answer| answer.put_call(&amended.tool_call_id, &call))
            }
            Body::TurnEnd(_) => self.round_over(at),
            Body::TurnSettled(settled) => self.settled(id, at, settled),
            piece => {
                self.piece(piece);
                Vec::new()
            }
        }
    }

    pub(super) fn answer(&self) -> Option<&Answer> {
        match self.items.get(self.turn.as_ref()?.answer?)? {
            Item::Answer(answer) => Some(answer),
            Item::Fixed(_) => None,
        }
    }

    fn answer_mut(&mut self) -> Option<&mut Answer> {
        match self.items.get_mut(self.turn.as_ref()?.answer?)? {
            Item::Answer(answer) => Some(answer),
            Item::Fixed(_) => None,
        }
    }

    fn change_answer(&mut self, change: impl FnOnce(&mut Answer)) -> Vec<Change> {
        let Some(answer) = self.answer_mut() else { return Vec::new() };
        change(answer);
        let message = answer.message();
        self.grown = false;
        vec![Change::Message(What::Updated, message)]
    }

    fn new_answer(&mut self, id: String, model: String, at: Timestamp) -> Change {
        let answer = Answer::new(id, self.session.clone(), model, at);
        let message = answer.message();
        self.turn.get_or_insert_default().answer = Some(self.items.len());
        self.items.push(Item::Answer(answer));
        self.row.messages += 1;
        self.grown = false;
        Change::Message(What::Created, message)
    }

    fn said(&mut self, id: String, at: Timestamp, message: &AssistantMessage) -> Vec<Change> {
        if let Some(tokens) = message.tokens {
            self.row.prompt_tokens = tokens.input.saturating_add(tokens.cache_read);
            self.row.completion_tokens = tokens.output;
        }
        let mut changes = self.room_for_answer(id, at, |answer| !answer.said && !answer.has_begun_calls());
        let calls = message.tool_requests.iter().map(|request| {
            let (tool, arguments) = (request.name.clone(), request.arguments.clone());
            (request.tool_call_id.clone(), Call { tool, arguments, began: at.as_millis() })
        });
        let calls: Vec<(ToolCallId, Call)> = calls.collect();
        if let Some(turn) = &mut self.turn {
            turn.calls.extend(calls.iter().cloned());
        }
        changes.extend(self.change_answer(|answer| {
            answer.say(message, at);
            calls.iter().for_each(|(id, call)| answer.put_call(id, call));
        }));
        changes.push(Change::Session(What::Updated));
        changes
    }

    /// An agent that is not ours says several things in one round, and begins calls without saying anything: it gets
    /// a new message where the last one cannot take more.
    fn room_for_answer(&mut self, id: String, at: Timestamp, fits: impl Fn(&Answer) -> bool) -> Vec<Change> {
        let last = self.answer().filter(|answer| !answer.is_finished());
        if last.is_some_and(fits) {
            return Vec::new();
        }
        let model = self.answer().map(|answer| answer.model.clone()).unwrap_or_default();
        let mut changes = match last.is_some() {
            true => self.change_answer(|answer| answer.finish_plainly(FinishReason::ToolUse, at)),
            false => Vec::new(),
        };
        changes.push(self.new_answer(id, model, at));
        changes
    }

    fn tool_start(&mut self, id: String, at: Timestamp, start: &ToolStart) -> Vec<Change> {
        let call =
            Call { tool: start.tool_name.clone(), arguments: start.arguments.clone(), began: at.as_millis() };
        self.turn.get_or_insert_default().calls.insert(start.tool_call_id.clone(), call.clone());
        // Our own rounds have named their calls with the answer.
        if self.answer().is_some_and(|answer| answer.makes_call(&start.tool_call_id)) {
            return Vec::new();
        }
        let mut changes = self.room_for_answer(id, at, |_| true);
        changes.extend(self.change_answer(|answer| answer.put_call(&start.tool_call_id, &call)));
        changes
    }

    fn round_over(&mut self, at: Timestamp) -> Vec<Change> {
        let Some(answer) = self.answer().filter(|answer| answer.said && !answer.is_finished()) else {
            return Vec::new();
        };
        let reason = if answer.makes_calls() { FinishReason::ToolUse } else { FinishReason::EndTurn };
        self.change_answer(|answer| answer.finish_plainly(reason, at))
    }

    fn settled(&mut self, id: String, at: Timestamp, settled: &TurnSettled) -> Vec<Change> {
        let ours = |turn: &mut Turn| turn.prompts.iter().any(|prompt| settled.prompt_ids.contains(prompt));
        let mut changes = Vec::new();
        let (mut message_id, mut text) = (String::new(), String::new());
        let ran = self.turn.as_mut().is_some_and(ours);
        if ran {
            changes.extend(self.finish_turn(id, at, settled));
            if let Some(answer) = self.answer() {
                (message_id, text) = (answer.id.clone(), answer.text.clone());
            }
            self.remember_partial();
            self.turn = None;
            changes.push(Change::Session(What::Updated));
        }
        let runs: Vec<Option<String>> = self.take_runs(&settled.prompt_ids, ran);
        changes.extend(runs.into_iter().map(|run_id| {
            Change::Run(RunComplete {
                session_id: self.session.clone(),
                run_id,
                message_id: message_id.clone(),
                text: text.clone(),
                error: matches!(settled.outcome, Outcome::Failed | Outcome::Interrupted)
                    .then(|| settled.reason.clone()),
                cancelled: settled.outcome == Outcome::Cancelled,
            })
        }));
        if ran && settled.outcome == Outcome::Completed {
            changes.push(Change::Finished);
        }
        changes
    }

    /// The run ids of prompts that have just had their outcome. A turn that has none is told of once all the same; a
    /// prompt that was taken back before its turn is told of only if somebody waits for it.
    fn take_runs(&mut self, prompts: &[PromptId], ran: bool) -> Vec<Option<String>> {
        let runs: Vec<_> = prompts.iter().filter_map(|prompt| self.runs.remove(prompt)).map(Some).collect();
        if runs.is_empty() && ran { vec![None] } else { runs }
    }

    fn finish_turn(&mut self, id: String, at: Timestamp, settled: &TurnSettled) -> Vec<Change> {
        let time = seconds(at);
        let finish = match settled.outcome {
            Outcome::Completed if self.answer().is_none() => return Vec::new(),
            Outcome::Completed => Finish::plain(FinishReason::EndTurn, time),
            Outcome::Cancelled => {
                Finish { message: "Canceled".into(), ..Finish::plain(FinishReason::Canceled, time) }
            }
            Outcome::Failed | Outcome::Interrupted => Finish {
                message: self.heading(settled.outcome).into(),
                details: settled.reason.clone(),
                ..Finish::plain(FinishReason::Error, time)
            },
        };
        // A prompt that never came to the model still has an answer that says why.
        let mut changes = match self.answer() {
            None => vec![self.new_answer(id, String::new(), at)],
            Some(_) => Vec::new(),
        };
        changes.extend(self.change_answer(|answer| answer.finish(finish, at)));
        changes
    }

    fn heading(&self, outcome: Outcome) -> &'static str {
        let kind =
            self.turn.as_ref().and_then(|turn| turn.error.as_ref()).map(|error| error.error_type.as_str());
        match kind {
            _ if outcome == Outcome::Interrupted => "Interrupted",
            Some("authentication") => "Not authorized",
            Some("rate_limit") => "Too many requests",
            Some("quota") => "Quota used up",
            Some("context_limit") => "The conversation is too long",
            _ => "The model could not answer",
        }
    }

    fn remember_partial(&mut self) {
        let Some((id, partial)) = self.answer().and_then(|a| Some((a.id.clone(), a.partial()?))) else {
            return;
        };
        self.partials.push_back((id, partial));
        if self.partials.len() > MOST_PARTIALS {
            self.partials.pop_front();
        }
    }

    /// A streamed piece. One that comes late, for an answer that is whole or over, changes nothing.
    fn piece(&mut self, body: &Body) {
        let Some(answer) = self.answer_mut().filter(|answer| !answer.said && !answer.is_finished()) else {
            return;
        };
        match body {
            Body::MessageDelta(delta) => answer.add_text(&delta.message_id, &delta.delta_content),
            Body::ReasoningDelta(delta) => answer.add_thought(&delta.delta_content),
            Body::ToolCallDelta(delta) => {
                let name = delta.tool_name.as_deref().unwrap_or_default();
                if name.is_empty() || !answer.announce_call(&delta.tool_call_id, name) {
                    return;
                }
            }
            _ => return,
        }
        self.grown = true;
    }
}
