//! Prompts: sending them, their state, and cancelling.

use std::ops::ControlFlow;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use baton_core::ask::{Abort, CancelTurn, SendPrompt};
use baton_protocol::attachment::{Attachment, InvalidAttachment};
use baton_protocol::event::{AbortReason, Body as EventBody, Event, Prompt, SendMode};
use baton_protocol::{ClientId, PromptId, SessionId};
use baton_runtime::session::Batch;
use baton_runtime::session::subscription::{Received, Subscription, subscribe};
use baton_service::sessions::{ReadEvents, ShowSession};
use baton_service::{Caller, LiveSession, Service};
use baton_store::{Record, Seq, Span};
use http::{HeaderMap, StatusCode};
use tokio::time::Instant;

use super::extract::{By, JsonBody, OptionalJsonBody, PathParams, QueryParams, session_id};
use super::types::{AcceptedPrompt, CancelBody, Cancelled, NewPrompt, PromptView, QueueFate, WaitQuery};
use crate::Shared;
use crate::error::{ApiError, ErrorBody};

/// Maximum length of an `Idempotency-Key`.
const MAX_KEY: usize = 256;

/// How often the history of a session that is not live on this server is read again.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Send a prompt.
///
/// Returns when the prompt is durable; events report the result. With an `Idempotency-Key`, a prompt can be sent again after a
/// lost connection: it is accepted once. A key that was used for a different prompt is refused.
#[utoipa::path(post, path = "/api/sessions/{id}/prompts", operation_id = "sendPrompt", tag = "prompts", request_body = NewPrompt,
    params(("id" = String, Path, description = "Session id"), ("Idempotency-Key" = Option<String>, Header, description = "Idempotency key chosen by the client", pattern = "^[ -~]{1,256}$")),
    responses((status = 202, description = "Accepted", body = AcceptedPrompt),
        (status = 400, description = "Malformed request body", body = ErrorBody),
        (status = 404, description = "No such session", body = ErrorBody),
        (status = 409, description = "A different server holds the session", body = ErrorBody),
        (status = 415, description = "Request body is not JSON", body = ErrorBody),
        (status = 422, description = "Request body does not match the schema, or the idempotency key was used for a different prompt (`key_reused`)", body = ErrorBody)))]
pub(super) async fn send(
    State(door): State<Shared>,
    By(caller): By,
    PathParams(id): PathParams<String>,
    headers: HeaderMap,
    JsonBody(prompt): JsonBody<NewPrompt>,
) -> Result<(StatusCode, Json<AcceptedPrompt>), ApiError> {
    if prompt.text.trim().is_empty() {
        return Err(ApiError::bad_request("the text of the prompt is empty"));
    }
    let key = headers.get("idempotency-key").map(|key| key.to_str().unwrap_or_default().to_owned());
    if key.as_ref().is_some_and(|key| key.is_empty() || key.len() > MAX_KEY) {
        let message = format!("Idempotency-Key must have 1 to {MAX_KEY} visible ASCII characters");
        return Err(ApiError::bad_request(message));
    }
    let session = session_id(&id)?;
    let prompt = Prompt {
        text: prompt.text,
        attachments: prompt.attachments.into_iter().map(attachment).collect::<Result<_, _>>()?,
        mode: if prompt.immediate { SendMode::Immediate } else { SendMode::Enqueue },
        key,
        by: Some(caller.author()),
        ..Prompt::default()
    };
    let sent = prompt.key.is_some().then(|| prompt.clone());
    let id = door.service.ask(&caller, &session, SendPrompt { prompt: Box::new(prompt) }).await?;
    if let Some(sent) = sent
        && is_different(&door.service, &caller, &session, id, &sent).await?
    {
        let message = "the Idempotency-Key was used for a different prompt; choose a new key for each prompt";
        return Err(ApiError::unprocessable("key_reused", message));
    }
    Ok((StatusCode::ACCEPTED, Json(AcceptedPrompt { prompt_id: id.to_string() })))
}

/// Whether the accepted prompt differs from the one that was sent now. The session only knows the ids of prompts by their keys;
/// the prompt itself is read from the history, near its end unless the retry comes late.
async fn is_different(
    service: &Service,
    caller: &Caller,
    session: &SessionId,
    id: PromptId,
    sent: &Prompt,
) -> Result<bool, ApiError> {
    let mut before = service.perform(caller, ShowSession { id: session.clone() }).await?.head.plus(1);
    loop {
        let page = read_before(service, caller, session, before, 100).await?;
        let Some(first) = page.first() else { return Ok(false) };
        before = first.seq;
        for record in page.iter().rev().filter(|record| &*record.kind == "baton.prompt_accepted") {
            let Ok(event) = Event::parse(&String::from_utf8_lossy(&record.body)) else { continue };
            if let EventBody::PromptAccepted(accepted) = event.body
                && accepted.prompt_id == id
            {
                let prompt = accepted.prompt;
                let is_same = prompt.text == sent.text
                    && prompt.attachments == sent.attachments
                    && prompt.mode == sent.mode;
                return Ok(!is_same);
            }
        }
    }
}

