//! What opening a session passes over or has to mend (P7), in words for people. It changes nothing.

use baton_core::Durable;
use baton_protocol::{Event, SessionId};
use baton_store::{Record, Seq, Span, Store, StoreError};

use crate::owner;

const PAGE: usize = 1000;

/// How many places are named one by one.
const NAMED: usize = 5;

/// The places in a history that opening it passes over.
#[derive(Debug, Default)]
pub(crate) struct Passed {
    /// Records that are there and cannot be read.
    unreadable: Vec<Seq>,
    /// Places where there is no record although later ones, or the session's own count, say that there was one.
    lost: Vec<Seq>,
}

impl Passed {
    /// What these records make of a state. One that cannot be read, or is missing, has its place in the sequence, and
    /// changes nothing; its place is noted.
    pub(crate) fn fold(&mut self, durable: &mut Durable, records: &[Record]) {
        for record in records {
            self.fold_to(durable, Seq(record.seq.0.saturating_sub(1)));
            match parse(record) {
                Some(event) => durable.apply(&event),
                None => {
                    durable.skip();
                    self.unreadable.push(record.seq);
                }
            }
        }
    }

    /// Passes over all places up to this one.
    pub(crate) fn fold_to(&mut self, durable: &mut Durable, place: Seq) {
        while durable.seq < place.0 {
            durable.skip();
            self.lost.push(Seq(durable.seq));
        }
    }

    /// What is said about it.
    pub(crate) fn in_words(&self) -> Vec<String> {
        passed_over(&self.unreadable).into_iter().chain(lost(&self.lost)).collect()
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

/// What is said about records that are missing; nothing if none are.
fn lost(places: &[Seq]) -> Option<String> {
    let (first, last) = (places.first()?, places.last()?);
    let (what, where_) = match places.len() {
        1 => ("event of the history is", format!("number {first}")),
        _ => ("events of the history are", format!("between number {first} and {last}")),
    };
    Some(format!(
        "{} {what} missing ({where_}): the store was damaged, or its log was cut; all others are there",
        places.len()
    ))
}

/// Reads a whole history, and says what opening it passes over or mends.
///
/// # Errors
/// When the store cannot be read.
pub async fn look(store: &dyn Store, session: &SessionId) -> Result<Vec<String>, StoreError> {
    let (mut durable, mut passed) = (Durable::default(), Passed::default());
    loop {
        let page = store.read(session, Span::After { after: Seq(durable.seq), limit: PAGE }).await?;
        if page.is_empty() {
            break;
        }
        passed.fold(&mut durable, &page);
    }
    let summary = store.summary(session).await?;
    let head = summary.as_ref().map_or(Seq::ZERO, |summary| summary.head);
    passed.fold_to(&mut durable, head);
    let mut found = passed.in_words();
    let holder = summary.and_then(|summary| summary.holder);
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

    #[test]
    fn missing_records_are_counted_and_keep_their_places() {
        let record = |seq| Record { seq: Seq(seq), kind: "x".into(), body: Bytes::from_static(b"{}") };
        let (mut durable, mut passed) = (Durable::default(), Passed::default());
        passed.fold(&mut durable, &[record(1), record(4)]);
        passed.fold_to(&mut durable, Seq(6));
        assert_eq!(durable.seq, 6);
        assert_eq!(passed.lost, [2, 3, 5, 6].map(Seq));
        let said = passed.in_words().join("\n");
        assert!(said.contains("4 events of the history are missing (between number 2 and 6)"), "{said}");
        assert_eq!(lost(&[]), None);
        assert!(lost(&[Seq(7)]).unwrap().starts_with("1 event of the history is missing (number 7)"));
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
