//! Durable appends, compared with plain SQLite on the same disk, and reads that must not depend on the length of a session.
//!
//! `TMPDIR=/data cargo bench -p baton-store --bench sqlite` measures the disk of `/data`. A shared disk changes its speed from
//! second to second: `bench/run http` alternates both sides and has the figures that are published.
#![allow(clippy::disallowed_methods, reason = "a benchmark may block")]
#![allow(clippy::unwrap_used, reason = "a benchmark panics on errors")]

use std::io::Write;
use std::sync::Arc;

use baton_protocol::Timestamp;
use baton_store::sqlite::{Durability, SqliteStore};
use baton_store::{Append, Lease, NewRecord, NewSession, Owner, Seq, Store, Take};
use bytes::Bytes;
use divan::Bencher;
use divan::counter::ItemsCount;
use rusqlite::{Connection, params};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

const RECORD: usize = 1024;
/// Records that each appender writes in one iteration, one after another.
const ROUND: usize = 10;

/// Durability, and number of appenders.
const LOADS: [(Durability, usize); 4] =
    [(Durability::Full, 1), (Durability::Full, 64), (Durability::Relaxed, 1), (Durability::Relaxed, 64)];

fn main() {
    divan::main();
}

/// Lower bound of a commit: a small write and its fdatasync.
#[divan::bench]
fn write_and_sync(bencher: Bencher<'_, '_>) {
    let directory = tempfile::tempdir().unwrap();
    let mut file = std::fs::File::create(directory.path().join("file")).unwrap();
    bencher.bench_local(|| {
        file.write_all(&[0; 4096]).unwrap();
        file.sync_data().unwrap();
    });
}

#[divan::bench(args = LOADS)]
fn append(bencher: Bencher<'_, '_>, (durability, appenders): (Durability, usize)) {
    let home = Home::new(durability);
    let mut writers: Vec<_> =
        (0..appenders).map(|number| (home.create(&format!("session-{number}")), Seq::ZERO)).collect();
    bencher.counter(ItemsCount::new(appenders * ROUND)).bench_local(|| {
        home.runtime.block_on(async {
            let tasks: JoinSet<_> =
                writers.drain(..).map(|(lease, head)| write(Arc::clone(&home.store), lease, head)).collect();
            writers.extend(tasks.join_all().await);
        });
    });
}

async fn write(store: Arc<SqliteStore>, lease: Lease, mut head: Seq) -> (Lease, Seq) {
    for _ in 0..ROUND {
        head = store.append(append_of(&lease, head, records(1, RECORD))).await.unwrap();
    }
    (lease, head)
}

/// The same rows in one loop: one statement, no sessions, no replies; as many rows in a commit as there are appenders.
#[divan::bench(args = LOADS)]
fn append_to_plain_sqlite(bencher: Bencher<'_, '_>, (durability, appenders): (Durability, usize)) {
    let directory = tempfile::tempdir().unwrap();
    let file = Connection::open(directory.path().join("plain.db")).unwrap();
    let synchronous = if durability == Durability::Full { "FULL" } else { "NORMAL" };
    file.execute_batch(&format!(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = {synchronous}; PRAGMA cache_size = -1024;
         CREATE TABLE events (session INTEGER NOT NULL, seq INTEGER NOT NULL, kind TEXT NOT NULL,
                              body BLOB NOT NULL, PRIMARY KEY (session, seq)) STRICT;"
    ))
    .unwrap();
    let (body, mut seq) = (vec![b'x'; RECORD], 0_i64);
    bencher.counter(ItemsCount::new(appenders * ROUND)).bench_local(|| {
        for _ in 0..ROUND {
            seq += 1;
            file.execute_batch("BEGIN IMMEDIATE").unwrap();
            for session in 0..appenders as i64 {
                let sql = "INSERT INTO events VALUES (?1, ?2, 'assistant.message', ?3)";
                file.prepare_cached(sql).unwrap().execute(params![session, seq, body]).unwrap();
            }
            file.execute_batch("COMMIT").unwrap();
        }
    });
}

/// Opens a session of `length` events with a snapshot before the last ten.
#[divan::bench(args = [20, 100_000])]
fn open(bencher: Bencher<'_, '_>, length: usize) {
    let home = Home::new(Durability::Relaxed);
    let mut lease = home.create("long");
    let snapshot = Some(Bytes::from(vec![b's'; 4096]));
    home.runtime.block_on(async {
        let mut head = Seq::ZERO;
        for written in (0..length - 10).step_by(5000) {
            let count = 5000.min(length - 10 - written);
            head = home.store.append(append_of(&lease, head, records(count, 256))).await.unwrap();
        }
        home.store.append(Append { snapshot, ..append_of(&lease, head, vec![]) }).await.unwrap();
        home.store.append(append_of(&lease, head, records(10, 256))).await.unwrap();
    });
    bencher.bench_local(|| {
        let take = Take::From(lease.epoch);
        let opened = home.runtime.block_on(home.store.acquire(&lease.session, owner(), take)).unwrap();
        assert_eq!((opened.tail.len(), opened.head.0), (10, length as u64));
        lease = opened.lease;
    });
}

#[divan::bench(args = [1000, 10_000])]
fn list(bencher: Bencher<'_, '_>, sessions: usize) {
    let home = Home::new(Durability::Relaxed);
    home.runtime.block_on(async {
        let created: JoinSet<_> =
            (0..sessions).map(|number| create(Arc::clone(&home.store), format!("listed-{number}"))).collect();
        created.join_all().await;
    });
    bencher.bench_local(|| {
        let listed = home.runtime.block_on(home.store.list()).unwrap();
        assert_eq!(listed.len(), sessions);
    });
}

/// A store in a directory of its own, and the threads that use it.
struct Home {
    store: Arc<SqliteStore>,
    runtime: Runtime,
    _directory: TempDir,
}

impl Home {
    fn new(durability: Durability) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = Arc::new(SqliteStore::new(directory.path().join("store.db"), durability));
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        Self { store, runtime, _directory: directory }
    }

    fn create(&self, name: &str) -> Lease {
        self.runtime.block_on(create(Arc::clone(&self.store), name.to_owned()))
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        self.runtime.block_on(self.store.close()).unwrap();
    }
}

async fn create(store: Arc<SqliteStore>, name: String) -> Lease {
    let (session, owner, meta) = (name.parse().unwrap(), owner(), Bytes::from(vec![b'm'; 300]));
    let new = NewSession { session, owner, created: Timestamp(1), records: vec![], meta, busy: false };
    store.create(new).await.unwrap()
}

fn owner() -> Owner {
    Owner { server: "bench".into(), host: "host".into(), boot: "boot".into(), pid: 1, started: 1 }
}

fn records(count: usize, size: usize) -> Vec<NewRecord> {
    vec![NewRecord { kind: "assistant.message".into(), body: vec![b'x'; size].into() }; count]
}

fn append_of(lease: &Lease, head: Seq, records: Vec<NewRecord>) -> Append {
    let (lease, modified) = (lease.clone(), Timestamp(2));
    Append { lease, expected: head, records, modified, meta: None, snapshot: None, busy: true }
}
