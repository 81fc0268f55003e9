//! What becomes of work that was pending when the last client left. A crash of the server is the same case: after it,
//! nobody is attached and nothing runs.
//!
//! **The rule.** While another client is attached, pending work just stays. When nobody is:
//! * `continuePendingWork: true`: requests stay answerable under their ids, and the turn goes on with the answers;
//! * otherwise, after a crash, all of it is closed as interrupted, and nothing runs until the next prompt;
//! * otherwise, in a server that has been up all the time, pending work stays for whoever comes, unless the client
//!   that comes brings the tool of a pending call itself. Such a client starts over, as the newest SDKs expect; one that
//!   comes without tools wants to answer what is pending, as older ones do. This is where SDK versions disagree, and
//!   the only place that knows it.
//!
//! Who answers a request or sends a prompt after a crash without resuming first, as the HTTP door can, continues the
//! work: it would be odd to close what is just being answered.

use baton_protocol::event::Outcome;

use super::Step;
use crate::input::Profile;
use crate::state::{CallStage, Stage};

/// What a resuming client finds, and what is done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pending {
    /// Others are attached, or the work is kept for this client: nothing changes.
    Kept,
    /// Nobody was attached and nothing needs a decision.
    Nothing,
    /// The work goes on.
    Continued,
    /// The work is closed as interrupted.
    Dropped,
}

impl Pending {
    pub(super) fn was_active(self) -> bool {
        self == Self::Kept
    }
}

impl Step<'_> {
    pub(super) fn judge_pending_work(&self, others: bool, wish: Option<bool>, newcomer: &Profile) -> Pending {
        let recovered = self.session.live.is_recovered;
        if others && !recovered {
            return Pending::Kept;
        }
        if !self.session.is_busy() {
            return Pending::Nothing;
        }
        match wish {
            Some(true) => Pending::Continued,
            _ if recovered => Pending::Dropped,
            _ if self.brings_pending_tool(newcomer) => Pending::Dropped,
            _ => Pending::Kept,
        }
    }

    fn brings_pending_tool(&self, newcomer: &Profile) -> bool {
        let mut waiting = self.turn().into_iter().flat_map(|turn| turn.open_calls());
        waiting.any(|call| newcomer.tools.iter().any(|tool| tool.name == call.tool))
    }

    pub(super) fn take_up(&mut self, pending: Pending) {
        match pending {
            Pending::Kept | Pending::Nothing => {}
            Pending::Continued => self.continue_work(),
            Pending::Dropped => {
                self.end_all_work(Outcome::Interrupted, "nobody was attached when the session stopped");
                self.show_idle(true);
            }
        }
    }

    /// Goes on with the turn and the inbox. Calls that wait for an answer go on waiting; calls that had begun are
    /// interrupted, never run again (P4), and sub-agents are lost; a model call that left nothing behind is made again.
    pub(super) fn continue_work(&mut self) {
        if !self.session.live.is_recovered {
            return;
        }
        self.session.live.is_recovered = false;
        if self.is_driven() {
            return self.engine_lost();
        }
        self.lose_agents();
        self.interrupt_calls(|call| call.stage == CallStage::Started, "the server stopped");
        match self.turn().map(|turn| turn.stage) {
            None => self.open_next_turn(),
            Some(Stage::Ready) if self.prepare_steering() => {}
            Some(Stage::Ready) => self.ask(None),
            // Somebody is still to say which model is asked.
            Some(Stage::Asking) if self.offer().is_some() => {}
            Some(Stage::Asking) => self.start(crate::Work::Ask { agent: None }),
            Some(Stage::Acting) => self.end_round_if_over(None),
        }
    }
}
