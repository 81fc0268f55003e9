//! Requests and notifications of a server: what they mean, and how they are answered.
//!
//! Which request an answer belongs to, and when it is cancelled, is decided in [`super::peer`].

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::{Semaphore, watch};
use tokio::time::sleep;
use url::Url;

use super::Progress;
use super::message::{Failure, INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND};
use crate::client::{McpClient, Notice, ServerQuestion};
use crate::log::ServerLog;
use crate::text::clean;

/// Requests of a server that may wait for an answer at the same time.
const QUESTIONS: usize = 8;

/// Longest address of a resource that is passed on, in bytes.
const LONGEST_URI: usize = 8000;

/// How long a question waits that belongs to no call.
const OUTSIDE: Duration = Duration::from_secs(5 * 60);

const ROOTS: &str = "roots/list";
const SAMPLING: &str = "sampling/createMessage";
const ELICITATION: &str = "elicitation/create";

pub(super) type Observer = Arc<dyn Fn(Progress) + Send + Sync>;

/// Whether a server without a handshake may make this request only while it handles one of ours.
pub(super) fn is_question(method: &str) -> bool {
    matches!(method, ROOTS | SAMPLING | ELICITATION)
}

/// Receives requests and notifications of one server.
pub(super) struct Handler {
    pub(super) server: String,
    pub(super) client: Arc<dyn McpClient>,
    pub(super) log: ServerLog,
    /// The directory that the server may work in.
    pub(super) root: PathBuf,
    pub(super) slots: Semaphore,
    /// How many questions wait for an answer. The clock of calls stands still meanwhile.
    pub(super) waiting: watch::Sender<usize>,
    /// How many calls are running. A question belongs to one of them, and ends when none is left.
    pub(super) running: watch::Sender<usize>,
    /// Called when the server's tools changed.
    pub(super) tools_changed: Arc<dyn Fn() + Send + Sync>,
}

impl Handler {
    pub(super) fn new(
        server: String,
        client: Arc<dyn McpClient>,
        log: ServerLog,
        root: PathBuf,
        tools_changed: Arc<dyn Fn() + Send + Sync>,
    ) -> Self {
        Self {
            server,
            client,
            log,
            root,
            slots: Semaphore::new(QUESTIONS),
            waiting: watch::Sender::new(0),
            running: watch::Sender::new(0),
            tools_changed,
        }
    }

    /// Returns what is offered to servers.
    pub(super) fn capabilities(&self) -> Value {
        let mut capabilities = json!({ "roots": {} });
        if self.client.samples() {
            capabilities["sampling"] = json!({});
        }
        if self.client.elicits() {
            capabilities["elicitation"] = json!({ "form": {}, "url": {} });
        }
        capabilities
    }

    /// Answers a request.
    pub(super) async fn answer(&self, id: &Value, method: &str, params: Value) -> Result<Value, Failure> {
        match method {
            "ping" => Ok(json!({})),
            ROOTS => {
                let root = Url::from_file_path(&self.root).ok().map(|uri| json!({ "uri": uri.as_str() }));
                Ok(json!({ "roots": Vec::from_iter(root) }))
            }
            ELICITATION => {
                let params = form(&params).or_else(|| page(&params)).ok_or_else(unusable)?;
                self.ask(ServerQuestion::Elicitation(params), is_elicited).await
            }
            SAMPLING => {
                let params = sampling(params).ok_or_else(unusable)?;
                self.ask(ServerQuestion::Sampling { id: id.clone(), params }, is_sampled).await
            }
            _ => Err(Failure::refused(METHOD_NOT_FOUND, format!("unknown method {}", clean(method, 100)))),
        }
    }

    /// Receives a notification.
    pub(super) fn notified(&self, method: &str, params: &Value) {
        match method {
            "notifications/message" => match params.get("data") {
                Some(Value::String(text)) => self.log.add(text),
                Some(other) => self.log.add(&other.to_string()),
                None => {}
            },
            "notifications/tools/list_changed" => {
                (self.tools_changed)();
                self.notice(Notice::ToolsChanged);
            }
            "notifications/resources/updated" => {
                if let Some(uri) = params.get("uri").and_then(Value::as_str) {
                    self.notice(Notice::ResourceUpdated(clean(uri, LONGEST_URI)));
                }
            }
            "notifications/resources/list_changed" => self.notice(Notice::ResourcesChanged),
            "notifications/prompts/list_changed" => self.notice(Notice::PromptsChanged),
            _ => {}
        }
    }

    async fn ask(&self, question: ServerQuestion, is_answer: fn(&Value) -> bool) -> Result<Value, Failure> {
        let Ok(_slot) = self.slots.try_acquire() else {
            return Err(Failure::refused(INTERNAL_ERROR, "too many requests wait for an answer"));
        };
        let _waiting = Counted::new(&self.waiting);
        let answer = tokio::select! {
            answer = self.client.answer(&self.server, question) => answer,
            () = self.calls_ended() => Err("the call has ended, or there is none".to_owned()),
        };
        match answer {
            Ok(answer) if is_answer(&answer) => Ok(answer),
            Ok(_) => Err(Failure::refused(INTERNAL_ERROR, "the answer of the client cannot be used")),
            Err(problem) => Err(Failure::refused(INTERNAL_ERROR, problem)),
        }
    }

    /// Waits until no call is running any more. A question outside of any call has a time limit instead.
    async fn calls_ended(&self) {
        let mut running = self.running.subscribe();
        if *running.borrow_and_update() == 0 {
            return sleep(OUTSIDE).await;
        }
        // The sender lives as long as this.
        let _ = running.wait_for(|running| *running == 0).await;
    }

