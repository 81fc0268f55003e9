//! What goes out: the JSON of a Messages request.
//!
//! The API is stricter than chat completions: turns alternate, results follow their calls in the very next message, no
//! text is empty, arguments are objects, and a limit for the answer must be given.

use serde::{Serialize, Serializer};

use baton_protocol::Json;

use super::thinking::{self, Thinking};
use crate::{Message, Part, Request, ToolCall, ToolDef, opaque};

/// The body of a request.
///
/// # Errors
/// When something in it has no JSON form, which none of our types lacks.
pub(super) fn body(request: &Request) -> serde_json::Result<Vec<u8>> {
    let turns = mark_for_cache(turns(request));
    let plan = thinking::plan(request);
    serde_json::to_vec(&Body {
        model: &request.model,
        max_tokens: plan.max_tokens,
        system: system(request),
        messages: turns,
        tools: request.tools.iter().map(WireTool::from).collect(),
        stream: request.stream,
        thinking: plan.thinking,
        output_config: plan.effort.map(|effort| OutputConfig { effort }),
    })
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Block<'a>>,
    messages: Vec<Turn<'a>>,
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
struct Turn<'a> {
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
    /// A thought, as the provider wrote it.
    Thought(Json),
    Other {
        #[serde(flatten)]
        content: Content<'a>,
        /// Where the provider's cache may end.
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
    /// Everything but thoughts may be where the cache ends.
    fn mark(&mut self) {
        if let Self::Other { cache_control, .. } = self {
            *cache_control = Some(CacheControl { r#type: "ephemeral" });
        }
    }
}

/// Standing instructions, and a mark behind them: they and the tools before them are the same in every request.
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

/// The conversation in turns: neighbours of the same side are one.
fn turns(request: &Request) -> Vec<Turn<'_>> {
    let mut turns: Vec<Turn<'_>> = Vec::new();
    for message in &request.messages {
        let (role, content) = match &**message {
            Message::System(_) => continue,
            Message::User(parts) => (Role::User, said(parts, request.citations)),
            Message::Assistant { text, tool_calls, reasoning_opaque } => {
                let opaque = reasoning_opaque.as_deref();
                (Role::Assistant, answered(text, tool_calls, opaque, &request.model))
            }
            Message::Tool { call_id, content, failed } => {
                let result = Content::ToolResult { tool_use_id: call_id, content, is_error: *failed };
                (Role::User, vec![result.into()])
            }
        };
        match turns.last_mut() {
            _ if content.is_empty() => {}
            Some(last) if last.role == role => last.content.extend(content),
            _ => turns.push(Turn { role, content }),
        }
    }
    turns
}

/// Marks the ends of the last two things that the user's side said: what was sent last time is then found in the cache,
/// and what is sent now will be next time.
fn mark_for_cache(mut turns: Vec<Turn<'_>>) -> Vec<Turn<'_>> {
    let users = turns.iter_mut().rev().filter(|turn| turn.role == Role::User).take(2);
    for turn in users {
        if let Some(last) = turn.content.last_mut() {
            last.mark();
        }
    }
    turns
}

fn said(parts: &[Part], citations: bool) -> Vec<Block<'_>> {
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

/// What the model said: its thoughts first, as they came, because the provider wants them back like that.
fn answered<'a>(
    text: &'a str,
    calls: &'a [ToolCall],
    opaque: Option<&'a str>,
    model: &str,
) -> Vec<Block<'a>> {
    let thoughts = opaque::untag::<Json>(opaque, super::WIRE, model).into_iter();
    let thoughts = thoughts.map(Block::Thought);
    let text = (!text.trim().is_empty()).then_some(Content::Text { text }.into());
    let calls = calls
        .iter()
        .map(|call| Content::ToolUse { id: &call.id, name: &call.name, input: &call.arguments }.into());
    thoughts.chain(text).chain(calls).collect()
}

/// Writes arguments as they are if they are an object, which the API insists on; what is none is put into one.
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
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    fn written(request: &Request) -> Value {
        serde_json::from_slice(&body(request).unwrap()).unwrap()
    }

    fn text(text: &str) -> Part {
        Part::Text(text.into())
    }

    fn assistant(said: &str, calls: &[(&str, &str)], opaque: Option<String>) -> Message {
        let call = |(id, arguments): &(&str, &str)| ToolCall {
            id: (*id).into(),
            name: "f".into(),
            arguments: (*arguments).into(),
        };
        Message::Assistant {
            text: said.into(),
            tool_calls: calls.iter().map(call).collect(),
            reasoning_opaque: opaque,
        }
    }

    fn conversation() -> Vec<Arc<Message>> {
        let thought = json!({"type": "thinking", "thinking": "hm", "signature": "s"});
        let result = |id: &str, failed| Message::Tool { call_id: id.into(), content: "r".into(), failed };
        let image = Part::Image { mime_type: "image/png".into(), data: "QUJD".into() };
        let pdf = Part::Document {
            mime_type: "application/pdf".into(),
            title: Some("a.pdf".into()),
            data: "QUJD".into(),
        };
        let messages = [
            Message::System("be good".into()),
            Message::User(vec![text("hi"), text(" "), pdf]),
            assistant("", &[("a", "{\"b\" :1.0}"), ("b", "oops")], opaque::tag("messages", "m", &[thought])),
            result("a", false),
            result("b", true),
            Message::User(vec![text("look"), image]),
            assistant("", &[], None),
            assistant("done", &[], Some("of another".into())),
            Message::User(vec![text("more")]),
        ];
        messages.map(Arc::new).to_vec()
    }

    #[test]
    fn a_whole_conversation() {
        let request = Request {
            model: "m".into(),
            messages: conversation(),
            tools: Arc::new([ToolDef {
                name: "f".into(),
                description: "runs".into(),
                parameters: Json::from_text(r#"{"type":"object"}"#).unwrap(),
            }]),
            citations: true,
            ..Request::default()
        };
        let mark = json!({"type": "ephemeral"});
        let source = |kind: &str| json!({"type": "base64", "media_type": kind, "data": "QUJD"});
        let expected = json!({
            "model": "m",
            "max_tokens": 32000,
            "system": [{"type": "text", "text": "be good", "cache_control": mark}],
            "messages": [
                {"role": "user", "content": [
                    {"type": "text", "text": "hi"},
                    {"type": "document", "source": source("application/pdf"), "title": "a.pdf",
                     "citations": {"enabled": true}},
                ]},
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "s"},
                    {"type": "tool_use", "id": "a", "name": "f", "input": {"b": 1.0}},
                    {"type": "tool_use", "id": "b", "name": "f", "input": {"invalid_arguments": "oops"}},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "a", "content": "r"},
                    {"type": "tool_result", "tool_use_id": "b", "content": "r", "is_error": true},
                    {"type": "text", "text": "look"},
                    {"type": "image", "source": source("image/png"), "cache_control": mark},
                ]},
                {"role": "assistant", "content": [{"type": "text", "text": "done"}]},
                {"role": "user", "content": [{"type": "text", "text": "more", "cache_control": mark}]},
            ],
            "tools": [{"name": "f", "description": "runs", "input_schema": {"type": "object"}}],
        });
        assert_eq!(written(&request), expected);
        let raw = String::from_utf8(body(&request).unwrap()).unwrap();
        assert!(raw.contains(r#""input":{"b":1.0}"#), "the spelling of numbers is kept: {raw}");
    }

    #[test]
    fn thinking_and_streams_are_asked_for() {
        let request = Request {
            model: "claude-opus-4-8".into(),
            stream: true,
            reasoning_effort: Some("low".into()),
            max_output_tokens: Some(7),
            ..Request::default()
        };
        let expected = json!({
            "model": "claude-opus-4-8", "max_tokens": 7, "messages": [], "stream": true,
            "thinking": {"type": "adaptive"}, "output_config": {"effort": "low"},
        });
        assert_eq!(written(&request), expected);
    }
}
