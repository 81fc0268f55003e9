//! The table of routes: what each does, for whom.

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::handler::Handler;
use axum::routing::{MethodFilter, MethodRouter, on};
use baton_service::Operation;
use http::Method;

use super::{
    commands, events, grants, history, mcp, notifications, paths, plugins, prompts, queue, render, requests,
    sandbox, search, sessions, skills, state, system,
};
use crate::guard::{MAX_PUBLIC_BODY, Restricted};
use crate::{Shared, login};

/// A route of the session API.
pub(crate) struct Route {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    /// What it does, which decides who may; `None` for routes that need no authentication.
    pub(crate) operation: Option<Operation>,
    handler: MethodRouter<Shared>,
}

impl Route {
    fn new<H, T>(
        method: Method,
        operation: Option<Operation>,
        path: &'static str,
        filter: MethodFilter,
        handler: H,
    ) -> Self
    where
        H: Handler<T, Shared>,
        T: 'static,
    {
        let handler = match operation {
            Some(operation) => on(filter, Restricted::new(operation, handler)),
            None => on(filter, handler),
        };
        Self { method, path, operation, handler }
    }

    fn get<H: Handler<T, Shared>, T: 'static>(operation: Operation, path: &'static str, handler: H) -> Self {
        Self::new(Method::GET, Some(operation), path, MethodFilter::GET, handler)
    }

    fn post<H: Handler<T, Shared>, T: 'static>(operation: Operation, path: &'static str, handler: H) -> Self {
        Self::new(Method::POST, Some(operation), path, MethodFilter::POST, handler)
    }

    fn patch<H: Handler<T, Shared>, T: 'static>(
        operation: Operation,
        path: &'static str,
        handler: H,
    ) -> Self {
        Self::new(Method::PATCH, Some(operation), path, MethodFilter::PATCH, handler)
    }

    fn put<H: Handler<T, Shared>, T: 'static>(operation: Operation, path: &'static str, handler: H) -> Self {
        Self::new(Method::PUT, Some(operation), path, MethodFilter::PUT, handler)
    }

    fn delete<H: Handler<T, Shared>, T: 'static>(
        operation: Operation,
        path: &'static str,
        handler: H,
    ) -> Self {
        Self::new(Method::DELETE, Some(operation), path, MethodFilter::DELETE, handler)
    }

    /// Limits the size of the body below the limit of the door.
    fn up_to(self, bytes: usize) -> Self {
        Self { handler: self.handler.layer(DefaultBodyLimit::max(bytes)), ..self }
    }
}

/// Returns all routes. Those without authentication are listed in [`crate::guard::is_public`], too.
pub(crate) fn table() -> Vec<Route> {
    [server(), one_session(), session_content(), session_mcp_servers(), session_skills(), catalogues()]
        .into_iter()
        .flatten()
        .collect()
}

fn server() -> Vec<Route> {
    use Operation as Op;
    vec![
        Route::new(Method::GET, None, "/api/health", MethodFilter::GET, system::health),
        Route::new(Method::GET, None, "/api/ready", MethodFilter::GET, system::ready),
        Route::new(Method::POST, None, "/api/login", MethodFilter::POST, login::log_in)
            .up_to(MAX_PUBLIC_BODY),
        Route::post(Op::LogOut, "/api/logout", login::log_out),
        Route::get(Op::ShowIdentity, "/api/me", login::me),
        Route::get(Op::WatchSessions, "/api/events", events::feed),
        Route::get(Op::SearchSessions, "/api/search", search::search),
        Route::post(Op::RenderMarkdown, "/api/render", render::render).up_to(render::MAX_BODY),
        Route::get(Op::ReadMetrics, "/api/metrics", system::metrics),
        Route::get(Op::ReadApiDescription, "/api/openapi.json", system::openapi),
        Route::get(Op::ListModels, "/api/models", system::models),
        Route::get(Op::ListRequests, "/api/requests", requests::overview),
        Route::get(Op::ListLocations, "/api/locations", grants::locations),
        Route::delete(Op::RevokeLocationGrants, "/api/locations", grants::revoke_at_location),
        Route::get(Op::ShowNotifications, "/api/notifications", notifications::show),
        Route::post(Op::Subscribe, "/api/notifications/subscriptions", notifications::subscribe)
            .up_to(MAX_PUBLIC_BODY),
        Route::delete(Op::Unsubscribe, "/api/notifications/subscriptions/{id}", notifications::unsubscribe),
        Route::post(Op::TestSubscription, "/api/notifications/subscriptions/{id}/test", notifications::test),
    ]
}

