//! The wire vocabulary of Baton: what travels between a client and a server, and what a session's history is
//! made of.
//!
//! This crate is types and parsing only. It does no I/O, keeps no state and decides nothing: whether a request may
//! be served is `baton-server`'s business, what a session does next is `baton-core`'s.
//!
//! Start at [`event`] for the history of a session, at [`rpc`] and [`frame`] for JSON-RPC, and at [`params`] for what
//! clients send.

pub mod agent;
pub mod attachment;
pub mod event;
pub mod frame;
pub mod ids;
pub mod json;
pub mod params;
pub mod permission;
pub mod provider;
pub mod rpc;
pub mod rules;
pub mod time;
pub mod tool;

pub use event::{Body, Event};
pub use ids::{AgentId, Author, ClientId, EventId, PromptId, RequestId, SessionId, ToolCallId};
pub use json::Json;
pub use time::Timestamp;
