//! The native engine: system prompt, transcript, built-in tools and sub-agent kinds.
//!
//! The *decisions* of a turn (call the model, run a tool, wait for a request, stop) are made in `baton-core`, because
//! they must survive a crash. This crate does the *work*.
//!
//! This crate never talks to clients and never writes history.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests may block"))]

pub mod agents;
pub mod prompt;
pub mod tools;
pub mod transcript;
