//! Events of a turn: responses of the model, their tool calls, and the outcome.

use std::collections::BTreeMap;

use baton_protocol::event::{AssistantMessage, Body, Outcome, SessionError, ToolStart, TurnSettled};
use baton_protocol::{PromptId, Timestamp, ToolCallId};

use super::response::ModelResponse;
use super::{Change, Fold, Item, MAX_PARTIALS};
use crate::tools::Call;
use crate::wire::{ChangeKind, Finish, FinishReason, RunComplete, seconds};

/// A turn without an outcome.
#[derive(Debug, Default)]
pub(super) struct Turn {
    pub(super) prompts: Vec<PromptId>,
    pub(super) calls: BTreeMap<ToolCallId, Call>,
    pub(super) error: Option<SessionError>,
    /// Index of the newest response among the items.
    response: Option<usize>,
}

impl Fold {
    pub(super) fn turn_event(&mut self, id: String, at: Timestamp, body: &Body) -> Vec<Change> {
        match body {
            Body::TurnStart(start) => {
                vec![self.new_response(id, start.model.clone().unwrap_or_default(), at)]
            }
            Body::AssistantMessage(message) => self.assistant_message(id, at, message),
            Body::ToolStart(start) => self.tool_start(id, at, start),
            Body::CallAmended(amended) => {
                let Some(turn) = &mut self.turn else { return Vec::new() };
                let Some(call) = turn.calls.get_mut(&amended.tool_call_id) else { return Vec::new() };
                call.arguments = Some(amended.arguments.clone());
                let call = call.clone();
                self.change_response(|response| response.put_call(&amended.tool_call_id, &call))
            }
            Body::TurnEnd(_) => self.round_ended(at),
            Body::TurnSettled(settled) => self.settled(id, at, settled),
            delta => {
                self.delta(delta);
                Vec::new()
            }
        }
    }

    pub(super) fn response(&self) -> Option<&ModelResponse> {
        match self.items.get(self.turn.as_ref()?.response?)? {
            Item::Response(response) => Some(response),
            Item::Fixed(_) => None,
        }
    }

    fn response_mut(&mut self) -> Option<&mut ModelResponse> {
        match self.items.get_mut(self.turn.as_ref()?.response?)? {
            Item::Response(response) => Some(response),
            Item::Fixed(_) => None,
        }
    }

    fn change_response(&mut self, change: impl FnOnce(&mut ModelResponse)) -> Vec<Change> {
        let Some(response) = self.response_mut() else { return Vec::new() };
        change(response);
        let message = response.message();
        self.has_unreported_deltas = false;
        vec![Change::Message(ChangeKind::Updated, message)]
    }

    fn new_response(&mut self, id: String, model: String, at: Timestamp) -> Change {
        let response = ModelResponse::new(id, self.session.clone(), model, at);
        let message = response.message();
        self.turn.get_or_insert_default().response = Some(self.items.len());
        self.items.push(Item::Response(response));
        self.row.messages += 1;
        self.has_unreported_deltas = false;
        Change::Message(ChangeKind::Created, message)
    }

    fn assistant_message(&mut self, id: String, at: Timestamp, message: &AssistantMessage) -> Vec<Change> {
        if let Some(tokens) = message.tokens {
            self.row.prompt_tokens = tokens.input.saturating_add(tokens.cache_read);
            self.row.completion_tokens = tokens.output;
        }
        let mut changes =
            self.ensure_response(id, at, |response| !response.is_complete && !response.has_complete_calls());
        let calls = message.tool_requests.iter().map(|request| {
            let (tool, arguments) = (request.name.clone(), request.arguments.clone());
            (request.tool_call_id.clone(), Call { tool, arguments, started: at.as_millis() })
        });
        let calls: Vec<(ToolCallId, Call)> = calls.collect();
        if let Some(turn) = &mut self.turn {
            turn.calls.extend(calls.iter().cloned());
        }
        changes.extend(self.change_response(|response| {
            response.complete(message, at);
            calls.iter().for_each(|(id, call)| response.put_call(id, call));
        }));
        changes.push(Change::Session(ChangeKind::Updated));
        changes
    }

