//! The wire vocabulary of Baton: the messages between clients and servers, and the events of a session's
//! history.
//!
//! This crate contains types and parsing only. It does no I/O, holds no state and decides nothing:
//! the doors decide whether a request is served, `baton-core` what a session does next.
//!
//! Start at [`event`] for the history of a session, at [`rpc`] and [`frame`] for JSON-RPC, and at [`params`]
//! for the parameters that clients send.

pub mod agent;
pub mod attachment;
pub mod engine;
pub mod environment;
pub mod event;
pub mod frame;
pub mod ids;
pub mod json;
pub mod params;
pub mod permission;
pub mod provider;
pub mod rpc;
pub mod rules;
pub mod sandbox;
pub mod sse;
pub mod time;
pub mod tool;
pub mod workflow;

pub use event::{Body, Event};
pub use ids::{AgentId, Author, ClientId, EventId, PromptId, RequestId, SessionId, ToolCallId};
pub use json::Json;
pub use time::Timestamp;
