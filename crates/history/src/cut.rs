//! The part of a history that a rewind removes.

use std::ops::ControlFlow;

use baton_protocol::event::{HistoryTruncated, is_public};
use baton_protocol::{EventId, SessionId};
use baton_store::{Record, Seq, Store, StoreError};

use crate::backwards::{id_of, newest_first};

/// Finds the part of the history that a rewind to before `event` removes; none if there is no such event.
///
/// # Errors
/// When the store cannot be read.
pub async fn cut_before(
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

/// Search from the newest event to the oldest.
struct Search {
    wanted: EventId,
    /// Number of public events so far.
    seen: u64,
    cut: Option<HistoryTruncated>,
}

impl Search {
    /// Takes the next older record. Breaks when the search is complete.
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
                    by: None,
                });
            }
            return ControlFlow::Continue(());
        };
        // Events that only prepare the event are removed with it.
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
