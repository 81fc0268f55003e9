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
mod routes;
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
use baton_service::{Operation, Service};
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
    routes::routes().with_state(Arc::new(Door { service: service.clone(), options, workspaces, http }))
}

/// Returns the routes of the API, as they are mounted under `/v1`: method, path and the operation, which decides who may.
#[must_use]
pub fn operations() -> Vec<(http::Method, String, Operation)> {
    let mounted = |route: routes::Route| (route.method, format!("/v1{}", route.path), route.operation);
    routes::table().into_iter().map(mounted).collect()
}

/// Locks a mutex, also if a holder panicked.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
