//! Sub-agents.
//!
//! A sub-agent is a conversation inside a turn. It runs the same rounds as the main conversation, and its calls need the
//! same permissions; its events carry its id. It ends with the turn at the latest. After a crash it is closed as failed
//! and never continued, because its conversation is lost.
//!
//! A synchronous call waits for the sub-agent it starts; a background call ends at once. In the second case the turn stays
//! open until all its sub-agents have ended, the model is notified of each end, and prompts that arrive meanwhile join the
//! turn. A sub-agent starts no others. [`AgentLimits`] bounds how many the model may start.
//!
//! A client can start a sub-agent, too; if no turn is running, a turn without a prompt is opened for it.

use baton_protocol::event::{
    AssistantIdle, ExecutionMode, Outcome, SessionError, SubagentCompleted, SubagentFailed, SubagentStarted,
    SystemMessage, SystemNotification, TurnEnd, TurnOpened, UserMessage,
};
use baton_protocol::tool::ToolResult;
use baton_protocol::{AgentId, Json, ToolCallId};
use serde_json::json;

use super::Step;
use super::walls::is_beside_turns;
use crate::ask::{AgentReport, ReplyTo, RunAgent, Serve, StartAgent, StopAgent};
use crate::output::Work;
use crate::results::{AgentLimits, Handoff};
use crate::state::{AgentOutcome, CallKey, Stage, SubAgent};

/// Why no agent can be started.
const ENGINE_WORKS: &str = "an engine works on the running turn; wait until the turn has ended";

impl Serve<StartAgent> for Step<'_> {
    /// Starts an agent in the background of the running turn, or of a turn that is opened for it.
    fn handle(&mut self, to: ReplyTo<StartAgent>, ask: StartAgent) {
        if !self.can_start_agent() {
            return self.refuse(to, ENGINE_WORKS);
        }
        let id = AgentId(self.stamp.text_id());
        self.reply(to, id.clone());
        self.begin_background_agent(id, *ask.task);
    }
}

impl Serve<RunAgent> for Step<'_> {
    fn handle(&mut self, to: ReplyTo<RunAgent>, ask: RunAgent) {
        if !self.can_start_agent() {
            return self.refuse(to, ENGINE_WORKS);
        }
        let id = AgentId(self.stamp.text_id());
        self.session.live.awaited_agents.insert(id.clone(), (to, ask.key));
        self.begin_background_agent(id, *ask.task);
    }
}

impl Serve<StopAgent> for Step<'_> {
    fn handle(&mut self, to: ReplyTo<StopAgent>, ask: StopAgent) {
        let was_working = self.working_agent(&ask.agent).is_some();
        self.end_agent(&ask.agent, AgentOutcome::Cancelled);
        self.reply(to, was_working);
    }
}

