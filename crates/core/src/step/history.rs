//! Rewinds the conversation: the newest part of the history no longer counts.

use baton_protocol::event::SnapshotRewind;

use super::Step;
use crate::activity::BUSY;
use crate::ask::{ReplyTo, Serve, Truncate};

impl Serve<Truncate> for Step<'_> {
    /// Removes everything from an event on. Only in an idle session: a turn whose start is gone could not end (P5). The
    /// first event always stays, because without it there is no session.
    fn handle(&mut self, to: ReplyTo<Truncate>, Truncate { cut }: Truncate) {
        if self.session.is_busy() {
            return self.refuse(to, BUSY);
        }
        if cut.from_seq <= 1 || cut.from_seq > self.session.durable.seq {
            return self.refuse(to, "the start of a session cannot be removed");
        }
        let (up_to_event_id, events_removed) = (cut.from_event_id, cut.events_removed);
        self.record(cut);
        self.show(SnapshotRewind { up_to_event_id, events_removed });
        self.reply(to, events_removed);
    }
}
