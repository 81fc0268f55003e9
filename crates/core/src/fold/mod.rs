//! Folds events into the durable state. Nothing else changes that state.
//!
//! Total (P7): an event that makes no sense at its position changes nothing.

mod agents;
mod turn;

use std::collections::BTreeSet;
use std::sync::Arc;

use baton_protocol::event::{
    ApprovalsChanged, Body, Hold, PermissionRequested, PromptAmended, TokenCounts, UserMessage, WorkContext,
};
use baton_protocol::permission::PermissionOutcome;
use baton_protocol::sandbox::Wall;
use baton_protocol::{AgentId, Event, PromptId, RequestId};

use crate::policy::Grant;
use crate::state::{Accepted, Admission, Call, Durable, Stage, Totals, Turn, WallRequest};

/// Number of idempotency keys to remember. A retry follows within seconds, not after hundreds of prompts.
const KEYS_REMEMBERED: usize = 128;

/// Cause of a model change to a fallback model.
pub(crate) const AUTO_SWITCH: &str = "rate_limit_auto_switch";

/// Number of sub-agents of earlier turns to remember.
const AGENTS_REMEMBERED: usize = 16;

/// Number of characters of the first prompt that become the title.
const TITLE_LENGTH: usize = 200;

/// Makes a title of a prompt: its beginning, in one line.
fn title(prompt: &str) -> String {
    let start: String = prompt.chars().take(2 * TITLE_LENGTH).collect();
    let line = start.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(TITLE_LENGTH).collect()
}

