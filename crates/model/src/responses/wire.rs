//! What comes in: the JSON of a response, whole or as events of a stream.

use baton_protocol::Json;
use serde::Deserialize;
use serde_json::Value;

use crate::lenient::{arguments, lenient};
use crate::{Finish, Usage};

/// A response, as it is at some moment.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Response {
    #[serde(deserialize_with = "lenient")]
    pub(super) id: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) model: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) status: Option<String>,
    pub(super) output: Option<Vec<Item>>,
    #[serde(deserialize_with = "lenient")]
    pub(super) usage: WireUsage,
    #[serde(deserialize_with = "lenient")]
    pub(super) error: Option<Value>,
    #[serde(deserialize_with = "lenient")]
    pub(super) incomplete_details: Details,
}

impl Response {
    /// What went wrong, if it did.
    pub(super) fn complaint(&self) -> Option<&Value> {
        self.error.as_ref().filter(|error| !error.is_null())
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Details {
    #[serde(deserialize_with = "lenient")]
    pub(super) reason: Option<String>,
}

/// An event of a stream. One shape for all of them: fields of other events are empty.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Event {
    #[serde(rename = "type", deserialize_with = "lenient")]
    pub(super) kind: String,
    #[serde(deserialize_with = "lenient")]
    pub(super) output_index: u64,
    #[serde(deserialize_with = "lenient")]
    pub(super) summary_index: u64,
    #[serde(deserialize_with = "lenient")]
    pub(super) delta: String,
    pub(super) item: Option<Item>,
    pub(super) response: Option<Response>,
}

/// A thing that the model brings forth: a message, a call, a thought.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Item {
    #[serde(rename = "type", deserialize_with = "lenient")]
    pub(super) kind: String,
    #[serde(deserialize_with = "lenient")]
    pub(super) call_id: String,
    #[serde(deserialize_with = "lenient")]
    pub(super) id: String,
    #[serde(deserialize_with = "lenient")]
    pub(super) name: String,
    #[serde(deserialize_with = "arguments")]
    pub(super) arguments: String,
    #[serde(deserialize_with = "lenient")]
    pub(super) content: Vec<Part>,
    #[serde(deserialize_with = "lenient")]
    pub(super) summary: Vec<Part>,
    #[serde(deserialize_with = "lenient")]
    pub(super) encrypted_content: Option<String>,
}

impl Item {
    /// The id by which the result of a call names it.
    pub(super) fn call_id(&self) -> &str {
        if self.call_id.is_empty() { &self.id } else { &self.call_id }
    }

    /// What a thought says: the summary, or all of it where a model is open.
    pub(super) fn thought(&self) -> String {
        let parts = if self.summary.is_empty() { &self.content } else { &self.summary };
        parts.iter().map(|part| part.text.as_str()).collect::<Vec<_>>().join("\n\n")
    }
}

/// A part of a message or a thought.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Part {
    #[serde(deserialize_with = "lenient")]
    pub(super) text: String,
    #[serde(deserialize_with = "lenient")]
    pub(super) refusal: String,
    #[serde(deserialize_with = "lenient")]
    pub(super) annotations: Vec<Annotation>,
}

/// A note to a piece of a text.
#[derive(Debug, Deserialize)]
#[serde(from = "Value")]
pub(super) struct Annotation {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) title: Option<String>,
    pub(super) url: Option<String>,
    pub(super) raw: Json,
}

impl From<Value> for Annotation {
    fn from(value: Value) -> Self {
        // A note on a whole file names just one place in the text.
        let number = |name: &str| {
            let number = value[name].as_u64().or_else(|| value["index"].as_u64());
            number.and_then(|n| usize::try_from(n).ok()).unwrap_or(0)
        };
        let text = |names: [&str; 2]| names.iter().find_map(|name| value[*name].as_str()).map(str::to_owned);
        Self {
            start: number("start_index"),
            end: number("end_index"),
            title: text(["title", "filename"]),
            url: text(["url", "url"]),
            raw: Json::from(value),
        }
    }
}

/// What it cost.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WireUsage {
    #[serde(deserialize_with = "lenient")]
    input_tokens: u64,
    #[serde(deserialize_with = "lenient")]
    output_tokens: u64,
    #[serde(deserialize_with = "lenient")]
    input_tokens_details: InputDetails,
    #[serde(deserialize_with = "lenient")]
    output_tokens_details: OutputDetails,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct InputDetails {
    #[serde(deserialize_with = "lenient")]
    cached_tokens: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OutputDetails {
    #[serde(deserialize_with = "lenient")]
    reasoning_tokens: u64,
}

impl WireUsage {
    /// `None` when all is zero: no answer costs nothing.
    pub(super) fn counted(&self) -> Option<Usage> {
        let usage = Usage {
            input: self.input_tokens,
            output: self.output_tokens,
            cache_read: self.input_tokens_details.cached_tokens,
            cache_write: 0,
            reasoning: self.output_tokens_details.reasoning_tokens,
        };
        (usage.input.saturating_add(usage.output) > 0).then_some(usage)
    }
}

/// Why it stopped, by why the response is not complete.
pub(super) fn finish(incomplete: Option<&str>, makes_calls: bool) -> Finish {
    match incomplete {
        None if makes_calls => Finish::ToolCalls,
        None => Finish::Stop,
        Some("max_output_tokens" | "max_tokens") => Finish::Length,
        Some("content_filter") => Finish::ContentFilter,
        Some(other) => Finish::Other(other.to_owned()),
    }
}
