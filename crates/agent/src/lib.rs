//! The native engine: what a session's model is told, and what its tools do.
//!
//! The *decisions* of a turn (call the model, run this tool, wait for that answer, stop) are `baton-core`'s, because
//! they must survive a crash. The *work* is here: the prompt, the transcript, the built-in tools, the kinds of sub-agents.
//!
//! This crate never talks to clients and never writes history.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests may block"))]

pub mod agents;
pub mod blocking;
pub mod prompt;
pub mod tools;
pub mod transcript;
pub mod untrusted;
