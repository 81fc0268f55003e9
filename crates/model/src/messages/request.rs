//! Serialisation of Messages requests.
//!
//! The API is stricter than chat completions: user and assistant alternate, results follow their calls in the
//! next message, no text is empty, arguments are objects, and a limit for the answer is required.

use serde::{Serialize, Serializer};

use baton_protocol::Json;

use super::thinking::{self, Thinking};
use crate::{Message, Part, Request, ToolCall, ToolDef, opaque};

/// Serialises the body of a request.
///
/// # Errors
/// When a part has no JSON form; all of our types have one.
pub(super) fn body(request: &Request) -> serde_json::Result<Vec<u8>> {
    let messages = mark_for_cache(messages(request));
    let settings = thinking::settings(request);
    serde_json::to_vec(&Body {
        model: &request.model,
        max_tokens: settings.max_tokens,
        system: system(request),
        messages,
        tools: request.tools.iter().map(WireTool::from).collect(),
        stream: request.stream,
        thinking: settings.thinking,
        output_config: settings.effort.map(|effort| OutputConfig { effort }),
    })
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Block<'a>>,
    messages: Vec<WireMessage<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<WireTool<'a>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Thinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig<'a>>,
}

#[derive(Serialize)]
struct OutputConfig<'a> {
    effort: &'a str,
}

#[derive(Serialize)]
struct WireMessage<'a> {
    role: Role,
    content: Vec<Block<'a>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Role {
    User,
    Assistant,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Block<'a> {
    /// A reasoning block, as the provider wrote it.
    Reasoning(Json),
    Other {
        #[serde(flatten)]
        content: Content<'a>,
        /// Marks the end of a prefix to cache.
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
}

#[derive(Serialize)]
struct CacheControl {
    r#type: &'static str,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Content<'a> {
    Text {
        text: &'a str,
    },
    Image {
        source: Source<'a>,
    },
    Document {
        source: Source<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        citations: Option<Enabled>,
    },
    ToolUse {
        id: &'a str,
        name: &'a str,
        #[serde(serialize_with = "object")]
        input: &'a str,
    },
    ToolResult {
        tool_use_id: &'a str,
        content: &'a str,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

#[derive(Serialize)]
struct Source<'a> {
    r#type: &'static str,
    media_type: &'a str,
    data: &'a str,
}

impl<'a> Source<'a> {
    fn new(media_type: &'a str, data: &'a str) -> Self {
        Self { r#type: "base64", media_type, data }
    }
}

#[derive(Serialize)]
struct Enabled {
    enabled: bool,
}

#[derive(Serialize)]
struct WireTool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a Json,
}

impl<'a> From<&'a ToolDef> for WireTool<'a> {
    fn from(tool: &'a ToolDef) -> Self {
        Self { name: &tool.name, description: &tool.description, input_schema: &tool.parameters }
    }
}

impl<'a> From<Content<'a>> for Block<'a> {
    fn from(content: Content<'a>) -> Self {
        Self::Other { content, cache_control: None }
    }
}

impl Block<'_> {
    /// Marks the end of a prefix to cache. Reasoning cannot be marked.
    fn mark(&mut self) {
        if let Self::Other { cache_control, .. } = self {
            *cache_control = Some(CacheControl { r#type: "ephemeral" });
        }
    }
}

/// Returns the system prompt with a cache mark at its end: it and the tools before it are the same in every
/// request.
fn system(request: &Request) -> Vec<Block<'_>> {
    let texts = request.messages.iter().filter_map(|message| match &**message {
        Message::System(text) if !text.trim().is_empty() => Some(text.as_str()),
        _ => None,
    });
    let mut blocks: Vec<Block<'_>> = texts.map(|text| Content::Text { text }.into()).collect();
    if let Some(last) = blocks.last_mut() {
        last.mark();
    }
    blocks
}

/// Converts the conversation; adjacent messages of the same role are joined.
fn messages(request: &Request) -> Vec<WireMessage<'_>> {
    let mut messages: Vec<WireMessage<'_>> = Vec::new();
    for message in &request.messages {
        let (role, content) = match &**message {
            Message::System(_) => continue,
            Message::User(parts) => (Role::User, user_blocks(parts, request.citations)),
            Message::Assistant { text, tool_calls, reasoning_opaque } => {
                let opaque = reasoning_opaque.as_deref();
                (Role::Assistant, assistant_blocks(text, tool_calls, opaque, &request.model))
            }
            Message::Tool { call_id, content, failed } => {
                let result = Content::ToolResult { tool_use_id: call_id, content, is_error: *failed };
                (Role::User, vec![result.into()])
            }
        };
        match messages.last_mut() {
            _ if content.is_empty() => {}
            Some(last) if last.role == role => last.content.extend(content),
            _ => messages.push(WireMessage { role, content }),
        }
    }
    messages
}

/// Marks the ends of the last two user messages: the prefix sent last time is then found in the cache, and
/// the prefix sent now will be next time.
fn mark_for_cache(mut messages: Vec<WireMessage<'_>>) -> Vec<WireMessage<'_>> {
    let users = messages.iter_mut().rev().filter(|message| message.role == Role::User).take(2);
    for message in users {
        if let Some(last) = message.content.last_mut() {
            last.mark();
        }
    }
    messages
}

fn user_blocks(parts: &[Part], citations: bool) -> Vec<Block<'_>> {
    parts.iter().filter_map(|part| part_block(part, citations)).collect()
}

fn part_block(part: &Part, citations: bool) -> Option<Block<'_>> {
    let content = match part {
        Part::Text(text) if text.trim().is_empty() => return None,
        Part::Text(text) => Content::Text { text },
        Part::Image { mime_type, data } => Content::Image { source: Source::new(mime_type, data) },
        Part::Document { mime_type, title, data } => Content::Document {
            source: Source::new(mime_type, data),
            title: title.as_deref(),
            citations: citations.then_some(Enabled { enabled: true }),
        },
    };
    Some(content.into())
}

/// Converts a message of the model: reasoning first and unchanged, as the provider requires.
fn assistant_blocks<'a>(
    text: &'a str,
    calls: &'a [ToolCall],
    opaque: Option<&'a str>,
    model: &str,
) -> Vec<Block<'a>> {
    let reasoning = opaque::untag::<Json>(opaque, super::WIRE, model).into_iter();
    let reasoning = reasoning.map(Block::Reasoning);
    let text = (!text.trim().is_empty()).then_some(Content::Text { text }.into());
    let calls = calls
        .iter()
        .map(|call| Content::ToolUse { id: &call.id, name: &call.name, input: &call.arguments }.into());
    reasoning.chain(text).chain(calls).collect()
}

/// Serialises arguments unchanged if they are an object, which the API requires; wraps anything else in an
/// object.
fn object<S: Serializer>(arguments: &str, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Invalid<'a> {
        invalid_arguments: &'a str,
    }
    match Json::from_text(arguments) {
        Ok(json) if json.as_str().starts_with('{') => json.serialize(serializer),
        _ => Invalid { invalid_arguments: arguments }.serialize(serializer),
    }
}

#[cfg(test)]
mod tests;
