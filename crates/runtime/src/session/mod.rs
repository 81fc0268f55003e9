//! Live sessions: one actor each, so that a session has one writer and one order.
//!
//! [`Registry`] finds or opens them, and [`Handle`] sends them the asks of [`baton_ask`]. The actor runs the core and upholds its
//! one rule: events are durable before anything acts on them. A session whose actor is in another server has an edge in
//! place of the actor.
//!
//! Doors get [`Handle`] and its types from here and not from `baton-handle`, which has more: messages to actors and the
//! publisher of events. Only what hosts a session may use those, and the walls test keeps doors from naming that crate.

pub(crate) mod actor;
mod addon_port;
mod edge;
pub mod panics;
mod registry;
mod stored_settings;

pub use baton_handle::remote::Peers;
pub(crate) use baton_handle::{ActorMessage, Compact, Respond, Responder};
pub use baton_handle::{
    Batch, Encoding, EventReader, Failure, Handle, Hub, JoinKind, JoinReply, JoinRequest, Port, Published,
    Returning, joined, remote, subscription,
};
pub use baton_providers::{CallFailed, Calling};

pub(crate) use self::addon_port::AddonPort;
pub use self::registry::Registry;
