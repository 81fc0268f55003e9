//! Reading a history backwards, without the parts that a rewind removed.

use std::ops::ControlFlow;

use baton_protocol::event::HistoryTruncated;
use baton_protocol::{Body, Event, EventId, SessionId};
use baton_store::{Record, Seq, Span, Store, StoreError};
use serde::Deserialize;

const PAGE: usize = 256;

/// Passes the records up to `head` to `take`, newest first, until it breaks. A rewind costs nothing here: its event names
/// the first removed record, and reading continues before that.
///
/// # Errors
/// When the store cannot be read.
pub async fn newest_first(
    store: &dyn Store,
    session: &SessionId,
    head: Seq,
    mut take: impl FnMut(Record) -> ControlFlow<()> + Send,
) -> Result<(), StoreError> {
    let mut before = head.plus(1);
    while before.0 > 1 {
        let page = store.read(session, Span::Before { before, limit: PAGE }).await?;
        let Some(first) = page.first() else { break };
        before = first.seq;
        for record in page.into_iter().rev() {
            if let Some(from) = removed_from(&record) {
                before = from;
                break;
            }
            if take(record).is_break() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Returns the first record that this record removes, if it records a rewind.
fn removed_from(record: &Record) -> Option<Seq> {
    if record.kind != "baton.history_truncated" {
        return None;
    }
    match Event::parse(std::str::from_utf8(&record.body).ok()?).ok()?.body {
        Body::HistoryTruncated(HistoryTruncated { from_seq, .. })
            if (1..record.seq.0).contains(&from_seq) =>
        {
            Some(Seq(from_seq))
        }
        _ => None,
    }
}

/// Parses the id of an event, and nothing else of it.
#[must_use]
pub fn id_of(record: &Record) -> Option<EventId> {
    #[derive(Deserialize)]
    struct OnlyId {
        id: EventId,
    }
    serde_json::from_slice::<OnlyId>(&record.body).ok().map(|event| event.id)
}
