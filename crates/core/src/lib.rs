//! The session, as a function.
//!
//! A [`Session`] takes one [`Input`] at a time and returns [`Output`]s: events to make durable, events to show, answers
//! to callers, work to start and to stop. There is no clock, no randomness and no I/O in this crate, and no step can
//! fail: bad input is answered, not raised. What time it is and where ids come from is told by a [`Stamp`].
//!
//! The state has two halves. [`Durable`] is what folding the recorded events gives, and nothing else: opening an old
//! session and recovering from a crash are the same code ([`fold`]). [`Live`] is what exists only while the server
//! does: attached clients, and work in flight.
//!
//! The shell around it must keep one rule: **append the recorded events, wait until they are durable, and only then
//! act on the outputs, in their order.** Everything the promises P1 to P5 say follows from that rule and this crate.
//!
//! Where to look: a prompt's way is in [`step::prompt`], the rounds of model and tools in [`step::rounds`], turns of
//! other agents' programs in [`step::engine`], commands that wait in [`step::commands`], requests and their answers in [`step::requests`] (those of a turn) and
//! [`step::asks`] (those of a client), cancel in [`step::cancel`], clients that come and go in [`step::clients`],
//! sub-agents in [`step::agents`], another model in the middle of a turn in [`step::switch`], recovery in
//! [`step::recover`], going back in [`step::history`].

pub mod fold;
mod input;
mod output;
pub mod policy;
mod removed;
pub mod results;
pub mod stamp;
pub mod state;
pub mod step;

pub use input::{Answer, Arrangement, Arrival, Ask, Change, Elicited, Input, LogLevel, Profile, Withdrawn};
pub use output::{EngineControl, INTERRUPTED, Output, Reply, ReplyTo, Work, WorkId};
pub use removed::Removed;
pub use results::{
    Delegation, EngineReport, Instead, Prepared, PreparedPrompt, Route, Ruling, Said, Unanswered, WorkResult,
};
pub use stamp::Stamp;
pub use state::{
    Accepted, AgentOutcome, Call, CallKey, CallStage, Delegate, Durable, Ending, Live, Session, Stage, Turn,
};
