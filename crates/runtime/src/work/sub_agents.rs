//! Sub-agents: handoff of tasks, and the tools with which the model reads the results.

use baton_agent::agents::AgentKind;
use baton_agent::prompt::system;
use baton_agent::tools::agents::{ReadAgent, Task, TaskMode};
use baton_core::{AgentOutcome, Handoff, Prepared, SubAgent};
use baton_protocol::event::ExecutionMode;
use baton_protocol::tool::ToolResult;
use baton_protocol::{Json, Timestamp};
use serde_json::json;

use super::{WorkScope, hooks, prompt, skills};

/// Prepares a call of `task`.
pub(super) async fn prepare_task(scope: &WorkScope, arguments: &Json) -> Prepared {
    let kinds = scope.settings.agent_kinds();
    let (task, kind) = match Task::read(arguments, &kinds) {
        Ok(read) => read,
        Err(refusal) => return Prepared::Finished(refusal),
    };
    let task = Box::new(delegation(scope, task, kind).await);
    Prepared::Handoff { task, limits: scope.runtime.options.agent_limits }
}

/// Builds a task for a sub-agent of a kind, and invokes the `subagentStart` hook.
pub(super) async fn delegation(scope: &WorkScope, task: Task, kind: &AgentKind) -> Handoff {
    let transcript = scope.tools.files().events();
    let input = json!({ "transcriptPath": transcript, "agentName": kind.name });
    // This hook has no output that could change the task.
    hooks::invoke(scope, "subagentStart", input).await;
    ready_servers(scope, &kind.name).await;
    Handoff {
        kind: kind.name.clone(),
        name: task.name.unwrap_or_else(|| kind.display_name.clone()),
        description: task.description,
        prompt: task.prompt,
        system: system_text(scope, kind).await,
        model: task.model.or_else(|| kind.model.clone()),
        mode: match task.mode {
            TaskMode::Sync => ExecutionMode::Sync,
            TaskMode::Background => ExecutionMode::Background,
        },
    }
}

/// Starts the MCP servers that belong to a kind of sub-agent, if it has any.
pub(super) async fn ready_servers(scope: &WorkScope, kind: &str) {
    if let Some(agent) = scope.settings.agents().find(|agent| agent.name == kind) {
        scope.tools.mcp().ready_for(agent, &scope.settings, prompt::cwd(scope)).await;
    }
}

async fn system_text(scope: &WorkScope, kind: &AgentKind) -> String {
    let tools = scope.sub_agent_tools(kind).into_iter().map(|tool| tool.name).collect();
    let own = skills::with_skills(scope, &kind.prompt, &kind.skills, None).await;
    system::of_sub_agent(&own, &prompt::prompt_context(scope, tools).await)
}

/// Prepares a call of `read_agent`, which may have to wait until the sub-agent ends.
pub(super) fn prepare_read(scope: &WorkScope, arguments: &Json) -> Prepared {
    match ReadAgent::read(arguments) {
        Err(refusal) => Prepared::Finished(refusal),
        Ok(read) => match find(scope, read.agent_id.as_str()) {
            None => Prepared::Finished(unknown(scope, read.agent_id.as_str())),
            Some(agent) if read.wait => Prepared::AfterAgent(agent.id.clone()),
            Some(_) => super::tools::runnable(None),
        },
    }
}

/// Runs `read_agent`: returns the state of a sub-agent, and its result if it has ended.
pub(super) fn read(scope: &WorkScope, arguments: &Json) -> ToolResult {
    match ReadAgent::read(arguments) {
        Err(refusal) => refusal,
        Ok(read) => match find(scope, read.agent_id.as_str()) {
            None => unknown(scope, read.agent_id.as_str()),
            Some(agent) => ToolResult::success(report(agent)),
        },
    }
}

/// Runs `list_agents`.
pub(super) fn list(scope: &WorkScope) -> ToolResult {
    let lines: Vec<String> = scope.session.durable.known_agents().map(facts).collect();
    ToolResult::success(if lines.is_empty() { "No agents.".into() } else { lines.join("\n") })
}

/// Finds a sub-agent by its id, or by its name: models confuse the two.
fn find<'a>(scope: &'a WorkScope, id: &str) -> Option<&'a SubAgent> {
    let mut newest_first = scope.session.durable.known_agents().rev();
    newest_first.find(|agent| agent.id.as_str() == id || agent.name == id)
}

fn unknown(scope: &WorkScope, id: &str) -> ToolResult {
    let known: Vec<&str> = scope.session.durable.known_agents().map(|agent| agent.id.as_str()).collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    ToolResult::failure(format!("Unknown agent {id:?}. Agents: {known}."))
}

fn report(agent: &SubAgent) -> String {
    let (state, result) = match agent.ending.as_ref().map(|ending| &ending.outcome) {
        None => ("is still running", String::new()),
        Some(AgentOutcome::Completed) => ("completed", format!("\n\n{}", agent.answer)),
        Some(AgentOutcome::Cancelled) => ("was stopped", format!("\n\n{}", agent.answer)),
        Some(AgentOutcome::Failed(why)) => ("failed", format!("\n\n{why}")),
    };
    format!("Agent {state}. {}{result}", facts(agent))
}

fn facts(agent: &SubAgent) -> String {
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

/// Returns the status of a sub-agent, as SDKs name it.
pub fn status(agent: &SubAgent) -> &'static str {
    match agent.ending.as_ref().map(|ending| &ending.outcome) {
        None => "running",
        Some(AgentOutcome::Completed) => "completed",
        Some(AgentOutcome::Cancelled) => "cancelled",
        Some(AgentOutcome::Failed(_)) => "failed",
    }
}

impl WorkScope {
    /// Returns the sub-agent that the work belongs to.
    pub(super) fn delegate(&self) -> Option<&SubAgent> {
        self.session.durable.turn.as_ref()?.agent(self.agent.as_ref()?)
    }

    /// Returns the kind of that sub-agent.
    pub(super) fn agent_kind(&self) -> Option<AgentKind> {
        let name = &self.delegate()?.kind;
        self.settings.all_agent_kinds().into_iter().find(|kind| kind.name == *name)
    }
}
