//! Live sessions as others see them: handles, and the fan-out of events.
//!
//! * [`Handle`] is the address of a live session: `ask` sends a typed ask ([`baton_ask`]), `join` attaches a client with a
//!   [`Port`] for its events, `inspect` copies the state ([`View`](baton_ask::View)).
//! * [`Hub`] has the ports of the attached clients. The actor or edge of the session has its [`Publisher`].
//! * [`attached`] has the clients of one server in a session, for the case that the session moves.
//! * [`subscription`] is a bounded port for receivers inside the process.
//! * [`remote`] has the messages between servers when the actor is in another one, and serves them where it is.
//!
//! A handle hides what is on its other side: an actor of the runtime, or a task that relays to another server. Both read
//! [`ActorMessage`]s. Nothing here decides what a session does, writes history, or speaks a wire's protocol.

pub mod attached;
mod failure;
mod handle;
mod hub;
mod message;
mod published;
mod publisher;
pub mod remote;
mod reports;
mod respond;
mod streams;
pub mod subscription;

pub use self::failure::Failure;
pub use self::handle::{Handle, vanish};
pub use self::hub::{EventReader, Hub, Port, Residence};
pub use self::message::{ActorMessage, Compact, FromWork, JoinKind, JoinReply, JoinRequest, Returning};
pub use self::published::{Batch, Encoding, Published, joined};
pub use self::publisher::Publisher;
pub use self::reports::ReportQueue;
pub use self::respond::{Respond, Responder};
