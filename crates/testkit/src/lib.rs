//! What tests of Baton need and users never see. A dev-dependency only.
//!
//! * [`model_server`]: a model provider that says what the test wants it to say.
//! * [`program`]: the built program, with a home of its own.
//! * [`client`], [`chat`]: an SDK-like client, and a session as it uses one.
//! * [`http`]: a client of the HTTP door that can also misbehave.
//! * [`processes`]: what a test has started, and whether it still runs.
//! * [`figures`]: what the measuring examples share.
//! * [`terminal`]: a terminal that a test sits at.

#![allow(clippy::disallowed_methods, reason = "tests may block")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on should say so loudly and at once"
)]

pub mod chat;
pub mod client;
pub mod figures;
pub mod http;
pub mod model_server;
pub mod processes;
pub mod program;
pub mod terminal;