impl Step<'_> {
    /// Continues pending work, and returns whether a client may start an agent.
    fn can_start_agent(&mut self) -> bool {
        self.continue_work();
        !self.is_driven()
    }

    /// Starts an agent in the background of the running turn, or of a turn that is opened for it.
    fn begin_background_agent(&mut self, id: AgentId, task: Handoff) {
        if self.turn().is_none() {
            let interaction_id = self.stamp.text_id();
            self.record(TurnOpened { interaction_id });
        }
        let (call, task) = (ToolCallId(id.0.clone()), Handoff { mode: ExecutionMode::Background, ..task });
        self.begin_agent(id, &call, task);
    }

    /// Stops the agent that code of a client waits for under a name. Returns whether there is one.
    pub(super) fn stop_awaited_agent(&mut self, key: &str) -> bool {
        let mut awaited = self.session.live.awaited_agents.iter();
        let Some(id) = awaited.find(|(_, (_, named))| named == key).map(|(id, _)| id.clone()) else {
            return false;
        };
        self.end_agent(&id, AgentOutcome::Cancelled);
        true
    }

    /// Returns why the model may not start another agent, if it may not.
    pub(super) fn refusal_of_agent(&self, limits: AgentLimits) -> Option<String> {
        let turn = self.turn()?;
        let (working, all) = (turn.working_agents().count(), turn.agents.len());
        if all >= limits.per_turn {
            return Some(format!(
                "The agent was not started: this turn has started {all} agents, which is the limit. Do the rest yourself, or \
                 end your response; the user can raise `per_turn` of [agents] in Baton's configuration."
            ));
        }
        (working >= limits.at_once).then(|| {
            format!(
                "The agent was not started: {working} agents are working, which is the limit. Wait until one of them has \
                 ended and call again; the user can raise `at_once` of [agents] in Baton's configuration."
            )
        })
    }

    /// Starts an agent for a call of the main conversation.
    pub(super) fn delegate(&mut self, call: &ToolCallId, task: Handoff) {
        let (id, mode) = (AgentId(self.stamp.text_id()), task.mode);
        if mode == ExecutionMode::Background {
            self.finish_call(call.clone().into(), ToolResult::success(started_text(&id)));
        }
        self.begin_agent(id, call, task);
    }

    fn begin_agent(&mut self, id: AgentId, call: &ToolCallId, task: Handoff) {
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
        self.start_round(Some(id));
    }

    /// Passes a result through hooks and limits before it becomes the result of a call.
    fn finish_call(&mut self, call: CallKey, result: ToolResult) {
        self.start(Work::FinishCall { call, request: None, result });
    }

    /// Ends an agent's round once all its calls are done: the next round starts, or the agent has completed its task.
    pub(super) fn end_agent_round_if_over(&mut self, id: &AgentId) {
        let Some(turn) = self.turn() else { return };
        if turn.calls_of(Some(id)).any(|call| !call.stage.is_done()) {
            return;
        }
        let made_calls = turn.calls_of(Some(id)).next().is_some();
        let turn_id = turn.round_name(Some(id));
        self.record_for(Some(id), TurnEnd { turn_id, model: None });
        if made_calls {
            self.start_round(Some(id.clone()));
        } else {
            self.end_agent(id, AgentOutcome::Completed);
        }
    }

    /// Fails an agent whose model call failed. The turn continues.
    pub(super) fn fail_agent(&mut self, id: &AgentId, error: SessionError) {
        let outcome = AgentOutcome::Failed(error.message.clone());
        self.record_for(Some(id), error);
        self.end_agent(id, outcome);
    }

    /// Ends an agent, and gives its result to the call that waits for it, or notifies the model.
    fn end_agent(&mut self, id: &AgentId, outcome: AgentOutcome) {
        let Some(agent) = self.working_agent(id) else { return };
        let is_awaited = self.session.live.awaited_agents.contains_key(id);
        self.close_agent(&agent, &outcome, "the agent has ended");
        self.run_calls_after(id);
        match agent.mode {
            ExecutionMode::Sync => {
                let result = match outcome {
                    AgentOutcome::Completed => ToolResult::success(agent.answer.clone()),
                    AgentOutcome::Cancelled => ToolResult::failure("The agent was stopped."),
                    AgentOutcome::Failed(why) => ToolResult::failure(format!("The agent failed: {why}")),
                };
                self.finish_call(agent.call.into(), result);
            }
            ExecutionMode::Background if is_awaited => self.end_turn_without_agents(),
            ExecutionMode::Background => {
                let is_waiting = self.is_waiting_for_agents();
                self.notify_of_end(&agent, &outcome);
                if is_waiting {
                    self.start_round(None);
                }
            }
        }
    }

    /// Ends the turn, if nothing works on it any more.
    fn end_turn_without_agents(&mut self) {
        let agents_work = self.turn().is_some_and(|turn| turn.working_agents().next().is_some());
        if self.is_waiting_for_agents() && !agents_work {
            self.complete_turn("its agents have ended".into());
        }
    }

    /// Returns an agent that has not ended.
    fn working_agent(&self, id: &AgentId) -> Option<SubAgent> {
        self.turn()?.agent(id).filter(|agent| agent.ending.is_none()).cloned()
    }

    /// Records the end of an agent, after the end of its calls and its round.
    fn close_agent(&mut self, agent: &SubAgent, outcome: &AgentOutcome, reason: &str) {
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
        self.report_agent(agent, outcome);
    }

    /// Replies to the code of a client that waits for an agent.
    fn report_agent(&mut self, agent: &SubAgent, outcome: &AgentOutcome) {
        let Some((to, _)) = self.session.live.awaited_agents.remove(&agent.id) else { return };
        let error = match outcome {
            AgentOutcome::Completed => None,
            AgentOutcome::Cancelled => Some("the agent was stopped".to_owned()),
            AgentOutcome::Failed(why) => Some(why.clone()),
        };
        self.reply(to, AgentReport { answer: agent.answer.clone(), error });
    }

    /// Notifies the model of the end of a background agent.
    fn notify_of_end(&mut self, agent: &SubAgent, outcome: &AgentOutcome) {
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

    /// Ends all agents with their turn. The model is not notified: it is not called again in this turn.
    pub(super) fn end_all_agents(&mut self, outcome: Outcome, reason: &str) {
        let ended = match outcome {
            Outcome::Completed | Outcome::Cancelled => AgentOutcome::Cancelled,
            Outcome::Failed | Outcome::Interrupted => AgentOutcome::Failed(reason.to_owned()),
        };
        for agent in self.all_working_agents() {
            self.close_agent(&agent, &ended, reason);
        }
        self.session.live.awaiting_agents.clear();
    }

    /// Fails all agents after a crash. Calls that waited for them are interrupted like any others; the model is notified
    /// of background agents.
    pub(super) fn fail_lost_agents(&mut self) {
        let reason = "the server stopped";
        let outcome = AgentOutcome::Failed(reason.to_owned());
        for agent in self.all_working_agents() {
            self.close_agent(&agent, &outcome, reason);
            if agent.mode == ExecutionMode::Background {
                self.notify_of_end(&agent, &outcome);
            }
        }
    }

    fn all_working_agents(&self) -> Vec<SubAgent> {
        self.turn().into_iter().flat_map(|turn| turn.working_agents()).cloned().collect()
    }

    /// Runs a call once an agent has ended, or at once if it already has.
    pub(super) fn run_after_agent(&mut self, call: &CallKey, agent: AgentId) {
        if self.working_agent(&agent).is_some() {
            self.session.live.awaiting_agents.insert(call.clone(), agent);
        } else {
            self.start(Work::RunTool { call: call.clone(), binding: None, placed: None });
        }
    }

    /// Runs the calls that waited for an agent.
    fn run_calls_after(&mut self, agent: &AgentId) {
        let awaiting = &mut self.session.live.awaiting_agents;
        let ready: Vec<CallKey> =
            awaiting.iter().filter(|(_, awaited)| *awaited == agent).map(|(call, _)| call.clone()).collect();
        awaiting.retain(|_, awaited| awaited != agent);
        for call in ready {
            self.start(Work::RunTool { call, binding: None, placed: None });
        }
    }

    /// Leaves the turn to its background agents. The next prompt may join it meanwhile.
    pub(super) fn wait_for_agents(&mut self) {
        self.show(AssistantIdle { aborted: None });
        self.open_next_turn();
    }

    /// Whether only agents work on the turn.
    pub(super) fn is_waiting_for_agents(&self) -> bool {
        let live = &self.session.live;
        let is_independent = |work: &Work| {
            matches!(work, Work::DeliverQuestion { .. } | Work::RunCommand { .. })
                || is_beside_turns(work, &self.session.durable.walls)
        };
        let is_main = |work: &Work| work.agent().is_none() && !is_independent(work);
        !live.is_recovered
            && self.turn().is_some_and(|turn| turn.engine.is_none() && turn.stage == Stage::Ready)
            && !live.work.values().any(is_main)
    }
}

/// Returns the result of a call that starts a background agent, for the model.
fn started_text(id: &AgentId) -> String {
    format!(
        "Agent started in background with agent_id: {id}. You'll be notified when it completes. Tell the user you're \
         waiting and end your response, or continue unrelated work until notified."
    )
}

/// Returns the notification of the end of a background agent, for the model.
fn ended_text(agent: &SubAgent, outcome: &AgentOutcome) -> String {
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