/// Reads an attachment. Only the documented types are accepted: clients of SDKs fail to read an event with another one.
fn attachment(object: serde_json::Map<String, serde_json::Value>) -> Result<Attachment, ApiError> {
    let attachment: Attachment = baton_protocol::Json::from(serde_json::Value::Object(object)).into();
    let invalid = |error: InvalidAttachment| ApiError::unprocessable("invalid_attachment", error.to_string());
    attachment.check().map(|()| attachment).map_err(invalid)
}

/// Show the state of a prompt, and the text of its answer.
///
/// With `wait`, the response is delayed until the prompt has an outcome, or the time is over.
#[utoipa::path(get, path = "/api/sessions/{id}/prompts/{prompt}", operation_id = "showPrompt", tag = "prompts",
    params(("id" = String, Path, description = "Session id"), ("prompt" = String, Path, description = "Prompt id"), WaitQuery),
    responses((status = 200, description = "State of the prompt", body = PromptView), (status = 400, description = "Malformed query", body = ErrorBody), (status = 404, description = "No such session or prompt", body = ErrorBody)))]
pub(super) async fn show(
    State(door): State<Shared>,
    By(caller): By,
    PathParams((id, prompt)): PathParams<(String, String)>,
    QueryParams(query): QueryParams<WaitQuery>,
) -> Result<Json<PromptView>, ApiError> {
    let id = session_id(&id)?;
    let patience = query.wait.map_or(Duration::ZERO, |seconds| Duration::from_secs(seconds.get()));
    let until = Instant::now() + patience;
    loop {
        // Before the state is read, so that no outcome between the two is missed.
        let mut outcomes = Outcomes::of(&door.service, &caller, &id);
        let view = state_of(&door.service, &caller, &id, &prompt).await?;
        if view.is_settled() || patience.is_zero() {
            return Ok(Json(view));
        }
        if tokio::time::timeout_at(until, outcomes.next()).await.is_err() {
            // The prompt may have been started while the client waited.
            return Ok(Json(state_of(&door.service, &caller, &id, &prompt).await?));
        }
    }
}

/// Wakes a client that waits for the outcome of a prompt.
struct Outcomes {
    /// The live session; none if it is not live on this server.
    attached: Option<(LiveSession, ClientId, Subscription)>,
}

impl Outcomes {
    fn of(service: &Service, caller: &Caller, id: &SessionId) -> Self {
        let attached = service.live(caller, id).map(|session| {
            let client = service.new_client();
            let (port, subscription) = subscribe(64);
            session.hub().attach(client, port);
            (session, client, subscription)
        });
        Self { attached }
    }

    /// Waits until a turn may have ended. Without a live session, returns after a while.
    async fn next(&mut self) {
        let Some((.., subscription)) = &mut self.attached else {
            return tokio::time::sleep(POLL_INTERVAL).await;
        };
        let ends_a_turn =
            |batch: &Batch| batch.events().iter().any(|event| event.kind == "baton.turn_settled");
        loop {
            match subscription.next().await {
                Received::Events(batch) if !ends_a_turn(&batch) => {}
                Received::Events(_) | Received::Missed => return,
                Received::Closed => return tokio::time::sleep(POLL_INTERVAL).await,
            }
        }
    }
}

impl Drop for Outcomes {
    fn drop(&mut self) {
        if let Some((session, client, _)) = &self.attached {
            session.hub().detach(*client);
        }
    }
}

/// Reads the state of a prompt, and the text of its answer, from the history.
async fn state_of(
    service: &Service,
    caller: &Caller,
    id: &SessionId,
    prompt: &str,
) -> Result<PromptView, ApiError> {
    let unknown = || ApiError::not_found(format!("no such prompt in session {id}: {prompt}"));
    let wanted: PromptId = prompt.parse().map_err(|_| unknown())?;
    let summary = service.perform(caller, ShowSession { id: id.clone() }).await?;
    // Read backwards: the last event about the prompt has its state, and most requests are about recent prompts.
    let mut before = summary.head.plus(1);
    let mut reading = Reading { wanted, last_text: None, view: None };
    loop {
        let page = read_before(service, caller, id, before, 500).await?;
        let Some(first) = page.first() else { return reading.view.ok_or_else(unknown) };
        before = first.seq;
        for record in page.iter().rev().filter(|record| concerns_prompts(&record.kind)) {
            let text = String::from_utf8_lossy(&record.body);
            let Ok(event) = Event::parse(&text) else { continue };
            if reading.read(&event).is_break() {
                return reading.view.ok_or_else(unknown);
            }
        }
    }
}

