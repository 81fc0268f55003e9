//! The session API, under `/api`: resources for scripts and web pages.
//!
//! `docs/openapi.json` is generated from these modules; a test checks that it is up to date.

mod description;
mod events;
mod extract;
mod grants;
mod history;
mod mcp;
mod notifications;
mod plugins;
mod prompts;
mod queue;
mod render;
mod requests;
mod search;
mod sessions;
mod skills;
mod state;
mod system;
mod types;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{delete, get, patch, post};
use utoipa::OpenApi;

use self::description::{GuardResponses, ParametersWithoutNull};
pub(super) use self::extract::{Caller, JsonBody, check_role};
pub(super) use self::system::start_page;
pub(super) use self::types::RequestView;
use super::guard::MAX_PUBLIC_BODY;
use super::{Shared, login};

/// OpenAPI description of the session API.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Baton session API",
        description = "Sessions, prompts, events and pending requests of a Baton runtime. Send the token as \
                       `Authorization: Bearer TOKEN`; clients on the socket file need none.",
    ),
    paths(
        sessions::list,
        sessions::create,
        sessions::show,
        sessions::change,
        sessions::delete,
        sessions::resume,
        prompts::send,
        prompts::show,
        prompts::cancel,
        events::read,
        search::search,
        render::render,
        state::show,
        queue::list,
        queue::change,
        queue::withdraw,
        history::fork,
        history::export,
        history::preview,
        history::rewind,
        requests::list,
        requests::overview,
        requests::answer,
        requests::link,
        grants::list,
        grants::revoke,
        grants::revoke_all,
        grants::locations,
        grants::revoke_at_location,
        mcp::list,
        mcp::show,
        mcp::enable,
        mcp::disable,
        mcp::restart,
        mcp::log,
        mcp::resources,
        mcp::resource,
        mcp::prompts,
        mcp::prompt,
        mcp::catalogue,
        mcp::add,
        mcp::remove,
        mcp::enable_for_all,
        mcp::disable_for_all,
        skills::list,
        skills::reload,
        skills::show,
        skills::enable,
        skills::disable,
        skills::catalogue,
        skills::read,
        skills::enable_for_all,
        skills::disable_for_all,
        plugins::list,
        plugins::install,
        plugins::uninstall,
        plugins::update,
        plugins::enable,
        plugins::disable,
        plugins::marketplaces,
        plugins::add_marketplace,
        plugins::remove_marketplace,
        plugins::browse,
        notifications::show,
        notifications::subscribe,
        notifications::unsubscribe,
        notifications::test,
        system::health,
        system::ready,
        system::metrics,
        system::models,
    ),
    components(schemas(super::error::ErrorBody)),
    security(("token" = [])),
    modifiers(&GuardResponses, &ParametersWithoutNull),
)]
struct Description;

/// `docs/openapi.json`, compressed. A file, which a test compares with the handlers: generating it at run time would take a
/// fiftieth of the program, for a text that never changes.
const OPENAPI: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/openapi.json.gz"));

/// Returns the OpenAPI description of the session API, as JSON.
fn openapi() -> String {
    // What the build script compressed can be read again; a test does.
    std::io::read_to_string(flate2::read::GzDecoder::new(OPENAPI)).unwrap_or_default()
}

