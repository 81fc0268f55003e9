//! Serialisation of chat completions requests. Nothing is copied except into the JSON.

use serde::{Serialize, Serializer};

use baton_protocol::Json;

use super::ChatVariant;
use crate::{Message, Part, Request, ToolCall, ToolDef, opaque};

/// Serialises the body of a request.
///
/// # Errors
/// When a part has no JSON form; all of our types have one.
pub(super) fn body(request: &Request, dialect: ChatVariant) -> serde_json::Result<Vec<u8>> {
    let limit = request.max_output_tokens;
    serde_json::to_vec(&Body {
        model: &request.model,
        messages: request.messages.iter().map(|message| WireMessage::from(&**message)).collect(),
        tools: request.tools.iter().map(WireTool::from).collect(),
        stream: request.stream,
        stream_options: (request.stream && dialect.usage_on_request())
            .then_some(StreamOptions { include_usage: true }),
        reasoning_effort: request.reasoning_effort.as_deref(),
        max_completion_tokens: limit.filter(|_| dialect == ChatVariant::OpenAi),
        max_tokens: limit.filter(|_| dialect != ChatVariant::OpenAi),
    })
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<WireMessage<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<WireTool<'a>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum WireMessage<'a> {
    System {
        content: &'a str,
    },
    User {
        content: UserContent<'a>,
    },
    Assistant {
        /// `null` beside tool calls; some servers require the field.
        content: Option<&'a str>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<WireCall<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reasoning_opaque: Option<&'a str>,
    },
    Tool {
        tool_call_id: &'a str,
        content: &'a str,
    },
}

/// A plain string where possible: not every server supports arrays.
#[derive(Serialize)]
#[serde(untagged)]
enum UserContent<'a> {
    Text(&'a str),
    Parts(Vec<WirePart<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum WirePart<'a> {
    Text { text: &'a str },
    ImageUrl { image_url: ImageUrl<'a> },
    File { file: File<'a> },
}

#[derive(Serialize)]
struct File<'a> {
    filename: &'a str,
    #[serde(serialize_with = "data_url")]
    file_data: (&'a str, &'a str),
}

#[derive(Serialize)]
struct ImageUrl<'a> {
    #[serde(serialize_with = "data_url")]
    url: (&'a str, &'a str),
}

#[derive(Serialize)]
struct WireCall<'a> {
    id: &'a str,
    r#type: &'static str,
    function: WireFunction<'a>,
}

#[derive(Serialize)]
struct WireFunction<'a> {
    name: &'a str,
    arguments: &'a str,
}

#[derive(Serialize)]
struct WireTool<'a> {
    r#type: &'static str,
    function: WireToolFunction<'a>,
}

#[derive(Serialize)]
struct WireToolFunction<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Json,
}

impl<'a> From<&'a Message> for WireMessage<'a> {
    fn from(message: &'a Message) -> Self {
        match message {
            Message::System(content) => Self::System { content },
            Message::User(parts) => Self::User { content: parts.as_slice().into() },
            Message::Assistant { text, tool_calls, reasoning_opaque } => Self::Assistant {
                content: (!text.is_empty() || tool_calls.is_empty()).then_some(text),
                tool_calls: tool_calls.iter().map(WireCall::from).collect(),
                reasoning_opaque: reasoning_opaque.as_deref().filter(|opaque| !opaque::is_tagged(opaque)),
            },
            Message::Tool { call_id, content, failed: _ } => Self::Tool { tool_call_id: call_id, content },
        }
    }
}

impl<'a> From<&'a [Part]> for UserContent<'a> {
    fn from(parts: &'a [Part]) -> Self {
        match parts {
            [] => Self::Text(""),
            [Part::Text(text)] => Self::Text(text),
            parts => Self::Parts(parts.iter().map(WirePart::from).collect()),
        }
    }
}

impl<'a> From<&'a Part> for WirePart<'a> {
    fn from(part: &'a Part) -> Self {
        match part {
            Part::Text(text) => Self::Text { text },
            Part::Image { mime_type, data } => {
                Self::ImageUrl { image_url: ImageUrl { url: (mime_type, data) } }
            }
            Part::Document { mime_type, title, data } => Self::File {
                file: File { filename: title.as_deref().unwrap_or("document"), file_data: (mime_type, data) },
            },
        }
    }
}

impl<'a> From<&'a ToolCall> for WireCall<'a> {
    fn from(call: &'a ToolCall) -> Self {
        let function = WireFunction { name: &call.name, arguments: &call.arguments };
        Self { id: &call.id, r#type: "function", function }
    }
}

