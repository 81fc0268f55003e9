//! The table of routes: what each does, which decides who may.
//!
//! The door that these are mounted on has checked that the client may connect.

use axum::Router;
use axum::handler::Handler;
use axum::routing::{MethodFilter, MethodRouter, on};
use baton_service::Operation;
use http::Method;

use super::{Shared, agent, error, mcp, preferences, requests, sessions, skills, system};

/// A route of the API.
pub(crate) struct Route {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    pub(crate) operation: Operation,
    handler: MethodRouter<Shared>,
}

/// Generates a constructor for each method.
macro_rules! constructors {
    ($( $name:ident: $method:ident; )*) => {
        impl Route {
            $(
                fn $name<H: Handler<T, Shared>, T: 'static>(
                    operation: Operation,
                    path: &'static str,
                    handler: H,
                ) -> Self {
                    let handler = on(MethodFilter::$method, handler);
                    Self { method: Method::$method, path, operation, handler }
                }
            )*
        }
    };
}

constructors! {
    get: GET;
    post: POST;
    put: PUT;
    delete: DELETE;
}

/// Returns all routes.
pub(crate) fn table() -> Vec<Route> {
    [server(), workspace(), agent_of(), settings(), addons(), empty()].into_iter().flatten().collect()
}

/// Returns the router of all routes.
pub(crate) fn routes() -> Router<Shared> {
    let add = |router: Router<Shared>, route: Route| router.route(route.path, route.handler);
    let router = table().into_iter().fold(Router::new(), add);
    router.fallback(error::unknown_path).method_not_allowed_fallback(error::wrong_method)
}

/// The server and its workspaces.
fn server() -> Vec<Route> {
    use Operation as Op;
    vec![
        Route::get(Op::Connect, "/health", system::health),
        Route::get(Op::ShowServer, "/version", system::version),
        Route::get(Op::Connect, "/config", system::config),
        Route::post(Op::Connect, "/control", system::control),
        Route::delete(Op::Connect, "/clients/{client}", system::retire),
        Route::get(Op::Connect, "/workspaces", system::list),
        Route::post(Op::Connect, "/workspaces", system::create),
        Route::get(Op::Connect, "/workspaces/{id}", system::show),
        Route::delete(Op::Connect, "/workspaces/{id}", system::release),
    ]
}

/// A workspace and its sessions.
fn workspace() -> Vec<Route> {
    use Operation as Op;
    vec![
        Route::post(Op::Connect, "/workspaces/{id}/current-session", system::set_current_session),
        Route::get(Op::WatchSessions, "/workspaces/{id}/events", system::events),
        Route::get(Op::ListSessions, "/workspaces/{id}/sessions", sessions::list),
        Route::post(Op::CreateSession, "/workspaces/{id}/sessions", sessions::create),
        Route::get(Op::ReadEvents, "/workspaces/{id}/sessions/{sid}", sessions::show),
        Route::put(Op::ChangeSession, "/workspaces/{id}/sessions/{sid}", sessions::save),
        Route::delete(Op::DeleteSession, "/workspaces/{id}/sessions/{sid}", sessions::delete),
        Route::get(Op::ReadEvents, "/workspaces/{id}/sessions/{sid}/messages", sessions::messages),
        Route::get(Op::ReadEvents, "/workspaces/{id}/sessions/{sid}/messages/user", sessions::user_messages),
        Route::get(Op::ReadEvents, "/workspaces/{id}/messages/user", sessions::all_user_messages),
        Route::get(Op::ShowSession, "/workspaces/{id}/sessions/{sid}/history", sessions::history),
        Route::post(Op::AnswerRequest, "/workspaces/{id}/permissions/grant", requests::grant),
        Route::get(Op::Connect, "/workspaces/{id}/permissions/skip", requests::skips),
        Route::post(Op::ChangeSession, "/workspaces/{id}/permissions/skip", requests::set_skip),
        Route::post(Op::AnswerRequest, "/workspaces/{id}/questions/answer", requests::answer_question),
        Route::post(Op::AnswerRequest, "/workspaces/{id}/questions/cancel", requests::cancel_question),
    ]
}