    fn notice(&self, notice: Notice) {
        self.client.notice(&self.server, notice);
    }
}

fn unusable() -> Failure {
    Failure::refused(INVALID_PARAMS, "the parameters cannot be used")
}

/// Returns the fields of a request that have the expected type; none if one is missing.
fn fields(params: &Value, names: &[&str], has_type: fn(&Value) -> bool) -> Option<Map<String, Value>> {
    let field =
        |name: &&str| Some(((*name).to_owned(), params.get(*name).filter(|value| has_type(value))?.clone()));
    names.iter().map(field).collect()
}

/// Returns the parameters of a form: a flat object. Nothing else can be shown.
fn form(params: &Value) -> Option<Value> {
    matches!(params.get("mode").map(Value::as_str), None | Some(Some("form"))).then_some(())?;
    let mut form = fields(params, &["message"], Value::is_string)?;
    let schema = params.get("requestedSchema")?;
    let is_simple = |property: &Value| {
        let of_type = property.get("type").and_then(Value::as_str);
        matches!(of_type, Some("string" | "number" | "integer" | "boolean" | "array"))
    };
    let is_flat =
        schema.get("type")? == "object" && schema.get("properties")?.as_object()?.values().all(is_simple);
    form.insert("requestedSchema".into(), is_flat.then(|| schema.clone())?);
    form.insert("mode".into(), json!("form"));
    Some(Value::Object(form))
}

/// Returns the parameters of a page that a person is asked to open.
fn page(params: &Value) -> Option<Value> {
    (params.get("mode")? == "url").then_some(())?;
    fields(params, &["mode", "message", "url", "elicitationId"], Value::is_string).map(Value::Object)
}

/// Returns the parameters of a request for a model's answer.
fn sampling(mut params: Value) -> Option<Value> {
    params.as_object_mut()?.remove("_meta");
    let is_message = |message: &Value| {
        let content = message.get("content");
        message.get("role").is_some_and(Value::is_string)
            && content.is_some_and(|content| content.is_object() || content.is_array())
    };
    let is_usable = params.get("messages")?.as_array()?.iter().all(is_message)
        && params.get("maxTokens").is_some_and(Value::is_u64);
    is_usable.then_some(params)
}

fn is_elicited(answer: &Value) -> bool {
    matches!(answer.get("action").and_then(Value::as_str), Some("accept" | "decline" | "cancel"))
}

fn is_sampled(answer: &Value) -> bool {
    let is_text = |name: &str| answer.get(name).is_some_and(Value::is_string);
    is_text("role") && is_text("model") && answer.get("content").is_some()
}

/// A question that waits for its answer, or a call that is running, as long as it lives.
pub(super) struct Counted<'a>(&'a watch::Sender<usize>);

impl<'a> Counted<'a> {
    pub(super) fn new(count: &'a watch::Sender<usize>) -> Self {
        count.send_modify(|count| *count += 1);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, timeout};

    use super::*;
    use crate::shared::SharedConnection;

    #[tokio::test(start_paused = true)]
    async fn question_outside_of_calls_has_a_time_limit() {
        let client: Arc<dyn McpClient> = Arc::new(SharedConnection::default());
        let (log, root) = (ServerLog::default(), PathBuf::from("/"));
        let handler = Handler::new("s".into(), client, log, root, Arc::new(|| {}));
        let begun = Instant::now();
        handler.calls_ended().await;
        assert_eq!(begun.elapsed(), OUTSIDE);
        let running = Counted::new(&handler.running);
        assert!(timeout(2 * OUTSIDE, handler.calls_ended()).await.is_err(), "a call is running");
        drop(running);
    }
    #[test]
    fn only_forms_and_pages_that_can_be_shown_are_passed_on() {
        let schema = |kind: &str| json!({ "type": "object", "properties": { "a": { "type": kind } } });
        let asked = json!({ "message": "Name?", "requestedSchema": schema("string"), "url": "file:///x", "_meta": {} });
        let shown = json!({ "mode": "form", "message": "Name?", "requestedSchema": schema("string") });
        assert_eq!(form(&asked), Some(shown));
        for odd in [
            json!(null),
            json!({ "message": "Name?" }),
            json!({ "message": 7, "requestedSchema": schema("string") }),
            json!({ "message": "Name?", "requestedSchema": schema("object") }),
            json!({ "message": "Name?", "requestedSchema": { "type": "object", "properties": [] } }),
            json!({ "message": "Name?", "requestedSchema": schema("string"), "mode": "url" }),
        ] {
            assert_eq!(form(&odd).or_else(|| page(&odd)), None, "{odd}");
        }
        let opened =
            json!({ "mode": "url", "message": "Open", "url": "https://x.example/", "elicitationId": "e" });
        assert_eq!(page(&opened), Some(opened));
    }

    #[test]
    fn request_for_sampling_needs_messages_and_a_limit() {
        let message = json!({ "role": "user", "content": { "type": "text", "text": "hi" } });
        let asked = json!({ "messages": [message], "maxTokens": 5, "_meta": { "progressToken": 1 } });
        assert_eq!(sampling(asked), Some(json!({ "messages": [message], "maxTokens": 5 })));
        for odd in [json!([]), json!({ "messages": [message] }), json!({ "messages": [7], "maxTokens": 5 })] {
            assert_eq!(sampling(odd), None);
        }
    }
}
