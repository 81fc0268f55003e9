//! The event log: the whole history, pages of it, and waiting for new events.

use std::sync::Arc;
use std::time::Duration;

use baton_core::Removed;
use baton_protocol::event::is_public;
use baton_protocol::{Json, SessionId};
use baton_store::{Record, Seq, Span};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use super::{Call, Handled};
use crate::connection::Connection;
use crate::dialect::Dialect;
use crate::errors::CallError;
use baton_runtime::session::{Batch, CallFailed, Calling, Port, Published};
use baton_service::sessions::ReadEvents;
use baton_service::{LiveSession, Service};

/// Events that one read returns if the client sets no limit.
const DEFAULT_PAGE: usize = 200;
/// Maximum number of events that one read returns.
const MAX_PAGE: usize = 1000;
/// Maximum time that a read waits for an event.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// Returns the whole history, as it is stored.
pub(super) fn messages(call: &Call<'_>) -> Handled {
    let handle = call.session()?;
    let connection = call.connection.clone();
    call.later(async move {
        let _permit = connection.acquire_history_read().await?;
        let removed = handle.inspect().await?.session.durable.removed;
        let mut events = EventArray::new(connection.dialect());
        let mut after = Seq::ZERO;
        loop {
            let span = Span::After { after, limit: MAX_PAGE };
            let page = read_events(&connection, &handle, span).await?;
            let Some(last) = page.last() else { break };
            after = last.seq;
            let visible = page.iter().filter(|record| !removed.contains(record.seq.0));
            visible.for_each(|record| events.add_record(record));
        }
        events.into_json(|events| format!(r#"{{"events":{events}}}"#))
    })
}

/// Reads stored events of a session.
async fn read_events(
    connection: &Connection,
    session: &LiveSession,
    span: Span,
) -> Result<Vec<Record>, CallError> {
    let read = ReadEvents { id: session.id().clone(), span, max_bytes: usize::MAX };
    Ok(connection.service.perform(&connection.caller(), read).await?.records)
}

/// A JSON array of events, assembled without parsing them.
struct EventArray {
    dialect: Dialect,
    text: Vec<u8>,
    count: usize,
}

impl EventArray {
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
        let translated = self.dialect.translate(kind, json);
        self.text.extend_from_slice(translated.as_ref().unwrap_or(json));
    }

    fn into_json(mut self, wrap: impl FnOnce(&str) -> String) -> Result<Json, CallError> {
        self.text.push(b']');
        let text = String::from_utf8(self.text)
            .map_err(|_| CallError::failed("the stored history is not UTF-8; run `baton doctor`"))?;
        let raw = RawValue::from_string(wrap(&text))
            .map_err(|_| CallError::failed("the stored history is not valid JSON; run `baton doctor`"))?;
        Ok(Json::from_trusted(raw))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Read {
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
    List(Vec<String>),
    /// `*`, or one type.
    One(String),
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Direction {
    Forward,
    Backward,
}

impl Types {
    fn include(this: Option<&Self>, kind: &str) -> bool {
        match this {
            Some(Self::List(kinds)) => kinds.iter().any(|k| k == kind || k == "*"),
            Some(Self::One(one)) => one == "*" || one == kind,
            None => true,
        }
    }
}

/// Returns events after or before a cursor. If there are none after it, waits for one as long as the client asked.
pub(super) fn read(call: &Call<'_>) -> Handled {
    let (handle, params): (_, Read) = call.parse_for_session()?;
    let from = params.cursor.as_deref().map(parse_cursor).transpose()?;
    let reader = Reader { connection: call.connection.clone(), handle, params };
    call.later(async move {
        match reader.params.direction {
            Some(Direction::Backward) => reader.backward(from).await,
            _ => reader.forward(from.unwrap_or(Seq::ZERO)).await,
        }
    })
}

struct Reader {
    connection: Arc<Connection>,
    handle: LiveSession,
    params: Read,
}

impl Reader {
    fn max(&self) -> usize {
        self.params.max.unwrap_or(DEFAULT_PAGE).clamp(1, MAX_PAGE)
    }

    async fn page(&self, span: Span) -> Result<Vec<Record>, CallError> {
        read_events(&self.connection, &self.handle, span).await
    }

    async fn forward(&self, mut after: Seq) -> Result<Json, CallError> {
        let permit = self.connection.acquire_history_read().await?;
        // Subscribes before it reads the store, so that no event falls between reading and waiting.
        let mut live =
            self.wait().map(|wait| (wait, LiveEvents::subscribe(&self.connection.service, &self.handle)));
        let removed = self.handle.inspect().await?.session.durable.removed;
        let mut events = EventArray::new(self.connection.dialect());
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
                if self.includes(record, &removed) {
                    events.add_record(record);
                }
            }
        }
        if events.count == 0
            && let Some((wait, live)) = &mut live
        {
            drop(permit);
            let deadline = tokio::time::Instant::now() + *wait;
            while let Ok(Some(event)) = tokio::time::timeout_at(deadline, live.events.recv()).await {
                let is_new = event.seq.is_none_or(|seq| seq > after);
                after = event.seq.unwrap_or(after).max(after);
                let wanted = event.seq.is_some() || self.params.include_ephemeral.unwrap_or(true);
                if is_new
                    && wanted
                    && is_public(&event.kind)
                    && Types::include(self.params.types.as_ref(), &event.kind)
                {
                    events.add(&event.kind, &event.json);
                    break;
                }
            }
        }
        page_result(events, after, more)
    }

    async fn backward(&self, before: Option<Seq>) -> Result<Json, CallError> {
        let _permit = self.connection.acquire_history_read().await?;
        let view = self.handle.inspect().await?;
        let removed = view.session.durable.removed;
        let mut before = before.unwrap_or_else(|| view.head.plus(1));
        let mut found: Vec<Record> = Vec::new();
        while found.len() < self.max() && before.0 > 1 {
            let page = self.page(Span::Before { before, limit: MAX_PAGE }).await?;
            let Some(first) = page.first() else { break };
            let first = first.seq;
            for record in page.into_iter().rev() {
                before = record.seq;
                if is_public(&record.kind) && self.includes(&record, &removed) {
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
        let mut events = EventArray::new(self.connection.dialect());
        found.iter().for_each(|record| events.add_record(record));
        page_result(events, before, before.0 > 1)
    }

    fn includes(&self, record: &Record, removed: &Removed) -> bool {
        Types::include(self.params.types.as_ref(), &record.kind) && !removed.contains(record.seq.0)
    }

    fn wait(&self) -> Option<Duration> {
        let wait = Duration::from_millis(self.params.wait_ms.unwrap_or(0)).min(MAX_WAIT);
        (!wait.is_zero()).then_some(wait)
    }
}

fn page_result(events: EventArray, cursor: Seq, more: bool) -> Result<Json, CallError> {
    events.into_json(|events| {
        format!(r#"{{"events":{events},"cursor":"{cursor}","cursorStatus":"ok","hasMore":{more}}}"#)
    })
}

fn parse_cursor(text: &str) -> Result<Seq, CallError> {
    text.parse().map(Seq).map_err(|_| CallError::invalid(format_args!("{text:?} is not a valid cursor")))
}

/// A subscription to the live events of a session. Dropping it unsubscribes.
struct LiveEvents {
    events: mpsc::UnboundedReceiver<Arc<Published>>,
    unsubscribe: Box<dyn Fn() + Send + Sync>,
}

struct EventPort(mpsc::UnboundedSender<Arc<Published>>);

impl Port for EventPort {
    fn deliver(&self, _: &SessionId, events: &Arc<Batch>) {
        events.events().iter().for_each(|event| drop(self.0.send(event.clone())));
    }

    fn call(&self, _: &'static str, _: serde_json::Value) -> Calling {
        Box::pin(async { Err(CallFailed::Gone) })
    }
}

impl LiveEvents {
    fn subscribe(service: &Service, handle: &LiveSession) -> Self {
        let (sender, events) = mpsc::unbounded_channel();
        let (client, hub) = (service.new_client(), handle.hub().clone());
        hub.attach(client, Arc::new(EventPort(sender)));
        Self { events, unsubscribe: Box::new(move || hub.detach(client)) }
    }
}

impl Drop for LiveEvents {
    fn drop(&mut self) {
        (self.unsubscribe)();
    }
}

/// Returns the cursor after the last event.
pub(super) fn tail(call: &Call<'_>) -> Handled {
    call.inspect(|view| json!({ "cursor": view.head.to_string() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_select_events() {
        let types = |json: serde_json::Value| baton_json::from_value::<Types>(&json).unwrap();
        let list = types(json!(["session.idle", "abort"]));
        assert!(Types::include(Some(&list), "abort") && !Types::include(Some(&list), "user.message"));
        for all in [json!("*"), json!(["*"])] {
            assert!(Types::include(Some(&types(all)), "abort"));
        }
        assert!(!Types::include(Some(&types(json!("session.idle"))), "abort"));
        assert!(Types::include(None, "abort"));
    }

    #[test]
    fn page_has_events_byte_for_byte() {
        let mut events = EventArray::new(Dialect::Current);
        events.add("abort", &Bytes::from_static(br#"{ "a":1.0 }"#));
        events.add("abort", &Bytes::from_static(b"{}"));
        let page = page_result(events, Seq(7), false).unwrap();
        let expected = r#"{"events":[{ "a":1.0 },{}],"cursor":"7","cursorStatus":"ok","hasMore":false}"#;
        assert_eq!(page.as_str(), expected);
        assert_eq!(parse_cursor("7").unwrap(), Seq(7));
        assert!(parse_cursor("seven").is_err());
    }

    #[test]
    fn damaged_history_is_an_error() {
        let mut events = EventArray::new(Dialect::Current);
        events.add("abort", &Bytes::from_static(b"{"));
        assert!(page_result(events, Seq(1), false).is_err());
    }
}
