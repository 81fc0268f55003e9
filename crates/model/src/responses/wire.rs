//! JSON of Responses answers, whole or streamed.

use baton_protocol::Json;
use serde::Deserialize;
use serde_json::Value;
use serde_with::apply;

use crate::Finish;
use crate::lenient::{arguments, lenient};
use crate::usage::OpenAiUsage;

/// A response in its current state.
#[apply(_ => #[serde(deserialize_with = "lenient")])]
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Response {
    pub(super) id: Option<String>,
    pub(super) model: Option<String>,
    pub(super) status: Option<String>,
    #[serde_with(skip_apply)]
    pub(super) output: Option<Vec<Item>>,
    pub(super) usage: OpenAiUsage,
    pub(super) error: Option<Value>,
    pub(super) incomplete_details: Details,
}

impl Response {
    /// Returns the error, if there is one.
    pub(super) fn error(&self) -> Option<&Value> {
        self.error.as_ref().filter(|error| !error.is_null())
    }
}

#[apply(_ => #[serde(deserialize_with = "lenient")])]
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Details {
    pub(super) reason: Option<String>,
}

/// An event of a stream. One type for all kinds: fields of other kinds are empty.
#[apply(_ => #[serde(deserialize_with = "lenient")])]
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Event {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) output_index: u64,
    pub(super) summary_index: u64,
    pub(super) delta: String,
    #[serde_with(skip_apply)]
    pub(super) item: Option<Item>,
    #[serde_with(skip_apply)]
    pub(super) response: Option<Response>,
}

/// An output item: a message, a call or reasoning.
#[apply(_ => #[serde(deserialize_with = "lenient")])]
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Item {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) call_id: String,
    pub(super) id: String,
    pub(super) name: String,
    #[serde_with(skip_apply)]
    #[serde(deserialize_with = "arguments")]
    pub(super) arguments: String,
    pub(super) content: Vec<Part>,
    pub(super) summary: Vec<Part>,
    pub(super) encrypted_content: Option<String>,
}

impl Item {
    /// Returns the id by which the result refers to the call.
    pub(super) fn call_id(&self) -> &str {
        if self.call_id.is_empty() { &self.id } else { &self.call_id }
    }

    /// Returns the text of reasoning: the summary, or the full text where a model discloses it.
    pub(super) fn reasoning(&self) -> String {
        let parts = if self.summary.is_empty() { &self.content } else { &self.summary };
        parts.iter().map(|part| part.text.as_str()).collect::<Vec<_>>().join("\n\n")
    }
}

/// A part of a message or of reasoning.
#[apply(_ => #[serde(deserialize_with = "lenient")])]
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Part {
    pub(super) text: String,
    pub(super) refusal: String,
    pub(super) annotations: Vec<Annotation>,
}

/// A citation in a text.
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
        // A citation of a whole file has a single position.
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

/// Derives the finish reason from the reason why the response is incomplete.
pub(super) fn finish(incomplete: Option<&str>, makes_calls: bool) -> Finish {
    match incomplete {
        None if makes_calls => Finish::ToolCalls,
        None => Finish::Stop,
        Some("max_output_tokens" | "max_tokens") => Finish::Length,
        Some("content_filter") => Finish::ContentFilter,
        Some(other) => Finish::Other(other.to_owned()),
    }
}
