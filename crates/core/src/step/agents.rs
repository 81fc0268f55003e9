//! Sub-agents: tasks that the model hands on.
//!
//! An agent is a conversation of its own inside the turn of the main one. It goes through the same rounds, and its calls
//! ask for the same permissions; only its events carry its name. It ends with its turn at the latest. After a crash it
//! is closed as failed and never carried on: what it knew is gone with its conversation.
//!
//! The call that started an agent waits for it, or ends at once. In the second case the turn stays open until all of
//! its agents have ended, and the model is told of each that has. Prompts that come meanwhile join the turn. A client can
//! start an agent, too; where there is no turn, one is opened for it that no prompt has asked for.

use baton_protocol::event::{
    AssistantIdle, ExecutionMode, Outcome, SessionError, SubagentCompleted, SubagentFailed, SubagentStarted,
    SystemMessage, SystemNotification, TurnEnd, TurnOpened, UserMessage,
};
use baton_protocol::tool::ToolResult;
use baton_protocol::{AgentId, Json, ToolCallId};
use serde_json::json;

use super::Step;
use crate::output::{Reply, ReplyTo, Work};
use crate::results::Delegation;
use crate::state::{AgentOutcome, CallKey, Delegate, Stage};

impl Step<'_> {
    /// Starts an agent for a call of the main conversation.
    pub(super) fn delegate(&mut self, call: &ToolCallId, task: Delegation) {
        let (id, mode) = (AgentId(self.stamp.text_id()), task.mode);
        if mode == ExecutionMode::Background {
            self.finish_call_with(call.clone().into(), ToolResult::success(started_text(&id)));
        }
        self.begin_agent(id, call, task);
    }

    /// Starts an agent for a client: in the background of the running turn, or of one that is opened for it.
    pub(super) fn start_agent(&mut self, reply: ReplyTo, task: Delegation) {
        if self.is_driven() {
            let why = "Another agent's program works on the running turn. Wait until it has ended.";
            return self.reply(reply, Reply::Refused(why.into()));
        }
        if self.turn().is_none() {
            let interaction_id = self.stamp.text_id();
            self.record(TurnOpened { interaction_id });
        }
        let id = AgentId(self.stamp.text_id());
        let (call, task) = (ToolCallId(id.0.clone()), Delegation { mode: ExecutionMode::Background, ..task });
        self.reply(reply, Reply::AgentStarted(id.clone()));
        self.begin_agent(id, &call, task);
    }

    fn begin_agent(&mut self, id: AgentId, call: &ToolCallId, task: Delegation) {
        let Some(turn) = self.turn() else { return };
        let interaction_id = Some(turn.interaction.clone());
        self.record_for(
            Some(&id),
            SubagentStarted {
                tool_call_id: call.clone(),
                agent_name: task.kind,
                agent_display_name: task.name,
                agent_description: task.description,
                model: task.model,
                execution_mode: task.mode,
            },
        );
        self.record_for(Some(&id), SystemMessage { role: "system".into(), content: task.system });
        self.record_for(
            Some(&id),
            UserMessage {
                content: task.prompt,
                transformed_content: None,
                attachments: Vec::new(),
                agent_mode: None,
                delivery: None,
                interaction_id,
                turn_id: Some("0".into()),
                source: Some(format!("agent-{}", self.session.id)),
                message_id: None,
            },
        );
        self.ask(Some(id));
    }

    /// Gives a call a result that still has to pass hooks and limits.
    fn finish_call_with(&mut self, call: CallKey, result: ToolResult) {
        self.start(Work::FinishCall { call, request: None, result });
    }

    /// Once all calls of an agent's round are over, the next round begins or the agent has done its work.
    pub(super) fn end_agent_round_if_over(&mut self, id: &AgentId) {
        let Some(turn) = self.turn() else { return };
        if turn.calls_of(Some(id)).any(|call| !call.stage.is_done()) {
            return;
        }
        let made_calls = turn.calls_of(Some(id)).next().is_some();
        let turn_id = turn.round_name(Some(id));
        self.record_for(Some(id), TurnEnd { turn_id, model: None });
        if made_calls {
            self.ask(Some(id.clone()));
        } else {
            self.agent_ends(id, AgentOutcome::Completed);
        }
    }

    /// The model of an agent could not be asked: the agent fails, its turn goes on.
    pub(super) fn agent_ask_failed(&mut self, id: &AgentId, error: SessionError) {
        let outcome = AgentOutcome::Failed(error.message.clone());
        self.record_for(Some(id), error);
        self.agent_ends(id, outcome);
    }

    /// Somebody stops one agent.
    pub(super) fn stop_agent(&mut self, reply: ReplyTo, id: &AgentId) {
        let had_work = self.working_agent(id).is_some();
        self.agent_ends(id, AgentOutcome::Cancelled);
        self.reply(reply, Reply::Aborted { had_work });
    }

    /// An agent has ended, and whoever waits for it is told.
    fn agent_ends(&mut self, id: &AgentId, outcome: AgentOutcome) {
        let Some(agent) = self.working_agent(id) else { return };
        self.close_agent(&agent, &outcome, "the agent has ended");
        self.run_calls_after(id);
        match agent.mode {
            ExecutionMode::Sync => {
                let result = match outcome {
                    AgentOutcome::Completed => ToolResult::success(agent.answer.clone()),
                    AgentOutcome::Cancelled => ToolResult::failure("The agent was stopped."),
                    AgentOutcome::Failed(why) => ToolResult::failure(format!("The agent failed: {why}")),
                };
                self.finish_call_with(agent.call.into(), result);
            }
            ExecutionMode::Background => {
                let idle = self.is_waiting_for_agents();
                self.notify_of(&agent, &outcome);
                if idle {
                    self.ask(None);
                }
            }
        }
    }

    fn working_agent(&self, id: &AgentId) -> Option<Delegate> {
        self.turn()?.agent(id).filter(|agent| agent.ending.is_none()).cloned()
    }

    /// Records the end of an agent, after that of all it was doing.
    fn close_agent(&mut self, agent: &Delegate, outcome: &AgentOutcome, reason: &str) {
        let id = &agent.id;
        self.stop_where(|work| work.agent() == Some(id));
        self.interrupt_calls(|call| call.agent.as_ref() == Some(id), reason);
        if let Some((turn_id, stage)) =
            self.turn().and_then(|turn| Some((turn.round_name(Some(id)), turn.agent(id)?.stage)))
            && stage != Stage::Ready
        {
            self.record_for(Some(id), TurnEnd { turn_id, model: None });
        }
        let (tool_call_id, agent_name) = (agent.call.clone(), agent.kind.clone());
        let (agent_display_name, model) = (agent.name.clone(), agent.model.clone());
        let total_tool_calls = Some(agent.calls_made);
        let taken = self.stamp.now.as_millis().saturating_sub(agent.started.as_millis());
        let duration_ms = u64::try_from(taken).ok();
        match outcome {
            AgentOutcome::Failed(error) => self.record_for(
                Some(id),
                SubagentFailed {
                    tool_call_id,
                    agent_name,
                    agent_display_name,
                    error: error.clone(),
                    model,
                    total_tool_calls,
                    duration_ms,
                },
            ),
            AgentOutcome::Completed | AgentOutcome::Cancelled => self.record_for(
                Some(id),
                SubagentCompleted {
                    tool_call_id,
                    agent_name,
                    agent_display_name,
                    model,
                    cancelled: (*outcome == AgentOutcome::Cancelled).then_some(true),
                    total_tool_calls,
                    duration_ms,
                },
            ),
        };
    }

    /// Tells the model of an agent that nobody waited for.
    fn notify_of(&mut self, agent: &Delegate, outcome: &AgentOutcome) {
        let status = if *outcome == AgentOutcome::Completed { "completed" } else { "failed" };
        let kind = json!({
            "type": "agent_completed",
            "agentId": agent.id,
            "agentType": agent.kind,
            "description": agent.description,
            "displayName": agent.name,
            "status": status,
        });
        self.record(SystemNotification { content: ended_text(agent, outcome), kind: Json::from(kind) });
    }

    /// Ends all agents with their turn. Nobody is told: there is nobody left who could do something about it.
    pub(super) fn dismiss_agents(&mut self, outcome: Outcome, reason: &str) {
        let ended = match outcome {
            Outcome::Completed | Outcome::Cancelled => AgentOutcome::Cancelled,
            Outcome::Failed | Outcome::Interrupted => AgentOutcome::Failed(reason.to_owned()),
        };
        for agent in self.all_working_agents() {
            self.close_agent(&agent, &ended, reason);
        }
        self.session.live.awaiting_agents.clear();
    }

    /// The server has stopped while agents were at work. Calls that waited for them are interrupted as all others are;
    /// of those that nobody waited for, the model is told.
    pub(super) fn lose_agents(&mut self) {
        let reason = "the server stopped";
        let outcome = AgentOutcome::Failed(reason.to_owned());
        for agent in self.all_working_agents() {
            self.close_agent(&agent, &outcome, reason);
            if agent.mode == ExecutionMode::Background {
                self.notify_of(&agent, &outcome);
            }
        }
    }

    fn all_working_agents(&self) -> Vec<Delegate> {
        self.turn().into_iter().flat_map(|turn| turn.working_agents()).cloned().collect()
    }

    /// Runs a call once an agent has ended: now, if it has.
    pub(super) fn run_after_agent(&mut self, call: &CallKey, agent: AgentId) {
        if self.working_agent(&agent).is_some() {
            self.session.live.awaiting_agents.insert(call.clone(), agent);
        } else {
            self.start(Work::RunTool { call: call.clone() });
        }
    }

    fn run_calls_after(&mut self, agent: &AgentId) {
        let awaiting = &mut self.session.live.awaiting_agents;
        let ready: Vec<CallKey> =
            awaiting.iter().filter(|(_, awaited)| *awaited == agent).map(|(call, _)| call.clone()).collect();
        awaiting.retain(|_, awaited| awaited != agent);
        for call in ready {
            self.start(Work::RunTool { call });
        }
    }

    /// The model has nothing more to say until an agent has ended. Prompts need not wait for that.
    pub(super) fn rest_until_agents_end(&mut self) {
        self.show(AssistantIdle { aborted: None });
        self.open_next_turn();
    }

    /// Whether nothing goes on in the turn but the work of its agents.
    pub(super) fn is_waiting_for_agents(&self) -> bool {
        let live = &self.session.live;
        let beside = |work: &Work| matches!(work, Work::DeliverQuestion { .. } | Work::RunCommand { .. });
        let at_work = |work: &Work| work.agent().is_none() && !beside(work);
        !live.is_recovered
            && self.turn().is_some_and(|turn| turn.engine.is_none() && turn.stage == Stage::Ready)
            && !live.work.values().any(at_work)
    }
}

/// What the model is told of an agent that it does not wait for.
fn started_text(id: &AgentId) -> String {
    format!(
        "Agent started in background with agent_id: {id}. You'll be notified when it completes. Tell the user you're \
         waiting and end your response, or continue unrelated work until notified."
    )
}

/// What the model is told when such an agent has ended.
fn ended_text(agent: &Delegate, outcome: &AgentOutcome) -> String {
    let what = match outcome {
        AgentOutcome::Completed => format!(
            "has completed successfully. Use read_agent with agent_id \"{}\" to retrieve the full results.",
            agent.id
        ),
        AgentOutcome::Cancelled => "was stopped before it was done.".to_owned(),
        AgentOutcome::Failed(why) => format!("has failed: {why}"),
    };
    format!("<system_notification>\nAgent \"{}\" ({}) {what}\n</system_notification>", agent.name, agent.kind)
}
