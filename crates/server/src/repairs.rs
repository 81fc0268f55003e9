//! What opening a session passes over or has to mend (P7), in words for people. It changes nothing.

use baton_core::Durable;
use baton_protocol::{Event, SessionId};
use baton_store::{Record, Seq, Span, Store, StoreError};

use crate::owner;

const PAGE: usize = 1000;

/// How many places are named one by one.
const NAMED: usize = 5;

/// What these records make of a state. One that cannot be read has its place in the sequence, and changes nothing; its
/// place is noted.
pub(crate) fn fold(durable: &mut Durable, records: &[Record], unreadable: &mut Vec<Seq>) {
    for record in records {
        match parse(record) {
            Some(event) => durable.apply(&event),
            None => {
                durable.skip();
                unreadable.push(record.seq);
            }
        }
    }
}

pub(crate) fn parse(record: &Record) -> Option<Event> {
    std::str::from_utf8(&record.body).ok().and_then(|text| Event::parse(text).ok())
}

/// What is said about records that cannot be read; nothing if there are none.
pub(crate) fn passed_over(unreadable: &[Seq]) -> Option<String> {
    let places: Vec<String> = unreadable.iter().take(NAMED).map(Seq::to_string).collect();
    let more = if unreadable.len() > NAMED { ", ..." } else { "" };
    let what = if unreadable.len() == 1 { "event" } else { "events" };
    (!places.is_empty()).then(|| {
        format!(
            "{} {what} of the history cannot be read and {} passed over (number {}{more}); all others are there",
            unreadable.len(),
            if unreadable.len() == 1 { "is" } else { "are" },
            places.join(", ")
        )
    })
}

/// Reads a whole history, and says what opening it passes over or mends.
///
/// # Errors
/// When the store cannot be read.
pub async fn look(store: &dyn Store, session: &SessionId) -> Result<Vec<String>, StoreError> {
    let (mut durable, mut unreadable) = (Durable::default(), Vec::new());
    loop {
        let page = store.read(session, Span::After { after: Seq(durable.seq), limit: PAGE }).await?;
        if page.is_empty() {
            break;
        }
        fold(&mut durable, &page, &mut unreadable);
    }
    let mut found: Vec<String> = passed_over(&unreadable).into_iter().collect();
    let holder = store.summary(session).await?.and_then(|summary| summary.holder);
    let is_held = holder.is_some_and(|holder| owner::is_alive(&holder.owner));
    if !is_held && let Some(turn) = &durable.turn {
        found.push(format!(
            "the history ends in the middle of a turn, with {} open tool calls; whoever resumes it goes on, or has it \
             closed as interrupted",
            turn.open_calls().count()
        ));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_store::memory::MemoryStore;
    use baton_store::{NewRecord, NewSession};
    use bytes::Bytes;

    #[test]
    fn the_first_few_are_named() {
        assert_eq!(passed_over(&[]), None);
        let one = passed_over(&[Seq(3)]).unwrap();
        assert!(
            one.starts_with("1 event of the history cannot be read and is passed over (number 3);"),
            "{one}"
        );
        let many: Vec<Seq> = (1..=9).map(Seq).collect();
        assert!(passed_over(&many).unwrap().contains("(number 1, 2, 3, 4, 5, ...)"));
    }

    #[tokio::test]
    async fn damage_and_open_turns_are_said_and_a_whole_history_is_not() {
        let store = MemoryStore::default();
        let record =
            |kind: &str, body: &str| NewRecord { kind: kind.to_owned(), body: Bytes::from(body.to_owned()) };
        let turn = r#"{"type":"assistant.turn_start","data":{"turnId":"0"},"id":"0190c2f0-0000-7000-8000-000000000002","timestamp":"2026-11-15T20:30:54.223Z","parentId":null}"#;
        let records = [record("user.message", "gar\u{0}bage"), record("assistant.turn_start", turn)];
        for (name, records, expected) in [("damaged", &records[..1], 1), ("whole", &records[2..], 0)] {
            let new = NewSession {
                session: name.parse().unwrap(),
                owner: owner::this_process(),
                created: baton_protocol::Timestamp::now(),
                records: records.to_vec(),
                meta: Bytes::new(),
                busy: false,
            };
            store.create(new).await.unwrap();
            assert_eq!(look(&store, &name.parse().unwrap()).await.unwrap().len(), expected, "{name}");
        }
    }
}
