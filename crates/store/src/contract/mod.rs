//! What every store must do, as code: the laws of [`Store`], to be run against each implementation.
//!
//! This is a plain module and not behind a feature: a program that does not call it does not contain it, and
//! a test that wants it needs nothing switched on. Laws speak by panicking, as tests do.
//!
//! Every law is given *two* stores that lead to the same sessions, like two servers that share a file. A home
//! that only ever has one user hands out the same store twice; the laws are the same.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a broken law is reported by a panic; this runs in tests only"
)]

mod appending;
mod creating;
mod leasing;
mod listing;
mod opening;
mod reading;

use std::sync::Arc;

use baton_protocol::{SessionId, Timestamp};
use bytes::Bytes;

use crate::{
    Append, Epoch, Lease, NewRecord, NewSession, Owner, Record, Seq, Span, Store, StoreError, Summary,
};

/// Two ways to the same, initially empty, set of sessions.
pub struct Stores {
    /// One server's.
    pub ours: Arc<dyn Store>,
    /// Another server's, or the same.
    pub theirs: Arc<dyn Store>,
}

impl Stores {
    /// For a home with one user.
    pub fn same(store: Arc<dyn Store>) -> Self {
        Self { ours: Arc::clone(&store), theirs: store }
    }
}

/// Checks all laws, each against fresh stores.
///
/// # Panics
/// When one is broken.
pub async fn run_all(make: impl AsyncFn() -> Stores) {
    macro_rules! check {
        ($($law:path),* $(,)?) => { $( Box::pin($law(&make().await)).await; )* };
    }
    check!(
        creating::a_new_session_is_complete_and_held,
        creating::a_session_may_start_without_records,
        creating::a_name_is_given_once,
        creating::of_many_creators_one_wins,
        creating::every_legal_name_works,
        creating::nothing_happens_before_it_is_awaited,
        appending::places_have_no_gaps,
        appending::the_expected_head_is_checked,
        appending::without_records_only_the_rest_changes,
        appending::any_bytes_come_back,
        appending::sizes_add_up,
        appending::sessions_write_side_by_side,
        appending::of_many_appends_at_one_place_one_wins,
        leasing::a_held_session_is_refused_with_its_holder,
        leasing::a_takeover_fences_the_old_holder,
        leasing::a_takeover_names_the_epoch_it_takes_from,
        leasing::only_an_idle_holder_gives_way,
        leasing::a_released_session_is_free,
        leasing::of_many_takers_one_wins,
        leasing::epochs_never_repeat,
        leasing::nobody_can_lease_what_is_not_there,
        opening::without_a_snapshot_the_tail_is_everything,
        opening::the_tail_begins_after_the_newest_snapshot,
        opening::a_snapshot_may_come_without_records,
        opening::what_was_written_is_what_is_opened,
        reading::spans_are_exact,
        reading::what_is_acknowledged_is_seen_by_all,
        reading::an_unknown_session_is_not_found,
        listing::the_last_written_comes_first,
        listing::a_list_is_made_of_summaries,
        listing::a_deleted_session_is_gone,
        listing::held_session_is_deleted_only_by_whoever_may_take_it,
        listing::anything_can_be_probed,
        listing::a_name_can_be_used_again,
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

/// An append that changes nothing but the records and the time.
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

/// Checks places and content at once: these bodies, at 1, 2, 3, ...
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
        other => panic!("expected the old lease to be refused, got {other:?}"),
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
