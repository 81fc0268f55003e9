//! Custom agents defined by a client, and usage limits of a session.
#![allow(missing_docs, reason = "field names are those of the wire; the struct is documented")]

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::json::Json;

/// An agent defined by a client: a prompt and a set of tools under a name. It can be selected for the
/// conversation, and can work as a sub-agent.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CustomAgent {
    pub name: String,
    pub display_name: Option<String>,
    pub description: Option<String>,
    pub prompt: String,
    /// The tools that it may use; `None` means all.
    pub tools: Option<Vec<String>>,
    /// Its model; `None` means the session's model.
    pub model: Option<String>,
    pub reasoning_effort: Option<String>,
    /// Whether the model may hand tasks off to it; `None` means yes.
    pub infer: Option<bool>,
    pub mcp_servers: Option<Json>,
    pub skills: Option<Vec<String>>,
}

impl CustomAgent {
    /// Returns the name to show to people.
    #[must_use]
    pub fn display(&self) -> &str {
        self.display_name.as_deref().unwrap_or(&self.name)
    }
}

/// Usage limits of a session.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SessionLimits {
    pub max_ai_credits: Option<f64>,
}
