//! What comes in: the JSON of a message, whole or as events of a stream.

use baton_protocol::Json;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_with::apply;

use crate::lenient::lenient;
use crate::{Finish, Place, Usage};

/// A whole message, as a reply or at the beginning of a stream.
#[apply(_ => #[serde(deserialize_with = "lenient")])]
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Message {
    pub(super) id: Option<String>,
    pub(super) model: Option<String>,
    #[serde_with(skip_apply)]
    pub(super) content: Option<Vec<Block>>,
    pub(super) stop_reason: Option<String>,
    pub(super) usage: WireUsage,
    pub(super) error: Option<Value>,
}

/// An event of a stream. One shape for all of them: fields of other events are empty.
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
    pub(super) usage: WireUsage,
    pub(super) error: Option<Value>,
}

/// A block of a message, or the beginning of one.
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
    /// The arguments of a call. The beginning of a streamed call has an empty object, which is not meant.
    pub(super) fn arguments(&self, streamed: bool) -> String {
        match &self.input {
            Some(input) if streamed && input.as_str() == "{}" => String::new(),
            Some(input) => input.as_str().to_owned(),
            None => String::new(),
        }
    }
}

/// More of a block, or of the message.
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

/// What it cost. The cached part of the input is counted beside the rest.
#[apply(_ => #[serde(deserialize_with = "lenient")])]
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WireUsage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
}

impl WireUsage {
    /// Takes over what is said: the end of a stream may repeat what its beginning said, or leave it out.
    pub(super) fn update(&mut self, newer: &Self) {
        self.input_tokens = newer.input_tokens.or(self.input_tokens);
        self.output_tokens = newer.output_tokens.or(self.output_tokens);
        self.cache_read_input_tokens = newer.cache_read_input_tokens.or(self.cache_read_input_tokens);
        self.cache_creation_input_tokens =
            newer.cache_creation_input_tokens.or(self.cache_creation_input_tokens);
    }

    /// `None` when all is zero: no answer costs nothing.
    pub(super) fn counted(&self) -> Option<Usage> {
        let cache_read = self.cache_read_input_tokens.unwrap_or(0);
        let cache_write = self.cache_creation_input_tokens.unwrap_or(0);
        let usage = Usage {
            input: self.input_tokens.unwrap_or(0).saturating_add(cache_read).saturating_add(cache_write),
            output: self.output_tokens.unwrap_or(0),
            cache_read,
            cache_write,
            reasoning: 0,
        };
        (usage != Usage::default()).then_some(usage)
    }
}

/// Why it stopped.
pub(super) fn finish(reason: Option<&str>, makes_calls: bool) -> Finish {
    match reason {
        None | Some("" | "end_turn" | "stop_sequence" | "tool_use") if makes_calls => Finish::ToolCalls,
        None | Some("" | "end_turn" | "stop_sequence" | "tool_use") => Finish::Stop,
        Some("max_tokens" | "model_context_window_exceeded") => Finish::Length,
        Some("refusal") => Finish::ContentFilter,
        Some(other) => Finish::Other(other.to_owned()),
    }
}

/// Where in its source a citation stands. The last page is given as the one after it.
pub(super) fn place(citation: &Value) -> Option<Place> {
    let number = |name: &str| citation[name].as_u64();
    let range =
        |start: &str, end: &str| Some((number(start)?, number(end)?)).filter(|(start, end)| start <= end);
    range("start_char_index", "end_char_index")
        .map(|(start, end)| Place::Chars(start..end))
        .or_else(|| {
            let (start, end) = range("start_page_number", "end_page_number")?;
            Some(Place::Pages(start..=end.saturating_sub(1).max(start)))
        })
        .or_else(|| {
            range("start_block_index", "end_block_index").map(|(start, end)| Place::Blocks(start..end))
        })
}

/// A list, or nothing.
fn list<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Json>, D::Error> {
    Ok(Option::<Vec<Json>>::deserialize(deserializer)?.unwrap_or_default())
}
