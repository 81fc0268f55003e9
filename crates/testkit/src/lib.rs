//! What tests of Baton need and users never see. A dev-dependency only.
//!
//! * [`model_server`]: a model provider that says what the test wants it to say.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on should say so loudly and at once"
)]

pub mod model_server;
