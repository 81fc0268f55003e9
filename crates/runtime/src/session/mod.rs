//! Live sessions: one actor each, so that a session has one writer and one order.
//!
//! [`Registry`] finds or opens them, and [`Handle`] sends them the asks of [`ask`]. The actor runs the core and upholds its
//! one rule: events are durable before anything acts on them. [`Hub`] delivers events to the attached clients.

pub(crate) mod actor;
mod addons;
pub mod ask;
mod failure;
mod handle;
mod hub;
mod message;
pub(crate) mod panics;
mod registry;
pub mod remote;
mod respond;
mod rewind;
mod stored_settings;
pub mod subscription;
mod view;

pub use baton_providers::{CallFailed, Calling};
pub(crate) use baton_settings::ToolKind;
pub use baton_settings::{OptionsEdit, Settings, SettingsEdit};

pub use self::failure::Failure;
pub use self::handle::Handle;
pub use self::hub::{Batch, Encoding, Hub, Port, Published, joined};
pub(crate) use self::message::{ActorMessage, Compact, FromWork};
pub use self::message::{JoinKind, JoinReply, JoinRequest};
pub use self::registry::Registry;
pub use self::remote::Peers;
pub(crate) use self::respond::{Respond, Responder};
pub use self::rewind::{RewindOutcome, Rewound};
pub use self::view::View;
