//! Folding events into state: the one way a session's durable half ever changes.
//!
//! Total by promise (P7): an event that makes no sense where it stands changes nothing.

mod agents;

use baton_protocol::event::WorkContext;
use baton_protocol::event::{
    ApprovalsChanged, Body, Hold, PlanAnswer, PromptAmended, Question, RequestClosed, RequestOpened,
    SwitchAnswer, ToolRequest,
};
use baton_protocol::{AgentId, Event, PromptId, ToolCallId};

use crate::policy::Grant;
use crate::state::{Accepted, Call, CallKey, CallStage, Durable, Stage, Turn};

/// How many keys of senders are remembered. A retry follows within seconds, not after hundreds of prompts.
const KEYS_REMEMBERED: usize = 128;

/// Why a model was changed, if it was because another one may not be asked for a while.
pub(crate) const AUTO_SWITCH: &str = "rate_limit_auto_switch";

/// How many sub-agents of earlier turns are remembered.
const AGENTS_REMEMBERED: usize = 16;

/// How much of the first prompt becomes the title.
const TITLE_LENGTH: usize = 200;

impl Durable {
    /// The state after all of `events`.
    pub fn of<'a>(events: impl IntoIterator<Item = &'a Event>) -> Self {
        let mut state = Self::default();
        events.into_iter().for_each(|event| state.apply(event));
        state
    }

    /// The state after a record that cannot be read: it has its place in the sequence, and changes nothing.
    pub fn skip(&mut self) {
        self.seq += 1;
    }

    /// The state after one more event.
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

    /// Takes another context. The grants of a location are applied to a directory, and end with it.
    fn change_context(&mut self, context: &WorkContext) {
        if context.cwd != self.facts.context.cwd && self.rules.location.is_some() {
            std::sync::Arc::make_mut(&mut self.rules).location = None;
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
            }),
            (None, Some(revoked)) => self.grants.retain(|grant| grant.id != Some(revoked)),
            (None, None) => self.grants.clear(),
        }
    }

    fn apply_body(&mut self, event: &Event) {
        match &event.body {
            Body::SessionStart(start) => {
                self.started = start.start_time;
                self.facts.model.clone_from(&start.selected_model);
                self.facts.reasoning_effort.clone_from(&start.reasoning_effort);
                self.facts.context = start.context.clone().unwrap_or_default();
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
                // Whoever changes the mode means what runs, too.
                if let Some(turn) = &mut self.turn {
                    turn.mode = None;
                }
            }
            Body::PermissionsChanged(change) => self.facts.permissions = change.mode,
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
                self.removed.take_back(truncated.from_seq, self.seq);
                self.last_public = truncated.last_kept;
                // A program's own memory of the conversation does not go back: it is told anew what was said.
                self.facts.threads.clear();
                if !truncated.has_prompts {
                    self.facts.title = None;
                }
            }
            Body::PromptAccepted(accepted) => {
                let prompt = std::sync::Arc::new(accepted.prompt.clone());
                if let Some(key) = &prompt.key {
                    self.keys.enqueue_mut((key.clone(), accepted.prompt_id));
                    if self.keys.len() > KEYS_REMEMBERED {
                        self.keys.dequeue_mut();
                    }
                }
                self.inbox.enqueue_mut(Accepted { id: accepted.prompt_id, prompt });
                if self.hold == Hold::UntilNext {
                    self.hold = Hold::Open;
                }
            }
            Body::PromptMoved(moved) => self.move_in_inbox(moved.prompt_id, moved.before),
            Body::PromptAmended(amended) => self.amend_in_inbox(amended),
            Body::QueueHeld(held) => self.hold = held.hold,
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

    /// Takes prompts out of the inbox. They nearly always go in the order in which they came.
    fn leave_inbox(&mut self, gone: &[PromptId]) {
        while self.inbox.peek().is_some_and(|waiting| gone.contains(&waiting.id)) {
            self.inbox.dequeue_mut();
        }
        if self.inbox.iter().any(|waiting| gone.contains(&waiting.id)) {
            self.inbox = self.inbox.iter().filter(|waiting| !gone.contains(&waiting.id)).cloned().collect();
        }
    }

    /// Puts a prompt before another one that waits; at the end, if there is no such.
    fn move_in_inbox(&mut self, id: PromptId, before: Option<PromptId>) {
        let Some(moved) = self.inbox.iter().find(|waiting| waiting.id == id).cloned() else { return };
        let mut others: Vec<Accepted> =
            self.inbox.iter().filter(|waiting| waiting.id != id).cloned().collect();
        let place = others.iter().position(|waiting| Some(waiting.id) == before);
        others.insert(place.unwrap_or(others.len()), moved);
        self.inbox = others.into_iter().collect();
    }

    fn amend_in_inbox(&mut self, amended: &PromptAmended) {
        let prompt = std::sync::Arc::new(amended.prompt.clone());
        let new = |waiting: &Accepted| match waiting.id == amended.prompt_id {
            true => Accepted { id: waiting.id, prompt: prompt.clone() },
            false => waiting.clone(),
        };
        self.inbox = self.inbox.iter().map(new).collect();
    }

    fn apply_user_message(&mut self, message: &baton_protocol::event::UserMessage) {
        if self.facts.title.is_none() {
            self.facts.title = Some(message.content.chars().take(TITLE_LENGTH).collect());
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
            has_news: false,
            offer: None,
            switched: false,
        });
    }

    /// Forgets an agent that has ended; one that works cannot be.
    fn forget_agent(&mut self, id: &AgentId) {
        self.agents.retain(|agent| agent.id != *id);
        if let Some(turn) = &mut self.turn {
            turn.agents.retain(|agent| agent.id != *id || agent.ending.is_none());
        }
    }

    fn end_turn(&mut self) {
        let ended = self.turn.take().map(|turn| turn.agents).unwrap_or_default();
        self.agents.extend(ended);
        let too_many = self.agents.len().saturating_sub(AGENTS_REMEMBERED);
        self.agents.drain(..too_many);
    }

    fn apply_to_turn(&mut self, body: &Body) {
        let Some(turn) = &mut self.turn else { return };
        match body {
            Body::TurnStart(_) => {
                turn.stage = Stage::Asking;
                turn.rounds += 1;
                turn.has_news = false;
                turn.forget_calls(None);
            }
            Body::TurnEnd(_) => {
                turn.stage = Stage::Ready;
                turn.offer = None;
                turn.forget_calls(None);
            }
            Body::SwitchOffered(offer) => turn.offer = Some(offer.clone()),
            Body::RequestClosed(closed)
                if turn.offer.as_ref().is_some_and(|offer| offer.request_id == closed.request_id) =>
            {
                turn.offer = None;
                let answer = closed.answer.as_ref().and_then(|answer| answer.parse().ok());
                self.facts.switches_always |= answer == Some(SwitchAnswer::YesAlways);
            }
            Body::EngineTurn(engine) => turn.engine = Some(engine.engine.clone()),
            // The calls of our own rounds come with the model's message; an engine's come as they begin.
            Body::ToolStart(start) if turn.engine.is_some() => turn.calls.push(Call {
                agent: None,
                id: start.tool_call_id.clone(),
                tool: start.tool_name.clone(),
                arguments: start.arguments.clone(),
                stage: CallStage::Started,
            }),
            Body::SystemNotification(_) => turn.has_news = true,
            Body::ToolComplete(complete) => {
                if let Some(error) = &complete.error
                    && error.code.as_deref() == Some("rejected")
                {
                    turn.stop = Some(error.message.clone());
                }
                turn.apply_to_call(None, body);
            }
            body => turn.apply_to_call(None, body),
        }
    }
}

