//! Requests to a server: calls, lists, and how they end.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{
    CallToolRequestParams, CancelledNotification, CancelledNotificationParam, ClientRequest, CustomRequest,
    RequestMetaObject, ServerResult,
};
use rmcp::service::{PeerRequestOptions, RequestHandle, ServiceError};
use serde_json::{Map, Value, json};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::handler::Counted;
use super::{Connection, Progress, ServerCall};
use crate::lock;
use crate::outcome::ToolCallError;
use crate::text::clean;

/// Time limit of lists.
const LISTING: Duration = Duration::from_secs(30);
/// Time limit of a call, however much progress it reports.
const MAX_CALL: Duration = Duration::from_secs(6 * 3600);
/// Maximum number of pages of a list.
const MAX_PAGES: usize = 50;

impl Connection {
    /// Calls a tool and returns its `CallToolResult`.
    pub(crate) async fn call(&self, call: ServerCall) -> Result<Value, ToolCallError> {
        let ServerCall { tool, arguments, meta, patience, cancel, progress } = call;
        let _running = Counted::new(&self.handler.running);
        let params = CallToolRequestParams::new(tool).with_arguments(arguments);
        let request = ClientRequest::CallToolRequest(rmcp::model::CallToolRequest::new(params));
        self.request(request, meta, patience, &cancel, Some(progress)).await
    }

    /// Sends a request with plain parameters.
    pub(crate) async fn send(&self, method: &str, params: Value) -> Result<Value, ToolCallError> {
        let request = ClientRequest::CustomRequest(CustomRequest::new(method, Some(params)));
        self.request(request, None, LISTING, &CancellationToken::new(), None).await
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
        request: ClientRequest,
        meta: Option<Map<String, Value>>,
        patience: Duration,
        cancel: &CancellationToken,
        observer: Option<Arc<dyn Fn(Progress) + Send + Sync>>,
    ) -> Result<Value, ToolCallError> {
        let mut options = PeerRequestOptions::no_options();
        if let Some(meta) = meta {
            options = options.with_meta(RequestMetaObject::from(meta));
        }
        let handle = self.peer.send_request_with_option(request, options).await;
        let handle = handle.map_err(|error| self.failure(error))?;
        let active = Arc::new(Notify::new());
        let token = handle.progress_token.clone();
        let note = active.clone();
        let observe = move |progress: Progress| {
            note.notify_one();
            if let Some(observer) = &observer {
                observer(progress);
            }
        };
        lock(&self.handler.observers).insert(token.clone(), Arc::new(observe));
        let outcome = self.outcome(handle, patience, cancel, &active).await;
        lock(&self.handler.observers).remove(&token);
        let result = match outcome? {
            // Only servers without a handshake reply so, instead of asking with a request of their own.
            ServerResult::InputRequiredResult(_) => {
                let problem = "the server asks for input in its result, which is not supported";
                return Err(ToolCallError::Unusable(problem.into()));
            }
            result => result,
        };
        serde_json::to_value(result).map_err(|error| ToolCallError::Unusable(error.to_string()))
    }

    /// Waits for the response, up to the time limit, a cancel or the end of the connection.
    async fn outcome(
        &self,
        handle: RequestHandle<RoleClient>,
        patience: Duration,
        cancel: &CancellationToken,
        active: &Notify,
    ) -> Result<ServerResult, ToolCallError> {
        let id = handle.id.clone();
        let mut response = pin!(handle.await_response());
        let mut waiting = self.handler.waiting.subscribe();
        let last = Instant::now() + MAX_CALL;
        let mut deadline = Instant::now() + patience;
        let mut ended = pin!(self.gone());
        let problem = loop {
            let is_asked = *waiting.borrow_and_update() > 0;
            tokio::select! {
                biased;
                response = &mut response => return response.map_err(|error| self.failure(error)),
                () = cancel.cancelled() => break ToolCallError::Cancelled,
                () = &mut ended => return Err(ToolCallError::Closed),
                () = active.notified() => deadline = Instant::now() + patience,
                _ = waiting.changed() => deadline = Instant::now() + patience,
                () = sleep_until(deadline.min(last)), if !is_asked => break ToolCallError::TimedOut,
            }
        };
        let params = CancelledNotificationParam::new(Some(id), Some("the call was cancelled".to_owned()));
        let notification = CancelledNotification::new(params);
        // A server that does not read would keep the caller waiting.
        let _ = timeout(Duration::from_millis(200), self.peer.send_notification(notification.into())).await;
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

    fn failure(&self, error: ServiceError) -> ToolCallError {
        if self.access.as_ref().is_some_and(|access| access.has_challenge()) {
            return ToolCallError::Unauthorized;
        }
        match error {
            ServiceError::McpError(error) => ToolCallError::Refused {
                code: i64::from(error.code.0),
                message: clean(&error.message, 10_000),
            },
            ServiceError::TransportClosed | ServiceError::Cancelled { .. } => ToolCallError::Closed,
            ServiceError::TransportSend(error) => {
                ToolCallError::NotSent(clean(&error.error.to_string(), 1000))
            }
            ServiceError::Timeout { .. } => ToolCallError::TimedOut,
            other => ToolCallError::Unusable(clean(&other.to_string(), 1000)),
        }
    }
}
