//! `task`, `read_agent` and `list_agents`: the model starts sub-agents and reads their results.
//!
//! Specifications and arguments only. The session runs the sub-agents: they end with its turn, and their work is part of
//! its history.

use baton_protocol::tool::{ToolResult, ToolSpec};
use baton_protocol::{AgentId, Json};
use serde::Deserialize;
use serde_json::json;

use super::{ToolRefusal, arguments, schema, spec};
use crate::agents::AgentKind;

/// Name of the tool that starts a sub-agent.
pub const TASK: &str = "task";
/// Name of the tool that reads a sub-agent's result.
pub const READ_AGENT: &str = "read_agent";
/// Name of the tool that lists sub-agents.
pub const LIST_AGENTS: &str = "list_agents";

/// Arguments of `task`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Task {
    /// Kind of sub-agent.
    pub agent_type: String,
    /// Short name.
    #[serde(default)]
    pub name: Option<String>,
    /// Short description.
    #[serde(default)]
    pub description: String,
    /// The task.
    pub prompt: String,
    /// Whether the model waits for the result.
    #[serde(default)]
    pub mode: TaskMode,
    /// Model to use instead of the kind's.
    #[serde(default)]
    pub model: Option<String>,
}

/// Whether the model waits for a sub-agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskMode {
    /// The call returns the result.
    #[default]
    Sync,
    /// The call returns at once; the model is notified of the end.
    Background,
}

impl Task {
    /// Parses the arguments of a call, and finds the kind of sub-agent.
    ///
    /// # Errors
    /// A result that explains the mistake to the model.
    #[expect(clippy::result_large_err, reason = "parsed once for each task; callers need a tool result")]
    pub fn read<'a>(arguments: &Json, kinds: &'a [AgentKind]) -> Result<(Self, &'a AgentKind), ToolResult> {
        let task: Self = arguments::read(TASK, arguments)?;
        if task.prompt.trim().is_empty() {
            return Err(ToolRefusal::arguments(TASK, "prompt: must not be empty").into());
        }
        match kinds.iter().find(|kind| kind.name == task.agent_type) {
            Some(kind) => Ok((task, kind)),
            None => {
                let names: Vec<&str> = kinds.iter().map(|kind| kind.name.as_str()).collect();
                let why =
                    format!("agent_type: there is no {:?}; there are {}", task.agent_type, names.join(", "));
                Err(ToolRefusal::arguments(TASK, &why).into())
            }
        }
    }
}

/// Arguments of `read_agent`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ReadAgent {
    /// Id of the sub-agent.
    pub agent_id: AgentId,
    /// Whether to wait until it has ended.
    #[serde(default)]
    pub wait: bool,
}

impl ReadAgent {
    /// Parses the arguments of a call.
    ///
    /// # Errors
    /// A result that explains the mistake to the model.
    #[expect(clippy::result_large_err, reason = "parsed once for each call; callers need a tool result")]
    pub fn read(arguments: &Json) -> Result<Self, ToolResult> {
        Ok(arguments::read(READ_AGENT, arguments)?)
    }
}

/// Returns the specifications of the tools, if there are kinds to choose from.
#[must_use]
pub fn specs(kinds: &[AgentKind]) -> Vec<ToolSpec> {
    if kinds.is_empty() { Vec::new() } else { vec![task(kinds), read_agent(), list_agents()] }
}

fn task(kinds: &[AgentKind]) -> ToolSpec {
    let names: Vec<&str> = kinds.iter().map(|kind| kind.name.as_str()).collect();
    let list: Vec<String> =
        kinds.iter().map(|kind| format!("* {}: {}", kind.name, kind.description)).collect();
    spec(
        TASK,
        &format!(
            "Hands a task on to an agent with a context of its own. It knows nothing of this conversation: say all \
             that it needs in the prompt. Use it for work that is long or would fill this conversation; do small \
             things yourself. Several tasks that do not depend on each other can be handed on at once.\n\nAgents:\n{}",
            list.join("\n")
        ),
        schema::object(
            &json!({
                "agent_type": { "type": "string", "enum": names, "description": "Which agent is to do it." },
                "name": schema::string("A short name for the task, such as find-usages."),
                "description": schema::string("The task in three to five words, for people who watch."),
                "prompt": schema::string("The task, complete in itself, and what the answer should contain."),
                "mode": {
                    "type": "string",
                    "enum": ["sync", "background"],
                    "description": "sync waits for the answer; background goes on, and you are told when it is done. \
                                    Default: sync.",
                },
                "model": schema::string("Another model than the agent's usual one."),
            }),
            &["agent_type", "description", "prompt"],
        ),
    )
}

fn read_agent() -> ToolSpec {
    spec(
        READ_AGENT,
        "Says how an agent in the background stands and, once it has ended, what it answered.",
        schema::object(
            &json!({
                "agent_id": schema::string("The agent, by the id that its start was answered with."),
                "wait": schema::boolean("Whether to wait until it has ended. Default: false."),
            }),
            &["agent_id"],
        ),
    )
}

fn list_agents() -> ToolSpec {
    spec(
        LIST_AGENTS,
        "Lists the agents that were started lately, and how they stand.",
        schema::object(&json!({}), &[]),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::built_in;

    fn read(json: &str) -> Result<(Task, String), String> {
        let kinds = built_in();
        let task = Task::read(&Json::from_text(json).unwrap(), &kinds);
        task.map(|(task, kind)| (task, kind.name.clone())).map_err(|refused| refused.text_result_for_llm)
    }

    #[test]
    fn invalid_task_arguments_are_explained() {
        let (task, kind) = read(r#"{"agent_type":"explore","description":"d","prompt":"Look."}"#).unwrap();
        assert_eq!((task.mode, kind.as_str()), (TaskMode::Sync, "explore"));
        let json = r#"{"agent_type":"task","prompt":"x","mode":"background","name":"n"}"#;
        assert_eq!(read(json).unwrap().0.mode, TaskMode::Background);
        for (bad, hint) in [
            ("{}", "agent_type"),
            (r#"{"agent_type":"explore","prompt":" "}"#, "empty"),
            (r#"{"agent_type":"nobody","prompt":"x"}"#, "general-purpose"),
            (r#"{"agent_type":"explore","prompt":"x","mode":"sideways"}"#, "mode"),
        ] {
            let error = read(bad).unwrap_err();
            assert!(error.contains(hint), "{error}");
        }
    }

    #[test]
    fn schema_lists_the_available_kinds() {
        let specs = specs(&built_in()[..2]);
        let schema: serde_json::Value = specs[0].parameters.as_ref().unwrap().parse().unwrap();
        assert_eq!(schema["properties"]["agent_type"]["enum"], json!(["explore", "task"]));
        assert!(super::specs(&[]).is_empty());
    }
}
