//! Links between servers: one connection for two servers, with a channel for each session that one of them relays.
//!
//! * [`PeerDoor`] accepts connections of other servers, and serves their channels ([`baton_runtime::session::remote::serve`]).
//! * [`PeerLinks`] opens connections to other servers, and channels on them, for the runtime.
//! * [`frame`] defines the messages; [`handshake`] proves that both ends know the shared secret, without sending it.
//!
//! A connection that leaves the machine is encrypted ([`encryption`]).
//!
//! Nothing blocks a session: messages are queued, and a connection whose other end does not read is closed when its queue
//! is full or makes no progress. Sessions that were relayed are then found again, and continue from the store.

mod connection;
mod door;
mod encryption;
pub mod frame;
pub mod handshake;
mod links;
mod refusals;
mod strangers;

pub use door::PeerDoor;
pub use handshake::ClusterSecret;
pub use links::PeerLinks;
