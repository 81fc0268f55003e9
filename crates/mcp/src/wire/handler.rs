//! Requests and notifications of a server.
#![expect(
    deprecated,
    reason = "the newest protocol drops sampling and log messages; servers in use still send them"
)]

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams,
    ElicitResult, ErrorData, Implementation, ListRootsResult, LoggingMessageNotificationParam,
    ProgressNotificationParam, ProgressToken, ProtocolVersion, ResourceUpdatedNotificationParam, Root,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ClientHandler, RoleClient};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};
use tokio::time::sleep;
use url::Url;

use super::Progress;
use crate::client::{McpClient, Notice, ServerQuestion};
use crate::lock;
use crate::log::ServerLog;
use crate::text::clean;

/// Requests of a server that may wait for an answer at the same time.
const QUESTIONS: usize = 8;

/// Longest address of a resource that is passed on, in bytes.
const LONGEST_URI: usize = 8000;

/// How long a question waits that belongs to no call.
const OUTSIDE: Duration = Duration::from_secs(5 * 60);

pub(super) type Observer = Arc<dyn Fn(Progress) + Send + Sync>;

/// Receives requests and notifications of one server.
pub(super) struct Handler {
    pub(super) server: String,
    pub(super) client: Arc<dyn McpClient>,
    pub(super) log: ServerLog,
    /// The directory that the server may work in.
    pub(super) root: PathBuf,
    /// Receivers of progress, by token.
    pub(super) observers: Mutex<HashMap<ProgressToken, Observer>>,
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
            observers: Mutex::default(),
            slots: Semaphore::new(QUESTIONS),
            waiting: watch::Sender::new(0),
            running: watch::Sender::new(0),
            tools_changed,
        }
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        question: ServerQuestion,
        context: &RequestContext<RoleClient>,
    ) -> Result<T, ErrorData> {
        let Ok(_slot) = self.slots.try_acquire() else {
            return Err(ErrorData::internal_error("too many requests wait for an answer", None));
        };
        let _waiting = Counted::new(&self.waiting);
        let answer = tokio::select! {
            answer = self.client.answer(&self.server, question) => answer,
            () = context.ct.cancelled() => Err("cancelled".to_owned()),
            () = self.calls_ended() => Err("the call has ended, or there is none".to_owned()),
        };
        let answer = answer.map_err(|problem| ErrorData::internal_error(problem, None))?;
        serde_json::from_value(answer).map_err(|error| ErrorData::internal_error(error.to_string(), None))
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

fn value(params: &impl Serialize) -> Value {
    serde_json::to_value(params).unwrap_or(Value::Null)
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = json!({ "roots": {} });
        if self.client.samples() {
            capabilities["sampling"] = json!({});
        }
        if self.client.elicits() {
            capabilities["elicitation"] = json!({ "form": {}, "url": {} });
        }
        let capabilities: ClientCapabilities = serde_json::from_value(capabilities).unwrap_or_default();
        let info = Implementation::new("baton", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(capabilities, info).with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        let root = Url::from_file_path(&self.root).ok().map(|uri| Root::new(uri.as_str()));
        Ok(ListRootsResult::new(root.into_iter().collect()))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        self.ask(ServerQuestion::Elicitation(value(&request)), &context).await
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let question = ServerQuestion::Sampling { id: value(&context.id), params: value(&params) };
        self.ask(question, &context).await
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        let observer = lock(&self.observers).get(&params.progress_token).cloned();
        if let Some(observer) = observer {
            let message = params.message.map(|message| clean(&message, 1000));
            observer(Progress { progress: params.progress, total: params.total, message });
        }
    }

    async fn on_logging_message(
        &self,
        params: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let text = match &params.data {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        self.log.add(&text);
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        (self.tools_changed)();
        self.notice(Notice::ToolsChanged);
    }

    async fn on_resource_updated(
        &self,
        params: ResourceUpdatedNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.notice(Notice::ResourceUpdated(clean(&params.uri, LONGEST_URI)));
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.notice(Notice::ResourcesChanged);
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.notice(Notice::PromptsChanged);
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
}