fn one_session() -> Vec<Route> {
    use Operation as Op;
    vec![
        Route::get(Op::ListSessions, "/api/sessions", sessions::list),
        Route::post(Op::CreateSession, "/api/sessions", sessions::create),
        Route::get(Op::ShowSession, "/api/sessions/{id}", sessions::show),
        Route::patch(Op::ChangeSession, "/api/sessions/{id}", sessions::change),
        Route::delete(Op::DeleteSession, "/api/sessions/{id}", sessions::delete),
        Route::post(Op::ResumeSession, "/api/sessions/{id}/resume", sessions::resume),
        Route::get(Op::ShowSessionState, "/api/sessions/{id}/state", state::show),
        Route::put(Op::SetSandbox, "/api/sessions/{id}/sandbox", sandbox::set),
        Route::post(Op::ForkSession, "/api/sessions/{id}/fork", history::fork),
        Route::get(Op::ExportSession, "/api/sessions/{id}/export", history::export),
        Route::get(Op::PreviewRewind, "/api/sessions/{id}/rewind", history::preview),
        Route::post(Op::RewindSession, "/api/sessions/{id}/rewind", history::rewind),
    ]
}

fn session_content() -> Vec<Route> {
    use Operation as Op;
    vec![
        Route::get(Op::ReadEvents, "/api/sessions/{id}/events", events::read),
        Route::post(Op::SendPrompt, "/api/sessions/{id}/prompts", prompts::send),
        Route::get(Op::ShowPrompt, "/api/sessions/{id}/prompts/{prompt}", prompts::show),
        Route::post(Op::CancelPrompts, "/api/sessions/{id}/cancel", prompts::cancel),
        Route::get(Op::ListCommands, "/api/sessions/{id}/commands", commands::list),
        Route::post(Op::EnqueueCommand, "/api/sessions/{id}/commands", commands::enqueue),
        Route::post(Op::RunCommand, "/api/sessions/{id}/commands/{name}", commands::run),
        Route::get(Op::CompletePath, "/api/sessions/{id}/files", paths::complete),
        Route::get(Op::ListQueue, "/api/sessions/{id}/queue", queue::list),
        Route::patch(Op::HoldQueue, "/api/sessions/{id}/queue", queue::hold),
        Route::patch(Op::ChangeQueuedPrompt, "/api/sessions/{id}/queue/{prompt}", queue::change),
        Route::delete(Op::WithdrawPrompt, "/api/sessions/{id}/queue/{prompt}", queue::withdraw),
        Route::get(Op::ListSessionRequests, "/api/sessions/{id}/requests", requests::list),
        Route::post(Op::AnswerRequest, "/api/sessions/{id}/requests/{request}", requests::answer),
        Route::post(Op::LinkRequest, "/api/sessions/{id}/requests/{request}/link", requests::link),
        Route::get(Op::ListGrants, "/api/sessions/{id}/grants", grants::list),
        Route::delete(Op::RevokeAllGrants, "/api/sessions/{id}/grants", grants::revoke_all),
        Route::delete(Op::RevokeGrant, "/api/sessions/{id}/grants/{grant}", grants::revoke),
    ]
}

fn session_mcp_servers() -> Vec<Route> {
    use Operation as Op;
    vec![
        Route::get(Op::ListSessionMcpServers, "/api/sessions/{id}/mcp", mcp::list),
        Route::get(Op::ShowSessionMcpServer, "/api/sessions/{id}/mcp/{server}", mcp::show),
        Route::post(Op::EnableSessionMcpServer, "/api/sessions/{id}/mcp/{server}/enable", mcp::enable),
        Route::post(Op::DisableSessionMcpServer, "/api/sessions/{id}/mcp/{server}/disable", mcp::disable),
        Route::post(Op::RestartSessionMcpServer, "/api/sessions/{id}/mcp/{server}/restart", mcp::restart),
        Route::get(Op::ReadSessionMcpLog, "/api/sessions/{id}/mcp/{server}/log", mcp::log),
        Route::get(Op::ListSessionMcpResources, "/api/sessions/{id}/mcp/{server}/resources", mcp::resources),
        Route::get(Op::ReadSessionMcpResource, "/api/sessions/{id}/mcp/{server}/resource", mcp::resource),
        Route::get(Op::ListSessionMcpPrompts, "/api/sessions/{id}/mcp/{server}/prompts", mcp::prompts),
        Route::post(Op::GetSessionMcpPrompt, "/api/sessions/{id}/mcp/{server}/prompts/{prompt}", mcp::prompt),
    ]
}

