//! The file: one exchange a line.
//!
//! ```json
//! {"user":["What is in the file?"],"answer":{"text":"","calls":[{"name":"view","arguments":"{\"path\":\"a\"}"}]}}
//! {"follows":1,"results":["1. hello"],"answer":{"text":"It says hello."}}
//! ```
//!
//! A line says what is new since the line that it `follows`: what the user's side said, or what the tools of its answer
//! gave. So a file reads like the conversation that it is, and does not repeat it with every answer.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Answer, Finish, Message, Part, ToolCall, Usage};

/// A recording that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the recording cannot be read: {why}")]
pub struct BadRecording {
    line: usize,
    why: String,
}

/// What was asked, and what was answered.
#[derive(Debug, Clone, Default)]
pub struct Recording {
    pub(super) takes: Vec<Take>,
}

/// One exchange, with all that was said before it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Take {
    pub(super) heard: Vec<Heard>,
    pub(super) answer: Told,
}

/// Something that was said, in the form that is compared and kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Heard {
    User(String),
    Model { text: String, calls: Vec<Called> },
    Result(String),
}

/// A call of a tool. Its id is nobody's business but the provider's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Called {
    pub(super) name: String,
    pub(super) arguments: String,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Told {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning: Option<String>,
    pub(super) text: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) calls: Vec<Called>,
    /// Why it stopped, if not for the obvious reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) finish: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tokens: Option<Tokens>,
}

/// What an answer cost.
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    follows: Option<usize>,
    /// What was said between the line before and this one, where it is more than results and then a user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    results: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    user: Vec<String>,
    answer: Told,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Recording {
    /// Reads a recording.
    ///
    /// # Errors
    /// When a line makes no sense; the error says which and why.
    pub fn parse(text: &str) -> Result<Self, BadRecording> {
        let mut recording = Self::default();
        for (at, line) in text.lines().enumerate() {
            let bad = |why: String| BadRecording { line: at + 1, why };
            // Empty lines and comments keep their number, so that `follows` still names lines as an editor shows them.
            if line.trim().is_empty() || line.trim_start().starts_with('#') {
                recording.takes.push(Take { heard: Vec::new(), answer: Told::default() });
                continue;
            }
            let line: Line = serde_json::from_str(line).map_err(|error| bad(error.to_string()))?;
            let mut heard = match line.follows {
                None => Vec::new(),
                Some(number) => {
                    let earlier = number.checked_sub(1).and_then(|at| recording.takes.get(at));
                    let earlier =
                        earlier.ok_or_else(|| bad(format!("there is no line {number} before it")))?;
                    earlier.with_answer()
                }
            };
            heard.extend(line.results.into_iter().map(Heard::Result));
            heard.extend(line.user.into_iter().map(Heard::User));
            recording.takes.push(Take { heard, answer: line.answer });
        }
        Ok(recording)
    }

    /// Adds an exchange, and returns the line for it.
    pub(super) fn add(&mut self, take: Take) -> serde_json::Result<String> {
        let is_new = |heard: &&[Heard]| {
            let users = heard.iter().skip_while(|heard| matches!(heard, Heard::Result(_)));
            users.into_iter().all(|heard| matches!(heard, Heard::User(_)))
        };
        // The latest line that this one goes on from, with nothing between them but results and then the user.
        let before = self.takes.iter().enumerate().rev().find_map(|(at, earlier)| {
            let rest = take.heard.strip_prefix(earlier.with_answer().as_slice())?;
            is_new(&rest).then(|| (at + 1, rest.to_vec()))
        });
        let (follows, new) = match before {
            Some((number, rest)) => (Some(number), rest),
            None => (None, take.heard.clone()),
        };
        let (mut results, mut user) = (Vec::new(), Vec::new());
        for heard in new {
            match heard {
                Heard::Result(text) => results.push(text),
                Heard::User(text) => user.push(text),
                // A conversation that began elsewhere: what the model had said is told as part of the question.
                Heard::Model { .. } => user.push(heard.rendered()),
            }
        }
        let line = serde_json::to_string(&Line { follows, results, user, answer: take.answer.clone() })?;
        self.takes.push(take);
        Ok(line)
    }
}

impl Take {
    fn with_answer(&self) -> Vec<Heard> {
        let answer = Heard::Model { text: self.answer.text.clone(), calls: self.answer.calls.clone() };
        self.heard.iter().cloned().chain([answer]).collect()
    }
}

impl Heard {
    /// A conversation in this form. The system's instructions are not part of it.
    pub(super) fn all(messages: &[Arc<Message>]) -> Vec<Self> {
        messages.iter().filter_map(|message| Self::of(message)).collect()
    }

    fn of(message: &Message) -> Option<Self> {
        Some(match message {
            Message::System(_) => return None,
            Message::User(parts) => Self::User(parts.iter().map(shown).collect::<Vec<_>>().join("\n")),
            Message::Assistant { text, tool_calls, .. } => {
                Self::Model { text: text.clone(), calls: tool_calls.iter().map(Called::from).collect() }
            }
            Message::Tool { content, .. } => Self::Result(content.clone()),
        })
    }

    /// As people read it.
    pub(super) fn rendered(&self) -> String {
        match self {
            Self::User(text) => format!("user: {text}"),
            Self::Result(text) => format!("result: {text}"),
            Self::Model { text, calls } => {
                let calls = calls.iter().map(|call| format!("\ncall: {} {}", call.name, call.arguments));
                format!("model: {text}{}", calls.collect::<String>())
            }
        }
    }
}

/// Images and documents are named by what they are: their bytes are nothing to read.
fn shown(part: &Part) -> String {
    match part {
        Part::Text(text) => text.clone(),
        Part::Image { mime_type, data } => format!("[{mime_type}, {} bytes of base64]", data.len()),
        Part::Document { mime_type, data, .. } => format!("[{mime_type}, {} bytes of base64]", data.len()),
    }
}

impl From<&ToolCall> for Called {
    fn from(call: &ToolCall) -> Self {
        Self { name: call.name.clone(), arguments: call.arguments.clone() }
    }
}

impl From<&Answer> for Told {
    fn from(answer: &Answer) -> Self {
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
            calls: answer.tool_calls.iter().map(Called::from).collect(),
            finish: (answer.finish != obvious).then(|| answer.finish.as_str().to_owned()),
            model: answer.model.clone(),
            tokens,
        }
    }
}

impl Told {
    /// The answer again. Calls get ids that are unique in the conversation.
    pub(super) fn answer(&self, ids_from: usize) -> Answer {
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
        Answer {
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
            ..Answer::default()
        }
    }
}
