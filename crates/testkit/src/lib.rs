//! Test support for Baton. A dev-dependency only.
//!
//! * [`model_server`]: a scripted model provider.
//! * [`program`]: the built program, with a temporary home.
//! * [`client`], [`chat`]: a client like the SDKs, and a session as it sees one.
//! * [`http`]: a client of the HTTP API that can also misbehave.
//! * [`processes`]: finds the processes that a test started.
//! * [`figures`]: helpers of the measuring examples.
//! * [`terminal`]: a pseudo-terminal for interactive tests.
//! * [`another_user`]: another user of this machine.
//! * [`not_run`]: tests that cannot run on this machine.

#![allow(clippy::disallowed_methods, reason = "tests may block")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests report by panicking")]

pub mod another_user;
pub mod chat;
pub mod client;
pub mod figures;
pub mod http;
pub mod model_server;
pub mod not_run;
pub mod processes;
pub mod program;
pub mod screen;
pub mod terminal;
