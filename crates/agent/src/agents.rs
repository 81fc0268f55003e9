//! Kinds of sub-agents: the built-in ones, and those that clients define.

use baton_protocol::agent::CustomAgent;

/// A kind of sub-agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentKind {
    /// Name for models and clients.
    pub name: String,
    /// Name for people.
    pub display_name: String,
    /// Purpose, for the model that chooses a kind.
    pub description: String,
    /// Its part of the system prompt.
    pub prompt: String,
    /// Tools that it may use; `None` means all.
    pub tools: Option<Vec<String>>,
    /// Its model; `None` means the session's.
    pub model: Option<String>,
    /// Skills that are part of its system prompt.
    pub skills: Vec<String>,
}

impl From<&CustomAgent> for AgentKind {
    fn from(agent: &CustomAgent) -> Self {
        Self {
            name: agent.name.clone(),
            display_name: agent.display().to_owned(),
            description: agent.description.clone().unwrap_or_default(),
            prompt: agent.prompt.clone(),
            // A list with "*" is no limit.
            tools: agent.tools.clone().filter(|tools| !tools.iter().any(|tool| tool == "*")),
            model: agent.model.clone(),
            skills: agent.skills.clone().unwrap_or_default(),
        }
    }
}

/// Read-only tools.
const READ_ONLY: [&str; 4] = ["view", "grep", "glob", "web_fetch"];

/// Read-only tools and the shell.
const REVIEW: [&str; 8] =
    ["view", "grep", "glob", "web_fetch", "bash", "read_bash", "stop_bash", "list_bash"];

/// Returns the built-in kinds, in the order in which they are listed for the model.
#[must_use]
pub fn built_in() -> Vec<AgentKind> {
    vec![
        kind(
            "explore",
            "finds things out about the code base and reports them; changes nothing",
            "You explore a code base to answer one question. Search broadly first, then read what matters. Answer \
             with the facts, the paths and the lines that show them, and nothing that was not asked for.",
            Some(&READ_ONLY),
        ),
        kind(
            "task",
            "runs commands such as builds, tests and linters, and reports what came of them",
            "You run commands and report what came of them. When all went well, say so in a sentence; when \
             something failed, quote the output that shows why, in full.",
            None,
        ),
        kind(
            "general-purpose",
            "does any work of several steps, with all tools, in a context of its own",
            "You do a piece of work on behalf of another agent. Do all of it yourself, check it, and report what \
             you did, what you found and what is left.",
            None,
        ),
        kind(
            "rubber-duck",
            "thinks a plan or a problem through and names what is wrong or missing",
            "You are asked for a second opinion. Look at the plan or the problem from the side that was not \
             looked at: wrong assumptions, missed cases, simpler ways. Say what matters, most important first.",
            Some(&READ_ONLY),
        ),
        kind(
            "code-review",
            "reviews changes and names real defects only",
            "You review changes. Look at the difference and at the code around it. Name what is wrong, where, and \
             why it matters: bugs, races, broken promises, missing tests. Leave style alone. If nothing is wrong, \
             say so.",
            Some(&REVIEW),
        ),
        kind(
            "research",
            "answers a question thoroughly from the code base and the web, with sources",
            "You research a question. Use the code base and the web, compare sources, and answer with what is \
             known, how sure it is, and where it is written.",
            Some(&READ_ONLY),
        ),
        kind(
            "security-review",
            "reviews changes for weaknesses that can be exploited",
            "You review changes for security. Follow data from where it comes in to where it is used. Report only \
             weaknesses that can be exploited, each with the way to do it, the place and a remedy.",
            Some(&REVIEW),
        ),
    ]
}

fn kind(name: &str, description: &str, prompt: &str, tools: Option<&[&str]>) -> AgentKind {
    AgentKind {
        name: name.into(),
        display_name: name.into(),
        description: description.into(),
        prompt: prompt.into(),
        tools: tools.map(|tools| tools.iter().map(|tool| (*tool).to_owned()).collect()),
        model: None,
        skills: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::Toolbox;

    #[test]
    fn every_tool_of_a_built_in_agent_exists() {
        let toolbox = Toolbox::default();
        for agent in built_in() {
            for tool in agent.tools.iter().flatten() {
                assert!(toolbox.get(tool).is_some(), "{}: {tool}", agent.name);
            }
        }
    }

    #[test]
    fn star_in_the_tool_list_means_all_tools() {
        let agent = |tools: &[&str]| {
            let tools = Some(tools.iter().map(|tool| (*tool).to_owned()).collect());
            AgentKind::from(&CustomAgent { name: "a".into(), tools, ..CustomAgent::default() })
        };
        assert_eq!(agent(&["*"]).tools, None);
        assert_eq!(agent(&["view"]).tools.unwrap(), ["view"]);
        assert_eq!((agent(&[]).tools.unwrap().len(), agent(&[]).display_name.as_str()), (0, "a"));
    }
}
