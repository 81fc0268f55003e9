//! The crush door: the workspace API that crush's terminal client uses.
//!
//! It shows the same sessions as the other doors. [`registry`] holds the workspaces and their claims ([`claims`]).
//! A [`workspace`] attaches to sessions as any client does, and [`watch`] subscribes to the sessions of its directory: [`fold`]
//! computes messages from their events, [`report`] publishes the changes to the workspace's [`feed`], and [`dialogs`] queues
//! the pending requests. [`wire`], [`events`] and [`tools`] translate to the client's wire format. The other modules are
//! routes, which the HTTP door mounts under `/v1`.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests may block"))]

mod agent;
mod claims;
mod dialogs;
mod error;
mod events;
mod extract;
mod feed;
mod fold;
mod mcp;
mod preferences;
mod registry;
mod report;
mod requests;
mod sessions;
mod settings;
mod skills;
mod system;
mod tools;
mod watch;
mod wire;
mod workspace;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::routing::{delete, get, post, put};
use baton_service::Service;
use baton_wire::EventStreams;

pub use self::registry::WorkspaceOptions;
use self::registry::Workspaces;

/// Limits of the HTTP door that this API shares.
#[derive(Debug, Clone)]
pub struct HttpShare {
    /// Maximum size of a request body, in bytes.
    pub max_body: usize,
    /// The event streams.
    pub streams: EventStreams,
}

/// State shared by all requests.
struct Door {
    service: Service,
    options: WorkspaceOptions,
    workspaces: Arc<Workspaces>,
    http: HttpShare,
}

type Shared = Arc<Door>;

/// Returns the routes of the API, which the HTTP door mounts.
pub fn routes(service: &Service, options: WorkspaceOptions, http: HttpShare) -> Router {
    let workspaces = Workspaces::new(service, &options);
    all_routes().with_state(Arc::new(Door { service: service.clone(), options, workspaces, http }))
}

fn all_routes() -> Router<Shared> {
    let workspace = Router::new()
        .merge(core_routes())
        .merge(agent_routes())
        .merge(setting_routes())
        .merge(mcp_routes())
        .merge(empty_routes());
    Router::new()
        .route("/health", get(system::health))
        .route("/version", get(system::version))
        .route("/config", get(system::config))
        .route("/control", post(system::control))
        .route("/clients/{client}", delete(system::retire))
        .route("/workspaces", get(system::list).merge(post(system::create)))
        .route("/workspaces/{id}", get(system::show).merge(delete(system::release)))
        .nest("/workspaces/{id}", workspace)
        .fallback(error::unknown_path)
        .method_not_allowed_fallback(error::wrong_method)
}

fn core_routes() -> Router<Shared> {
    Router::new()
        .route("/current-session", post(system::set_current_session))
        .route("/events", get(system::events))
        .route("/sessions", get(sessions::list).merge(post(sessions::create)))
        .route(
            "/sessions/{sid}",
            get(sessions::show).merge(put(sessions::save)).merge(delete(sessions::delete)),
        )
        .route("/sessions/{sid}/messages", get(sessions::messages))
        .route("/sessions/{sid}/messages/user", get(sessions::user_messages))
        .route("/messages/user", get(sessions::all_user_messages))
        .route("/sessions/{sid}/history", get(sessions::history))
        .route("/permissions/grant", post(requests::grant))
        .route("/permissions/skip", get(requests::skips).merge(post(requests::set_skip)))
        .route("/questions/answer", post(requests::answer_question))
        .route("/questions/cancel", post(requests::cancel_question))
}

fn agent_routes() -> Router<Shared> {
    Router::new()
        .route("/agent", get(agent::state).merge(post(agent::prompt)))
        .route("/agent/init", post(agent::ready))
        .route("/agent/update", post(agent::ready))
        .route("/agent/default-small-model", get(agent::small_model))
        .route("/agent/sessions/{sid}", get(agent::session_state))
        .route("/agent/sessions/{sid}/cancel", post(agent::cancel))
        .route("/agent/sessions/{sid}/prompts/queued", get(agent::queued))
        .route("/agent/sessions/{sid}/prompts/list", get(agent::queue))
        .route("/agent/sessions/{sid}/prompts/clear", post(agent::clear_queue))
        .route("/agent/sessions/{sid}/summarize", post(agent::summarize))
        .route("/agent/sessions/{sid}/shell", post(agent::shell))
}

fn setting_routes() -> Router<Shared> {
    Router::new()
        .route("/config", get(preferences::config))
        .route("/providers", get(preferences::providers))
        .route("/config/set", post(preferences::set))
        .route("/config/remove", post(preferences::remove))
        .route("/config/model", post(preferences::model))
        .route("/config/compact", post(preferences::compact))
        .route("/config/provider-key", post(preferences::no_keys))
        .route("/config/import-copilot", post(preferences::no_keys))
        .route("/config/refresh-oauth", post(preferences::no_keys))
}

fn mcp_routes() -> Router<Shared> {
    Router::new()
        .route("/skills", get(skills::list))
        .route("/skills/read", post(skills::read))
        .route("/mcp/states", get(mcp::states))
        .route("/mcp/prompts", get(mcp::prompts))
        .route("/mcp/get-prompt", post(mcp::get_prompt))
        .route("/mcp/read-resource", post(mcp::read_resource))
        .route("/mcp/refresh-tools", post(mcp::refresh))
        .route("/mcp/refresh-prompts", post(mcp::refresh))
        .route("/mcp/refresh-resources", post(mcp::refresh))
}

/// Returns routes for features of crush that Baton does not have. The client accepts empty responses.
fn empty_routes() -> Router<Shared> {
    use preferences::{accepted, empty_list, empty_map, never_read, no_files, unsupported};
    Router::new()
        .route("/sessions/{sid}/filetracker/files", get(no_files))
        .route("/filetracker/read", post(accepted))
        .route("/filetracker/lastread", get(never_read))
        .route("/project/needs-init", get(preferences::needs_init))
        .route("/project/init", post(accepted))
        .route("/project/init-prompt", get(preferences::init_prompt))
        .route("/mcp/pending-auth", get(empty_list))
        .route("/mcp/auth-url", get(empty_map))
        .route("/mcp/auth", post(unsupported))
        .route("/mcp/docker/{change}", post(unsupported))
        .route("/lsps", get(empty_map))
        .route("/lsps/start", post(accepted))
        .route("/lsps/stop", post(accepted))
        .route("/lsps/{name}/diagnostics", get(preferences::no_language_server))
}

/// Locks a mutex, also if a holder panicked.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
