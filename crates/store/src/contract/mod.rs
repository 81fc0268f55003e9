//! The contract of [`Store`] as tests that every implementation must pass.
//!
//! This is a plain public module rather than a feature: a program that does not call it does not contain it,
//! and a test that uses it needs no feature flag. Violations panic, as in tests.
//!
//! Every test gets *two* stores with the same sessions, like two servers that share a file. An implementation
//! that supports only one user passes the same store twice.

#![allow(clippy::unwrap_used, clippy::panic, reason = "reports violations by panicking; runs in tests only")]

mod appending;
mod creating;
mod documents;
mod files;
mod leasing;
mod listing;
mod opening;
mod reading;
mod texts;

use std::sync::Arc;

use baton_protocol::{SessionId, Timestamp};
use bytes::Bytes;

use crate::{
    Append, Epoch, Lease, NewRecord, NewSession, Owner, Record, Seq, Span, Store, StoreError, Summary,
};

/// Two stores with the same sessions, initially none.
pub struct Stores {
    /// The store of one server.
    pub ours: Arc<dyn Store>,
    /// The store of another server, or the same store.
    pub theirs: Arc<dyn Store>,
}

impl Stores {
    /// Uses one store for both.
    pub fn same(store: Arc<dyn Store>) -> Self {
        Self { ours: Arc::clone(&store), theirs: store }
    }
}

/// Runs all tests, each with fresh stores.
///
/// # Panics
/// When a store violates the contract.
pub async fn run_all(make: impl AsyncFn() -> Stores) {
    macro_rules! check {
        ($($test:path),* $(,)?) => { $( Box::pin($test(&make().await)).await; )* };
    }
    check!(
        creating::new_session_is_complete_and_held,
        creating::session_can_start_without_records,
        creating::duplicate_id_is_refused,
        creating::one_of_many_concurrent_creators_wins,
        creating::every_valid_id_works,
        creating::future_that_is_not_polled_does_nothing,
        appending::sequence_numbers_have_no_gaps,
        appending::wrong_expected_head_is_refused,
        appending::append_without_records_updates_the_rest,
        appending::arbitrary_bytes_are_preserved,
        appending::size_is_the_sum_of_body_lengths,
        appending::sessions_append_concurrently,
        appending::one_of_many_appends_at_the_same_head_wins,
        leasing::held_session_is_refused_with_its_holder,
        leasing::takeover_fences_the_previous_holder,
        leasing::takeover_from_a_stale_epoch_is_refused,
        leasing::busy_holder_keeps_its_session,
        leasing::released_session_can_be_acquired,
        leasing::one_of_many_concurrent_takeovers_wins,
        leasing::epochs_never_repeat,
        leasing::missing_session_cannot_be_acquired,
        opening::tail_without_a_snapshot_is_the_whole_history,
        opening::tail_starts_after_the_newest_snapshot,
        opening::snapshot_can_be_written_without_records,
        opening::acquired_session_has_the_written_state,
        reading::spans_select_exact_ranges,
        reading::pages_end_with_the_last_record_that_fits,
        reading::acknowledged_write_is_visible_to_all_stores,
        reading::unknown_session_is_not_found,
        listing::list_is_sorted_by_last_write,
        listing::list_equals_the_summaries,
        listing::deleted_session_is_gone,
        listing::conditional_delete_respects_the_holder,
        listing::probe_leaves_no_trace,
        listing::id_of_a_deleted_session_can_be_reused,
        documents::document_is_read_as_written,
        documents::one_of_many_concurrent_writers_wins,
        texts::indexed_words_are_found_by_their_beginning,
        texts::cursor_moves_once,
        texts::appended_records_are_unindexed,
        texts::deleted_session_is_not_found,
        texts::odd_texts_are_indexed,
        files::files_are_read_as_written,
        files::takeover_fences_changes_of_files,
        files::files_are_deleted_with_their_session,
    );
}

fn id(name: &str) -> SessionId {
    name.parse().unwrap()
}

fn owner(server: &str) -> Owner {
    Owner { server: server.to_owned(), host: "host".to_owned(), boot: "boot".to_owned(), pid: 7, started: 99 }
}

fn record(body: &'static str) -> NewRecord {
    NewRecord { kind: format!("kind of {body}"), body: Bytes::from_static(body.as_bytes()) }
}

fn new_session(name: &str, bodies: &[&'static str]) -> NewSession {
    NewSession {
        session: id(name),
        owner: owner("ours"),
        created: Timestamp(1000),
        records: bodies.iter().copied().map(record).collect(),
        meta: Bytes::from_static(b"meta"),
        busy: false,
    }
}

/// Creates an append that changes only the records and the time.
fn append(lease: &Lease, expected: u64, bodies: &[&'static str]) -> Append {
    Append {
        lease: lease.clone(),
        expected: Seq(expected),
        records: bodies.iter().copied().map(record).collect(),
        modified: Timestamp(2000),
        meta: None,
        snapshot: None,
        busy: false,
    }
}

async fn create(stores: &Stores, name: &str, bodies: &[&'static str]) -> Lease {
    stores.ours.create(new_session(name, bodies)).await.unwrap()
}

async fn all_records(store: &Arc<dyn Store>, name: &str) -> Vec<Record> {
    store.read(&id(name), Span::After { after: Seq::ZERO, limit: usize::MAX }).await.unwrap()
}

async fn summary(store: &Arc<dyn Store>, name: &str) -> Summary {
    store.summary(&id(name)).await.unwrap().unwrap()
}

/// Asserts sequence numbers and content: these bodies, at 1, 2, 3, ...
fn assert_records(found: &[Record], bodies: &[&'static str]) {
    let expected: Vec<_> = bodies
        .iter()
        .enumerate()
        .map(|(place, body)| {
            let NewRecord { kind, body } = record(body);
            Record { seq: Seq(place as u64 + 1), kind, body }
        })
        .collect();
    assert_eq!(found, expected);
}

fn assert_fenced<T: std::fmt::Debug>(result: Result<T, StoreError>) {
    match result {
        Err(StoreError::Fenced(_)) => {}
        other => panic!("expected the stale lease to be refused, got {other:?}"),
    }
}

fn assert_held_by<T: std::fmt::Debug>(result: Result<T, StoreError>, server: &str, epoch: Epoch) {
    match result {
        Err(StoreError::Held { holder, .. }) => {
            assert_eq!((holder.owner.server.as_str(), holder.epoch), (server, epoch));
        }
        other => panic!("expected the session to be in use by {server}, got {other:?}"),
    }
}