impl Durable {
    /// Returns the state after all of `events`.
    pub fn of<'a>(events: impl IntoIterator<Item = &'a Event>) -> Self {
        let mut state = Self::default();
        events.into_iter().for_each(|event| state.apply(event));
        state
    }

    /// Skips a record that cannot be read: it counts in the sequence, and changes nothing else.
    pub fn skip(&mut self) {
        self.seq += 1;
    }

    /// Folds one event.
    pub fn apply(&mut self, event: &Event) {
        self.seq += 1;
        if event.body.is_public() {
            self.last_public = Some(event.id);
        }
        match &event.agent_id {
            None => self.apply_body(event),
            Some(agent) => self.apply_to_agent(agent, event),
        }
    }

    /// Sets the context. Grants of a location belong to a working directory, and end when the session leaves it.
    fn change_context(&mut self, context: &WorkContext) {
        if context.cwd != self.facts.context.cwd && self.rules.location.is_some() {
            Arc::make_mut(&mut self.rules).location = None;
        }
        self.facts.context = context.clone();
    }

    fn change_grants(&mut self, event: &Event, change: &ApprovalsChanged) {
        match (&change.approval, change.revoked) {
            (Some(approval), _) => self.grants.push(Grant {
                approval: approval.clone(),
                id: Some(event.id),
                by: change.by.clone(),
                at: Some(event.timestamp),
                cwd: Some(self.facts.context.cwd.clone()),
                binding: change.binding.clone(),
            }),
            (None, Some(revoked)) => self.grants.retain(|grant| grant.id != Some(revoked)),
            (None, None) => self.grants.clear(),
        }
        if change.approval.is_none() {
            // A revoked grant may have come with an answer that would hold until the end of the turn.
            self.origins.retain(|_, answer| *answer == Admission::Denied);
        }
    }

    fn close_wall(&mut self, request: &RequestId, outcome: &PermissionOutcome) {
        let Some(position) = self.walls.iter().position(|wall| wall.request == *request) else { return };
        let closed = self.walls.remove(position);
        let answer = match outcome {
            PermissionOutcome::Approved {}
            | PermissionOutcome::ApprovedForSession { .. }
            | PermissionOutcome::ApprovedForLocation { .. } => Admission::Admitted,
            PermissionOutcome::Cancelled { .. } | PermissionOutcome::DeniedByRules { .. } => return,
            _ => Admission::Denied,
        };
        if let Wall::Host { origin, .. } = &closed.wall {
            self.origins.insert(origin.clone(), answer);
        }
    }

    fn apply_body(&mut self, event: &Event) {
        match &event.body {
            Body::SessionStart(start) => {
                self.started = start.start_time;
                self.facts.model.clone_from(&start.selected_model);
                self.facts.reasoning_effort.clone_from(&start.reasoning_effort);
                self.facts.context = start.context.clone().unwrap_or_default();
                self.facts.sandbox.clone_from(&start.sandbox);
            }
            Body::SessionResume(resume) => {
                if let Some(context) = &resume.context {
                    self.change_context(context);
                }
            }
            Body::ModelChange(change) => {
                if let Some(turn) = &mut self.turn {
                    turn.switched |= change.cause.as_deref() == Some(AUTO_SWITCH);
                }
                self.facts.model = Some(change.new_model.clone());
                self.facts.reasoning_effort.clone_from(&change.reasoning_effort);
            }
            Body::ModeChanged(change) => {
                self.facts.mode = change.new_mode;
                // A change of the mode applies to the running turn, too.
                if let Some(turn) = &mut self.turn {
                    turn.mode = None;
                }
            }
            Body::PermissionsChanged(change) => self.facts.permissions = change.mode,
            Body::SandboxChanged(change) => self.facts.sandbox.clone_from(&change.choice),
            Body::ContextChanged(change) => self.change_context(&change.0),
            Body::EngineUsage(usage) => self.totals.count(&usage.model, usage.tokens),
            Body::EngineThread(thread) => {
                self.facts.threads.insert(thread.engine.clone(), thread.token.clone());
            }
            Body::CompactionComplete(complete) if complete.success => self.facts.summaries += 1,
            Body::FileTrackingBegun(_) => self.facts.tracks_files = true,
            Body::Renamed(renamed) => {
                self.facts.name = Some(renamed.name.clone());
                self.facts.named_by_user = renamed.by_user;
            }
            Body::ApprovalsChanged(change) => self.change_grants(event, change),
            Body::RulesChanged(change) => self.rules = change.rules.clone(),
            Body::HistoryTruncated(truncated) => {
                self.removed.rewind(truncated.from_seq, self.seq);
                self.last_public = truncated.last_kept;
                // Engines cannot rewind their own conversation: they start a new one, and are given the history.
                self.facts.threads.clear();
                if !truncated.has_prompts {
                    self.facts.title = None;
                }
            }
            Body::PromptAccepted(accepted) => {
                let prompt = Arc::new(accepted.prompt.clone());
                if let Some(key) = &prompt.key {
                    self.keys.enqueue_mut((key.clone(), accepted.prompt_id));
                    if self.keys.len() > KEYS_REMEMBERED {
                        self.keys.dequeue_mut();
                    }
                }
                self.inbox.enqueue_mut(Accepted { id: accepted.prompt_id, prompt, held: false });
                if self.hold == Hold::UntilNext {
                    self.hold = Hold::Open;
                }
            }
            Body::PromptMoved(moved) => self.move_in_inbox(moved.prompt_id, moved.before),
            Body::PromptAmended(amended) => self.amend_in_inbox(amended),
            Body::QueueHeld(held) => {
                self.hold = held.hold;
                if held.hold == Hold::Open {
                    self.hold_in_inbox(|_| false);
                }
            }
            Body::PromptsHeld(held) => {
                let named: BTreeSet<PromptId> = held.prompt_ids.iter().copied().collect();
                self.hold_in_inbox(|item| item.held || named.contains(&item.id));
            }
            Body::TurnOpened(opened) => self.open_turn(None, opened.interaction_id.clone()),
            Body::AgentForgotten(forgotten) => self.forget_agent(&forgotten.agent_id),
            Body::UserMessage(message) => self.apply_user_message(message),
            Body::TurnSettled(settled) => {
                self.totals.prompts += settled.prompt_ids.len() as u64;
                self.leave_inbox(&settled.prompt_ids);
                if self.turn.as_ref().is_some_and(|turn| turn.is_settled_by(&settled.prompt_ids)) {
                    self.end_turn();
                }
            }
            Body::LoginRequested(login) => {
                self.logins.retain(|known| known.server_name != login.server_name);
                self.logins.push(Arc::new(login.clone()));
            }
            Body::RequestClosed(closed)
                if self.logins.iter().any(|login| login.request_id == closed.request_id) =>
            {
                self.logins.retain(|login| login.request_id != closed.request_id);
            }
            Body::PermissionRequested(PermissionRequested {
                request_id,
                permission_request,
                wall: Some(wall),
                ..
            }) => {
                let (request, wants) = (request_id.clone(), permission_request.clone());
                self.walls.push(Arc::new(WallRequest { request, wants, wall: wall.clone() }));
            }
            Body::PermissionCompleted(completed) if self.wall_of(&completed.request_id).is_some() => {
                self.close_wall(&completed.request_id, &completed.result);
            }
            Body::AssistantMessage(message) => {
                if let (Some(model), Some(tokens)) = (&message.model, message.tokens) {
                    self.totals.count(model, tokens);
                }
                if let Some(turn) = &mut self.turn
                    && turn.engine.is_none()
                {
                    turn.stage = Stage::Acting;
                    turn.switched = false;
                    turn.forget_calls(None);
                    turn.calls.extend(message.tool_requests.iter().map(|request| Call::made(None, request)));
                }
            }
            _ => self.apply_to_turn(&event.body),
        }
    }

    /// Removes items from the inbox. Nearly always they are at its front.
    fn leave_inbox(&mut self, gone: &[PromptId]) {
        while self.inbox.peek().is_some_and(|item| gone.contains(&item.id)) {
            self.inbox.dequeue_mut();
        }
        if self.inbox.iter().any(|item| gone.contains(&item.id)) {
            self.inbox = self.inbox.iter().filter(|item| !gone.contains(&item.id)).cloned().collect();
        }
    }

    /// Moves an item before another one; to the end, if that one is not in the inbox.
    fn move_in_inbox(&mut self, id: PromptId, before: Option<PromptId>) {
        let Some(moved) = self.inbox.iter().find(|item| item.id == id).cloned() else { return };
        let mut others: Vec<Accepted> = self.inbox.iter().filter(|item| item.id != id).cloned().collect();
        let position = others.iter().position(|item| Some(item.id) == before);
        others.insert(position.unwrap_or(others.len()), moved);
        self.inbox = others.into_iter().collect();
    }

    /// Holds the items that `which` selects, and no others.
    fn hold_in_inbox(&mut self, which: impl Fn(&Accepted) -> bool) {
        if self.inbox.iter().any(|item| item.held != which(item)) {
            let after = |item: &Accepted| Accepted { held: which(item), ..item.clone() };
            self.inbox = self.inbox.iter().map(after).collect();
        }
    }

    fn amend_in_inbox(&mut self, amended: &PromptAmended) {
        let prompt = Arc::new(amended.prompt.clone());
        let after = |item: &Accepted| match item.id == amended.prompt_id {
            true => Accepted { prompt: prompt.clone(), ..item.clone() },
            false => item.clone(),
        };
        self.inbox = self.inbox.iter().map(after).collect();
    }

    fn apply_user_message(&mut self, message: &UserMessage) {
        if self.facts.title.is_none() {
            self.facts.title = Some(title(&message.content));
        }
        let Some(id) = message.message_id else { return };
        self.leave_inbox(&[id]);
        match &mut self.turn {
            Some(turn) => turn.prompts.push(id),
            None => self.open_turn(Some(id), message.interaction_id.clone().unwrap_or_default()),
        }
        if let Some(turn) = &mut self.turn {
            turn.mode = message.agent_mode.or(turn.mode);
        }
    }

    fn open_turn(&mut self, prompt: Option<PromptId>, interaction: String) {
        if self.turn.is_some() {
            return;
        }
        self.turn = Some(Turn {
            prompts: prompt.into_iter().collect(),
            interaction,
            engine: None,
            rounds: 0,
            stage: Stage::Ready,
            calls: Vec::new(),
            mode: None,
            stop: None,
            agents: Vec::new(),
            has_notification: false,
            fallback_request: None,
            switched: false,
        });
    }

    /// Forgets a sub-agent that has ended. One that works is kept.
    fn forget_agent(&mut self, id: &AgentId) {
        self.agents.retain(|agent| agent.id != *id);
        if let Some(turn) = &mut self.turn {
            turn.agents.retain(|agent| agent.id != *id || agent.ending.is_none());
        }
    }

    fn end_turn(&mut self) {
        self.origins.clear();
        let ended = self.turn.take().map(|turn| turn.agents).unwrap_or_default();
        self.agents.extend(ended);
        let too_many = self.agents.len().saturating_sub(AGENTS_REMEMBERED);
        self.agents.drain(..too_many);
    }
}

impl Totals {
    fn count(&mut self, model: &str, tokens: TokenCounts) {
        let (calls, sum) = self.models.entry(model.to_owned()).or_default();
        // Saturating: a damaged history may hold any number, and must still open.
        let add = |sum: &mut u64, count: u64| *sum = sum.saturating_add(count);
        add(calls, 1);
        add(&mut sum.input, tokens.input);
        add(&mut sum.output, tokens.output);
        add(&mut sum.cache_read, tokens.cache_read);
        add(&mut sum.cache_write, tokens.cache_write);
        add(&mut sum.reasoning, tokens.reasoning);
        add(&mut sum.duration_ms, tokens.duration_ms);
    }
}
