//! The real program, over real pipes and sockets, on a bad day: whatever clients, models, disks and the power do, it
//! answers clearly, loses nothing that it acknowledged, and stays usable.
//!
//! Everything here starts the built `baton` in a home of its own. The model is the scripted one of `baton-testkit`, in
//! the test's process, unless a test is about the demo model.

#![allow(clippy::disallowed_methods, reason = "tests may block")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on should say so loudly and at once"
)]

mod admission;
mod attach;
mod commands;
mod crash;
mod crowd;
mod directories;
mod display;
mod docs;
mod door;
mod endings;
mod fuzz;
mod handover;
mod history;
mod http;
mod losses;
mod methods;
mod model;
mod order;
mod permissions;
mod processes;
mod providers;
mod replay;
mod rewind;
mod rpc_limits;
mod secrets;
mod v1_client;
mod v1_requests;
mod v1_runs;
mod v1_workspaces;
mod values;

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
