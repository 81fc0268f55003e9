//! Client connections below any protocol, shared by the doors.
//!
//! [`Outbox`] is the bounded queue of bytes to one client, [`stdio`] a connection over standard input and output, and
//! [`Subscriber`] the cursor of one client in a session: it delivers live events while the client keeps up, and events
//! from the store when the client has fallen behind. The door encodes the events ([`Recipient`]). [`Shares`] limits what one
//! person may hold.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests may block"))]

mod outbox;
mod pipe;
mod shares;
mod slow_body;
pub mod stdio;
mod subscriber;

pub use self::outbox::{Closed, Outbox};
pub use self::pipe::Pipe;
pub use self::shares::{EventStreams, OpenStream, Share, Shares, TooManyStreams};
pub use self::slow_body::SlowBody;
pub use self::subscriber::{EventSource, Recipient, Subscriber, is_delta};