/// Reads the events before a position.
pub(super) async fn read_before(
    service: &Service,
    caller: &Caller,
    id: &SessionId,
    before: Seq,
    limit: usize,
) -> Result<Vec<Record>, ApiError> {
    let span = Span::Before { before, limit };
    let read = ReadEvents { id: id.clone(), span, max_bytes: usize::MAX };
    Ok(service.perform(caller, read).await?.records)
}

/// A prompt whose events are read backwards.
struct Reading {
    wanted: PromptId,
    /// Text of the newest message of the turn that is being read.
    last_text: Option<String>,
    view: Option<PromptView>,
}

impl Reading {
    /// Reads the event before the last one. Breaks at the first event of the prompt.
    fn read(&mut self, event: &Event) -> ControlFlow<()> {
        if let EventBody::AssistantMessage(message) = &event.body
            && event.agent_id.is_none()
            && self.last_text.is_none()
            && !message.content.is_empty()
        {
            self.last_text = Some(message.content.clone());
            return ControlFlow::Continue(());
        }
        let is_end = matches!(event.body, EventBody::TurnSettled(_));
        if is_end && self.view.is_none() {
            // Messages after the end of a turn belong to a later one.
            self.last_text = None;
        }
        let Some((state, reason)) = state_after(&event.body, self.wanted) else {
            return ControlFlow::Continue(());
        };
        let view = self.view.get_or_insert_with(|| PromptView::new(self.wanted, state, reason));
        if is_end {
            return ControlFlow::Continue(());
        }
        view.text = self.last_text.take();
        ControlFlow::Break(())
    }
}

fn concerns_prompts(kind: &str) -> bool {
    matches!(kind, "baton.prompt_accepted" | "user.message" | "assistant.message" | "baton.turn_settled")
}

fn state_after(body: &EventBody, wanted: PromptId) -> Option<(&'static str, Option<String>)> {
    match body {
        EventBody::PromptAccepted(accepted) if accepted.prompt_id == wanted => Some(("queued", None)),
        EventBody::UserMessage(message) if message.message_id == Some(wanted) => Some(("running", None)),
        EventBody::TurnSettled(settled) if settled.prompt_ids.contains(&wanted) => {
            Some((PromptView::state_of(settled.outcome), Some(settled.reason.clone())))
        }
        _ => None,
    }
}

/// Cancel the running turn, and end or hold the queue.
///
/// Without a body, all queued prompts are cancelled, too. Has no effect on an idle session.
#[utoipa::path(post, path = "/api/sessions/{id}/cancel", operation_id = "cancelPrompts", tag = "prompts", request_body = Option<CancelBody>, params(("id" = String, Path, description = "Session id")),
    responses((status = 200, description = "Cancelled", body = Cancelled),
        (status = 400, description = "Malformed request body", body = ErrorBody),
        (status = 404, description = "No such session", body = ErrorBody),
        (status = 409, description = "A different server holds the session", body = ErrorBody),
        (status = 415, description = "Request body is not JSON", body = ErrorBody),
        (status = 422, description = "Request body does not match the schema", body = ErrorBody)))]
pub(super) async fn cancel(
    State(door): State<Shared>,
    By(caller): By,
    PathParams(id): PathParams<String>,
    OptionalJsonBody(body): OptionalJsonBody<CancelBody>,
) -> Result<Json<Cancelled>, ApiError> {
    let (id, by) = (session_id(&id)?, Some(caller.author()));
    let CancelBody { queue, turn } = body.unwrap_or_default();
    let reason = AbortReason::UserInitiated;
    if queue == QueueFate::Hold {
        let held = door.service.ask(&caller, &id, CancelTurn { turn, reason, by }).await?;
        return Ok(Json(Cancelled { had_work: held.is_some(), held: held.unwrap_or(0) }));
    }
    if turn.is_some() {
        let message = "a turn is cancelled by its id only with `\"queue\": \"hold\"`";
        return Err(ApiError::unprocessable("bad_request", message));
    }
    let had_work = door.service.ask(&caller, &id, Abort { reason, by }).await?;
    Ok(Json(Cancelled { had_work, held: 0 }))
}
