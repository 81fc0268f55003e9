//! Notifications of people when a request stays unanswered, or a turn has ended.
//!
//! A request is durable in its session's history, so it is only scheduled while it may still be answered ([`schedule`]).
//! When it is due, it enters the [`outbox`], which is a document of the store: from then on it is delivered at least once to
//! each [`target`], under one id, whatever server dies; and retracted when the request is answered elsewhere. After a start,
//! [`notifier`] searches the histories for requests and turns that no server has noticed.
//!
//! [`Courier`] has the stored state and the channels: Web Push, a signed webhook, and Telegram, whose buttons answer
//! (`answers`). [`Notifier`] connects it with live sessions. This crate decides nothing about a session: it passes
//! answers on as every other client does. It knows no door.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests may block"))]

mod answers;
mod channel;
mod courier;
mod decision;
mod documents;
mod exchange;
mod facts;
pub mod notification;
pub mod notifier;
pub mod outbox;
pub mod schedule;
mod subscriptions;
pub mod target;

pub use self::channel::push::PushOptions;
pub use self::channel::telegram::Telegram;
pub use self::channel::webhook::Webhook;
pub(crate) use self::courier::link_fragment;
pub use self::courier::{Courier, Details, NewSubscription, NotifyOptions};
pub use self::documents::NotifyError;
pub use self::notifier::{Notifier, Statistics};
