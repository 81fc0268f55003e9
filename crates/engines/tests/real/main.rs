//! The real programs against a scripted model. Ignored unless asked for, because the programs must be installed first:
//! `scripts/test engines` installs and runs them.

#![allow(clippy::disallowed_methods, reason = "tests may block")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests are tests")]

#[path = "../common/mod.rs"]
mod common;

mod claude;
mod codex;
mod opencode;
mod pi;
mod qwen;
mod scenarios;
mod setup;
