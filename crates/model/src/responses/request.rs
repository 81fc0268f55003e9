//! Serialisation of Responses requests.

use serde::Serialize;

use baton_protocol::Json;

use crate::chat::request::data_url;
use crate::{Message, Part, Request, ToolCall, ToolDef, opaque};

/// Serialises the body of a request.
///
/// # Errors
/// When a part has no JSON form; all of our types have one.
pub(super) fn body(request: &Request) -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(&Body::new(request))
}

/// Serialises a request as a message on a WebSocket, where every answer is streamed.
///
/// # Errors
/// When a part has no JSON form; all of our types have one.
pub(super) fn message(request: &Request) -> serde_json::Result<String> {
    #[derive(Serialize)]
    struct Create<'a> {
        r#type: &'static str,
        #[serde(flatten)]
        body: Body<'a>,
    }
    let body = Body { stream: false, ..Body::new(request) };
    serde_json::to_string(&Create { r#type: "response.create", body })
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<&'a str>,
    input: Vec<Item<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<WireTool<'a>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    stream: bool,
    store: bool,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    include: &'static [&'static str],
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Reasoning<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u64>,
}

#[derive(Serialize)]
struct Reasoning<'a> {
    effort: &'a str,
    summary: &'static str,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Item<'a> {
    /// A reasoning item, as the provider wrote it.
    Reasoning(Json),
    Other(OtherItem<'a>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum OtherItem<'a> {
    Message { role: &'static str, content: Vec<Content<'a>> },
    FunctionCall { call_id: &'a str, name: &'a str, arguments: &'a str },
    FunctionCallOutput { call_id: &'a str, output: &'a str },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Content<'a> {
    InputText {
        text: &'a str,
    },
    OutputText {
        text: &'a str,
    },
    InputImage {
        #[serde(serialize_with = "data_url")]
        image_url: (&'a str, &'a str),
    },
    InputFile {
        filename: &'a str,
        #[serde(serialize_with = "data_url")]
        file_data: (&'a str, &'a str),
    },
}

#[derive(Serialize)]
struct WireTool<'a> {
    r#type: &'static str,
    name: &'a str,
    description: &'a str,
    parameters: &'a Json,
    /// Strict schemas follow additional rules, which the tools of clients do not.
    strict: bool,
}

impl<'a> Body<'a> {
    fn new(request: &'a Request) -> Self {
        let messages = request.messages.as_slice();
        let (instructions, rest) = match messages.first().map(|message| &**message) {
            Some(Message::System(text)) => (Some(text.as_str()), &messages[1..]),
            _ => (None, messages),
        };
        let effort = request.reasoning_effort.as_deref();
        Self {
            model: &request.model,
            instructions,
            input: rest.iter().flat_map(|message| items(message, &request.model)).collect(),
            tools: request.tools.iter().map(WireTool::from).collect(),
            stream: request.stream,
            store: false,
            // Refused by models without reasoning.
            include: if effort.is_some() || has_reasoning(&request.model) {
                &["reasoning.encrypted_content"]
            } else {
                &[]
            },
            reasoning: effort.map(|effort| Reasoning { effort, summary: "auto" }),
            max_output_tokens: request.max_output_tokens,
        }
    }
}

/// Whether a model belongs to a family with reasoning, by its name.
fn has_reasoning(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    ["gpt-5", "o1", "o3", "o4", "codex"].iter().any(|family| name.starts_with(family))
}

fn items<'a>(message: &'a Message, model: &str) -> Vec<Item<'a>> {
    let message_item = |role, content| Item::Other(OtherItem::Message { role, content });
    match message {
        Message::System(text) => vec![message_item("system", vec![Content::InputText { text }])],
        Message::User(parts) => vec![message_item("user", parts.iter().map(Content::from).collect())],
        Message::Assistant { text, tool_calls, reasoning_opaque } => {
            let reasoning = opaque::untag::<Json>(reasoning_opaque.as_deref(), super::WIRE, model);
            let text =
                (!text.is_empty()).then(|| message_item("assistant", vec![Content::OutputText { text }]));
            let calls = tool_calls.iter().map(|call| Item::Other(call.into()));
            reasoning.into_iter().map(Item::Reasoning).chain(text).chain(calls).collect()
        }
        Message::Tool { call_id, content, failed: _ } => {
            vec![Item::Other(OtherItem::FunctionCallOutput { call_id, output: content })]
        }
    }
}