/// Describes the handlers.
#[must_use]
pub fn describe_api() -> String {
    Description::openapi().to_pretty_json().unwrap_or_default()
}

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/api/login", post(login::log_in).layer(DefaultBodyLimit::max(MAX_PUBLIC_BODY)))
        .route("/api/logout", post(login::log_out))
        .route("/api/me", get(login::me))
        .route("/api/events", get(events::feed))
        .route("/api/search", get(search::search))
        .route("/api/render", post(render::render).layer(DefaultBodyLimit::max(render::MAX_BODY)))
        .route("/api/health", get(system::health))
        .route("/api/ready", get(system::ready))
        .route("/api/metrics", get(system::metrics))
        .route("/api/openapi.json", get(system::openapi))
        .route("/api/models", get(system::models))
        .route("/api/sessions", get(sessions::list).merge(post(sessions::create)))
        .route(
            "/api/sessions/{id}",
            get(sessions::show).merge(patch(sessions::change)).merge(delete(sessions::delete)),
        )
        .route("/api/sessions/{id}/resume", post(sessions::resume))
        .route("/api/sessions/{id}/state", get(state::show))
        .route("/api/sessions/{id}/queue", get(queue::list))
        .route("/api/sessions/{id}/queue/{prompt}", patch(queue::change).merge(delete(queue::withdraw)))
        .route("/api/sessions/{id}/fork", post(history::fork))
        .route("/api/sessions/{id}/export", get(history::export))
        .route("/api/sessions/{id}/rewind", get(history::preview).merge(post(history::rewind)))
        .route("/api/sessions/{id}/prompts", post(prompts::send))
        .route("/api/sessions/{id}/prompts/{prompt}", get(prompts::show))
        .route("/api/sessions/{id}/cancel", post(prompts::cancel))
        .route("/api/sessions/{id}/events", get(events::read))
        .route("/api/sessions/{id}/grants", get(grants::list).merge(delete(grants::revoke_all)))
        .route("/api/sessions/{id}/grants/{grant}", delete(grants::revoke))
        .route("/api/locations", get(grants::locations).merge(delete(grants::revoke_at_location)))
        .route("/api/notifications", get(notifications::show))
        .route(
            "/api/notifications/subscriptions",
            post(notifications::subscribe).layer(DefaultBodyLimit::max(MAX_PUBLIC_BODY)),
        )
        .route("/api/notifications/subscriptions/{id}", delete(notifications::unsubscribe))
        .route("/api/notifications/subscriptions/{id}/test", post(notifications::test))
        .route("/api/requests", get(requests::overview))
        .route("/api/sessions/{id}/requests", get(requests::list))
        .route("/api/sessions/{id}/requests/{request}", post(requests::answer))
        .route("/api/sessions/{id}/mcp", get(mcp::list))
        .route("/api/sessions/{id}/mcp/{server}", get(mcp::show))
        .route("/api/sessions/{id}/mcp/{server}/enable", post(mcp::enable))
        .route("/api/sessions/{id}/mcp/{server}/disable", post(mcp::disable))
        .route("/api/sessions/{id}/mcp/{server}/restart", post(mcp::restart))
        .route("/api/sessions/{id}/mcp/{server}/log", get(mcp::log))
        .route("/api/sessions/{id}/mcp/{server}/resources", get(mcp::resources))
        .route("/api/sessions/{id}/mcp/{server}/resource", get(mcp::resource))
        .route("/api/sessions/{id}/mcp/{server}/prompts", get(mcp::prompts))
        .route("/api/sessions/{id}/mcp/{server}/prompts/{prompt}", post(mcp::prompt))
        .route("/api/mcp/servers", get(mcp::catalogue).merge(post(mcp::add)))
        .route("/api/mcp/servers/{server}", delete(mcp::remove))
        .route("/api/mcp/servers/{server}/enable", post(mcp::enable_for_all))
        .route("/api/mcp/servers/{server}/disable", post(mcp::disable_for_all))
        .route("/api/sessions/{id}/skills", get(skills::list).merge(post(skills::reload)))
        .route("/api/sessions/{id}/skills/{skill}", get(skills::show))
        .route("/api/sessions/{id}/skills/{skill}/enable", post(skills::enable))
        .route("/api/sessions/{id}/skills/{skill}/disable", post(skills::disable))
        .route("/api/skills", get(skills::catalogue))
        .route("/api/skills/{skill}", get(skills::read))
        .route("/api/skills/{skill}/enable", post(skills::enable_for_all))
        .route("/api/skills/{skill}/disable", post(skills::disable_for_all))
        .route("/api/plugins", get(plugins::list).merge(post(plugins::install)))
        .route("/api/plugins/{plugin}", delete(plugins::uninstall))
        .route("/api/plugins/{plugin}/update", post(plugins::update))
        .route("/api/plugins/{plugin}/enable", post(plugins::enable))
        .route("/api/plugins/{plugin}/disable", post(plugins::disable))
        .route("/api/marketplaces", get(plugins::marketplaces).merge(post(plugins::add_marketplace)))
        .route("/api/marketplaces/{marketplace}", delete(plugins::remove_marketplace))
        .route("/api/marketplaces/{marketplace}/plugins", get(plugins::browse))
        .route("/api/sessions/{id}/requests/{request}/link", post(requests::link))
        .method_not_allowed_fallback(system::wrong_method)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// To update the document: `BATON_WRITE_OPENAPI=1 cargo test -p baton-http --lib openapi`.
    #[test]
    fn committed_openapi_document_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
        let generated = describe_api() + "\n";
        if std::env::var_os("BATON_WRITE_OPENAPI").is_some() {
            std::fs::write(path, &generated).unwrap();
        }
        assert_eq!(
            std::fs::read_to_string(path).unwrap_or_default(),
            generated,
            "update it with BATON_WRITE_OPENAPI=1"
        );
    }

    /// A route that the table does not list needs the strongest role, which is safe, but never intended.
    #[test]
    fn every_route_has_a_row_in_the_table_of_access() {
        let document: serde_json::Value = baton_json::from_str(&describe_api()).unwrap();
        for (path, item) in document["paths"].as_object().unwrap() {
            for method in item.as_object().unwrap().keys() {
                let listed = baton_people::access::listed(&method.to_uppercase(), path);
                assert!(listed.is_some(), "{method} {path}");
            }
        }
    }

    /// Generators of clients name a method after each operation id.
    #[test]
    fn operation_ids_are_unique() {
        let document: serde_json::Value = baton_json::from_str(&openapi()).unwrap();
        let items = document["paths"].as_object().unwrap().values();
        let operations = items.flat_map(|item| item.as_object().unwrap().values());
        let mut ids: Vec<_> =
            operations.map(|operation| operation["operationId"].as_str().unwrap()).collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count, "{ids:?}");
    }

    /// Doc comments of API types are read by users of the API, who cannot follow links into the code.
    #[test]
    fn openapi_document_contains_no_rustdoc_links() {
        assert!(!openapi().contains("[`"), "a description contains a Rustdoc link");
    }
}
