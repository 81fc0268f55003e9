//! Wire types of the workspace API. The field names are those of crush's client.
//!
//! The client's decoder is strict in two places: it drops a message without `parts`, or with a part of an unknown type. So parts
//! are an enum, and nothing can be written that the client does not read.

use baton_protocol::{SessionId, Timestamp};
use serde::Serialize;
use serde_json::Value;

/// Converts a time to seconds since 1970, which all types but one route use.
pub(crate) fn seconds(time: Timestamp) -> i64 {
    time.as_millis().div_euclid(1000)
}

/// Author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum MessageRole {
    User,
    Assistant,
    Tool,
}

/// A message of a conversation, always complete: the client replaces an earlier message with the same id.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Message {
    pub(crate) id: String,
    pub(crate) role: MessageRole,
    pub(crate) session_id: SessionId,
    pub(crate) parts: Vec<Part>,
    pub(crate) model: String,
    pub(crate) provider: String,
    pub(crate) created_at: i64,
    pub(crate) updated_at: i64,
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
pub(crate) enum Part {
    Text {
        text: String,
    },
    Reasoning {
        thinking: String,
        signature: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        started_at: Option<i64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        finished_at: Option<i64>,
    },
    /// Bytes, in base64.
    Binary {
        #[serde(rename = "Path")]
        path: String,
        #[serde(rename = "MIMEType")]
        mime_type: String,
        #[serde(rename = "Data")]
        data: String,
    },
    ToolCall {
        id: String,
        name: String,
        /// The arguments, as JSON text.
        input: String,
        finished: bool,
    },
    ToolResult(ToolResult),
    ShellCommand {
        command: String,
        output: String,
        exit_code: i32,
    },
    Finish(Finish),
}

/// Result of a tool call.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub(crate) struct ToolResult {
    pub(crate) tool_call_id: String,
    pub(crate) name: String,
    pub(crate) content: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) data: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) mime_type: String,
    /// Data for the terminal's renderer, as JSON text.
    pub(crate) metadata: String,
    pub(crate) is_error: bool,
}

/// End of a message, with its reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Finish {
    pub(crate) reason: FinishReason,
    pub(crate) time: i64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) details: String,
}

impl Finish {
    pub(crate) fn plain(reason: FinishReason, time: i64) -> Self {
        Self { reason, time, message: String::new(), details: String::new() }
    }
}

/// Why a message has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FinishReason {
    EndTurn,
    ToolUse,
    Canceled,
    Error,
    /// For messages that no model generates.
    Stop,
}

/// A session, in lists and events.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) parent_session_id: String,
    pub(crate) title: String,
    pub(crate) message_count: u64,
    /// Input of the last model call: the client shows how full the context is.
    pub(crate) prompt_tokens: u64,
    pub(crate) completion_tokens: u64,
    pub(crate) summary_message_id: String,
    pub(crate) cost: f64,
    pub(crate) created_at: i64,
    pub(crate) updated_at: i64,
    /// Set in responses only, not in events; so is `attached_clients`.
    pub(crate) is_busy: bool,
    pub(crate) attached_clients: usize,
}

/// Outcome of a prompt. There is exactly one for each turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct RunComplete {
    pub(crate) session_id: SessionId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) run_id: Option<String>,
    pub(crate) message_id: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) cancelled: bool,
}

/// A permission request.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct PermissionRequest {
    pub(crate) id: String,
    pub(crate) session_id: SessionId,
    pub(crate) tool_call_id: String,
    pub(crate) tool_name: String,
    pub(crate) description: String,
    pub(crate) action: String,
    /// The client decodes them according to `tool_name`.
    pub(crate) params: Value,
    pub(crate) path: String,
}

/// State of a permission request; neither `granted` nor `denied` means that it is pending.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct PermissionNotification {
    pub(crate) tool_call_id: String,
    pub(crate) granted: bool,
    pub(crate) denied: bool,
}

/// Questions to the user. Baton's batches contain one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct QuestionBatch {
    pub(crate) id: String,
    pub(crate) session_id: SessionId,
    pub(crate) tool_call_id: String,
    pub(crate) questions: Vec<Question>,
}

/// A question to the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Question {
    pub(crate) id: String,
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    pub(crate) question: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) choices: Vec<Choice>,
}

/// A possible answer to a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Choice {
    pub(crate) id: String,
    pub(crate) label: String,
}

/// Kind of change of the object of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ChangeKind {
    Created,
    Updated,
    Deleted,
}

/// Encodes an event of the stream: `data: {"type":…,"payload":{"type":…,"payload":…}}`.
pub(crate) fn encode(object_type: &str, change: ChangeKind, object: &impl Serialize) -> bytes::Bytes {
    #[derive(Serialize)]
    struct Outer<'a, T> {
        r#type: &'a str,
        payload: Inner<'a, T>,
    }
    #[derive(Serialize)]
    struct Inner<'a, T> {
        r#type: ChangeKind,
        payload: &'a T,
    }
    let mut encoded = b"data: ".to_vec();
    let event = Outer { r#type: object_type, payload: Inner { r#type: change, payload: object } };
    // Strings, numbers and JSON values can always be encoded.
    if serde_json::to_writer(&mut encoded, &event).is_err() {
        return bytes::Bytes::new();
    }
    encoded.extend_from_slice(b"\n\n");
    encoded.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn parts_have_the_encoding_of_the_client() {
        let check = |part: Part, expected: Value| assert_eq!(serde_json::to_value(part).unwrap(), expected);
        check(Part::Text { text: "a".into() }, json!({"type": "text", "data": {"text": "a"}}));
        check(
            Part::Binary { path: "p".into(), mime_type: "image/png".into(), data: "AA==".into() },
            json!({"type": "binary", "data": {"Path": "p", "MIMEType": "image/png", "Data": "AA=="}}),
        );
        check(
            Part::Finish(Finish::plain(FinishReason::EndTurn, 7)),
            json!({"type": "finish", "data": {"reason": "end_turn", "time": 7}}),
        );
        check(
            Part::ToolResult(ToolResult { tool_call_id: "c".into(), ..ToolResult::default() }),
            json!({"type": "tool_result", "data":
                {"tool_call_id": "c", "name": "", "content": "", "metadata": "", "is_error": false}}),
        );
    }

    #[test]
    fn event_has_two_envelopes_and_one_line() {
        let event = encode("config_changed", ChangeKind::Updated, &json!({"workspace_id": "w\n"}));
        let expected = "data: {\"type\":\"config_changed\",\"payload\":{\"type\":\"updated\",\"payload\":{\"workspace_id\":\"w\\n\"}}}\n\n";
        assert_eq!(std::str::from_utf8(&event).unwrap(), expected);
    }
}
