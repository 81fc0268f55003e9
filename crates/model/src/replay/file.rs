//! The file format: one exchange on each line.
//!
//! ```json
//! {"user":["What is in the file?"],"answer":{"text":"","calls":[{"name":"view","arguments":"{\"path\":\"a\"}"}]}}
//! {"follows":1,"results":["1. hello"],"answer":{"text":"It says hello."}}
//! ```
//!
//! A line contains what is new since the line that it `follows`: the user's messages, or the results of the
//! tool calls of that answer. The file reads like the conversation, and does not repeat it with every answer.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Finish, Message, ModelResponse, Part, ToolCall, Usage};

/// Error for an invalid recording.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the recording cannot be read: {why}")]
pub struct BadRecording {
    line: usize,
    why: String,
}

/// Recorded requests and answers.
#[derive(Debug, Clone, Default)]
pub struct Recording {
    pub(super) exchanges: Vec<Exchange>,
}

/// One exchange, with the whole conversation before it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Exchange {
    pub(super) messages: Vec<RecordedMessage>,
    pub(super) answer: RecordedAnswer,
}

/// A message in the form that is compared and recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RecordedMessage {
    User(String),
    Model { text: String, calls: Vec<RecordedCall> },
    Result(String),
}

/// A tool call. Its id matters only to the provider and is omitted. Two calls are equal if their arguments are the same JSON:
/// models write spaces into it that the next request does not have.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct RecordedCall {
    pub(super) name: String,
    pub(super) arguments: String,
}

impl PartialEq for RecordedCall {
    fn eq(&self, other: &Self) -> bool {
        let same_arguments =
            || self.arguments == other.arguments || self.compact_arguments() == other.compact_arguments();
        self.name == other.name && same_arguments()
    }
}

impl Eq for RecordedCall {}

impl RecordedCall {
    /// Returns the arguments as JSON without insignificant space; arguments that are not JSON as they are.
    fn compact_arguments(&self) -> String {
        if self.arguments.trim().is_empty() {
            return "{}".to_owned();
        }
        baton_json::from_str::<serde_json::Value>(&self.arguments)
            .map_or_else(|_| self.arguments.clone(), |arguments| arguments.to_string())
    }
}

/// A recorded answer.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RecordedAnswer {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning: Option<String>,
    pub(super) text: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) calls: Vec<RecordedCall>,
    /// Why the model stopped, if it is not the obvious reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) finish: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tokens: Option<Tokens>,
}

/// Token usage of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Tokens {
    input: u64,
    output: u64,
    #[serde(skip_serializing_if = "is_zero")]
    cached: u64,
    #[serde(skip_serializing_if = "is_zero")]
    reasoning: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    /// Number of the line that this one continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    follows: Option<usize>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    results: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    user: Vec<String>,
    answer: RecordedAnswer,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "required by serde")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Recording {
    /// Parses a recording.
    ///
    /// # Errors
    /// When a line is invalid; the error names the line and the reason.
    pub fn parse(text: &str) -> Result<Self, BadRecording> {
        let mut recording = Self::default();
        for (at, line) in text.lines().enumerate() {
            let bad = |why: String| BadRecording { line: at + 1, why };
            // Empty lines and comments count, so that `follows` names lines as an editor shows them.
            if line.trim().is_empty() || line.trim_start().starts_with('#') {
                recording
                    .exchanges
                    .push(Exchange { messages: Vec::new(), answer: RecordedAnswer::default() });
                continue;
            }
            let line: Line = baton_json::from_str(line).map_err(|error| bad(error.to_string()))?;
            let mut messages = match line.follows {
                None => Vec::new(),
                Some(number) => {
                    let earlier = number.checked_sub(1).and_then(|at| recording.exchanges.get(at));
                    let earlier =
                        earlier.ok_or_else(|| bad(format!("there is no line {number} before it")))?;
                    earlier.with_answer()
                }
            };
            messages.extend(line.results.into_iter().map(RecordedMessage::Result));
            messages.extend(line.user.into_iter().map(RecordedMessage::User));
            recording.exchanges.push(Exchange { messages, answer: line.answer });
        }
        Ok(recording)
    }

    /// Adds an exchange and returns its line.
    pub(super) fn add(&mut self, exchange: Exchange) -> serde_json::Result<String> {
        let is_new = |messages: &&[RecordedMessage]| {
            let users = messages.iter().skip_while(|message| matches!(message, RecordedMessage::Result(_)));
            users.into_iter().all(|message| matches!(message, RecordedMessage::User(_)))
        };
        // The latest line that this one continues, with nothing in between but results and then the user.
        let before = self.exchanges.iter().enumerate().rev().find_map(|(at, earlier)| {
            let rest = exchange.messages.strip_prefix(earlier.with_answer().as_slice())?;
            is_new(&rest).then(|| (at + 1, rest.to_vec()))
        });
        let (follows, new) = match before {
            Some((number, rest)) => (Some(number), rest),
            None => (None, exchange.messages.clone()),
        };
        let (mut results, mut user) = (Vec::new(), Vec::new());
        for message in new {
            match message {
                RecordedMessage::Result(text) => results.push(text),
                RecordedMessage::User(text) => user.push(text),
                // A conversation that started elsewhere: earlier answers of the model become part of the
                // request.
                RecordedMessage::Model { .. } => user.push(message.rendered()),
            }
        }
        let line = serde_json::to_string(&Line { follows, results, user, answer: exchange.answer.clone() })?;
        self.exchanges.push(exchange);
        Ok(line)
    }
}

