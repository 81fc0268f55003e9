//! Rearranging what waits. Each change is an event, so that what was promised is kept after a crash (P1).

use baton_protocol::PromptId;
use baton_protocol::event::{
    Hold, PendingMessagesModified, Prompt, PromptAccepted, PromptAmended, PromptMoved, QueueHeld, SendMode,
};

use super::Step;
use crate::input::Arrangement;
use crate::output::{Reply, ReplyTo};
use crate::state::Accepted;

/// What whoever names something that does not wait is told.
const NOT_WAITING: &str = "there is no such item in the queue: it has been begun with, or is over";

impl Step<'_> {
    pub(super) fn arrange(&mut self, reply: ReplyTo, how: Arrangement) {
        let arranged = match how {
            Arrangement::Move(id, place) => self.move_to(id, place),
            Arrangement::Insert(prompt, place) => Ok(self.insert(prompt, place)),
            Arrangement::Duplicate(id) => self.duplicate(id),
            Arrangement::Reword { prompt, text, display } => self.reword(prompt, text, display),
            Arrangement::Steer(id) => self.steer(id),
            Arrangement::Hold(holds) => self.hold(holds),
        };
        let changed = !matches!(arranged, Ok(Reply::Arranged(false)) | Err(_));
        if changed {
            self.show(PendingMessagesModified {});
        }
        self.reply(reply, arranged.unwrap_or_else(|why| Reply::Refused(why.into())));
        // Nothing of a session that was read back runs before somebody comes for it.
        if changed && !self.session.live.is_recovered {
            self.look_at_inbox();
        }
    }

    fn waiting(&self, id: PromptId) -> Result<Accepted, &'static str> {
        self.session.waiting().find(|waiting| waiting.id == id).cloned().ok_or(NOT_WAITING)
    }

    fn move_to(&mut self, id: PromptId, place: usize) -> Result<Reply, &'static str> {
        self.waiting(id)?;
        let order = |step: &Self| step.session.waiting().map(|waiting| waiting.id).collect::<Vec<_>>();
        let before = order(self);
        let next = before.iter().filter(|other| **other != id).nth(place).copied();
        let after = before.iter().skip_while(|other| **other != id).nth(1).copied();
        if next == after {
            return Ok(Reply::Arranged(false));
        }
        self.record(PromptMoved { prompt_id: id, before: next });
        Ok(Reply::Arranged(true))
    }

    fn insert(&mut self, prompt: Prompt, place: usize) -> Reply {
        let before = self.session.waiting().nth(place).map(|waiting| waiting.id);
        // Its place says when it is its turn.
        let prompt_id = self.accept_before(Prompt { mode: SendMode::Enqueue, key: None, ..prompt }, before);
        Reply::Accepted(prompt_id)
    }

    fn duplicate(&mut self, id: PromptId) -> Result<Reply, &'static str> {
        let prompt = Prompt { key: None, ..(*self.waiting(id)?.prompt).clone() };
        let before = self.session.waiting().skip_while(|waiting| waiting.id != id).nth(1);
        let before = before.map(|waiting| waiting.id);
        Ok(Reply::Accepted(self.accept_before(prompt, before)))
    }

    fn accept_before(&mut self, prompt: Prompt, before: Option<PromptId>) -> PromptId {
        let prompt_id = PromptId(self.stamp.uuid());
        self.record(PromptAccepted { prompt_id, prompt });
        if before.is_some() {
            self.record(PromptMoved { prompt_id, before });
        }
        prompt_id
    }

    fn reword(
        &mut self,
        prompt_id: PromptId,
        text: String,
        display: Option<String>,
    ) -> Result<Reply, &'static str> {
        let old = self.waiting(prompt_id)?.prompt;
        if matches!(old.mode, SendMode::Command(_)) {
            return Err("this is a command: take it back, and queue another one");
        }
        let prompt = Prompt { text, display, ..(*old).clone() };
        if prompt == *old {
            return Ok(Reply::Arranged(false));
        }
        self.record(PromptAmended { prompt_id, prompt });
        Ok(Reply::Arranged(true))
    }

    fn steer(&mut self, prompt_id: PromptId) -> Result<Reply, &'static str> {
        let old = self.waiting(prompt_id)?.prompt;
        if matches!(old.mode, SendMode::Command(_)) {
            return Err("this is a command: it cannot join a turn");
        }
        if self.turn().is_none() {
            return Ok(Reply::Arranged(false));
        }
        let prompt = Prompt { mode: SendMode::Immediate, ..(*old).clone() };
        self.record(PromptAmended { prompt_id, prompt });
        Ok(Reply::Arranged(true))
    }

    fn hold(&mut self, holds: bool) -> Result<Reply, &'static str> {
        let hold = match (holds, self.session.durable.hold) {
            (true, Hold::UntilReleased) => {
                return Err("queue_already_paused: somebody holds the queue already");
            }
            (true, _) => Hold::UntilReleased,
            (false, Hold::Open) => return Ok(Reply::Arranged(false)),
            (false, _) => Hold::Open,
        };
        self.record(QueueHeld { hold });
        Ok(Reply::Arranged(true))
    }
}
