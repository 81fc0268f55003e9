//! JSON of chat completions answers, whole or streamed. As lenient as possible, because every provider
//! interprets this API differently: secondary fields of an unexpected type are dropped, instead of losing the
//! answer.

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_with::apply;

use crate::Finish;
use crate::calls::CallDelta;
use crate::lenient::{arguments, lenient};
use crate::usage::OpenAiUsage;

/// A whole answer, or one chunk of a stream.
#[apply(_ => #[serde(deserialize_with = "lenient")])]
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ChatCompletion {
    pub(super) id: Option<String>,
    pub(super) model: Option<String>,
    #[serde_with(skip_apply)]
    pub(super) choices: Option<Vec<Choice>>,
    pub(super) usage: Option<OpenAiUsage>,
    pub(super) error: Option<Value>,
    object: Option<String>,
}

impl ChatCompletion {
    /// Whether this is an error without an `error` field.
    pub(super) fn is_error(&self) -> bool {
        self.choices.is_none() && self.object.as_deref() == Some("error")
    }
}

/// One of several answers; with some providers, one part of a single answer.
#[apply(_ => #[serde(deserialize_with = "lenient")])]
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Choice {
    pub(super) index: Option<u64>,
    #[serde_with(skip_apply)]
    delta: Option<WireMessage>,
    #[serde_with(skip_apply)]
    message: Option<WireMessage>,
    pub(super) finish_reason: Option<String>,
}

impl Choice {
    /// Returns the message, under either of its names.
    pub(super) fn message(&mut self) -> WireMessage {
        self.delta.take().or_else(|| self.message.take()).unwrap_or_default()
    }
}

/// A message of the model.
#[apply(_ => #[serde(deserialize_with = "lenient")])]
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WireMessage {
    #[serde_with(skip_apply)]
    content: Content,
    refusal: Option<String>,
    reasoning_content: Option<String>,
    reasoning_text: Option<String>,
    reasoning: Option<String>,
    pub(super) reasoning_opaque: Option<String>,
    #[serde_with(skip_apply)]
    pub(super) tool_calls: Option<Vec<WireCallDelta>>,
}

impl WireMessage {
    /// Returns the text, or the refusal in its place.
    pub(super) fn text(&mut self) -> String {
        let mut text = std::mem::take(&mut self.content.text);
        text.push_str(self.refusal.as_deref().unwrap_or_default());
        text
    }

    /// Returns the reasoning. Gateways repeat it under several names; the first that is not empty counts.
    pub(super) fn reasoning(&mut self) -> String {
        let fields = [self.reasoning_content.take(), self.reasoning_text.take(), self.reasoning.take()];
        let inline = std::mem::take(&mut self.content.thinking);
        fields.into_iter().flatten().chain([inline]).find(|text| !text.is_empty()).unwrap_or_default()
    }
}

/// Text: a string, `null`, or a list of parts, some of which may be reasoning.
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

/// A tool call, or a part of one.
#[apply(_ => #[serde(deserialize_with = "lenient")])]
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct WireCallDelta {
    index: Option<u64>,
    id: Option<String>,
    #[serde_with(skip_apply)]
    function: Option<Function>,
}

impl From<WireCallDelta> for CallDelta {
    fn from(delta: WireCallDelta) -> Self {
        let function = delta.function.unwrap_or_default();
        Self {
            index: delta.index,
            id: delta.id.unwrap_or_default(),
            name: function.name.unwrap_or_default(),
            arguments: function.arguments,
        }
    }
}

/// The tool and its arguments.
#[apply(_ => #[serde(deserialize_with = "lenient")])]
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Function {
    name: Option<String>,
    #[serde_with(skip_apply)]
    #[serde(deserialize_with = "arguments")]
    arguments: String,
}

/// Parses the finish reason. An answer with calls finishes with calls, whatever the provider reports.
pub(super) fn finish(reason: Option<&str>, makes_calls: bool) -> Finish {
    match reason {
        None | Some("" | "stop" | "tool_calls" | "function_call") if makes_calls => Finish::ToolCalls,
        None | Some("" | "stop" | "tool_calls" | "function_call") => Finish::Stop,
        Some("length" | "max_tokens") => Finish::Length,
        Some("content_filter") => Finish::ContentFilter,
        Some(other) => Finish::Other(other.to_owned()),
    }
}