/// Prompts and turns.
fn agent_of() -> Vec<Route> {
    use Operation as Op;
    vec![
        Route::get(Op::Connect, "/workspaces/{id}/agent", agent::state),
        Route::post(Op::SendPrompt, "/workspaces/{id}/agent", agent::prompt),
        Route::post(Op::Connect, "/workspaces/{id}/agent/init", agent::ready),
        Route::post(Op::Connect, "/workspaces/{id}/agent/update", agent::ready),
        Route::get(Op::ListModels, "/workspaces/{id}/agent/default-small-model", agent::small_model),
        Route::get(Op::ShowSession, "/workspaces/{id}/agent/sessions/{sid}", agent::session_state),
        Route::post(Op::CancelPrompts, "/workspaces/{id}/agent/sessions/{sid}/cancel", agent::cancel),
        Route::get(Op::ListQueue, "/workspaces/{id}/agent/sessions/{sid}/prompts/queued", agent::queued),
        Route::get(Op::ListQueue, "/workspaces/{id}/agent/sessions/{sid}/prompts/list", agent::queue),
        Route::post(
            Op::WithdrawPrompt,
            "/workspaces/{id}/agent/sessions/{sid}/prompts/clear",
            agent::clear_queue,
        ),
        Route::post(Op::CompactSession, "/workspaces/{id}/agent/sessions/{sid}/summarize", agent::summarize),
        Route::post(Op::RunShellCommand, "/workspaces/{id}/agent/sessions/{sid}/shell", agent::shell),
    ]
}

/// Configuration of a workspace.
fn settings() -> Vec<Route> {
    use Operation as Op;
    vec![
        Route::get(Op::ListModels, "/workspaces/{id}/config", preferences::config),
        Route::get(Op::ListModels, "/workspaces/{id}/providers", preferences::providers),
        Route::post(Op::Connect, "/workspaces/{id}/config/set", preferences::set),
        Route::post(Op::Connect, "/workspaces/{id}/config/remove", preferences::remove),
        Route::post(Op::Connect, "/workspaces/{id}/config/model", preferences::model),
        Route::post(Op::Connect, "/workspaces/{id}/config/compact", preferences::compact),
        Route::post(Op::Connect, "/workspaces/{id}/config/provider-key", preferences::no_keys),
        Route::post(Op::Connect, "/workspaces/{id}/config/import-copilot", preferences::no_keys),
        Route::post(Op::Connect, "/workspaces/{id}/config/refresh-oauth", preferences::no_keys),
    ]
}

/// Skills and MCP servers.
fn addons() -> Vec<Route> {
    use Operation as Op;
    vec![
        Route::get(Op::ListSkills, "/workspaces/{id}/skills", skills::list),
        Route::post(Op::ShowSkill, "/workspaces/{id}/skills/read", skills::read),
        Route::get(Op::ListSessionMcpServers, "/workspaces/{id}/mcp/states", mcp::states),
        Route::get(Op::ListSessionMcpPrompts, "/workspaces/{id}/mcp/prompts", mcp::prompts),
        Route::post(Op::GetSessionMcpPrompt, "/workspaces/{id}/mcp/get-prompt", mcp::get_prompt),
        Route::post(Op::ReadSessionMcpResource, "/workspaces/{id}/mcp/read-resource", mcp::read_resource),
        Route::post(Op::ListSessionMcpServers, "/workspaces/{id}/mcp/refresh-tools", mcp::refresh),
        Route::post(Op::ListSessionMcpServers, "/workspaces/{id}/mcp/refresh-prompts", mcp::refresh),
        Route::post(Op::ListSessionMcpServers, "/workspaces/{id}/mcp/refresh-resources", mcp::refresh),
    ]
}

/// Features of crush that Baton does not have. The client accepts empty responses.
fn empty() -> Vec<Route> {
    use Operation as Op;
    vec![
        Route::get(Op::Connect, "/workspaces/{id}/sessions/{sid}/filetracker/files", preferences::no_files),
        Route::post(Op::Connect, "/workspaces/{id}/filetracker/read", preferences::accepted),
        Route::get(Op::Connect, "/workspaces/{id}/filetracker/lastread", preferences::never_read),
        Route::get(Op::Connect, "/workspaces/{id}/project/needs-init", preferences::needs_init),
        Route::post(Op::Connect, "/workspaces/{id}/project/init", preferences::accepted),
        Route::get(Op::Connect, "/workspaces/{id}/project/init-prompt", preferences::init_prompt),
        Route::get(Op::Connect, "/workspaces/{id}/mcp/pending-auth", preferences::empty_list),
        Route::get(Op::Connect, "/workspaces/{id}/mcp/auth-url", preferences::empty_map),
        Route::post(Op::Connect, "/workspaces/{id}/mcp/auth", preferences::unsupported),
        Route::post(Op::Connect, "/workspaces/{id}/mcp/docker/{change}", preferences::unsupported),
        Route::get(Op::Connect, "/workspaces/{id}/lsps", preferences::empty_map),
        Route::post(Op::Connect, "/workspaces/{id}/lsps/start", preferences::accepted),
        Route::post(Op::Connect, "/workspaces/{id}/lsps/stop", preferences::accepted),
        Route::get(Op::Connect, "/workspaces/{id}/lsps/{name}/diagnostics", preferences::no_language_server),
    ]
}
