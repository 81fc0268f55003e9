//! Tools and commands as declared by clients, and tool results.
#![allow(missing_docs, reason = "field names are those of the wire; the struct is documented")]

use serde::{Deserialize, Deserializer, Serialize};
use serde_with::skip_serializing_none;

use crate::json::Json;

/// A tool that a client provides to the model.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolSpec {
    pub name: String,
    #[serde(default)]
    pub description: String,
    /// JSON Schema of the arguments.
    pub parameters: Option<Json>,
    #[serde(default)]
    pub overrides_built_in_tool: bool,
    #[serde(default)]
    pub skip_permission: bool,
    /// Whether a successful call ends the turn.
    #[serde(default)]
    pub is_terminal: bool,
}

/// A slash command that a client provides to the user.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlashCommand {
    pub name: String,
    pub description: Option<String>,
}

/// The outcome of a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ResultType {
    #[default]
    Success,
    Failure,
    /// Denied by a user; the turn stops.
    Rejected,
    Denied,
    Timeout,
}

impl ResultType {
    /// Returns the name on the wire, which is also the error code of a call that did not succeed.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Rejected => "rejected",
            Self::Denied => "denied",
            Self::Timeout => "timeout",
        }
    }
}

/// Binary data that a tool returns to the model, such as an image.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BinaryResult {
    /// `image` or `resource`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Base64.
    pub data: String,
    pub mime_type: String,
    pub description: Option<String>,
}

/// The result of a tool call.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResult {
    /// Text for the model.
    #[serde(default)]
    pub text_result_for_llm: String,
    #[serde(default)]
    pub result_type: ResultType,
    /// The error, for people; the model receives the text.
    pub error: Option<String>,
    /// Text that people see in the session's log instead of the model's text.
    pub session_log: Option<String>,
    pub tool_telemetry: Option<Json>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub binary_results_for_llm: Vec<BinaryResult>,
    pub contents: Option<Json>,
    /// Structured content of an MCP tool, as its server sent it.
    pub structured_content: Option<Json>,
}

impl ToolResult {
    /// Creates the result of a successful call.
    pub fn success(text: impl Into<String>) -> Self {
        Self { text_result_for_llm: text.into(), ..Self::default() }
    }

    /// Creates the result of a failed call.
    pub fn failure(text: impl Into<String>) -> Self {
        Self { text_result_for_llm: text.into(), result_type: ResultType::Failure, ..Self::default() }
    }
}

/// A tool result as clients send it: an object, or only the text.
#[derive(Debug, Clone, PartialEq)]
pub struct AnyToolResult(pub ToolResult);

impl<'de> Deserialize<'de> for AnyToolResult {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Json::deserialize(deserializer)?;
        if let Ok(text) = json.parse::<String>() {
            return Ok(Self(ToolResult::success(text)));
        }
        // A client may return any JSON value; a value that is not a result object becomes the text of a
        // result.
        let shaped =
            json.parse::<ToolResult>().ok().filter(|_| json.as_str().contains("\"textResultForLlm\""));
        Ok(Self(shaped.unwrap_or_else(|| ToolResult::success(json.as_str()))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_can_be_text_object_or_any_json() {
        let read = |text: &str| baton_json::from_str::<AnyToolResult>(text).unwrap().0;
        assert_eq!(read("\"ok\""), ToolResult::success("ok"));
        let rejected = read(r#"{"textResultForLlm":"no","resultType":"rejected"}"#);
        assert_eq!(
            (rejected.text_result_for_llm.as_str(), rejected.result_type),
            ("no", ResultType::Rejected)
        );
        assert_eq!(read(r#"{"rows": [1, 2]}"#), ToolResult::success(r#"{"rows":[1,2]}"#));
    }
}
