//! A reply, written as chat completions: as a stream of events, or as one JSON text.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use super::connection::{After, Connection};
use super::state::{Recorded, State};
use super::{Action, Reply};

/// Ids are unique in the whole process, so that conversations can be told apart.
static IDS: AtomicU64 = AtomicU64::new(1);

/// Does what the reply says.
pub(super) async fn answer(
    connection: &mut Connection,
    request: &Recorded,
    reply: &Reply,
    state: &State,
) -> io::Result<After> {
    let mut writer = Writer::new(connection, request, reply);
    for action in &reply.actions {
        match action {
            Action::Sleep(time) => writer.wait_for(tokio::time::sleep(*time)).await?,
            Action::Hold(name) => writer.wait_for(state.hold(name)).await?,
            Action::Hang => {
                writer.head().await?;
                return Err(writer.connection.client_left().await);
            }
            Action::Drop => {
                writer.head().await?;
                return Ok(After::Close);
            }
            Action::Reset => {
                writer.head().await?;
                return writer.connection.reset();
            }
            Action::Truncate => return writer.end_early().await,
            Action::Text(_) | Action::Think(_) | Action::Call { .. } | Action::Finish(_) | Action::Raw(_) => {
                writer.say(action).await?;
            }
        }
    }
    writer.end().await
}

/// Writes one answer.
struct Writer<'a> {
    connection: &'a mut Connection,
    request: &'a Recorded,
    reply: &'a Reply,
    id: String,
    has_head: bool,
    text: String,
    thought: String,
    calls: Vec<Value>,
    finish: Option<String>,
}

impl<'a> Writer<'a> {
    fn new(connection: &'a mut Connection, request: &'a Recorded, reply: &'a Reply) -> Self {
        Self {
            connection,
            request,
            reply,
            id: format!("chatcmpl-{}", IDS.fetch_add(1, Ordering::Relaxed)),
            has_head: false,
            text: String::new(),
            thought: String::new(),
            calls: Vec::new(),
            finish: None,
        }
    }

    fn streams(&self) -> bool {
        self.request.body["stream"] == true
    }

    /// Waits, unless the client leaves.
    async fn wait_for(&mut self, something: impl Future<Output = ()>) -> io::Result<()> {
        tokio::select! {
            () = something => Ok(()),
            left = self.connection.client_left() => Err(left),
        }
    }

    async fn head(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.has_head, true) {
            return Ok(());
        }
        let mut headers = self.reply.headers.clone();
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
            let usual = if self.streams() { "text/event-stream" } else { "application/json" };
            headers.push(("content-type".to_owned(), usual.to_owned()));
        }
        headers.push(("x-request-id".to_owned(), format!("req-{}", self.id)));
        self.connection.head(self.reply.status, &headers).await
    }

    async fn say(&mut self, action: &Action) -> io::Result<()> {
        match action {
            Action::Text(text) => {
                self.text.push_str(text);
                for word in text.split_inclusive(' ') {
                    self.piece(json!({"content": word})).await?;
                }
            }
            Action::Think(thought) => {
                self.thought.push_str(thought);
                self.piece(json!({"reasoning_content": thought})).await?;
            }
            Action::Call { name, arguments } => self.call(name, arguments).await?,
            Action::Finish(reason) => self.finish = Some(reason.clone()),
            Action::Raw(bytes) => {
                self.head().await?;
                self.connection.chunk(bytes).await?;
            }
            _ => {}
        }
        Ok(())
    }

    async fn call(&mut self, name: &str, arguments: &str) -> io::Result<()> {
        let index = self.calls.len();
        let id = format!("call_{}", IDS.fetch_add(1, Ordering::Relaxed));
        let function = json!({"name": name, "arguments": arguments});
        self.calls.push(json!({"id": id, "type": "function", "function": function}));
        let first = json!({"name": name, "arguments": ""});
        self.piece(
            json!({"tool_calls": [{"index": index, "id": id, "type": "function", "function": first}]}),
        )
        .await?;
        // In two parts, cut between characters.
        let middle = arguments.char_indices().nth(arguments.chars().count() / 2).map_or(0, |(at, _)| at);
        for part in [&arguments[..middle], &arguments[middle..]] {
            self.piece(json!({"tool_calls": [{"index": index, "function": {"arguments": part}}]})).await?;
        }
        Ok(())
    }

    /// A piece of a stream; nothing when the answer is not streamed.
    async fn piece(&mut self, delta: Value) -> io::Result<()> {
        self.event(json!([{"index": 0, "delta": delta, "finish_reason": null}]), Value::Null).await
    }

    async fn event(&mut self, choices: Value, usage: Value) -> io::Result<()> {
        if !self.streams() {
            return Ok(());
        }
        self.head().await?;
        let mut event = self.envelope("chat.completion.chunk", &choices);
        if !usage.is_null() {
            event["usage"] = usage;
        }
        self.connection.chunk(format!("data: {event}\n\n").as_bytes()).await
    }

    fn envelope(&self, object: &str, choices: &Value) -> Value {
        let model = self.request.body["model"].clone();
        json!({"id": self.id, "object": object, "created": 0, "model": model, "choices": choices})
    }

    async fn end(mut self) -> io::Result<After> {
        let obvious = if self.calls.is_empty() { "stop" } else { "tool_calls" };
        let finish = self.finish.take().unwrap_or_else(|| obvious.to_owned());
        if self.reply.is_raw() {
            self.head().await?;
        } else if self.streams() {
            self.event(json!([{"index": 0, "delta": {}, "finish_reason": finish}]), Value::Null).await?;
            if self.request.body["stream_options"]["include_usage"] == true {
                self.event(json!([]), usage()).await?;
            }
            self.connection.chunk(b"data: [DONE]\n\n").await?;
        } else {
            let whole = self.whole(&finish);
            self.head().await?;
            self.connection.chunk(whole.to_string().as_bytes()).await?;
        }
        self.connection.finish().await
    }

    /// Ends the body properly, but in the middle of the answer.
    async fn end_early(mut self) -> io::Result<After> {
        self.head().await?;
        if !self.streams() {
            let whole = self.whole("stop").to_string();
            self.connection.chunk(&whole.as_bytes()[..whole.len() / 2]).await?;
        }
        self.connection.finish().await
    }

    fn whole(&self, finish: &str) -> Value {
        let content = if self.text.is_empty() { Value::Null } else { Value::from(self.text.as_str()) };
        let mut message = json!({"role": "assistant", "content": content});
        if !self.thought.is_empty() {
            message["reasoning_content"] = Value::from(self.thought.as_str());
        }
        if !self.calls.is_empty() {
            message["tool_calls"] = Value::from(self.calls.clone());
        }
        let choices = json!([{"index": 0, "message": message, "finish_reason": finish}]);
        let mut whole = self.envelope("chat.completion", &choices);
        whole["usage"] = usage();
        whole
    }
}

/// Always the same, so that tests can expect it.
fn usage() -> Value {
    json!({
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "total_tokens": 120,
        "prompt_tokens_details": {"cached_tokens": 40},
        "completion_tokens_details": {"reasoning_tokens": 5},
    })
}