impl Turn {
    /// Whether an outcome of these prompts is the turn's. That of a turn which nobody prompted names none.
    #[must_use]
    pub fn is_settled_by(&self, prompts: &[PromptId]) -> bool {
        self.prompts.is_empty() && prompts.is_empty() || self.prompts.iter().any(|own| prompts.contains(own))
    }

    /// What an event says about one call of a conversation.
    fn apply_to_call(&mut self, agent: Option<&AgentId>, body: &Body) {
        match body {
            Body::CallAmended(amended) => {
                if let Some(call) = self.call_mut(agent, &amended.tool_call_id) {
                    call.arguments = Some(amended.arguments.clone());
                }
            }
            Body::PermissionRequested(requested) => {
                let Some(id) = requested.permission_request.tool_call_id() else { return };
                let wants = Box::new(requested.permission_request.clone());
                self.set_stage(
                    agent,
                    id,
                    CallStage::AwaitingPermission { request: requested.request_id.clone(), wants },
                );
            }
            Body::PermissionCompleted(completed) => {
                self.leave_request(&completed.request_id);
            }
            Body::ExternalToolRequested(requested) => {
                let request = requested.request_id.clone();
                self.set_stage(agent, &requested.tool_call_id, CallStage::AwaitingClient { request });
            }
            Body::ExternalToolCompleted(completed) => self.leave_request(&completed.request_id),
            Body::RequestOpened(RequestOpened { request_id, tool_call_id: Some(call), question }) => {
                let stage =
                    CallStage::AwaitingAnswer { request: request_id.clone(), question: question.clone() };
                self.set_stage(agent, call, stage);
            }
            Body::RequestClosed(closed) => {
                self.stop = self.stopped_by(closed).or(self.stop.take());
                self.leave_request(&closed.request_id);
            }
            Body::ToolComplete(complete) => {
                let done = CallStage::Done { success: complete.success };
                self.set_stage(agent, &complete.tool_call_id, done);
            }
            _ => {}
        }
    }

