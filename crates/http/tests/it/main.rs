//! Tests of the HTTP door with a runtime behind it, in one process.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    reason = "tests may panic and block"
)]

mod full_disk;
mod large_events;
mod panics;

use std::path::Path;
use std::sync::Arc;

use axum::Router;
use baton_http::{HttpDoor, HttpListener, HttpOptions};
use baton_runtime::{Options, Runtime};
use baton_service::Service;
use baton_store::Store;
use baton_store::faults::FaultyStore;
use baton_testkit::http::Http;
use tokio::net::UnixListener;

/// Starts a server on a socket file.
fn serve(home: &Path, name: &str, store: &Arc<FaultyStore>) -> (Arc<Runtime>, Http) {
    serve_with(home, name, store.clone(), Router::new())
}

/// Starts a server on a socket file, with additional routes under `/test`.
fn serve_with(home: &Path, name: &str, store: Arc<dyn Store>, routes: Router) -> (Arc<Runtime>, Http) {
    let runtime = Runtime::new(Options::new("0", home, home), store);
    let file = home.join(name);
    let listener = HttpListener::Socket(UnixListener::bind(&file).unwrap());
    let door = HttpDoor::new(&Service::new(&runtime), HttpOptions::default()).mount("/test", routes);
    tokio::spawn(async move { door.serve(listener).await });
    (runtime, Http::socket(file))
}
