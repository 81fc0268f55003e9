//! The full-screen terminal interface: a client of the HTTP API like any other.
//!
//! * [`state`] is everything that is known; [`fold`](state::State::fold) applies an [`event`] to it and returns what it causes;
//!   [`draw`] turns it into cells. All three are pure: time, size, focus and keys are events.
//! * [`conversation`] folds the events of a session into items, [`layout`] turns items into rows, [`request`] the request that
//!   waits. [`editor`] is the input box, [`keys`] the table of keys.
//! * `shell` ([`run`]) does the rest: the terminal, the network, the clock, the clipboard, the user's editor.
//!
//! Text from outside is escaped in [`text`] and in `baton_markup` before it becomes a cell.

pub mod conversation;
pub mod draw;
pub mod editor;
pub mod event;
mod fold;
pub mod keys;
pub mod layout;
pub mod request;
mod shell;
pub mod state;
pub mod text;
pub mod theme;
pub mod wire;

pub use self::fold::{COMMANDS, Command};
pub use self::shell::{BoxFuture, Environment, Found, Left, Options, Servers, Start, run};