    /// The call of that name.
    #[must_use]
    pub fn call(&self, key: &CallKey) -> Option<&Call> {
        self.calls_of(key.agent.as_ref()).find(|call| call.id == key.id)
    }

    fn call_mut(&mut self, agent: Option<&AgentId>, id: &ToolCallId) -> Option<&mut Call> {
        self.calls.iter_mut().find(|call| call.agent.as_ref() == agent && call.id == *id)
    }

    fn forget_calls(&mut self, agent: Option<&AgentId>) {
        self.calls.retain(|call| call.agent.as_ref() != agent);
    }

    /// A call that is over stays over, whatever a damaged history says next.
    fn set_stage(&mut self, agent: Option<&AgentId>, id: &ToolCallId, stage: CallStage) {
        if let Some(call) = self.call_mut(agent, id)
            && !call.stage.is_done()
        {
            call.stage = stage;
        }
    }

    /// Why the turn ends with an answer, if it does: a plan was approved that is not to be begun with.
    fn stopped_by(&self, closed: &RequestClosed) -> Option<String> {
        let asked = self.calls.iter().find_map(|call| match &call.stage {
            CallStage::AwaitingAnswer { request, question } if *request == closed.request_id => {
                Some(question)
            }
            _ => None,
        });
        let Some(Question::Plan(_)) = asked else { return None };
        let answer: PlanAnswer = closed.answer.as_ref()?.parse().ok()?;
        answer.ends_turn().then(|| "the plan is approved, and not begun with".into())
    }

    fn leave_request(&mut self, request: &baton_protocol::RequestId) {
        if let Some(call) = self.calls.iter_mut().find(|call| call.stage.request() == Some(request)) {
            call.stage = CallStage::Started;
        }
    }
}

impl Call {
    fn made(agent: Option<&AgentId>, request: &ToolRequest) -> Self {
        Self {
            agent: agent.cloned(),
            id: request.tool_call_id.clone(),
            tool: request.name.clone(),
            arguments: request.arguments.clone(),
            stage: CallStage::Started,
        }
    }
}

impl crate::state::Totals {
    fn count(&mut self, model: &str, tokens: baton_protocol::event::TokenCounts) {
        let (calls, sum) = self.models.entry(model.to_owned()).or_default();
        // Saturating: a damaged history may claim anything, and must still open.
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
