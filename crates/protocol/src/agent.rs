//! Agents that a client brings, and the limits it sets.
#![allow(missing_docs, reason = "fields carry the names of the wire; the struct says what they are about")]

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::json::Json;

/// An agent of the client's own: a prompt and a set of tools under a name. It can be chosen for the conversation, and
/// work on tasks that the model hands on.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CustomAgent {
    pub name: String,
    pub display_name: Option<String>,
    pub description: Option<String>,
    pub prompt: String,
    /// The tools that it may use; none means all.
    pub tools: Option<Vec<String>>,
    /// The model that it is asked with; none means the session's.
    pub model: Option<String>,
    pub reasoning_effort: Option<String>,
    /// Whether the model may hand tasks on to it by itself; yes, unless said otherwise.
    pub infer: Option<bool>,
    pub mcp_servers: Option<Json>,
    pub skills: Option<Vec<String>>,
}

impl CustomAgent {
    /// What people call it.
    #[must_use]
    pub fn display(&self) -> &str {
        self.display_name.as_deref().unwrap_or(&self.name)
    }
}

/// How much a session may use.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SessionLimits {
    pub max_ai_credits: Option<f64>,
}
