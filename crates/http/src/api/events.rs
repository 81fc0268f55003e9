//! Events of a session, as a page or as a stream.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use baton_service::Caller;
use baton_service::sessions::{ReadEvents, ShowSession};
use baton_store::{Page, Record, Seq, Span};
use http::{HeaderMap, StatusCode, header};

use super::extract::{By, PathParams, QueryParams, session_id};
use super::render;
use super::types::{Cursor, EventPage, EventsQuery, Limit, NumberedEvent};
use crate::Shared;
use crate::error::{ApiError, ErrorBody};
use crate::sse::{StreamRequest, Wanted};

/// Size of a page of events, in bytes.
const PAGE_BYTES: usize = 4 << 20;

/// Size of a response with a page of rendered events in the worst case, in bytes.
const RENDERED_BYTES: usize = 8 * PAGE_BYTES;

/// Read events of a session.
///
/// With `before`, the last events before that number are returned: a client can show the end of a long session first.
///
/// With `Accept: text/event-stream`, events are sent as a stream until you disconnect. Durable events carry their sequence
/// number as event id, so that a reconnect with `Last-Event-ID` misses nothing.
#[utoipa::path(get, path = "/api/sessions/{id}/events", operation_id = "readEvents", tag = "events",
    params(("id" = String, Path, description = "Session id"), EventsQuery, ("Last-Event-ID" = Option<i64>, Header, minimum = 0, description = "Id of the last event received")),
    responses(
        (status = 200, description = "Events", content((EventPage = "application/json"), (String = "text/event-stream"))),
        (status = 400, description = "Malformed query", body = ErrorBody),
        (status = 404, description = "No such session", body = ErrorBody),
        (status = 409, description = "The cursor is ahead of the session", body = ErrorBody),
        (status = 503, description = "Too many streams are open, or responses are not read", body = ErrorBody)))]
pub(super) async fn read(
    State(door): State<Shared>,
    By(caller): By,
    PathParams(id): PathParams<String>,
    QueryParams(query): QueryParams<EventsQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let id = session_id(&id)?;
    let summary = door.service.perform(&caller, ShowSession { id: id.clone() }).await?;
    let after = Seq(last_event_id(&headers)?.or(query.after.map(Cursor::get)).unwrap_or(0));
    if after > summary.head {
        return Err(cursor_ahead(after, summary.head));
    }
    if !wants_stream(&headers) {
        let limit = query.limit.map_or(200, Limit::get);
        let span = match query.before.map(Cursor::get) {
            Some(before) => Span::Before { before: Seq(before), limit },
            None => Span::After { after, limit },
        };
        let size = if query.rendered { RENDERED_BYTES } else { PAGE_BYTES };
        let room = door.unread.room(caller.person(), size as u64).await?;
        let page = page(&door, &caller, id, span, query.rendered).await?;
        let json = serde_json::to_vec(&page).map_err(|error| ApiError::internal(error.to_string()))?;
        return Ok(room.json(json));
    }
    subscribe(&door, Wanted::Session { session: id, after, program: program(&headers) }, caller)
}

/// Returns what the reader's program calls itself.
fn program(headers: &HeaderMap) -> Option<String> {
    const LONGEST: usize = 80;
    let agent = headers.get(header::USER_AGENT)?.to_str().ok()?;
    Some(agent.chars().take(LONGEST).collect()).filter(|name: &String| !name.is_empty())
}

/// Streams changes of all sessions. Not in the OpenAPI document, whose tools expect every response to end.
///
/// `session` names a session that has changed, with its title, directory, state and head, and with its pending requests unless
/// the previous one listed the same. `deleted` names one that was deleted. Read the lists of sessions and requests after
/// `ready`, and skip changes with a smaller head than the list of requests has for their session.
pub(super) async fn feed(
    State(door): State<Shared>,
    By(caller): By,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    if !wants_stream(&headers) {
        let message = "this is a stream; send `Accept: text/event-stream`";
        return Err(ApiError::new(StatusCode::NOT_ACCEPTABLE, "not_acceptable", message));
    }
    subscribe(&door, Wanted::Feed, caller)
}

fn subscribe(door: &Shared, wanted: Wanted, reader: Caller) -> Result<Response, ApiError> {
    let opened = door.streams.open(reader.person().as_ref()).map_err(|error| {
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_streams", error.to_string())
    })?;
    Ok(StreamRequest { wanted, reader, opened }.into_response())
}

/// Error for a cursor after the last event. The reader has seen an earlier session with this id, or events that a power cut
/// removed; continuing at its cursor would hide events from it.
fn cursor_ahead(after: Seq, head: Seq) -> ApiError {
    let message = format!(
        "cursor {after} is ahead of the session, whose last event is {head}; read from the beginning (after=0)"
    );
    ApiError::conflict("cursor_ahead", message)
}

fn wants_stream(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    accept.contains("text/event-stream")
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<u64>, ApiError> {
    let Some(value) = headers.get("last-event-id") else { return Ok(None) };
    let text = value.to_str().unwrap_or_default();
    let bad = || ApiError::bad_request(format!("Last-Event-ID {text:?} is not a sequence number"));
    text.trim().parse().map(Some).map_err(|_| bad())
}

async fn page(
    door: &Shared,
    caller: &Caller,
    id: baton_protocol::SessionId,
    span: Span,
    rendered: bool,
) -> Result<EventPage, ApiError> {
    let Page { records, is_cut } =
        door.service.perform(caller, ReadEvents { id, span, max_bytes: PAGE_BYTES }).await?;
    let (start, limit) = match span {
        Span::After { after, limit } => (after, limit),
        Span::Before { before, limit } => (before, limit),
    };
    let next = records.last().map_or(start, |record| record.seq).0;
    let has_more = match span {
        Span::After { .. } => is_cut || records.len() == limit,
        Span::Before { .. } => records.first().is_some_and(|record| record.seq > Seq(1)),
    };
    let numbered = move |record: Record| {
        let html = rendered.then(|| render::of_event(&record.kind, &record.body)).flatten();
        let text = String::from_utf8(record.body.to_vec()).ok()?;
        let event = serde_json::value::RawValue::from_string(text).ok()?;
        Some(NumberedEvent { seq: record.seq.0, event, html })
    };
    let events = move || records.into_iter().filter_map(numbered).collect();
    let events = if rendered { render::beside(events).await? } else { events() };
    Ok(EventPage { events, next, has_more })
}
