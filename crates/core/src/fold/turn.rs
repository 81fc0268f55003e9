//! Folds events of a turn and its calls.

use baton_protocol::event::{
    Body, PlanAnswer, Question, RequestClosed, RequestOpened, SwitchAnswer, ToolRequest,
};
use baton_protocol::{AgentId, PromptId, RequestId, ToolCallId};

use crate::results::TRUST_TOOL;
use crate::state::{Call, CallKey, CallStage, Durable, Stage, Turn};

impl Durable {
    pub(super) fn apply_to_turn(&mut self, body: &Body) {
        let Some(turn) = &mut self.turn else { return };
        match body {
            Body::TurnStart(_) => {
                turn.stage = Stage::CallingModel;
                turn.rounds += 1;
                turn.has_notification = false;
                turn.forget_calls(None);
            }
            Body::TurnEnd(_) => {
                turn.stage = Stage::Ready;
                turn.fallback_request = None;
                turn.forget_calls(None);
            }
            Body::SwitchOffered(request) => turn.fallback_request = Some(request.clone()),
            Body::RequestClosed(closed)
                if turn
                    .fallback_request
                    .as_ref()
                    .is_some_and(|request| request.request_id == closed.request_id) =>
            {
                turn.fallback_request = None;
                let answer = closed.answer.as_ref().and_then(|answer| answer.parse().ok());
                self.facts.switches_always |= answer == Some(SwitchAnswer::YesAlways);
            }
            Body::EngineTurn(engine) => turn.engine = Some(engine.engine.clone()),
            // Calls of Baton's own rounds are announced by the model's message; an engine's only by their start.
            Body::ToolStart(start) if turn.engine.is_some() => turn.calls.push(Call::started(start)),
            // A question of the session itself: no message announces it, and the model is not asked before it is answered.
            Body::ToolStart(start) if start.tool_name == TRUST_TOOL && turn.stage == Stage::CallingModel => {
                turn.stage = Stage::Acting;
                turn.calls.push(Call::started(start));
            }
            Body::SystemNotification(_) => turn.has_notification = true,
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
    /// Whether the outcome of these prompts is the outcome of the turn. A turn without prompts is settled by an outcome
    /// that names none.
    #[must_use]
    pub fn is_settled_by(&self, prompts: &[PromptId]) -> bool {
        self.prompts.is_empty() && prompts.is_empty() || self.prompts.iter().any(|own| prompts.contains(own))
    }

    /// Applies an event to a call of a conversation.
    pub(super) fn apply_to_call(&mut self, agent: Option<&AgentId>, body: &Body) {
        match body {
            Body::CallAmended(amended) => {
                if let Some(call) = self.call_mut(agent, &amended.tool_call_id) {
                    call.arguments = Some(amended.arguments.clone());
                }
            }
            Body::PermissionRequested(requested) => {
                let Some(id) = requested.permission_request.tool_call_id() else { return };
                let wants = Box::new(requested.permission_request.clone());
                let stage = CallStage::AwaitingPermission {
                    request: requested.request_id.clone(),
                    wants,
                    requires_user: requested.requires_user == Some(true),
                };
                self.set_stage(agent, id, stage);
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

    /// Returns the call with this key.
    #[must_use]
    pub fn call(&self, key: &CallKey) -> Option<&Call> {
        self.calls_of(key.agent.as_ref()).find(|call| call.id == key.id)
    }

    fn call_mut(&mut self, agent: Option<&AgentId>, id: &ToolCallId) -> Option<&mut Call> {
        self.calls.iter_mut().find(|call| call.agent.as_ref() == agent && call.id == *id)
    }

    pub(super) fn forget_calls(&mut self, agent: Option<&AgentId>) {
        self.calls.retain(|call| call.agent.as_ref() != agent);
    }

    /// Sets the stage of a call. A call that is done stays so, whatever a damaged history holds.
    fn set_stage(&mut self, agent: Option<&AgentId>, id: &ToolCallId, stage: CallStage) {
        if let Some(call) = self.call_mut(agent, id)
            && !call.stage.is_done()
        {
            call.stage = stage;
        }
    }

    /// Returns why an answer ends the turn, if it does: it approves a plan for later.
    fn stopped_by(&self, closed: &RequestClosed) -> Option<String> {
        let asked = self.calls.iter().find_map(|call| match &call.stage {
            CallStage::AwaitingAnswer { request, question } if *request == closed.request_id => {
                Some(question)
            }
            _ => None,
        });
        let Some(Question::Plan(_)) = asked else { return None };
        let answer: PlanAnswer = closed.answer.as_ref()?.parse().ok()?;
        answer.ends_turn().then(|| "the plan was approved for later".into())
    }

    fn leave_request(&mut self, request: &RequestId) {
        if let Some(call) = self.calls.iter_mut().find(|call| call.stage.request() == Some(request)) {
            call.stage = CallStage::Started;
        }
    }
}

impl Call {
    pub(super) fn made(agent: Option<&AgentId>, request: &ToolRequest) -> Self {
        Self {
            agent: agent.cloned(),
            id: request.tool_call_id.clone(),
            tool: request.name.clone(),
            arguments: request.arguments.clone(),
            stage: CallStage::Started,
        }
    }
}
