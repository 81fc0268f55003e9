//! The session as a pure function.
//!
//! A [`Session`] takes one [`Input`] at a time and returns [`Output`]s: events to record, events to show, replies to asks,
//! work to start and to stop. There is no clock, no randomness and no I/O in this crate, and no step can fail: invalid
//! input is refused in a reply. Time and ids come in with a [`Stamp`].
//!
//! The state has two halves. [`Durable`] is the fold of the recorded events and nothing else, so opening an old session
//! and recovering from a crash are the same code ([`fold`]). [`Live`] exists only while the process does: attached clients
//! and running work.
//!
//! The shell around a session must keep one rule: **append the recorded events, wait until they are durable, and only
//! then act on the outputs, in their order.** The promises P1 to P5 follow from that rule and this crate.
//!
//! Where to look:
//!
//! | subject | module |
//! |---|---|
//! | asks, their replies, and how to add one | [`ask`] |
//! | a prompt, from acceptance to the conversation | [`step::prompt`] |
//! | editing the queue | [`step::queue`] |
//! | queued slash commands and their runners | [`step::commands`] |
//! | rounds of model and tools | [`step::rounds`] |
//! | turns of engines | [`step::engine`] |
//! | sub-agents | [`step::agents`] |
//! | answers to requests of a turn | [`step::requests`] |
//! | permission requests | [`step::permissions`] |
//! | questions to the user | [`step::questions`] |
//! | requests of programs in the sandbox | [`step::walls`] |
//! | requests of one client to the others | [`step::asks`] |
//! | plans | [`step::plan`] |
//! | fallback models | [`step::switch`] |
//! | the permission policy | [`policy`] |
//! | clients that attach and detach | [`step::clients`] |
//! | cancel and close | [`step::cancel`] |
//! | recovery of pending work | [`step::recover`] |
//! | rewind | [`step::history`] |

mod activity;
pub mod ask;
pub mod fold;
mod input;
mod output;
pub mod policy;
mod removed;
pub mod results;
pub mod stamp;
pub mod state;
pub mod step;

pub use activity::RewindObstacle;
pub use ask::{
    AnswerOutcome, Ask, AskId, Asking, Change, Elicited, FileVerdict, HostAnswer, LogLevel, Refusal, Reply,
    ReplyTo, RequestAnswer, Withdrawn,
};
pub use input::{Arrival, Input, Profile, Registered};
pub use output::{INTERRUPTED, Output, Work, WorkId};
pub use removed::Removed;
pub use results::{
    AgentLimits, EngineReport, FailedModelCall, FallbackModel, Handoff, ModelReply, Prepared, PreparedPrompt,
    Route, TRUST_TOOL, TrustQuestion, TrustTerm, WorkResult,
};
pub use stamp::Stamp;
pub use state::{
    Accepted, Admission, AgentEnding, AgentOutcome, Call, CallKey, CallStage, ClientRequest, Durable, Live,
    SandboxBase, Session, ShownAs, Stage, SubAgent, Turn, WallRequest,
};
