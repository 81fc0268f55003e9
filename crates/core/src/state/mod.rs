//! State of a session: a durable half and a live half.

mod agent;
mod call;
mod durable;
mod live;
mod turn;

use baton_protocol::event::SendMode;
use baton_protocol::sandbox::{SandboxChoice, SandboxLevel};
use baton_protocol::{PromptId, SessionId};
use serde::{Deserialize, Serialize};

pub use self::agent::{AgentEnding, AgentOutcome, SubAgent};
pub use self::call::{Call, CallKey, CallStage};
pub use self::durable::{Accepted, Admission, Durable, Facts, Totals, WallRequest};
pub use self::live::{ClientRequest, Live, SandboxBase, ShownAs};
pub use self::turn::{Stage, Turn};
use crate::output::Work;

/// A session.
///
/// The shell keeps a copy from before each step, to restore it if the step cannot be made durable. So a copy must be
/// cheap: parts that can grow long or large are shared between copies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// Id of the session.
    pub id: SessionId,
    /// State that survives the process.
    pub durable: Durable,
    /// State that does not.
    pub live: Live,
}

impl Session {
    /// Creates an empty session, for events to be folded into or recorded.
    #[must_use]
    pub fn new(id: SessionId) -> Self {
        Self { id, durable: Durable::default(), live: Live::default() }
    }

    /// Creates a session from its stored state. Nothing runs yet: what becomes of pending work is decided when the
    /// first client attaches.
    #[must_use]
    pub fn recovered(id: SessionId, durable: Durable) -> Self {
        let mut session = Self { id, durable, live: Live::default() };
        session.live.is_recovered = session.is_busy();
        session
    }

    /// Returns the sandbox that is set for the session's programs: one that was chosen for the session, else one that was
    /// chosen in the configuration, else the default of the session's kind.
    #[must_use]
    pub fn sandbox(&self) -> &SandboxChoice {
        let configured = &*self.live.sandbox.default;
        match &self.durable.facts.sandbox {
            Some(own) if own.chosen || !configured.chosen => own,
            _ => configured,
        }
    }

    /// Returns the level that holds for the session's programs now: off where the system has no sandbox.
    #[must_use]
    pub fn sandbox_level(&self) -> SandboxLevel {
        if self.live.sandbox.missing.is_none() { self.sandbox().policy.level } else { SandboxLevel::Off }
    }

    /// Returns the queue, in order: items that have not been started, without prompts that steer a turn.
    pub fn queue(&self) -> impl Iterator<Item = &Accepted> {
        let queued = |item: &&Accepted| item.prompt.mode != SendMode::Immediate;
        self.durable.inbox.iter().filter(queued).filter(|item| !self.has_begun(item.id))
    }

    /// Whether an item of the inbox has been started.
    #[must_use]
    pub fn has_begun(&self, id: PromptId) -> bool {
        let mut work = self.live.work.values();
        self.live.client_command == Some(id)
            || work.any(|work| match work {
                Work::PreparePrompt { prompt, .. } => *prompt == id,
                Work::RunCommand { command } => *command == id,
                _ => false,
            })
    }
}