impl<'a> From<&'a ToolCall> for OtherItem<'a> {
    fn from(call: &'a ToolCall) -> Self {
        Self::FunctionCall { call_id: &call.id, name: &call.name, arguments: &call.arguments }
    }
}

impl<'a> From<&'a Part> for Content<'a> {
    fn from(part: &'a Part) -> Self {
        match part {
            Part::Text(text) => Self::InputText { text },
            Part::Image { mime_type, data } => Self::InputImage { image_url: (mime_type, data) },
            Part::Document { mime_type, title, data } => Self::InputFile {
                filename: title.as_deref().unwrap_or("document"),
                file_data: (mime_type, data),
            },
        }
    }
}

impl<'a> From<&'a ToolDef> for WireTool<'a> {
    fn from(tool: &'a ToolDef) -> Self {
        Self {
            r#type: "function",
            name: &tool.name,
            description: &tool.description,
            parameters: &tool.parameters,
            strict: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    fn written(request: &Request) -> Value {
        baton_json::from_slice(&body(request).unwrap()).unwrap()
    }

    #[test]
    fn whole_conversation_is_serialised() {
        let thought = json!({"type": "reasoning", "summary": [], "encrypted_content": "e"});
        let call = ToolCall { id: "a".into(), name: "f".into(), arguments: "{\"b\" :1.0}".into() };
        let assistant = |text: &str, tool_calls, reasoning_opaque| Message::Assistant {
            text: text.into(),
            tool_calls,
            reasoning_opaque,
        };
        let image = Part::Image { mime_type: "image/png".into(), data: "QUJD".into() };
        let pdf = Part::Document { mime_type: "application/pdf".into(), title: None, data: "QUJD".into() };
        let messages = [
            Message::System("be good".into()),
            Message::User(vec![Part::Text("hi".into()), image, pdf]),
            assistant("on it", vec![call], opaque::tag("responses", "gpt-5", &[thought])),
            Message::Tool { call_id: "a".into(), content: "r".into(), failed: true },
            assistant("done", vec![], opaque::tag("responses", "gpt-4", &["not ours"])),
        ];
        let request = Request {
            model: "gpt-5".into(),
            messages: messages.map(Arc::new).to_vec(),
            tools: Arc::new([ToolDef {
                name: "f".into(),
                description: "runs".into(),
                parameters: Json::from_text(r#"{"type":"object"}"#).unwrap(),
            }]),
            stream: true,
            reasoning_effort: Some("high".into()),
            max_output_tokens: Some(7),
            ..Request::default()
        };
        let expected = json!({
            "model": "gpt-5",
            "instructions": "be good",
            "input": [
                {"type": "message", "role": "user", "content": [
                    {"type": "input_text", "text": "hi"},
                    {"type": "input_image", "image_url": "data:image/png;base64,QUJD"},
                    {"type": "input_file", "filename": "document",
                     "file_data": "data:application/pdf;base64,QUJD"},
                ]},
                {"type": "reasoning", "summary": [], "encrypted_content": "e"},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "on it"}]},
                {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{\"b\" :1.0}"},
                {"type": "function_call_output", "call_id": "a", "output": "r"},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]},
            ],
            "tools": [{"type": "function", "name": "f", "description": "runs",
                       "parameters": {"type": "object"}, "strict": false}],
            "stream": true,
            "store": false,
            "include": ["reasoning.encrypted_content"],
            "reasoning": {"effort": "high", "summary": "auto"},
            "max_output_tokens": 7,
        });
        assert_eq!(written(&request), expected);
    }

    #[test]
    fn reasoning_fields_are_omitted_for_models_without_reasoning() {
        let request = Request { model: "gpt-4.1".into(), ..Request::default() };
        assert_eq!(written(&request), json!({"model": "gpt-4.1", "input": [], "store": false}));
        assert!(
            has_reasoning("openai/o4-mini") && has_reasoning("gpt-5.2-codex") && !has_reasoning("gpt-4o")
        );
    }
}
