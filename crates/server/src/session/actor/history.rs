//! Going back to before an event: where that is, and what of it clients had seen.

use std::ops::ControlFlow;

use baton_core::Input;
use baton_protocol::event::{HistoryTruncated, is_public};
use baton_protocol::{EventId, SessionId};
use baton_store::{Record, Seq, Store, StoreError};

use super::Actor;
use crate::history::{id_of, newest_first};
use crate::session::mail::{Failure, Responder};

impl Actor {
    /// Finds the event and takes it back, with all that came after it. The session waits meanwhile, so that nothing can
    /// come in between.
    pub(super) async fn truncate(&mut self, event: &str, respond: Responder) -> ControlFlow<()> {
        let found = cut_before(&*self.server.store, &self.session.id, self.head, event).await;
        match found {
            Err(error) => respond(Err(Failure::Store(error))),
            Ok(None) => respond(Err(Failure::Refused(format!("Event {event} not found in session")))),
            Ok(Some(cut)) => {
                let reply = self.expect_reply(respond);
                return self.step(Input::Truncate { reply, cut }).await;
            }
        }
        ControlFlow::Continue(())
    }
}

async fn cut_before(
    store: &dyn Store,
    session: &SessionId,
    head: Seq,
    event: &str,
) -> Result<Option<HistoryTruncated>, StoreError> {
    let Ok(wanted) = event.parse().map(EventId) else { return Ok(None) };
    let mut search = Search { wanted, seen: 0, cut: None };
    newest_first(store, session, head, |record| search.take(&record)).await?;
    Ok(search.cut)
}

/// A search from the newest event to the oldest.
struct Search {
    wanted: EventId,
    /// How many events that SDK clients see were passed on the way.
    seen: u64,
    cut: Option<HistoryTruncated>,
}

impl Search {
    /// Breaks when all is known.
    fn take(&mut self, record: &Record) -> ControlFlow<()> {
        let public = is_public(&record.kind);
        let Some(cut) = &mut self.cut else {
            self.seen += u64::from(public);
            if public && id_of(record) == Some(self.wanted) {
                self.cut = Some(HistoryTruncated {
                    from_event_id: self.wanted,
                    from_seq: record.seq.0,
                    events_removed: self.seen,
                    last_kept: None,
                    has_prompts: false,
                });
            }
            return ControlFlow::Continue(());
        };
        // What only prepared the event goes with it.
        let prepared = matches!(record.kind.as_str(), "baton.context_added" | "baton.prompt_accepted");
        if prepared && cut.last_kept.is_none() && record.seq.0 + 1 == cut.from_seq {
            cut.from_seq = record.seq.0;
        }
        if public {
            cut.last_kept = cut.last_kept.or_else(|| id_of(record));
        }
        cut.has_prompts = record.kind == "user.message";
        if cut.has_prompts { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
