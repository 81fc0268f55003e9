//! End-to-end tests of the program, over pipes and sockets, under misbehaving clients, models, disks and crashes: it answers
//! with clear errors, loses nothing that it acknowledged, and stays usable.
//!
//! Each test starts the built `baton` with a fresh home. The model is the scripted one of `baton-testkit`, in the process of
//! the test, unless a test is about the demo model.

#![allow(clippy::disallowed_methods, reason = "tests may block")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot continue fails at once"
)]

mod attach;
mod bulky_json;
mod code_map;
mod commands;
mod crash;
mod crush_cancel;
mod crush_client;
mod crush_requests;
mod crush_runs;
mod crush_workspaces;
mod directories;
mod display;
mod docs;
mod extend;
mod frames;
mod fuzz;
mod handover;
mod history;
mod http;
mod interface;
mod invalid_params;
mod load;
mod log;
mod lost_events;
mod mcp;
mod mcp_login;
mod mcp_requests;
mod methods;
mod model;
mod model_switch;
mod operate;
mod order;
mod permissions;
mod processes;
mod providers;
mod queue;
mod replay;
mod rewind;
mod rpc_limits;
mod rpc_token;
mod run;
mod sandbox;
mod scripting;
mod secrets;
mod serving;
mod sessions;
mod shutdown;
mod skills;
mod sql;
mod upgrade;
mod walk;
mod walls;

use std::time::Duration;

use baton_testkit::client::LIMIT;
use baton_testkit::model_server::ModelServer;
use baton_testkit::program::Program;

/// The built program, with a fresh home and the demo model.
fn baton() -> Program {
    Program::new(env!("CARGO_BIN_EXE_baton"))
}

/// The built program, with a fresh home and a scripted model.
async fn scripted() -> (Program, ModelServer) {
    let model = ModelServer::start().await;
    (baton().with_model(&model), model)
}

/// Polls until `check` returns a value, for states that no event announces. Fails after [`LIMIT`].
async fn eventually<T>(what: &str, mut check: impl AsyncFnMut() -> Option<T>) -> T {
    let polling = async {
        loop {
            if let Some(found) = check().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LIMIT, polling)
        .await
        .unwrap_or_else(|_| panic!("waited {LIMIT:?} for {what} in vain"))
}
