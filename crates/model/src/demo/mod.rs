//! The demo model: built in, without a network and without intelligence, so that a fresh machine has
//! something to show.
//!
//! It says what it is, streams its answers, remembers how long the conversation is, and calls real tools when
//! it is asked to in plain words. The same conversation always gives the same answer. It is no test double:
//! tests that need a certain answer have the scripted server of `baton-testkit`.

mod wish;
mod words;

use std::time::Duration;

use serde_json::json;

use crate::{
    Answer, Asking, Delta, Finish, Message, Model, ModelError, Part, Request, Sink, ToolCall, Usage, estimate,
};
use wish::Wish;

/// The name that the demo model answers under.
pub const DEMO_MODEL: &str = "baton-demo";

/// How many words go into one piece of a stream.
const WORDS_AT_ONCE: usize = 2;

/// The demo model.
#[derive(Debug, Clone, Copy)]
pub struct DemoModel {
    pause: Duration,
}

impl Default for DemoModel {
    /// At a speed that people see as typing: some 130 words a second would be a fast model.
    fn default() -> Self {
        Self::with_pause(Duration::from_millis(15))
    }
}

impl DemoModel {
    /// A demo model that waits so long between two pieces of a streamed answer.
    #[must_use]
    pub fn with_pause(pause: Duration) -> Self {
        Self { pause }
    }

    async fn answer(&self, request: &Request, sink: Sink<'_>) -> Result<Answer, ModelError> {
        let reply = Reply::to(request);
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
        Ok(Answer {
            text: reply.text,
            finish: if reply.call.is_some() { Finish::ToolCalls } else { Finish::Stop },
            tool_calls: reply.call.into_iter().collect(),
            usage: Some(usage),
            model: Some(DEMO_MODEL.to_owned()),
            ..Answer::default()
        })
    }

    async fn stream(&self, reply: &Reply, sink: Sink<'_>) {
        let mut bytes = 0;
        let mut words = reply.text.split_inclusive(' ').peekable();
        while words.peek().is_some() {
            let piece: String = words.by_ref().take(WORDS_AT_ONCE).collect();
            bytes += piece.len() as u64;
            sink(Delta::Text(piece));
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
    fn ask<'a>(&'a self, request: &'a Request, sink: Sink<'a>) -> Asking<'a> {
        Box::pin(self.answer(request, sink))
    }

    fn endpoint(&self) -> &'static str {
        "/demo"
    }
}

/// What it will say and do.
struct Reply {
    text: String,
    call: Option<ToolCall>,
}

impl Reply {
    fn to(request: &Request) -> Self {
        let results = results_at_the_end(request);
        if !results.is_empty() {
            return Self { text: words::report(&results), call: None };
        }
        let prompt = last_prompt(request);
        match wish::in_prompt(&prompt) {
            Some(wish) => Self::grant(&wish, request),
            None => Self { text: words::introduction(&prompt, remembered(request)), call: None },
        }
    }

    /// Calls the first tool on offer that fulfils the wish.
    fn grant(wish: &Wish, request: &Request) -> Self {
        let ways = ways(wish);
        let offered = |name: &str| request.tools.iter().any(|tool| tool.name == name);
        match ways.iter().find(|(name, _)| offered(name)) {
            Some((name, arguments)) => {
                let call = ToolCall {
                    id: call_id(request),
                    name: (*name).to_owned(),
                    arguments: arguments.to_string(),
                };
                Self { text: words::announcement(wish), call: Some(call) }
            }
            None => {
                let names: Vec<&str> = ways.iter().map(|(name, _)| *name).collect();
                Self { text: words::no_tool(wish, &names), call: None }
            }
        }
    }
}

/// Tools that would fulfil a wish, the best first, with their arguments.
fn ways(wish: &Wish) -> Vec<(&'static str, serde_json::Value)> {
    let shell = |command: &str| json!({"command": command, "description": words::announcement(wish)});
    match wish {
        Wish::Run { command } => ["bash", "powershell", "shell"].map(|name| (name, shell(command))).into(),
        Wish::Create { path, content } => vec![("create", json!({"path": path, "file_text": content}))],
        Wish::View { path } => vec![("view", json!({"path": path}))],
        Wish::List => {
            vec![("glob", json!({"pattern": "*"})), ("bash", shell("ls")), ("powershell", shell("ls"))]
        }
        Wish::Ask { question } => vec![("ask_user", json!({"question": question}))],
    }
}

/// An id that no other call of the conversation has.
fn call_id(request: &Request) -> String {
    format!("demo_call_{}", request.messages.len())
}

/// What tools returned since the model spoke last, with their names.
fn results_at_the_end(request: &Request) -> Vec<(String, &str)> {
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

/// The newest thing that a person said, without what programs added to it.
fn last_prompt(request: &Request) -> String {
    let texts = request.messages.iter().rev().filter_map(|message| match &**message {
        Message::User(parts) => Some(wish::without_blocks(&text_of(parts))),
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

fn remembered(request: &Request) -> usize {
    request.messages.iter().filter(|message| !matches!(&***message, Message::System(_))).count()
}

#[cfg(test)]
mod tests;
