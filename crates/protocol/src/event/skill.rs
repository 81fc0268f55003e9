//! Events about skills.
#![allow(missing_docs, reason = "field names are those of the wire; the struct is documented")]

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Cause of a skill's invocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SkillTrigger {
    /// A user invoked it, with its slash command.
    UserInvoked,
    /// The model called the tool `skill`.
    #[default]
    AgentInvoked,
    /// It is part of an agent's system prompt.
    ContextLoad,
}

/// The model was given a skill.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SkillInvoked {
    pub name: String,
    /// Path of the file; empty if a client supplied the skill.
    pub path: String,
    /// Text of the skill, without front matter.
    pub content: String,
    #[serde(default)]
    pub allowed_tools: Vec<String>,
    pub source: Option<String>,
    pub plugin_name: Option<String>,
    pub plugin_version: Option<String>,
    pub description: Option<String>,
    pub trigger: Option<SkillTrigger>,
    pub model: Option<String>,
    /// Number of prompts that had an outcome before.
    pub invoked_at_turn: Option<u64>,
}
