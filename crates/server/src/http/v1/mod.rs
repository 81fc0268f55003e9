//! The workspace API, under `/v1`: what the terminal client of crush speaks when it talks to a server.
//!
//! It is another view of the same sessions. [`register`] knows the workspaces and who claims them ([`claims`]);
//! [`workspace`] is one of them, and takes part in sessions as any client does. [`watch`] follows the sessions of its
//! directory, [`fold`] makes messages of their events, [`desk`] keeps what waits for an answer, and [`feed`] tells it all
//! to whoever streams. [`wire`] and [`tools`] are the client's words. The rest are the routes.

mod agent;
mod claims;
mod desk;
mod error;
mod extract;
mod feed;
mod fold;
mod preferences;
mod register;
mod requests;
mod sessions;
mod settings;
mod system;
mod telling;
mod tools;
mod watch;
mod wire;
mod workspace;

use axum::Router;
use axum::routing::{get, post};

pub use self::register::WorkspaceOptions;
pub(super) use self::register::Workspaces;
use super::Shared;

pub(super) fn routes() -> Router<Shared> {
    let workspace = Router::new()
        .merge(core_routes())
        .merge(agent_routes())
        .merge(setting_routes())
        .merge(empty_routes());
    Router::new()
        .route("/health", get(system::health))
        .route("/version", get(system::version))
        .route("/config", get(system::config))
        .route("/control", post(system::control))
        .route("/clients/{client}", axum::routing::delete(system::retire))
        .route("/workspaces", get(system::list).post(system::create))
        .route("/workspaces/{id}", get(system::show).delete(system::release))
        .nest("/workspaces/{id}", workspace)
        .fallback(error::no_such_place)
        .method_not_allowed_fallback(error::wrong_method)
}

fn core_routes() -> Router<Shared> {
    Router::new()
        .route("/current-session", post(system::look_at))
        .route("/events", get(system::events))
        .route("/sessions", get(sessions::list).post(sessions::create))
        .route("/sessions/{sid}", get(sessions::show).put(sessions::save).delete(sessions::delete))
        .route("/sessions/{sid}/messages", get(sessions::messages))
        .route("/sessions/{sid}/messages/user", get(sessions::user_messages))
        .route("/messages/user", get(sessions::all_user_messages))
        .route("/sessions/{sid}/history", get(sessions::history))
        .route("/permissions/grant", post(requests::grant))
        .route("/permissions/skip", get(requests::skips).post(requests::set_skip))
        .route("/questions/answer", post(requests::answer_question))
        .route("/questions/cancel", post(requests::cancel_question))
}

fn agent_routes() -> Router<Shared> {
    Router::new()
        .route("/agent", get(agent::state).post(agent::prompt))
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

/// What the client asks for and this server has nothing of.
fn empty_routes() -> Router<Shared> {
    use preferences::{empty_list, empty_map, never_read, no_files, not_here, nothing_to_do};
    Router::new()
        .route("/sessions/{sid}/filetracker/files", get(no_files))
        .route("/filetracker/read", post(nothing_to_do))
        .route("/filetracker/lastread", get(never_read))
        .route("/project/needs-init", get(preferences::needs_init))
        .route("/project/init", post(nothing_to_do))
        .route("/project/init-prompt", get(preferences::init_prompt))
        .route("/skills", get(empty_list))
        .route("/skills/read", post(not_here))
        .route("/mcp/states", get(empty_map))
        .route("/mcp/prompts", get(empty_list))
        .route("/mcp/pending-auth", get(empty_list))
        .route("/mcp/auth-url", get(empty_map))
        .route("/mcp/refresh-tools", post(nothing_to_do))
        .route("/mcp/refresh-prompts", post(nothing_to_do))
        .route("/mcp/refresh-resources", post(nothing_to_do))
        .route("/mcp/read-resource", post(not_here))
        .route("/mcp/get-prompt", post(not_here))
        .route("/mcp/auth", post(not_here))
        .route("/mcp/docker/{change}", post(not_here))
        .route("/lsps", get(empty_map))
        .route("/lsps/start", post(nothing_to_do))
        .route("/lsps/stop", post(nothing_to_do))
        .route("/lsps/{name}/diagnostics", get(preferences::no_language_server))
}
