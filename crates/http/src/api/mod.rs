//! The session API, under `/api`: resources for scripts and web pages.
//!
//! `docs/openapi.json` is generated from these modules; a test checks that it is up to date.

mod commands;
mod description;
mod events;
mod extract;
mod grants;
mod history;
mod mcp;
mod notifications;
mod paths;
mod plugins;
mod prompts;
mod queue;
mod render;
mod requests;
mod routes;
mod sandbox;
mod search;
mod sessions;
mod skills;
mod state;
mod system;
mod types;

use utoipa::OpenApi;

use self::description::{GuardResponses, ParametersWithoutNull};
pub(super) use self::extract::{By, JsonBody, caller_of};
pub(super) use self::routes::{routes, table};
pub(super) use self::system::start_page;
pub(super) use self::types::RequestView;

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
        sandbox::set,
        prompts::send,
        prompts::show,
        prompts::cancel,
        events::read,
        search::search,
        render::render,
        state::show,
        commands::list,
        commands::enqueue,
        commands::run,
        paths::complete,
        queue::list,
        queue::hold,
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