impl Exchange {
    fn with_answer(&self) -> Vec<RecordedMessage> {
        let answer =
            RecordedMessage::Model { text: self.answer.text.clone(), calls: self.answer.calls.clone() };
        self.messages.iter().cloned().chain([answer]).collect()
    }
}

impl RecordedMessage {
    /// Converts a conversation. Omits the system prompt.
    pub(super) fn all(messages: &[Arc<Message>]) -> Vec<Self> {
        messages.iter().filter_map(|message| Self::of(message)).collect()
    }

    fn of(message: &Message) -> Option<Self> {
        Some(match message {
            Message::System(_) => return None,
            Message::User(parts) => Self::User(parts.iter().map(shown).collect::<Vec<_>>().join("\n")),
            Message::Assistant { text, tool_calls, .. } => {
                Self::Model { text: text.clone(), calls: tool_calls.iter().map(RecordedCall::from).collect() }
            }
            Message::Tool { content, .. } => Self::Result(content.clone()),
        })
    }

    /// Returns the message as text for people.
    pub(super) fn rendered(&self) -> String {
        match self {
            Self::User(text) => format!("user: {text}"),
            Self::Result(text) => format!("result: {text}"),
            Self::Model { text, calls } => {
                let calls =
                    calls.iter().map(|call| format!("\ncall: {} {}", call.name, call.compact_arguments()));
                format!("model: {text}{}", calls.collect::<String>())
            }
        }
    }
}

/// Describes a part as text. Images and documents are described by type and size.
fn shown(part: &Part) -> String {
    match part {
        Part::Text(text) => text.clone(),
        Part::Image { mime_type, data } => format!("[{mime_type}, {} bytes of base64]", data.len()),
        Part::Document { mime_type, data, .. } => format!("[{mime_type}, {} bytes of base64]", data.len()),
    }
}

impl From<&ToolCall> for RecordedCall {
    fn from(call: &ToolCall) -> Self {
        Self { name: call.name.clone(), arguments: call.arguments.clone() }
    }
}

impl From<&ModelResponse> for RecordedAnswer {
    fn from(answer: &ModelResponse) -> Self {
        let obvious = if answer.tool_calls.is_empty() { Finish::Stop } else { Finish::ToolCalls };
        let tokens = answer.usage.map(|usage| Tokens {
            input: usage.input,
            output: usage.output,
            cached: usage.cache_read,
            reasoning: usage.reasoning,
        });
        Self {
            reasoning: answer.reasoning.clone(),
            text: answer.text.clone(),
            calls: answer.tool_calls.iter().map(RecordedCall::from).collect(),
            finish: (answer.finish != obvious).then(|| answer.finish.as_str().to_owned()),
            model: answer.model.clone(),
            tokens,
        }
    }
}

impl RecordedAnswer {
    /// Converts back to an answer. Calls get ids that are unique in the conversation.
    pub(super) fn answer(&self, ids_from: usize) -> ModelResponse {
        let calls = self.calls.iter().zip(ids_from + 1..).map(|(call, n)| ToolCall {
            id: format!("call_{n}"),
            name: call.name.clone(),
            arguments: call.arguments.clone(),
        });
        let finish = match self.finish.as_deref() {
            Some("length") => Finish::Length,
            Some("content_filter") => Finish::ContentFilter,
            Some(other) => Finish::Other(other.to_owned()),
            None if self.calls.is_empty() => Finish::Stop,
            None => Finish::ToolCalls,
        };
        ModelResponse {
            text: self.text.clone(),
            reasoning: self.reasoning.clone(),
            tool_calls: calls.collect(),
            finish,
            usage: self.tokens.map(|tokens| Usage {
                input: tokens.input,
                output: tokens.output,
                cache_read: tokens.cached,
                cache_write: 0,
                reasoning: tokens.reasoning,
            }),
            model: self.model.clone(),
            ..ModelResponse::default()
        }
    }
}