fn session_skills() -> Vec<Route> {
    use Operation as Op;
    vec![
        Route::get(Op::ListSessionSkills, "/api/sessions/{id}/skills", skills::list),
        Route::post(Op::ReloadSessionSkills, "/api/sessions/{id}/skills", skills::reload),
        Route::get(Op::ShowSessionSkill, "/api/sessions/{id}/skills/{skill}", skills::show),
        Route::post(Op::EnableSessionSkill, "/api/sessions/{id}/skills/{skill}/enable", skills::enable),
        Route::post(Op::DisableSessionSkill, "/api/sessions/{id}/skills/{skill}/disable", skills::disable),
    ]
}

/// What is outside of sessions, and changes those that are created later.
fn catalogues() -> Vec<Route> {
    use Operation as Op;
    vec![
        Route::get(Op::ListMcpServers, "/api/mcp/servers", mcp::catalogue),
        Route::post(Op::AddMcpServer, "/api/mcp/servers", mcp::add),
        Route::delete(Op::RemoveMcpServer, "/api/mcp/servers/{server}", mcp::remove),
        Route::post(Op::EnableMcpServer, "/api/mcp/servers/{server}/enable", mcp::enable_for_all),
        Route::post(Op::DisableMcpServer, "/api/mcp/servers/{server}/disable", mcp::disable_for_all),
        Route::get(Op::ListSkills, "/api/skills", skills::catalogue),
        Route::get(Op::ShowSkill, "/api/skills/{skill}", skills::read),
        Route::post(Op::EnableSkill, "/api/skills/{skill}/enable", skills::enable_for_all),
        Route::post(Op::DisableSkill, "/api/skills/{skill}/disable", skills::disable_for_all),
        Route::get(Op::ListPlugins, "/api/plugins", plugins::list),
        Route::post(Op::InstallPlugin, "/api/plugins", plugins::install),
        Route::delete(Op::UninstallPlugin, "/api/plugins/{plugin}", plugins::uninstall),
        Route::post(Op::UpdatePlugin, "/api/plugins/{plugin}/update", plugins::update),
        Route::post(Op::EnablePlugin, "/api/plugins/{plugin}/enable", plugins::enable),
        Route::post(Op::DisablePlugin, "/api/plugins/{plugin}/disable", plugins::disable),
        Route::get(Op::ListMarketplaces, "/api/marketplaces", plugins::marketplaces),
        Route::post(Op::AddMarketplace, "/api/marketplaces", plugins::add_marketplace),
        Route::delete(Op::RemoveMarketplace, "/api/marketplaces/{marketplace}", plugins::remove_marketplace),
        Route::get(Op::BrowseMarketplace, "/api/marketplaces/{marketplace}/plugins", plugins::browse),
    ]
}

/// Returns the router of all routes.
pub(crate) fn routes() -> Router<Shared> {
    let add = |router: Router<Shared>, route: Route| router.route(route.path, route.handler);
    table().into_iter().fold(Router::new(), add).method_not_allowed_fallback(system::wrong_method)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::is_public;

    #[test]
    fn exactly_public_routes_need_no_operation() {
        for route in table() {
            let public = is_public(&route.method, route.path);
            assert_eq!(route.operation.is_none(), public, "{} {}", route.method, route.path);
        }
    }

    /// Clients that are generated from the document call each method by the name of its operation.
    #[test]
    fn documented_routes_perform_the_operation_of_their_name() {
        let document: serde_json::Value = baton_json::from_str(&super::super::describe_api()).unwrap();
        let mut undocumented = Vec::new();
        for route in table() {
            let entry = &document["paths"][route.path][route.method.as_str().to_lowercase()];
            let Some(operation) = route.operation else { continue };
            match entry["operationId"].as_str() {
                Some(id) => assert_eq!(id, operation.name(), "{} {}", route.method, route.path),
                None => undocumented.push(route.path),
            }
        }
        assert_eq!(undocumented, ["/api/logout", "/api/me", "/api/events", "/api/openapi.json"]);
        let documented = document["paths"].as_object().unwrap();
        for (path, methods) in documented {
            for method in methods.as_object().unwrap().keys() {
                let is_route =
                    |route: &Route| route.path == path && route.method.as_str() == method.to_uppercase();
                assert!(table().iter().any(is_route), "{method} {path}");
            }
        }
    }
}
