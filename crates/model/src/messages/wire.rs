//! JSON of Messages answers, whole or streamed.

use baton_protocol::Json;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_with::apply;

use crate::lenient::lenient;
use crate::usage::AnthropicUsage;
use crate::{Finish, SourceRange};

/// A whole message, as a reply or at the start of a stream.
#[apply(_ => #[serde(deserialize_with = "lenient")])]
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Message {
    pub(super) id: Option<String>,
    pub(super) model: Option<String>,
    #[serde_with(skip_apply)]
    pub(super) content: Option<Vec<Block>>,
    pub(super) stop_reason: Option<String>,
    pub(super) usage: AnthropicUsage,
    pub(super) error: Option<Value>,
}

/// An event of a stream. One type for all kinds: fields of other kinds are empty.
#[apply(_ => #[serde(deserialize_with = "lenient")])]
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Event {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) index: u64,
    #[serde_with(skip_apply)]
    pub(super) message: Option<Message>,
    #[serde_with(skip_apply)]
    pub(super) content_block: Option<Block>,
    #[serde_with(skip_apply)]
    pub(super) delta: Option<Delta>,
    pub(super) usage: AnthropicUsage,
    pub(super) error: Option<Value>,
}

/// A block of a message, or the start of one.
#[apply(_ => #[serde(deserialize_with = "lenient")])]
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Block {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) text: String,
    pub(super) thinking: String,
    pub(super) signature: String,
    pub(super) data: String,
    pub(super) id: String,
    pub(super) name: String,
    #[serde_with(skip_apply)]
    pub(super) input: Option<Json>,
    #[serde_with(skip_apply)]
    #[serde(deserialize_with = "list")]
    pub(super) citations: Vec<Json>,
}

impl Block {
    /// Returns the arguments of a call. The start of a streamed call has an empty object as a placeholder.
    pub(super) fn arguments(&self, streamed: bool) -> String {
        match &self.input {
            Some(input) if streamed && input.as_str() == "{}" => String::new(),
            Some(input) => input.as_str().to_owned(),
            None => String::new(),
        }
    }
}

/// A part of a block, or of the message.
#[apply(_ => #[serde(deserialize_with = "lenient")])]
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Delta {
    pub(super) text: String,
    pub(super) thinking: String,
    pub(super) signature: String,
    pub(super) partial_json: String,
    #[serde_with(skip_apply)]
    pub(super) citation: Option<Json>,
    pub(super) stop_reason: Option<String>,
}

/// Parses the stop reason.
pub(super) fn finish(reason: Option<&str>, makes_calls: bool) -> Finish {
    match reason {
        None | Some("" | "end_turn" | "stop_sequence" | "tool_use") if makes_calls => Finish::ToolCalls,
        None | Some("" | "end_turn" | "stop_sequence" | "tool_use") => Finish::Stop,
        Some("max_tokens" | "model_context_window_exceeded") => Finish::Length,
        Some("refusal") => Finish::ContentFilter,
        Some(other) => Finish::Other(other.to_owned()),
    }
}

/// Returns the position of a citation in its source. The end of a page range is exclusive in the API.
pub(super) fn place(citation: &Value) -> Option<SourceRange> {
    let number = |name: &str| citation[name].as_u64();
    let range =
        |start: &str, end: &str| Some((number(start)?, number(end)?)).filter(|(start, end)| start <= end);
    range("start_char_index", "end_char_index")
        .map(|(start, end)| SourceRange::Chars(start..end))
        .or_else(|| {
            let (start, end) = range("start_page_number", "end_page_number")?;
            Some(SourceRange::Pages(start..=end.saturating_sub(1).max(start)))
        })
        .or_else(|| {
            range("start_block_index", "end_block_index").map(|(start, end)| SourceRange::Blocks(start..end))
        })
}

/// Deserialises a list; `null` is an empty list.
fn list<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Json>, D::Error> {
    Ok(Option::<Vec<Json>>::deserialize(deserializer)?.unwrap_or_default())
}
