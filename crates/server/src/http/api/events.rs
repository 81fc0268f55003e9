//! A session's events: a page, or a stream that goes on.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use baton_store::{Seq, Span};
use http::{HeaderMap, StatusCode, header};

use super::extract::{Params, Place, session_id};
use super::types::{Cursor, EventPage, EventsQuery, Limit, NumberedEvent};
use crate::http::Shared;
use crate::http::error::{ApiError, ErrorBody};
use crate::http::sse::Subscription;

/// Read events. With `Accept: text/event-stream` they come as a stream that goes on for as long as you listen; durable
/// events carry their sequence number as the stream's event id, so that a reconnect misses nothing.
#[utoipa::path(get, path = "/api/sessions/{id}/events", tag = "events",
    params(("id" = String, Path,), EventsQuery, ("Last-Event-ID" = Option<i64>, Header, minimum = 0, description = "Where a stream that broke had got to")),
    responses(
        (status = 200, description = "Events", content((EventPage = "application/json"), (String = "text/event-stream"))),
        (status = 400, description = "The query makes no sense", body = ErrorBody),
        (status = 404, description = "There is no such session", body = ErrorBody),
        (status = 409, description = "The cursor is ahead of the session", body = ErrorBody),
        (status = 503, description = "Too many streams are open", body = ErrorBody)))]
pub(super) async fn read(
    State(door): State<Shared>,
    Place(id): Place<String>,
    Params(query): Params<EventsQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let id = session_id(&id)?;
    let summary = door.server.store.summary(&id).await?;
    let summary = summary.ok_or_else(|| ApiError::not_found(format!("Session not found: {id}")))?;
    let after = Seq(last_event_id(&headers)?.or(query.after.map(Cursor::get)).unwrap_or(0));
    if after > summary.head {
        return Err(cursor_ahead(after, summary.head));
    }
    if !wants_stream(&headers) {
        return Ok(Json(page(&door, &id, after, query.limit.map_or(200, Limit::get)).await?).into_response());
    }
    let busy = || {
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_streams", "too many event streams are open")
    };
    let place = door.streams.clone().try_acquire_owned().map_err(|_| busy())?;
    Ok(Subscription { session: id, after, place }.into_response())
}

/// A reader that has seen more than there is has seen another session of that name, or one that a power cut took back.
/// To go on from its cursor would hide events from it.
fn cursor_ahead(after: Seq, head: Seq) -> ApiError {
    let message = format!(
        "event {after} is ahead of this session, whose last event is {head}: read it from the beginning (after=0)"
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
    let bad = || ApiError::bad_request(format!("Last-Event-ID {text:?} is not an event id of this server"));
    text.trim().parse().map(Some).map_err(|_| bad())
}

async fn page(
    door: &Shared,
    id: &baton_protocol::SessionId,
    after: Seq,
    limit: usize,
) -> Result<EventPage, ApiError> {
    let records = door.server.store.read(id, Span::After { after, limit }).await?;
    let next = records.last().map_or(after, |record| record.seq).0;
    let has_more = records.len() == limit;
    let events = records.into_iter().filter_map(|record| {
        let text = String::from_utf8(record.body.to_vec()).ok()?;
        let event = serde_json::value::RawValue::from_string(text).ok()?;
        Some(NumberedEvent { seq: record.seq.0, event })
    });
    Ok(EventPage { events: events.collect(), next, has_more })
}
