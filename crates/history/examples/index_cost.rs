//! Measures the index of texts: how fast an old store is indexed, what appends cost meanwhile, and how long a search takes.
//!
//! `cargo run --release -p baton-history --example index_cost [SESSIONS] [EVENTS]`
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a measurement, not a part of the program"
)]

use std::time::{Duration, Instant};

use baton_history::search;
use baton_protocol::{SessionId, Timestamp};
use baton_store::sqlite::{Durability, SqliteStore};
use baton_store::{Append, Lease, NewRecord, NewSession, Owner, Seq, Store};
use bytes::Bytes;

/// Words of the texts.
const VOCABULARY: usize = 20_000;

#[tokio::main]
async fn main() {
    let mut numbers = std::env::args().skip(1).filter_map(|text| text.parse::<usize>().ok());
    let (sessions, events) = (numbers.next().unwrap_or(200), numbers.next().unwrap_or(500));
    let directory = std::env::temp_dir().join(format!("baton-index-cost-{}", std::process::id()));
    let store = SqliteStore::new(directory.join("sessions.db"), Durability::Full);
    for at in 0..sessions {
        create(&store, &format!("old{at}"), events).await;
    }
    let lease = create(&store, "live", 1).await;
    let mut head = Seq(1);
    let alone = appends(&store, &lease, &mut head, Duration::from_secs(3)).await;
    println!("appends alone: {}", shown(alone));
    let begun = Instant::now();
    let mut took = Duration::ZERO;
    let indexing = async {
        search::catch_up(&store, None, |_| {}).await.unwrap();
        took = begun.elapsed();
    };
    let meanwhile = appends(&store, &lease, &mut head, Duration::from_secs(3));
    let ((), times) = tokio::join!(indexing, meanwhile);
    println!("appends while indexing: {}", shown(times));
    println!("indexed {} events in {} ms", sessions * events, took.as_millis());
    for query in ["word7", "word1 word2", "absent"] {
        let begun = Instant::now();
        let found = search::search(&store, query, 50, Duration::from_secs(60)).await.unwrap();
        println!(
            "search for {query:?}: {} sessions in {} ms",
            found.found.len(),
            begun.elapsed().as_millis()
        );
    }
    store.close().await.unwrap();
    std::fs::remove_dir_all(directory).unwrap();
}

/// Returns a message of 60 words.
fn record(seed: usize) -> NewRecord {
    let words = (0..60).map(|at| format!("word{}", (seed * 7919 + at * at * 31) % VOCABULARY));
    let text = words.collect::<Vec<_>>().join(" ");
    let body = format!(
        r#"{{"type":"user.message","data":{{"content":"{text}"}},"id":"0190c2f0-0000-7000-8000-00000000000a","timestamp":"2026-11-15T20:30:00.000Z","parentId":null}}"#
    );
    NewRecord { kind: "user.message".to_owned(), body: body.into() }
}

async fn create(store: &SqliteStore, name: &str, events: usize) -> Lease {
    let session: SessionId = name.parse().unwrap();
    let owner = Owner { server: "s".into(), host: "h".into(), boot: "b".into(), pid: 1, started: 1 };
    let records = (0..events).map(|at| record(at + name.len() * 1000)).collect();
    let new = NewSession { session, owner, created: Timestamp(1), records, meta: Bytes::new(), busy: false };
    store.create(new).await.unwrap()
}

/// Appends one record after the other for a time, and returns how long each took.
async fn appends(store: &SqliteStore, lease: &Lease, head: &mut Seq, during: Duration) -> Vec<Duration> {
    let end = Instant::now() + during;
    let mut times = Vec::new();
    while Instant::now() < end {
        let append = Append {
            lease: lease.clone(),
            expected: *head,
            records: vec![record(times.len())],
            modified: Timestamp(2),
            meta: None,
            snapshot: None,
            busy: true,
        };
        let begun = Instant::now();
        *head = store.append(append).await.unwrap();
        times.push(begun.elapsed());
    }
    times
}

fn shown(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let at = |part: usize| times[(times.len() * part / 1000).min(times.len() - 1)].as_micros();
    format!("{} of them, p50 {} µs, p99 {} µs", times.len(), at(500), at(990))
}
