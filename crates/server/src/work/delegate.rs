//! Tasks for sub-agents: how a call becomes one, and what the model is told about those that there are.

use baton_agent::agents::AgentKind;
use baton_agent::prompt::system;
use baton_agent::tools::agents::{ReadAgent, Task, TaskMode};
use baton_core::{AgentOutcome, Delegate, Delegation, Prepared};
use baton_protocol::event::ExecutionMode;
use baton_protocol::tool::ToolResult;
use baton_protocol::{Json, Timestamp};
use serde_json::json;

use super::{Bench, hooks, prompt};

/// A call of `task`.
pub(super) async fn task(bench: &Bench, arguments: &Json) -> Prepared {
    let kinds = bench.settings.agent_kinds();
    let (task, kind) = match Task::read(arguments, &kinds) {
        Ok(read) => read,
        Err(refusal) => return Prepared::Finished(refusal),
    };
    Prepared::Delegate(Box::new(delegation(bench, task, kind).await))
}

/// A task that an agent of this kind can begin with.
pub(crate) async fn delegation(bench: &Bench, task: Task, kind: &AgentKind) -> Delegation {
    let transcript = bench.tools.directory().join("events.jsonl");
    let input = json!({ "transcriptPath": transcript, "agentName": kind.name });
    // Whatever the hook says, the agent is started: there is nothing that it could change.
    hooks::invoke(bench, "subagentStart", input).await;
    Delegation {
        kind: kind.name.clone(),
        name: task.name.unwrap_or_else(|| kind.display_name.clone()),
        description: task.description,
        prompt: task.prompt,
        system: system_text(bench, kind).await,
        model: task.model.or_else(|| kind.model.clone()),
        mode: match task.mode {
            TaskMode::Sync => ExecutionMode::Sync,
            TaskMode::Background => ExecutionMode::Background,
        },
    }
}

async fn system_text(bench: &Bench, kind: &AgentKind) -> String {
    let tools = bench.offered_to(kind).into_iter().map(|tool| tool.name).collect();
    system::of_sub_agent(&kind.prompt, &prompt::surroundings(bench, tools).await)
}

/// A call of `read_agent`, before it is run.
pub(super) fn plan_read(bench: &Bench, arguments: &Json) -> Prepared {
    match ReadAgent::read(arguments) {
        Err(refusal) => Prepared::Finished(refusal),
        Ok(read) => match find(bench, read.agent_id.as_str()) {
            None => Prepared::Finished(unknown(bench, read.agent_id.as_str())),
            Some(agent) if read.wait => Prepared::AfterAgent(agent.id.clone()),
            Some(_) => super::tools::runnable(None),
        },
    }
}

/// What came of an agent.
pub(super) fn read(bench: &Bench, arguments: &Json) -> ToolResult {
    match ReadAgent::read(arguments) {
        Err(refusal) => refusal,
        Ok(read) => match find(bench, read.agent_id.as_str()) {
            None => unknown(bench, read.agent_id.as_str()),
            Some(agent) => ToolResult::success(account(agent)),
        },
    }
}

/// The agents that are known.
pub(super) fn list(bench: &Bench) -> ToolResult {
    let lines: Vec<String> = bench.session.durable.known_agents().map(facts).collect();
    ToolResult::success(if lines.is_empty() { "There are no agents.".into() } else { lines.join("\n") })
}

/// The agent of that id, or of that name: models mix them up.
fn find<'a>(bench: &'a Bench, id: &str) -> Option<&'a Delegate> {
    let mut newest_first = bench.session.durable.known_agents().rev();
    newest_first.find(|agent| agent.id.as_str() == id || agent.name == id)
}

fn unknown(bench: &Bench, id: &str) -> ToolResult {
    let known: Vec<&str> = bench.session.durable.known_agents().map(|agent| agent.id.as_str()).collect();
    let known =
        if known.is_empty() { "there are none".into() } else { format!("there are {}", known.join(", ")) };
    ToolResult::failure(format!("There is no agent {id:?}; {known}."))
}

fn account(agent: &Delegate) -> String {
    let (word, rest) = match agent.ending.as_ref().map(|ending| &ending.outcome) {
        None => ("is still running", String::new()),
        Some(AgentOutcome::Completed) => ("completed", format!("\n\n{}", agent.answer)),
        Some(AgentOutcome::Cancelled) => ("was stopped", format!("\n\n{}", agent.answer)),
        Some(AgentOutcome::Failed(why)) => ("failed", format!("\n\n{why}")),
    };
    format!("Agent {word}. {}{rest}", facts(agent))
}

fn facts(agent: &Delegate) -> String {
    let until = agent.ending.as_ref().map_or_else(Timestamp::now, |ending| ending.at);
    let seconds = until.as_millis().saturating_sub(agent.started.as_millis()) / 1000;
    format!(
        "agent_id: {}, agent_type: {}, status: {}, description: {}, elapsed: {seconds}s, total_turns: {}",
        agent.id,
        agent.kind,
        status(agent),
        agent.description,
        agent.rounds
    )
}

/// How an agent stands, in the word that clients know.
pub(crate) fn status(agent: &Delegate) -> &'static str {
    match agent.ending.as_ref().map(|ending| &ending.outcome) {
        None => "running",
        Some(AgentOutcome::Completed) => "completed",
        Some(AgentOutcome::Cancelled) => "cancelled",
        Some(AgentOutcome::Failed(_)) => "failed",
    }
}

impl Bench {
    /// The sub-agent that the work is for.
    pub(super) fn delegate(&self) -> Option<&Delegate> {
        self.session.durable.turn.as_ref()?.agent(self.agent.as_ref()?)
    }

    /// What kind of agent that is.
    pub(super) fn agent_kind(&self) -> Option<AgentKind> {
        let name = &self.delegate()?.kind;
        self.settings.all_agent_kinds().into_iter().find(|kind| kind.name == *name)
    }
}
