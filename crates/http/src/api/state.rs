//! The state of a session: what a page shows besides the conversation.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use baton_core::state::Turn;
use baton_core::{Profile, Session};
use baton_protocol::event::{AgentMode, Hold, PermissionMode};
use baton_runtime::session::EventReader;
use serde::Serialize;
use utoipa::ToSchema;

use super::extract::{By, PathParams, session_id};
use super::queue::QueuedItem;
use super::sandbox::SandboxView;
use super::sessions::view;
use super::types::{ModeName, PermissionModeName, RequestView, SessionView};
use crate::Shared;
use crate::error::{ApiError, ErrorBody};

/// State of a session.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SessionState {
    session: SessionView,
    /// Agent mode.
    #[schema(value_type = ModeName)]
    mode: AgentMode,
    /// Permission mode.
    #[schema(value_type = PermissionModeName)]
    permissions: PermissionMode,
    /// What the programs of the session may touch.
    sandbox: SandboxView,
    reasoning_effort: Option<String>,
    /// Whether a turn runs.
    running: bool,
    /// The running turn.
    turn: Option<RunningTurn>,
    /// Whether a stopped server left work here that continues when the session is resumed.
    left: bool,
    /// Prompts and commands that have not started, in their order.
    queue: Vec<QueuedItem>,
    /// Whether the queue is paused.
    paused: bool,
    /// Pending requests.
    requests: Vec<RequestView>,
    /// Calls, tokens and cost, by model.
    usage: Vec<ModelUsage>,
    /// Number of clients that receive the session's events, this one included if it does.
    watching: usize,
    /// Those clients, as far as this server knows them.
    attached: Vec<AttachedClient>,
    /// Whether a rewind can restore files.
    tracks_files: bool,
}

/// A client that is attached to a session.
#[derive(Debug, Serialize, ToSchema)]
struct AttachedClient {
    /// `http` for a reader of the event stream, `sdk` for all others.
    door: &'static str,
    /// Its identity.
    user: Option<String>,
    /// Its program, as the program calls itself.
    program: Option<String>,
}

impl AttachedClient {
    fn all(session: &Session, readers: Vec<EventReader>) -> Vec<Self> {
        let readers = readers.into_iter().map(|reader| Self {
            door: "http",
            user: Some(reader.user.to_string()),
            program: reader.program,
        });
        let clients = session.live.clients.values();
        let user = |client: &Arc<Profile>| client.user.as_ref().map(ToString::to_string);
        let clients = clients.map(|client| Self { door: "sdk", user: user(client), program: None });
        readers.chain(clients).collect()
    }
}

/// The running turn.
#[derive(Debug, Serialize, ToSchema)]
struct RunningTurn {
    /// Its id: `interactionId` in events.
    id: String,
    /// Prompts that it executes.
    prompts: Vec<String>,
    /// The program that executes it; none for Baton's own engine.
    engine: Option<String>,
}

impl RunningTurn {
    fn of(turn: &Turn) -> Self {
        let prompts = turn.prompts.iter().map(ToString::to_string).collect();
        Self { id: turn.interaction.clone(), prompts, engine: turn.engine.clone() }
    }
}

/// Usage of one model.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ModelUsage {
    model: String,
    calls: u64,
    input_tokens: u64,
    output_tokens: u64,
    cache_read_tokens: u64,
    /// Cost in US dollars, if the price is configured.
    cost: Option<f64>,
}

/// Show the state of a session: modes, queue, pending requests, usage.
#[utoipa::path(get, path = "/api/sessions/{id}/state", operation_id = "showSessionState", tag = "sessions", params(("id" = String, Path, description = "Session id")),
    responses((status = 200, description = "The state", body = SessionState),
        (status = 404, description = "No such session", body = ErrorBody),
        (status = 409, description = "A different server holds the session", body = ErrorBody)))]
pub(super) async fn show(
    State(door): State<Shared>,
    By(caller): By,
    PathParams(id): PathParams<String>,
) -> Result<Json<SessionState>, ApiError> {
    let id = session_id(&id)?;
    let live = door.service.open(&caller, &id).await?;
    let (watching, readers) = (live.hub().clients(), live.hub().readers());
    let session = live.inspect().await?.session;
    let durable = &session.durable;
    let usage = durable.totals.models.iter().map(|(model, (calls, tokens))| ModelUsage {
        model: model.clone(),
        calls: *calls,
        input_tokens: tokens.input,
        output_tokens: tokens.output,
        cache_read_tokens: tokens.cache_read,
        cost: door.service.prices().cost([(model, tokens)]),
    });
    Ok(Json(SessionState {
        session: view(&door, &caller, id).await?,
        mode: durable.mode(),
        permissions: durable.facts.permissions,
        sandbox: SandboxView::of(&session),
        reasoning_effort: durable.facts.reasoning_effort.clone(),
        running: durable.turn.is_some(),
        turn: durable.turn.as_ref().map(RunningTurn::of),
        left: session.live.is_recovered && session.is_busy(),
        queue: QueuedItem::all(&session),
        paused: durable.hold != Hold::Open,
        requests: RequestView::all(&session),
        usage: usage.collect(),
        watching,
        attached: AttachedClient::all(&session, readers),
        tracks_files: durable.facts.tracks_files,
    }))
}
