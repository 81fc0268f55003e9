//! Damage in histories that opening a session tolerates (P7), described for users. Nothing is changed in the store.

use baton_core::Durable;
use baton_protocol::{Event, SessionId};
use baton_store::{Record, Seq, Span, Store, StoreError};

use crate::owner;

const PAGE: usize = 1000;

/// Number of records that a description lists.
const LISTED: usize = 5;

/// Damaged records of a history, which opening it skips.
#[derive(Debug, Default)]
pub struct Damage {
    /// Records that exist and cannot be parsed.
    unreadable: Vec<Seq>,
    /// Records that do not exist, although later ones do or the session's head counts them.
    missing: Vec<Seq>,
}

impl Damage {
    /// Folds records into a state. An unreadable or missing record keeps its sequence number, changes nothing, and is
    /// noted.
    pub fn fold(&mut self, durable: &mut Durable, records: &[Record]) {
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

    /// Records as missing all records up to `end` that were not folded.
    pub fn fold_to(&mut self, durable: &mut Durable, end: Seq) {
        while durable.seq < end.0 {
            durable.skip();
            self.missing.push(Seq(durable.seq));
        }
    }

    /// Describes the damage for users; empty if there is none.
    #[must_use]
    pub fn describe(&self) -> Vec<String> {
        describe_unreadable(&self.unreadable).into_iter().chain(describe_missing(&self.missing)).collect()
    }
}

/// Parses the event in a record.
pub(crate) fn parse(record: &Record) -> Option<Event> {
    std::str::from_utf8(&record.body).ok().and_then(|text| Event::parse(text).ok())
}

/// Describes unreadable records; none if there are none.
fn describe_unreadable(unreadable: &[Seq]) -> Option<String> {
    let listed: Vec<String> = unreadable.iter().take(LISTED).map(Seq::to_string).collect();
    let more = if unreadable.len() > LISTED { ", ..." } else { "" };
    let what = if unreadable.len() == 1 { "event" } else { "events" };
    (!listed.is_empty()).then(|| {
        format!(
            "{} {what} of the history cannot be read and {} skipped (number {}{more}); all others are intact",
            unreadable.len(),
            if unreadable.len() == 1 { "is" } else { "are" },
            listed.join(", ")
        )
    })
}

/// Describes missing records; none if there are none.
fn describe_missing(missing: &[Seq]) -> Option<String> {
    let (first, last) = (missing.first()?, missing.last()?);
    let (what, range) = match missing.len() {
        1 => ("event of the history is", format!("number {first}")),
        _ => ("events of the history are", format!("between number {first} and {last}")),
    };
    Some(format!(
        "{} {what} missing ({range}): the store was damaged, or its log was truncated; all others are intact",
        missing.len()
    ))
}

/// Reads a whole history, and describes the damage that opening it would skip, and a turn that it would continue or close.
///
/// # Errors
/// When the store cannot be read.
pub async fn inspect(store: &dyn Store, session: &SessionId) -> Result<Vec<String>, StoreError> {
    let (mut durable, mut damage) = (Durable::default(), Damage::default());
    loop {
        let page = store.read(session, Span::After { after: Seq(durable.seq), limit: PAGE }).await?;
        if page.is_empty() {
            break;
        }
        damage.fold(&mut durable, &page);
    }
    let summary = store.summary(session).await?;
    let head = summary.as_ref().map_or(Seq::ZERO, |summary| summary.head);
    damage.fold_to(&mut durable, head);
    let mut found = damage.describe();
    let holder = summary.and_then(|summary| summary.holder);
    let is_held = holder.is_some_and(|holder| owner::is_alive(&holder.owner));
    if !is_held && let Some(turn) = &durable.turn {
        found.push(format!(
            "the history ends in the middle of a turn, with {} open tool calls; a resume continues the turn, or closes it \
             as interrupted",
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
    fn first_few_unreadable_records_are_listed() {
        assert_eq!(describe_unreadable(&[]), None);
        let one = describe_unreadable(&[Seq(3)]).unwrap();
        assert!(one.starts_with("1 event of the history cannot be read and is skipped (number 3);"), "{one}");
        let many: Vec<Seq> = (1..=9).map(Seq).collect();
        assert!(describe_unreadable(&many).unwrap().contains("(number 1, 2, 3, 4, 5, ...)"));
    }

    #[test]
    fn missing_records_are_counted_and_keep_their_sequence_numbers() {
        let record = |seq| Record { seq: Seq(seq), kind: "x".into(), body: Bytes::from_static(b"{}") };
        let (mut durable, mut damage) = (Durable::default(), Damage::default());
        damage.fold(&mut durable, &[record(1), record(4)]);
        damage.fold_to(&mut durable, Seq(6));
        assert_eq!(durable.seq, 6);
        assert_eq!(damage.missing, [2, 3, 5, 6].map(Seq));
        let text = damage.describe().join("\n");
        assert!(text.contains("4 events of the history are missing (between number 2 and 6)"), "{text}");
        assert_eq!(describe_missing(&[]), None);
        assert!(
            describe_missing(&[Seq(7)]).unwrap().starts_with("1 event of the history is missing (number 7)")
        );
    }

    #[tokio::test]
    async fn damage_is_reported_and_an_intact_history_is_not() {
        let store = MemoryStore::default();
        let record =
            |kind: &str, body: &str| NewRecord { kind: kind.to_owned(), body: Bytes::from(body.to_owned()) };
        let turn = r#"{"type":"assistant.turn_start","data":{"turnId":"0"},"id":"0190c2f0-0000-7000-8000-000000000002","timestamp":"2026-11-15T20:30:54.223Z","parentId":null}"#;
        let (damaged, intact) =
            (record("user.message", "gar\u{0}bage"), record("assistant.turn_start", turn));
        let histories = [("damaged", vec![damaged.clone(), intact.clone()], 1), ("whole", vec![intact], 0)];
        for (name, records, expected) in histories {
            let new = NewSession {
                session: name.parse().unwrap(),
                owner: owner::this_process(),
                created: baton_protocol::Timestamp::now(),
                records,
                meta: Bytes::new(),
                busy: false,
            };
            store.create(new).await.unwrap();
            assert_eq!(inspect(&store, &name.parse().unwrap()).await.unwrap().len(), expected, "{name}");
        }
    }
}
