//! The demo model: built in, without a network and without AI, so that Baton works on a fresh machine.
//!
//! It introduces itself, streams its answers, knows the length of the conversation, and calls real tools when
//! asked in plain words. The same conversation always gets the same answer. It is not a test double: tests
//! that need a specific answer use the scripted server of `baton-testkit`.

mod intent;
mod texts;

use std::time::Duration;

use serde_json::json;

use crate::{
    Delta, Finish, Message, Model, ModelError, ModelResponse, Part, Request, Responding, Sink, ToolCall,
    Usage, estimate,
};
use intent::Intent;

/// The name of the demo model.
pub const DEMO_MODEL: &str = "baton-demo";

/// Number of words in one part of a stream.
const WORDS_AT_ONCE: usize = 2;

/// The demo model.
#[derive(Debug, Clone, Copy)]
pub struct DemoModel {
    pause: Duration,
}

impl Default for DemoModel {
    /// Streams at the pace of typing; about 130 words a second, which would be a fast model.
    fn default() -> Self {
        Self::with_pause(Duration::from_millis(15))
    }
}

impl DemoModel {
    /// Creates a demo model that pauses for this long between two parts of a streamed answer.
    #[must_use]
    pub fn with_pause(pause: Duration) -> Self {
        Self { pause }
    }

    async fn answer(&self, request: &Request, sink: Sink<'_>) -> Result<ModelResponse, ModelError> {
        let reply = DemoResponse::to(request);
        if request.stream {
            self.stream(&reply, sink).await;
        }
        let written = Message::Assistant {
            text: reply.text.clone(),
            tool_calls: reply.call.iter().cloned().collect(),
            reasoning_opaque: None,
        };
        let usage = Usage {
            input: estimate::request(request),
            output: estimate::message(&written),
            ..Usage::default()
        };
        Ok(ModelResponse {
            text: reply.text,
            finish: if reply.call.is_some() { Finish::ToolCalls } else { Finish::Stop },
            tool_calls: reply.call.into_iter().collect(),
            usage: Some(usage),
            model: Some(DEMO_MODEL.to_owned()),
            ..ModelResponse::default()
        })
    }

    async fn stream(&self, reply: &DemoResponse, sink: Sink<'_>) {
        let mut bytes = 0;
        let mut words = reply.text.split_inclusive(' ').peekable();
        while words.peek().is_some() {
            let part: String = words.by_ref().take(WORDS_AT_ONCE).collect();
            bytes += part.len() as u64;
            sink(Delta::Text(part));
            sink(Delta::Progress { bytes });
            if !self.pause.is_zero() {
                tokio::time::sleep(self.pause).await;
            }
        }
        if let Some(ToolCall { id, name, arguments }) = reply.call.clone() {
            sink(Delta::ToolCall { id, name, arguments });
        }
    }
}

impl Model for DemoModel {
    fn respond<'a>(&'a self, request: &'a Request, sink: Sink<'a>) -> Responding<'a> {
        Box::pin(self.answer(request, sink))
    }

    fn endpoint(&self) -> &'static str {
        "/chat/completions"
    }
}

/// A prepared answer.
struct DemoResponse {
    text: String,
    call: Option<ToolCall>,
}

impl DemoResponse {
    fn to(request: &Request) -> Self {
        let results = latest_results(request);
        if !results.is_empty() {
            return Self { text: texts::report(&results), call: None };
        }
        let prompt = last_prompt(request);
        if let Some(call) = Self::named_tool(&prompt, request) {
            return call;
        }
        match intent::in_prompt(&prompt) {
            Some(intent) => Self::fulfil(&intent, request),
            None => Self { text: texts::introduction(&prompt, message_count(request)), call: None },
        }
    }

    /// Calls a tool that the prompt names, such as one of an MCP server: `call files-list with path=.`.
    fn named_tool(prompt: &str, request: &Request) -> Option<Self> {
        let (name, rest) = intent::tool_in(prompt)?;
        let tool = request.tools.iter().find(|tool| tool.name == name)?;
        let schema: serde_json::Value = tool.parameters.parse().unwrap_or_default();
        let arguments = intent::arguments_in(rest, &schema);
        let call = ToolCall { id: call_id(request), name: name.to_owned(), arguments: arguments.to_string() };
        Some(Self { text: texts::call(name), call: Some(call) })
    }

    /// Calls the first available tool that fulfils the request.
    fn fulfil(intent: &Intent, request: &Request) -> Self {
        let candidates = candidates(intent);
        let available = |name: &str| request.tools.iter().any(|tool| tool.name == name);
        match candidates.iter().find(|(name, _)| available(name)) {
            Some((name, arguments)) => {
                let call = ToolCall {
                    id: call_id(request),
                    name: (*name).to_owned(),
                    arguments: arguments.to_string(),
                };
                Self { text: texts::announcement(intent), call: Some(call) }
            }
            None => {
                let names: Vec<&str> = candidates.iter().map(|(name, _)| *name).collect();
                Self { text: texts::no_tool(intent, &names), call: None }
            }
        }
    }
}

/// Returns the tools that fulfil a request, best first, with their arguments.
fn candidates(intent: &Intent) -> Vec<(&'static str, serde_json::Value)> {
    let shell = |command: &str| json!({"command": command, "description": texts::announcement(intent)});
    match intent {
        Intent::Run { command } => ["bash", "powershell", "shell"].map(|name| (name, shell(command))).into(),
        Intent::Create { path, content } => vec![("create", json!({"path": path, "file_text": content}))],
        Intent::View { path } => vec![("view", json!({"path": path}))],
        Intent::List => {
            vec![("glob", json!({"pattern": "*"})), ("bash", shell("ls")), ("powershell", shell("ls"))]
        }
        Intent::Ask { question } => vec![("ask_user", json!({"question": question}))],
    }
}

/// Returns an id that is unique in the conversation.
fn call_id(request: &Request) -> String {
    format!("demo_call_{}", request.messages.len())
}

/// Returns the tool results since the model's last message, with the names of the tools.
fn latest_results(request: &Request) -> Vec<(String, &str)> {
    let mut results: Vec<_> = request
        .messages
        .iter()
        .rev()
        .map_while(|message| match &**message {
            Message::Tool { call_id, content, .. } => Some((tool_of(request, call_id), content.as_str())),
            _ => None,
        })
        .collect();
    results.reverse();
    results
}

fn tool_of(request: &Request, call_id: &str) -> String {
    let calls = request.messages.iter().filter_map(|message| match &**message {
        Message::Assistant { tool_calls, .. } => Some(tool_calls),
        _ => None,
    });
    calls
        .flatten()
        .find(|call| call.id == call_id)
        .map_or_else(|| "unknown".to_owned(), |call| call.name.clone())
}

/// Returns the newest message of the user, without the blocks that programs added to it.
fn last_prompt(request: &Request) -> String {
    let texts = request.messages.iter().rev().filter_map(|message| match &**message {
        Message::User(parts) => Some(intent::without_blocks(&text_of(parts))),
        _ => None,
    });
    texts.into_iter().find(|text| !text.is_empty()).unwrap_or_default()
}

fn text_of(parts: &[Part]) -> String {
    let texts = parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.as_str()),
        Part::Image { .. } | Part::Document { .. } => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

fn message_count(request: &Request) -> usize {
    request.messages.iter().filter(|message| !matches!(&***message, Message::System(_))).count()
}

#[cfg(test)]
mod tests;
