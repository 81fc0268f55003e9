//! The history, whole or in pieces, and what comes after it.

use std::sync::Arc;
use std::time::Duration;

use baton_core::Removed;
use baton_protocol::event::is_public;
use baton_protocol::rpc::RpcError;
use baton_protocol::{Json, SessionId};
use baton_store::{Record, Seq, Span};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use super::{Call, Handled, Handling};
use crate::Server;
use crate::rpc::connection::Connection;
use crate::rpc::dialect::Dialect;
use crate::rpc::errors;
use crate::session::{Batch, CallFailed, Calling, Handle, Mail, Port, Published};

/// How many events one read returns when the client does not say, and at most.
const DEFAULT_PAGE: usize = 200;
const MAX_PAGE: usize = 1000;
const MAX_WAIT: Duration = Duration::from_secs(30);

/// The whole history, as it is stored.
pub(super) fn messages(call: &Call<'_>) -> Handling {
    let handle = call.session()?;
    let (connection, method) = (call.connection.clone(), call.method.to_owned());
    Ok(Handled::Later(Box::pin(async move {
        let _turn = connection.turn_to_read().await?;
        let removed = removed(&handle, &method).await?;
        let (server, mut events) = (&connection.server, Events::new(connection.dialect()));
        let mut after = Seq::ZERO;
        loop {
            let span = Span::After { after, limit: MAX_PAGE };
            let page = server.store.read(&handle.id, span).await.map_err(|e| errors::failed(&method, e))?;
            let Some(last) = page.last() else { break };
            after = last.seq;
            let counting = page.iter().filter(|record| !removed.contains(record.seq.0));
            counting.for_each(|record| events.add_record(record));
        }
        events.into_json(|events| format!(r#"{{"events":{events}}}"#))
    })))
}

/// The parts of the history that do not count any more.
async fn removed(handle: &Handle, method: &str) -> Result<Removed, RpcError> {
    let removed = handle.look(|view| view.session.durable.removed.clone()).await;
    removed.map_err(|failure| errors::of(method, &failure))
}

/// Events as the elements of a JSON array, without parsing them.
struct Events {
    dialect: Dialect,
    text: Vec<u8>,
    count: usize,
}

impl Events {
    fn new(dialect: Dialect) -> Self {
        Self { dialect, text: vec![b'['], count: 0 }
    }

    fn add_record(&mut self, record: &Record) {
        if is_public(&record.kind) {
            self.add(&record.kind, &record.body);
        }
    }

    fn add(&mut self, kind: &str, json: &Bytes) {
        if self.count > 0 {
            self.text.push(b',');
        }
        self.count += 1;
        let reworded = self.dialect.reworded(kind, json);
        self.text.extend_from_slice(reworded.as_ref().unwrap_or(json));
    }

    fn into_json(mut self, wrap: impl FnOnce(&str) -> String) -> Result<Json, RpcError> {
        self.text.push(b']');
        let damaged = |_| RpcError::failed("the stored history is not valid JSON; see `baton doctor`");
        let text =
            String::from_utf8(self.text).map_err(|_| RpcError::failed("the stored history is not UTF-8"))?;
        let raw = RawValue::from_string(wrap(&text)).map_err(damaged)?;
        Ok(Json::from_trusted(raw))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Read {
    session_id: SessionId,
    cursor: Option<String>,
    max: Option<usize>,
    wait_ms: Option<u64>,
    types: Option<Types>,
    direction: Option<Direction>,
    include_ephemeral: Option<bool>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Types {
    Some(Vec<String>),
    /// `*`
    All(String),
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Direction {
    Forward,
    Backward,
}

impl Types {
    fn allow(this: Option<&Self>, kind: &str) -> bool {
        match this {
            Some(Self::Some(kinds)) => kinds.iter().any(|k| k == kind || k == "*"),
            Some(Self::All(all)) => all == "*" || all == kind,
            None => true,
        }
    }
}

/// Events after, or before, a cursor; if there are none yet, waits for some.
pub(super) fn read(call: &Call<'_>) -> Handling {
    let params: Read = call.parse()?;
    let handle = call.attached(&params.session_id)?;
    let from = match &params.cursor {
        None => None,
        Some(text) => Some(parse_cursor(text)?),
    };
    let (connection, method) = (call.connection.clone(), call.method.to_owned());
    Ok(Handled::Later(Box::pin(async move {
        let reader = Reader { connection, handle, method, params };
        match reader.params.direction {
            Some(Direction::Backward) => reader.backward(from).await,
            _ => reader.forward(from.unwrap_or(Seq::ZERO)).await,
        }
    })))
}

struct Reader {
    connection: Arc<Connection>,
    handle: Handle,
    method: String,
    params: Read,
}

impl Reader {
    fn max(&self) -> usize {
        self.params.max.unwrap_or(DEFAULT_PAGE).clamp(1, MAX_PAGE)
    }

    async fn page(&self, span: Span) -> Result<Vec<Record>, RpcError> {
        let read = self.connection.server.store.read(&self.handle.id, span).await;
        read.map_err(|error| errors::failed(&self.method, error))
    }

    async fn forward(&self, mut after: Seq) -> Result<Json, RpcError> {
        let turn = self.connection.turn_to_read().await?;
        // Before the store is read, so that nothing can happen between reading and waiting.
        let mut live = self.wait().map(|wait| (wait, Watcher::attach(&self.connection.server, &self.handle)));
        let removed = removed(&self.handle, &self.method).await?;
        let mut events = Events::new(self.connection.dialect());
        let mut more = true;
        while more && events.count < self.max() {
            let page = self.page(Span::After { after, limit: MAX_PAGE }).await?;
            more = page.len() == MAX_PAGE;
            for record in &page {
                if events.count == self.max() {
                    more = true;
                    break;
                }
                after = record.seq;
                if self.wants(record, &removed) {
                    events.add_record(record);
                }
            }
        }
        if events.count == 0
            && let Some((wait, watcher)) = &mut live
        {
            drop(turn);
            let deadline = tokio::time::Instant::now() + *wait;
            while let Ok(Some(event)) = tokio::time::timeout_at(deadline, watcher.events.recv()).await {
                let fresh = event.seq.is_none_or(|seq| seq > after);
                after = event.seq.unwrap_or(after).max(after);
                let wanted = event.seq.is_some() || self.params.include_ephemeral.unwrap_or(true);
                if fresh
                    && wanted
                    && is_public(&event.kind)
                    && Types::allow(self.params.types.as_ref(), &event.kind)
                {
                    events.add(&event.kind, &event.json);
                    break;
                }
            }
        }
        answer(events, after, more)
    }

    async fn backward(&self, before: Option<Seq>) -> Result<Json, RpcError> {
        let _turn = self.connection.turn_to_read().await?;
        let head = self.handle.look(|view| view.head).await.map_err(|f| errors::of(&self.method, &f))?;
        let removed = removed(&self.handle, &self.method).await?;
        let mut before = before.unwrap_or_else(|| head.plus(1));
        let mut found: Vec<Record> = Vec::new();
        while found.len() < self.max() && before.0 > 1 {
            let page = self.page(Span::Before { before, limit: MAX_PAGE }).await?;
            let Some(first) = page.first() else { break };
            let first = first.seq;
            for record in page.into_iter().rev() {
                before = record.seq;
                if is_public(&record.kind) && self.wants(&record, &removed) {
                    found.push(record);
                }
                if found.len() == self.max() {
                    break;
                }
            }
            if found.len() < self.max() {
                before = first;
            }
        }
        let mut events = Events::new(self.connection.dialect());
        found.iter().for_each(|record| events.add_record(record));
        answer(events, before, before.0 > 1)
    }

    fn wants(&self, record: &Record, removed: &Removed) -> bool {
        Types::allow(self.params.types.as_ref(), &record.kind) && !removed.contains(record.seq.0)
    }

    fn wait(&self) -> Option<Duration> {
        let wait = Duration::from_millis(self.params.wait_ms.unwrap_or(0)).min(MAX_WAIT);
        (!wait.is_zero()).then_some(wait)
    }
}

fn answer(events: Events, cursor: Seq, more: bool) -> Result<Json, RpcError> {
    events.into_json(|events| {
        format!(r#"{{"events":{events},"cursor":"{cursor}","cursorStatus":"ok","hasMore":{more}}}"#)
    })
}

fn parse_cursor(text: &str) -> Result<Seq, RpcError> {
    let bad =
        || RpcError::bad_params(format!("session.eventLog.read: {text:?} is not a cursor of this server"));
    text.parse().map(Seq).map_err(|_| bad())
}

/// Hears everything that happens in a session while it exists.
struct Watcher {
    events: mpsc::UnboundedReceiver<Arc<Published>>,
    detach: Box<dyn Fn() + Send + Sync>,
}

struct Ear(mpsc::UnboundedSender<Arc<Published>>);

impl Port for Ear {
    fn deliver(&self, _: &SessionId, events: &Arc<Batch>) {
        events.events().iter().for_each(|event| drop(self.0.send(event.clone())));
    }

    fn call(&self, _: &'static str, _: serde_json::Value) -> Calling {
        Box::pin(async { Err(CallFailed::Gone) })
    }
}

impl Watcher {
    fn attach(server: &Server, handle: &Handle) -> Self {
        let (sender, events) = mpsc::unbounded_channel();
        let (client, hub) = (server.new_client(), handle.hub.clone());
        hub.attach(client, Arc::new(Ear(sender)));
        Self { events, detach: Box::new(move || hub.detach(client)) }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        (self.detach)();
    }
}

/// The cursor after everything that has happened.
pub(super) fn tail(call: &Call<'_>) -> Handling {
    call.view(|view| json!({ "cursor": view.head.to_string() }))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Interest {
    session_id: SessionId,
    event_type: String,
}

/// Some events are only made when somebody wants them. Of ours, that is one: who wants to hear of queued commands runs
/// them. For all others the handle is a formality.
pub(super) fn register_interest(call: &Call<'_>) -> Handling {
    let Interest { session_id, event_type } = call.parse()?;
    let session = call.attached(&session_id)?;
    let handle = uuid::Uuid::new_v4().to_string();
    if event_type == "command.queued" {
        let told = session.send(Mail::Host(call.connection.client, handle.clone(), true));
        told.map_err(|failure| errors::of(call.method, &failure))?;
    }
    call.now(json!({ "handle": handle }))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Released {
    session_id: SessionId,
    handle: String,
}

pub(super) fn release_interest(call: &Call<'_>) -> Handling {
    let Released { session_id, handle } = call.parse()?;
    let session = call.attached(&session_id)?;
    let told = session.send(Mail::Host(call.connection.client, handle, false));
    told.map_err(|failure| errors::of(call.method, &failure))?;
    call.now(json!({ "success": true }))
}
