//! Decides what happens to pending work when a client resumes the session. A crash of the server is a special case: after
//! it, no client is attached and nothing runs.
//!
//! **The rule.** While another client is attached, pending work stays as it is. When none is:
//! * `continuePendingWork: true`: requests stay answerable under their ids, and the turn continues with the answers;
//! * otherwise, after a crash, all pending work is closed as interrupted, and nothing runs until the next prompt;
//! * otherwise, in a server that did not stop, pending work stays, unless the resuming client offers the tool of a pending
//!   call. Such a client starts over, as the newest SDKs expect; a client without tools wants to answer pending requests,
//!   as older ones do. SDK versions disagree here, and this is the only place that knows it.
//!
//! An answer or a prompt after a crash without a resume, which the HTTP door allows, continues the work: closing a request
//! that is just being answered would be absurd.

use baton_protocol::event::Outcome;

use super::Step;
use crate::input::Profile;
use crate::state::{CallStage, Stage};

/// What happens to pending work when a client resumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PendingWork {
    /// It stays as it is: another client is attached, or this one can answer.
    Unchanged,
    /// There is none.
    Nothing,
    /// It continues.
    Continued,
    /// It is closed as interrupted.
    Interrupted,
}

impl PendingWork {
    /// Whether the session counts as active, in the event that records the resume.
    pub(super) fn was_active(self) -> bool {
        self == Self::Unchanged
    }
}

impl Step<'_> {
    /// Decides about pending work. `others`: whether another client is attached.
    pub(super) fn assess_pending_work(
        &self,
        others: bool,
        continue_pending_work: Option<bool>,
        resuming: &Profile,
    ) -> PendingWork {
        let recovered = self.session.live.is_recovered;
        if others && !recovered {
            return PendingWork::Unchanged;
        }
        if !self.session.is_busy() {
            return PendingWork::Nothing;
        }
        match continue_pending_work {
            Some(true) => PendingWork::Continued,
            _ if recovered => PendingWork::Interrupted,
            _ if self.offers_pending_tool(resuming) => PendingWork::Interrupted,
            _ => PendingWork::Unchanged,
        }
    }

    /// Whether a client offers the tool of a pending call.
    fn offers_pending_tool(&self, client: &Profile) -> bool {
        let mut calls = self.turn().into_iter().flat_map(|turn| turn.open_calls());
        calls.any(|call| client.tools.iter().any(|tool| tool.name == call.tool))
    }

    /// Continues or closes pending work.
    pub(super) fn resolve_pending_work(&mut self, pending: PendingWork) {
        match pending {
            PendingWork::Unchanged | PendingWork::Nothing => {}
            PendingWork::Continued => self.continue_work(),
            PendingWork::Interrupted => {
                self.end_all_work(Outcome::Interrupted, "the resuming client did not continue it");
                self.show_idle(true);
            }
        }
    }

    /// Continues the turn and the inbox of a recovered session. Calls that wait for an answer keep waiting; calls
    /// that had started are interrupted and never run again (P4); sub-agents fail; a model call without a result is
    /// repeated.
    pub(super) fn continue_work(&mut self) {
        if !self.session.live.is_recovered {
            return;
        }
        self.session.live.is_recovered = false;
        if self.is_driven() {
            return self.engine_lost();
        }
        self.fail_lost_agents();
        self.interrupt_calls(|call| call.stage == CallStage::Started, "the server stopped");
        match self.turn().map(|turn| turn.stage) {
            None => self.open_next_turn(),
            Some(Stage::Ready) if self.prepare_steering() => {}
            Some(Stage::Ready) => self.start_round(None),
            // The answer to the pending request for a fallback model decides which model is called.
            Some(Stage::CallingModel) if self.fallback_request().is_some() => {}
            Some(Stage::CallingModel) => self.start(crate::Work::CallModel { agent: None }),
            Some(Stage::Acting) => self.end_round_if_over(None),
        }
    }
}
