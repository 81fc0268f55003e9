//! The words of the workspace API: what crush's client reads. Field names are that client's, not ours.
//!
//! Its decoder is strict in two places: a message without `parts`, or with a part of an unknown type, is lost as a whole.
//! So parts are an enum, and nothing can be written that the client would not read.

use baton_protocol::{SessionId, Timestamp};
use serde::Serialize;
use serde_json::Value;

/// Whole seconds since 1970: the only form of time on this wire, apart from one route.
pub(crate) fn seconds(time: Timestamp) -> i64 {
    time.as_millis().div_euclid(1000)
}

/// Who says something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    User,
    Assistant,
    Tool,
}

/// One message of a conversation, always whole: a client replaces what it had under the same id.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Message {
    pub(crate) id: String,
    pub(crate) role: Role,
    pub(crate) session_id: SessionId,
    pub(crate) parts: Vec<Part>,
    pub(crate) model: String,
    pub(crate) provider: String,
    pub(crate) created_at: i64,
    pub(crate) updated_at: i64,
}

/// A piece of a message.
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
        /// The arguments, as JSON in a text.
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

/// What came of a tool call.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub(crate) struct ToolResult {
    pub(crate) tool_call_id: String,
    pub(crate) name: String,
    pub(crate) content: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) data: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) mime_type: String,
    /// What the terminal needs to show it well, as JSON in a text.
    pub(crate) metadata: String,
    pub(crate) is_error: bool,
}

/// That a message is complete, and why.
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

/// Why a message is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FinishReason {
    EndTurn,
    ToolUse,
    Canceled,
    Error,
    /// For messages that nobody generates.
    Stop,
}

/// A session, as lists and events show it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) parent_session_id: String,
    pub(crate) title: String,
    pub(crate) message_count: u64,
    /// What the last model call read: the client shows how full the context is.
    pub(crate) prompt_tokens: u64,
    pub(crate) completion_tokens: u64,
    pub(crate) summary_message_id: String,
    pub(crate) cost: f64,
    pub(crate) created_at: i64,
    pub(crate) updated_at: i64,
    /// These two are told in answers, never in events.
    pub(crate) is_busy: bool,
    pub(crate) attached_clients: usize,
}

/// That a prompt has had its outcome. Exactly one for each turn.
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

/// A question whether a tool may run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct PermissionRequest {
    pub(crate) id: String,
    pub(crate) session_id: SessionId,
    pub(crate) tool_call_id: String,
    pub(crate) tool_name: String,
    pub(crate) description: String,
    pub(crate) action: String,
    /// Decoded by the client according to `tool_name`.
    pub(crate) params: Value,
    pub(crate) path: String,
}

/// Where a question about a tool stands; neither means that it was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct PermissionNotification {
    pub(crate) tool_call_id: String,
    pub(crate) granted: bool,
    pub(crate) denied: bool,
}

/// Questions to the user; ours come one at a time.
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

/// A possible answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Choice {
    pub(crate) id: String,
    pub(crate) label: String,
}

/// What happened to the object of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum What {
    Created,
    Updated,
    Deleted,
}

/// An event as it goes out: `data: {"type":…,"payload":{"type":…,"payload":…}}`.
pub(crate) fn piece(kind: &str, what: What, object: &impl Serialize) -> bytes::Bytes {
    #[derive(Serialize)]
    struct Outer<'a, T> {
        r#type: &'a str,
        payload: Inner<'a, T>,
    }
    #[derive(Serialize)]
    struct Inner<'a, T> {
        r#type: What,
        payload: &'a T,
    }
    let mut piece = b"data: ".to_vec();
    let event = Outer { r#type: kind, payload: Inner { r#type: what, payload: object } };
    // Strings, numbers and JSON that was JSON before always have a JSON form.
    if serde_json::to_writer(&mut piece, &event).is_err() {
        return bytes::Bytes::new();
    }
    piece.extend_from_slice(b"\n\n");
    piece.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn parts_are_written_as_the_client_reads_them() {
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
    fn an_event_has_two_envelopes_and_one_line() {
        let piece = piece("config_changed", What::Updated, &json!({"workspace_id": "w\n"}));
        let expected = "data: {\"type\":\"config_changed\",\"payload\":{\"type\":\"updated\",\"payload\":{\"workspace_id\":\"w\\n\"}}}\n\n";
        assert_eq!(std::str::from_utf8(&piece).unwrap(), expected);
    }
}
