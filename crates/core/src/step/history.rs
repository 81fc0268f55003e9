//! Going back: the newest part of the history stops to count.

use baton_protocol::event::{HistoryTruncated, SnapshotRewind};

use super::Step;
use crate::output::{Reply, ReplyTo};

/// What whoever wants to go back while something runs is told.
const BUSY: &str = "the session is busy: cancel what it does first";

impl Step<'_> {
    /// Takes back everything from an event on. Only at rest: a turn whose beginning is gone could not end (P5). The
    /// session's first event stays, because without it there is no session.
    pub(super) fn truncate(&mut self, reply: ReplyTo, cut: HistoryTruncated) {
        if self.session.is_busy() {
            return self.reply(reply, Reply::Refused(BUSY.into()));
        }
        if cut.from_seq <= 1 || cut.from_seq > self.session.durable.seq {
            return self
                .reply(reply, Reply::Refused("the beginning of a session cannot be taken back".into()));
        }
        let (up_to_event_id, events_removed) = (cut.from_event_id, cut.events_removed);
        self.record(cut);
        self.show(SnapshotRewind { up_to_event_id, events_removed });
        self.reply(reply, Reply::Truncated(events_removed));
    }
}