    /// Starts a new message, unless the last one is unfinished and `fits`. Engines send several texts in one round, and start
    /// calls without a text.
    fn ensure_response(
        &mut self,
        id: String,
        at: Timestamp,
        fits: impl Fn(&ModelResponse) -> bool,
    ) -> Vec<Change> {
        let last = self.response().filter(|response| !response.is_finished());
        if last.is_some_and(fits) {
            return Vec::new();
        }
        let model = self.response().map(|response| response.model.clone()).unwrap_or_default();
        let mut changes = match last.is_some() {
            true => self.change_response(|response| response.finish_plainly(FinishReason::ToolUse, at)),
            false => Vec::new(),
        };
        changes.push(self.new_response(id, model, at));
        changes
    }

    fn tool_start(&mut self, id: String, at: Timestamp, start: &ToolStart) -> Vec<Change> {
        let call = Call {
            tool: start.tool_name.clone(),
            arguments: start.arguments.clone(),
            started: at.as_millis(),
        };
        self.turn.get_or_insert_default().calls.insert(start.tool_call_id.clone(), call.clone());
        // The response of the native engine contained the call already.
        if self.response().is_some_and(|response| response.has_call(&start.tool_call_id)) {
            return Vec::new();
        }
        let mut changes = self.ensure_response(id, at, |_| true);
        changes.extend(self.change_response(|response| response.put_call(&start.tool_call_id, &call)));
        changes
    }

    fn round_ended(&mut self, at: Timestamp) -> Vec<Change> {
        let Some(response) =
            self.response().filter(|response| response.is_complete && !response.is_finished())
        else {
            return Vec::new();
        };
        let reason = if response.has_calls() { FinishReason::ToolUse } else { FinishReason::EndTurn };
        self.change_response(|response| response.finish_plainly(reason, at))
    }

    fn settled(&mut self, id: String, at: Timestamp, settled: &TurnSettled) -> Vec<Change> {
        let is_current =
            |turn: &mut Turn| turn.prompts.iter().any(|prompt| settled.prompt_ids.contains(prompt));
        let mut changes = Vec::new();
        let (mut message_id, mut text) = (String::new(), String::new());
        let ran = self.turn.as_mut().is_some_and(is_current);
        if ran {
            changes.extend(self.finish_turn(id, at, settled));
            if let Some(response) = self.response() {
                (message_id, text) = (response.id.clone(), response.text.clone());
            }
            self.remember_partial();
            self.turn = None;
            changes.push(Change::Session(ChangeKind::Updated));
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
            changes.push(Change::TurnCompleted);
        }
        changes
    }

    /// Returns the run ids of prompts that have an outcome now. A turn without run ids is reported once; a prompt that was
    /// withdrawn before its turn is reported only if it has a run id.
    fn take_runs(&mut self, prompts: &[PromptId], ran: bool) -> Vec<Option<String>> {
        let runs: Vec<_> = prompts.iter().filter_map(|prompt| self.runs.remove(prompt)).map(Some).collect();
        if runs.is_empty() && ran { vec![None] } else { runs }
    }

    fn finish_turn(&mut self, id: String, at: Timestamp, settled: &TurnSettled) -> Vec<Change> {
        let time = seconds(at);
        let finish = match settled.outcome {
            Outcome::Completed if self.response().is_none() => return Vec::new(),
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
        // A prompt that was never sent to the model gets a response with the reason.
        let mut changes = match self.response() {
            None => vec![self.new_response(id, String::new(), at)],
            Some(_) => Vec::new(),
        };
        changes.extend(self.change_response(|response| response.finish(finish, at)));
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
            _ => "The model could not response",
        }
    }

    fn remember_partial(&mut self) {
        let Some((id, partial)) = self.response().and_then(|a| Some((a.id.clone(), a.partial()?))) else {
            return;
        };
        self.partials.push_back((id, partial));
        if self.partials.len() > MAX_PARTIALS {
            self.partials.pop_front();
        }
    }

    /// Applies a delta. A late one, for a complete or finished response, changes nothing.
    fn delta(&mut self, body: &Body) {
        let Some(response) =
            self.response_mut().filter(|response| !response.is_complete && !response.is_finished())
        else {
            return;
        };
        match body {
            Body::MessageDelta(delta) => response.add_text(&delta.message_id, &delta.delta_content),
            Body::ReasoningDelta(delta) => response.add_reasoning(&delta.delta_content),
            Body::ToolCallDelta(delta) => {
                let name = delta.tool_name.as_deref().unwrap_or_default();
                if name.is_empty() || !response.announce_call(&delta.tool_call_id, name) {
                    return;
                }
            }
            _ => return,
        }
        self.has_unreported_deltas = true;
    }
}