impl<'a> From<&'a ToolDef> for WireTool<'a> {
    fn from(tool: &'a ToolDef) -> Self {
        let function = WireToolFunction {
            name: &tool.name,
            description: &tool.description,
            parameters: &tool.parameters,
        };
        Self { r#type: "function", function }
    }
}

/// Serialises an image as a data URL, without building that long text in memory first.
pub(crate) fn data_url<S: Serializer>(
    (mime_type, data): &(&str, &str),
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("data:{mime_type};base64,{data}"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    fn check(request: &Request, dialect: ChatVariant, expected: &Value) {
        let body: Value = baton_json::from_slice(&body(request, dialect).unwrap()).unwrap();
        assert_eq!(&body, expected);
    }

    #[test]
    fn whole_conversation_is_serialised() {
        let call =
            ToolCall { id: "c1".into(), name: "bash".into(), arguments: "{\"b\" :1.0,\"a\":2}".into() };
        let assistant = |text: &str, tool_calls, opaque: Option<&str>| Message::Assistant {
            text: text.into(),
            tool_calls,
            reasoning_opaque: opaque.map(Into::into),
        };
        let image = Part::Image { mime_type: "image/png".into(), data: "QUJD".into() };
        let pdf = Part::Document {
            mime_type: "application/pdf".into(),
            title: Some("a.pdf".into()),
            data: "QUJD".into(),
        };
        let messages = [
            Message::System("be good".into()),
            Message::User(vec![Part::Text("hi".into())]),
            assistant("", vec![call.clone()], Some("opaque")),
            Message::Tool { call_id: "c1".into(), content: "done".into(), failed: false },
            assistant("both", vec![call], None),
            assistant("", vec![], None),
            Message::User(vec![Part::Text("look".into()), image, pdf]),
            Message::User(vec![]),
        ];
        let request = Request {
            model: "m".into(),
            messages: messages.into_iter().map(Arc::new).collect(),
            tools: Arc::new([ToolDef {
                name: "bash".into(),
                description: "runs".into(),
                parameters: Json::from_text(r#"{"type":"object"}"#).unwrap(),
            }]),
            ..Request::default()
        };
        let function = json!({"name": "bash", "arguments": "{\"b\" :1.0,\"a\":2}"});
        let calls = json!([{"id": "c1", "type": "function", "function": function}]);
        check(
            &request,
            ChatVariant::Compatible,
            &json!({
                "model": "m",
                "messages": [
                    {"role": "system", "content": "be good"},
                    {"role": "user", "content": "hi"},
                    {"role": "assistant", "content": null, "tool_calls": calls, "reasoning_opaque": "opaque"},
                    {"role": "tool", "tool_call_id": "c1", "content": "done"},
                    {"role": "assistant", "content": "both", "tool_calls": calls},
                    {"role": "assistant", "content": ""},
                    {"role": "user", "content": [
                        {"type": "text", "text": "look"},
                        {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}},
                        {"type": "file", "file": {
                            "filename": "a.pdf", "file_data": "data:application/pdf;base64,QUJD",
                        }},
                    ]},
                    {"role": "user", "content": ""},
                ],
                "tools": [{"type": "function", "function": {
                    "name": "bash", "description": "runs", "parameters": {"type": "object"},
                }}],
            }),
        );
    }

    #[test]
    fn options_follow_the_dialect() {
        let request = Request {
            model: "m".into(),
            stream: true,
            reasoning_effort: Some("high".into()),
            max_output_tokens: Some(7),
            ..Request::default()
        };
        let usage = json!({"include_usage": true});
        let common = json!({"model": "m", "messages": [], "stream": true, "reasoning_effort": "high"});
        let with = |more: Value| {
            let mut all = common.as_object().unwrap().clone();
            all.extend(more.as_object().unwrap().clone());
            Value::Object(all)
        };
        check(
            &request,
            ChatVariant::OpenAi,
            &with(json!({"stream_options": usage, "max_completion_tokens": 7})),
        );
        check(&request, ChatVariant::Compatible, &with(json!({"stream_options": usage, "max_tokens": 7})));
        check(&request, ChatVariant::Copilot, &with(json!({"max_tokens": 7})));
    }

    #[test]
    fn stream_options_are_omitted_without_a_stream() {
        let request = Request { model: "m".into(), ..Request::default() };
        check(&request, ChatVariant::OpenAi, &json!({"model": "m", "messages": []}));
    }
}
