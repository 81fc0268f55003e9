//! Engines with scripts in place of their programs: behaviour that must hold whatever a program does.

#![allow(clippy::disallowed_methods, reason = "tests may block")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests are tests")]

#[path = "../common/mod.rs"]
mod common;

mod acp;
mod bad_input;
mod codex;
mod conversations;
mod endings;
mod probes;
mod questions;
mod setup;
mod supervision;
