//! Editing the queue. Each change is an event, so that the queue is the same after a crash (P1).

use baton_protocol::PromptId;
use baton_protocol::event::{
    Hold, PendingMessagesModified, Prompt, PromptAccepted, PromptAmended, PromptMoved, PromptsHeld,
    QueueHeld, SendMode,
};

use super::Step;
use crate::ask::{
    Asking, DuplicateQueued, HoldQueue, InsertPrompt, MoveQueued, ReplyTo, RewordQueued, Serve, SteerQueued,
};
use crate::state::Accepted;

/// Error for an item that is not in the queue.
const NOT_QUEUED: &str = "the item is not in the queue: it was started or withdrawn, or never existed";

/// Result of an edit of the queue, or why it is refused.
type Edit<T> = Result<T, &'static str>;

impl Serve<MoveQueued> for Step<'_> {
    fn handle(&mut self, to: ReplyTo<MoveQueued>, ask: MoveQueued) {
        let moved = self.move_to(ask.prompt, ask.position);
        self.edited(to, moved, moved == Ok(true));
    }
}

impl Serve<InsertPrompt> for Step<'_> {
    fn handle(&mut self, to: ReplyTo<InsertPrompt>, ask: InsertPrompt) {
        let before = self.session.queue().nth(ask.position).map(|item| item.id);
        // The position decides when the prompt is started, not its mode.
        let prompt = Prompt { mode: SendMode::Enqueue, key: None, ..*ask.prompt };
        let inserted = self.accept_before(prompt, before);
        self.edited(to, Ok(inserted), true);
    }
}

impl Serve<DuplicateQueued> for Step<'_> {
    fn handle(&mut self, to: ReplyTo<DuplicateQueued>, ask: DuplicateQueued) {
        let copied = self.duplicate(ask.prompt);
        self.edited(to, copied, copied.is_ok());
    }
}

impl Serve<RewordQueued> for Step<'_> {
    fn handle(&mut self, to: ReplyTo<RewordQueued>, ask: RewordQueued) {
        let reworded = self.reword(ask.prompt, ask.text, ask.display);
        self.edited(to, reworded, reworded == Ok(true));
    }
}

impl Serve<SteerQueued> for Step<'_> {
    fn handle(&mut self, to: ReplyTo<SteerQueued>, ask: SteerQueued) {
        let steers = self.steer(ask.prompt);
        self.edited(to, steers, steers == Ok(true));
    }
}

impl Serve<HoldQueue> for Step<'_> {
    fn handle(&mut self, to: ReplyTo<HoldQueue>, ask: HoldQueue) {
        let held = self.hold(ask.hold);
        self.edited(to, held, held == Ok(true));
    }
}

impl Step<'_> {
    /// Replies to an edit of the queue. If the queue changed, its head may be ready to start.
    fn edited<A: Asking>(&mut self, to: ReplyTo<A>, edit: Edit<A::Reply>, changed: bool) {
        if changed {
            self.show(PendingMessagesModified {});
        }
        match edit {
            Ok(reply) => self.reply(to, reply),
            Err(why) => self.refuse(to, why),
        }
        // Nothing of a recovered session runs before a client resumes it.
        if changed && !self.session.live.is_recovered {
            self.continue_queue();
        }
    }

    fn queued(&self, id: PromptId) -> Edit<Accepted> {
        self.session.queue().find(|item| item.id == id).cloned().ok_or(NOT_QUEUED)
    }

    fn move_to(&mut self, id: PromptId, position: usize) -> Edit<bool> {
        self.queued(id)?;
        let order: Vec<PromptId> = self.session.queue().map(|item| item.id).collect();
        let next = order.iter().filter(|other| **other != id).nth(position).copied();
        let next_now = order.iter().skip_while(|other| **other != id).nth(1).copied();
        if next == next_now {
            return Ok(false);
        }
        self.record(PromptMoved { prompt_id: id, before: next });
        Ok(true)
    }

    fn duplicate(&mut self, id: PromptId) -> Edit<PromptId> {
        let Accepted { prompt, held, .. } = self.queued(id)?;
        let prompt = Prompt { key: None, ..(*prompt).clone() };
        let before = self.session.queue().skip_while(|item| item.id != id).nth(1);
        let before = before.map(|item| item.id);
        let copy = self.accept_before(prompt, before);
        if held {
            self.record(PromptsHeld { prompt_ids: vec![copy] });
        }
        Ok(copy)
    }

    fn accept_before(&mut self, prompt: Prompt, before: Option<PromptId>) -> PromptId {
        let prompt_id = PromptId(self.stamp.uuid());
        self.record(PromptAccepted { prompt_id, prompt });
        if before.is_some() {
            self.record(PromptMoved { prompt_id, before });
        }
        prompt_id
    }

    fn reword(&mut self, prompt_id: PromptId, text: String, display: Option<String>) -> Edit<bool> {
        let old = self.queued(prompt_id)?.prompt;
        if matches!(old.mode, SendMode::Command(_)) {
            return Err("this item is a command and cannot be reworded; withdraw it and enqueue another");
        }
        let prompt = Prompt { text, display, ..(*old).clone() };
        if prompt == *old {
            return Ok(false);
        }
        self.record(PromptAmended { prompt_id, prompt });
        Ok(true)
    }

    fn steer(&mut self, prompt_id: PromptId) -> Edit<bool> {
        let old = self.queued(prompt_id)?.prompt;
        if matches!(old.mode, SendMode::Command(_)) {
            return Err("this item is a command and cannot join a turn");
        }
        if self.turn().is_none() {
            return Ok(false);
        }
        let prompt = Prompt { mode: SendMode::Immediate, ..(*old).clone() };
        self.record(PromptAmended { prompt_id, prompt });
        Ok(true)
    }

    fn hold(&mut self, hold: bool) -> Edit<bool> {
        let hold = match (hold, self.session.durable.hold) {
            (true, Hold::UntilReleased) => {
                return Err("queue_already_paused: the queue is already paused");
            }
            (true, _) => Hold::UntilReleased,
            (false, Hold::Open) if !self.session.durable.holds_prompts() => return Ok(false),
            (false, _) => Hold::Open,
        };
        self.record(QueueHeld { hold });
        Ok(true)
    }
}
