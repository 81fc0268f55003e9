//! Live sessions: one actor each, so that a session has one writer and one order.
//!
//! [`Registry`] finds or opens them, [`Handle`] is how everybody else talks to one, [`actor::Actor`] runs the core and
//! keeps its one rule: durable first, then everything else. [`Hub`] takes events to whoever is attached,
//! [`Follower`] is how most of them take them.

pub(crate) mod actor;
mod follower;
mod hub;
mod mail;
mod registry;
mod settings;

pub(crate) use self::follower::{Follower, Recipient, is_piece};
pub(crate) use self::hub::{Batch, CallFailed, Calling, Hub, Port, Published};
pub(crate) use self::mail::{
    Compact, Failure, Handle, How, Joined, Joining, Mail, Responder, Rewind, RewindOutcome, Rewound, View,
};
pub(crate) use self::registry::Registry;
pub(crate) use self::settings::{Settings, ToolKind};
