//! Requests to a server: calls, lists, and how they end.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::handler::{Counted, Observer};
use super::message::Failure;
use super::peer::Waiting;
use super::{Connection, Progress, ServerCall};
use crate::outcome::ToolCallError;
use crate::text::clean;

/// Time limit of lists.
const LISTING: Duration = Duration::from_secs(30);
/// Time limit of a call, however much progress it reports.
const MAX_CALL: Duration = Duration::from_secs(6 * 3600);
/// How long a server may take to receive that a call was cancelled.
const TELLING: Duration = Duration::from_millis(200);
/// Maximum number of pages of a list.
const MAX_PAGES: usize = 50;

impl Connection {
    /// Calls a tool and returns its `CallToolResult`.
    pub(crate) async fn call(&self, call: ServerCall) -> Result<Value, ToolCallError> {
        let ServerCall { tool, arguments, meta, patience, cancel, progress, .. } = call;
        let _running = Counted::new(&self.handler.running);
        let mut params = Map::from_iter([
            ("name".to_owned(), Value::String(tool)),
            ("arguments".to_owned(), Value::Object(arguments)),
        ]);
        params.extend(meta.map(|meta| ("_meta".to_owned(), Value::Object(meta))));
        self.request("tools/call", params, patience, &cancel, Some(progress)).await
    }

    /// Sends a request with plain parameters.
    pub(crate) async fn send(&self, method: &str, params: Value) -> Result<Value, ToolCallError> {
        let params = match params {
            Value::Object(params) => params,
            _ => Map::new(),
        };
        self.request(method, params, LISTING, &CancellationToken::new(), None).await
    }

    /// Returns all entries of a paginated list.
    pub(crate) async fn list(
        &self,
        method: &str,
        key: &str,
        most: usize,
    ) -> Result<Vec<Value>, ToolCallError> {
        let (mut entries, mut params) = (Vec::new(), json!({}));
        for _ in 0..MAX_PAGES {
            let mut page = self.send(method, params).await?;
            match page.get_mut(key).map(Value::take) {
                Some(Value::Array(more)) => entries.extend(more),
                _ => return Err(ToolCallError::Unusable(format!("the response to {method} has no {key}"))),
            }
            match page.get("nextCursor").and_then(Value::as_str).filter(|cursor| !cursor.is_empty()) {
                Some(cursor) if entries.len() < most => params = json!({ "cursor": cursor }),
                _ => break,
            }
        }
        entries.truncate(most);
        Ok(entries)
    }

    async fn request(
        &self,
        method: &str,
        params: Map<String, Value>,
        patience: Duration,
        cancel: &CancellationToken,
        observer: Option<Observer>,
    ) -> Result<Value, ToolCallError> {
        let active = Arc::new(Notify::new());
        let note = active.clone();
        let observe = move |progress: Progress| {
            note.notify_one();
            if let Some(observer) = &observer {
                observer(progress);
            }
        };
        let waiting = self.peer.request(method, params, Some(Arc::new(observe)));
        let result = self.outcome(waiting, patience, cancel, &active).await?;
        // Only servers without a handshake reply so, instead of asking with a request of their own.
        if result.get("resultType").is_some_and(|kind| kind == "input_required") {
            let problem = "the server asks for input in its result, which is not supported";
            return Err(ToolCallError::Unusable(problem.into()));
        }
        Ok(result)
    }

    /// Waits for the response, up to the time limit, a cancel or the end of the connection.
    async fn outcome(
        &self,
        mut request: Waiting,
        patience: Duration,
        cancel: &CancellationToken,
        active: &Notify,
    ) -> Result<Value, ToolCallError> {
        let mut waiting = self.handler.waiting.subscribe();
        let last = Instant::now() + MAX_CALL;
        let mut deadline = Instant::now() + patience;
        let mut ended = pin!(self.gone());
        let problem = loop {
            let is_asked = *waiting.borrow_and_update() > 0;
            tokio::select! {
                biased;
                response = request.response() => return response.map_err(|failure| self.failure(failure)),
                () = cancel.cancelled() => break ToolCallError::Cancelled,
                () = &mut ended => return Err(ToolCallError::Closed),
                () = active.notified() => deadline = Instant::now() + patience,
                _ = waiting.changed() => deadline = Instant::now() + patience,
                () = sleep_until(deadline.min(last)), if !is_asked => break ToolCallError::TimedOut,
            }
        };
        let id = request.id;
        drop(request);
        let params = json!({ "requestId": id, "reason": "the call was cancelled" });
        // A server that does not read would keep the caller waiting.
        let _ = timeout(TELLING, self.peer.notify("notifications/cancelled", params)).await;
        Err(problem)
    }

    /// Waits until the process has exited or the connection was closed.
    async fn gone(&self) {
        match &self.process {
            Some(process) => tokio::select! {
                () = process.exited.cancelled() => {}
                () = self.closed.cancelled() => {}
            },
            None => self.closed.cancelled().await,
        }
    }

    fn failure(&self, failure: Failure) -> ToolCallError {
        if self.access.as_ref().is_some_and(|access| access.has_challenge()) {
            return ToolCallError::Unauthorized;
        }
        match failure {
            Failure::Refused { code, message } => {
                ToolCallError::Refused { code, message: clean(&message, 10_000) }
            }
            Failure::NotSent(problem) => ToolCallError::NotSent(clean(&problem, 1000)),
            Failure::Closed => ToolCallError::Closed,
            Failure::Unusable(problem) => ToolCallError::Unusable(clean(&problem, 1000)),
        }
    }
}
