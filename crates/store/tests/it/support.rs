//! Helpers of the tests.

use std::path::Path;

use baton_protocol::{SessionId, Timestamp};
use baton_store::sqlite::{Durability, SqliteStore};
use baton_store::{Append, Lease, NewRecord, NewSession, Owner, Record, Seq, Span, Store, StoreError};
use bytes::Bytes;

pub(crate) fn id(name: &str) -> SessionId {
    name.parse().unwrap()
}

pub(crate) fn owner(server: &str) -> Owner {
    Owner { server: server.into(), host: "host".into(), boot: "boot".into(), pid: 1, started: 1 }
}

/// A record whose body names its session and sequence number.
pub(crate) fn record(session: &str, place: u64) -> NewRecord {
    NewRecord { kind: "kind".into(), body: format!("{session}/{place}").repeat(20).into() }
}

pub(crate) fn new_session(name: &str, records: u64) -> NewSession {
    NewSession {
        session: id(name),
        owner: owner("ours"),
        created: Timestamp(1),
        records: (1..=records).map(|place| record(name, place)).collect(),
        meta: Bytes::from_static(b"meta"),
        busy: false,
    }
}

/// An append of one more record at the head.
pub(crate) fn next(lease: &Lease, head: u64) -> Append {
    Append {
        lease: lease.clone(),
        expected: Seq(head),
        records: vec![record(lease.session.as_str(), head + 1)],
        modified: Timestamp(2),
        meta: None,
        snapshot: None,
        busy: false,
    }
}

/// A store in a file, without full durability: that shows only after a power loss, and is slow.
pub(crate) fn sqlite(path: &Path) -> SqliteStore {
    SqliteStore::new(path, Durability::Relaxed)
}

pub(crate) async fn read_all(store: &impl Store, name: &str) -> Result<Vec<Record>, StoreError> {
    store.read(&id(name), Span::After { after: Seq::ZERO, limit: usize::MAX }).await
}

/// Asserts that a session's history is complete: no gaps, and each record as written.
pub(crate) async fn assert_whole(store: &impl Store, name: &str) -> u64 {
    let found = read_all(store, name).await.unwrap();
    for (index, found) in found.iter().enumerate() {
        let place = index as u64 + 1;
        assert_eq!(found.seq, Seq(place), "{name} has a gap");
        assert_eq!(found.body, record(name, place).body, "{name} at {place}");
    }
    let summary = store.summary(&id(name)).await.unwrap().unwrap();
    assert_eq!(summary.head.0, found.len() as u64, "the head of {name} does not match its records");
    summary.head.0
}
