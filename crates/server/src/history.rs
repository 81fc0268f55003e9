//! Reading a history as it counts: what was taken back is passed over.

use std::ops::ControlFlow;

use baton_protocol::event::HistoryTruncated;
use baton_protocol::{Body, Event, EventId, SessionId};
use baton_store::{Record, Seq, Span, Store, StoreError};
use serde::Deserialize;

const PAGE: usize = 256;

/// The events up to `head`, newest first, until `take` has enough. Going back costs nothing here: the event that says so
/// says where to go on.
pub(crate) async fn newest_first(
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
            if let Some(from) = taken_back_from(&record) {
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

/// Where the part begins that a record takes back, if it takes back any.
fn taken_back_from(record: &Record) -> Option<Seq> {
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

/// The name of an event, without reading the rest of it.
pub(crate) fn id_of(record: &Record) -> Option<EventId> {
    #[derive(Deserialize)]
    struct Named {
        id: EventId,
    }
    serde_json::from_slice::<Named>(&record.body).ok().map(|named| named.id)
}
