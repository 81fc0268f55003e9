//! What comes in: the JSON of an answer, whole or in pieces. As lenient as can be, for every provider has its
//! own idea of this API: fields that matter little are dropped when they have an unexpected type, instead of
//! losing the answer.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::calls::Piece;
use crate::lenient::{arguments, lenient};
use crate::{Finish, Usage};

/// A whole answer, or one piece of a stream.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Reply {
    #[serde(deserialize_with = "lenient")]
    pub(super) id: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) model: Option<String>,
    pub(super) choices: Option<Vec<Choice>>,
    #[serde(deserialize_with = "lenient")]
    pub(super) usage: Option<WireUsage>,
    pub(super) error: Option<Value>,
    #[serde(deserialize_with = "lenient")]
    object: Option<String>,
}

impl Reply {
    /// Whether this is an error that does not say so in the usual place.
    pub(super) fn is_complaint(&self) -> bool {
        self.choices.is_none() && self.object.as_deref() == Some("error")
    }
}

/// One of several answers; or, with some providers, one part of a single answer.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Choice {
    #[serde(deserialize_with = "lenient")]
    pub(super) index: Option<u64>,
    delta: Option<WireMessage>,
    message: Option<WireMessage>,
    #[serde(deserialize_with = "lenient")]
    pub(super) finish_reason: Option<String>,
}

impl Choice {
    /// What is said, under either of its names.
    pub(super) fn said(&mut self) -> WireMessage {
        self.delta.take().or_else(|| self.message.take()).unwrap_or_default()
    }
}

/// What a model says.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WireMessage {
    content: Content,
    #[serde(deserialize_with = "lenient")]
    refusal: Option<String>,
    #[serde(deserialize_with = "lenient")]
    reasoning_content: Option<String>,
    #[serde(deserialize_with = "lenient")]
    reasoning_text: Option<String>,
    #[serde(deserialize_with = "lenient")]
    reasoning: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) reasoning_opaque: Option<String>,
    pub(super) tool_calls: Option<Vec<CallPiece>>,
}

impl WireMessage {
    /// The text. A refusal is what the model says instead.
    pub(super) fn text(&mut self) -> String {
        let mut text = std::mem::take(&mut self.content.text);
        text.push_str(self.refusal.as_deref().unwrap_or_default());
        text
    }

    /// What it thinks. Gateways repeat it under several names, so the first that says something counts.
    pub(super) fn reasoning(&mut self) -> String {
        let fields = [self.reasoning_content.take(), self.reasoning_text.take(), self.reasoning.take()];
        let inline = std::mem::take(&mut self.content.thinking);
        fields.into_iter().flatten().chain([inline]).find(|text| !text.is_empty()).unwrap_or_default()
    }
}

/// Text: a string, nothing, or a list of parts, some of which may be thoughts.
#[derive(Debug, Default)]
struct Content {
    text: String,
    thinking: String,
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut content = Self::default();
        match Value::deserialize(deserializer)? {
            Value::String(text) => content.text = text,
            Value::Array(parts) => parts.iter().for_each(|part| content.take_part(part)),
            _ => {}
        }
        Ok(content)
    }
}

impl Content {
    fn take_part(&mut self, part: &Value) {
        let text_of = |value: &Value| value.as_str().map(str::to_owned);
        if let Some(text) = part.get("text").and_then(text_of).or_else(|| text_of(part)) {
            self.text.push_str(&text);
        } else if let Some(thinking) = part.get("thinking") {
            match thinking {
                Value::Array(parts) => {
                    parts
                        .iter()
                        .filter_map(|p| p.get("text")?.as_str())
                        .for_each(|t| self.thinking.push_str(t));
                }
                other => self.thinking.push_str(other.as_str().unwrap_or_default()),
            }
        }
    }
}

/// A tool call, or a piece of one.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct CallPiece {
    #[serde(deserialize_with = "lenient")]
    index: Option<u64>,
    #[serde(deserialize_with = "lenient")]
    id: Option<String>,
    function: Option<Function>,
}

impl From<CallPiece> for Piece {
    fn from(piece: CallPiece) -> Self {
        let function = piece.function.unwrap_or_default();
        Self {
            index: piece.index,
            id: piece.id.unwrap_or_default(),
            name: function.name.unwrap_or_default(),
            arguments: function.arguments,
        }
    }
}

/// Which tool, with what.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Function {
    #[serde(deserialize_with = "lenient")]
    name: Option<String>,
    #[serde(deserialize_with = "arguments")]
    arguments: String,
}

/// What it cost.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WireUsage {
    #[serde(deserialize_with = "lenient")]
    prompt_tokens: u64,
    #[serde(deserialize_with = "lenient")]
    completion_tokens: u64,
    #[serde(deserialize_with = "lenient")]
    prompt_cache_hit_tokens: u64,
    #[serde(deserialize_with = "lenient")]
    prompt_tokens_details: Details,
    #[serde(deserialize_with = "lenient")]
    completion_tokens_details: Details,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Details {
    #[serde(deserialize_with = "lenient")]
    cached_tokens: u64,
    #[serde(deserialize_with = "lenient")]
    cache_write_tokens: u64,
    #[serde(deserialize_with = "lenient")]
    reasoning_tokens: u64,
}

impl WireUsage {
    /// `None` when all is zero: no answer costs nothing, so that is a provider which does not count.
    pub(super) fn counted(&self) -> Option<Usage> {
        (self.prompt_tokens + self.completion_tokens > 0).then_some(Usage {
            input: self.prompt_tokens,
            output: self.completion_tokens,
            cache_read: self.prompt_tokens_details.cached_tokens.max(self.prompt_cache_hit_tokens),
            cache_write: self.prompt_tokens_details.cache_write_tokens,
            reasoning: self.completion_tokens_details.reasoning_tokens,
        })
    }
}

/// Why it stopped. Whoever makes calls wants them made, whatever the provider calls that.
pub(super) fn finish(reason: Option<&str>, makes_calls: bool) -> Finish {
    match reason {
        None | Some("" | "stop" | "tool_calls" | "function_call") if makes_calls => Finish::ToolCalls,
        None | Some("" | "stop" | "tool_calls" | "function_call") => Finish::Stop,
        Some("length" | "max_tokens") => Finish::Length,
        Some("content_filter") => Finish::ContentFilter,
        Some(other) => Finish::Other(other.to_owned()),
    }
}
