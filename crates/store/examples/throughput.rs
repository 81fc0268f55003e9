//! Measures the store on this machine: `cargo run --release -p baton-store --example throughput [directory]
//! [events]`.
//!
//! The directory should be on the disk to measure (default: the temporary directory); `events` is the length
//! of the long session (default: 1,000,000).

#![allow(clippy::disallowed_methods, reason = "a measuring tool may block")]
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a measuring tool prints, and panics on errors")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use baton_protocol::Timestamp;
use baton_store::sqlite::{Durability, SqliteStore};
use baton_store::{Append, Lease, NewRecord, NewSession, Owner, Seq, Store, Take};
use bytes::Bytes;
use rusqlite::{Connection, params};

const RECORD: usize = 1024;
const TURN: Duration = Duration::from_millis(500);
const TURNS: usize = 8;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let root = match arguments.next() {
        Some(directory) => tempfile::tempdir_in(directory).unwrap(),
        None => tempfile::tempdir().unwrap(),
    };
    let events = arguments.next().map_or(1_000_000, |count| count.parse().unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        memory(root.path()).await;
        raw_disk(root.path());
        println!("\n| 1 KB appends         | records/s | commits/s | a batch | p50 ms | p99 ms | plain SQLite, same batches |");
        println!("|----------------------|-----------|-----------|---------|--------|--------|----------------------------|");
        for durability in [Durability::Full, Durability::Relaxed] {
            for appenders in [1, 64] {
                throughput(root.path(), durability, appenders).await;
            }
        }
        opening(root.path(), events).await;
    });
}

fn owner() -> Owner {
    Owner { server: "bench".into(), host: "host".into(), boot: "boot".into(), pid: 1, started: 1 }
}

fn records(count: usize, size: usize) -> Vec<NewRecord> {
    vec![NewRecord { kind: "assistant.message".into(), body: vec![b'x'; size].into() }; count]
}

async fn create(store: &impl Store, name: &str) -> Lease {
    let (session, owner, meta) = (name.parse().unwrap(), owner(), Bytes::from(vec![b'm'; 300]));
    let new = NewSession { session, owner, created: Timestamp(1), records: vec![], meta, busy: false };
    store.create(new).await.unwrap()
}

fn append(lease: &Lease, head: Seq, records: Vec<NewRecord>) -> Append {
    let (lease, modified) = (lease.clone(), Timestamp(2));
    Append { lease, expected: head, records, modified, meta: None, snapshot: None, busy: true }
}

fn resident_kilobytes() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kilobytes| kilobytes.parse().ok()).unwrap_or_default()
}

/// Memory of a store before use, once opened, and after some use.
async fn memory(root: &Path) {
    let start = resident_kilobytes();
    let store = SqliteStore::new(root.join("memory.db"), Durability::Full);
    assert!(store.list().await.unwrap().is_empty());
    let unopened = resident_kilobytes();
    let lease = create(&store, "s").await;
    store.list().await.unwrap();
    let opened = resident_kilobytes();
    let mut head = Seq::ZERO;
    for _ in 0..2000 {
        head = store.append(append(&lease, head, records(1, RECORD))).await.unwrap();
    }
    let used = resident_kilobytes();
    println!(
        "memory: process {start} KB; store made +{} KB, opened +{} KB, after 2000 appends +{} KB",
        unopened - start,
        opened - start,
        used - start
    );
    store.close().await.unwrap();
}

/// Upper bound of the disk: a small write and its fdatasync.
fn raw_disk(root: &Path) {
    use std::io::Write;
    let mut file = std::fs::File::create(root.join("raw")).unwrap();
    let times = (0..300).map(|_| {
        let start = Instant::now();
        file.write_all(&[0; 4096]).unwrap();
        file.sync_data().unwrap();
        start.elapsed()
    });
    let mut times: Vec<_> = times.collect();
    println!(
        "disk: 4 KB write + fdatasync p50 {:.2} ms, p99 {:.2} ms",
        percentile(&mut times, 50),
        percentile(&mut times, 99)
    );
}

fn percentile(times: &mut [Duration], percent: usize) -> f64 {
    times.sort();
    times[(times.len() - 1) * percent / 100].as_secs_f64() * 1000.0
}

/// Store and plain SQLite alternate, because the speed of a shared disk changes from second to second.
async fn throughput(root: &Path, durability: Durability, appenders: usize) {
    let store = Arc::new(SqliteStore::new(root.join(format!("{durability:?}-{appenders}.db")), durability));
    let mut plain = PlainSqlite::new(&root.join(format!("plain-{durability:?}-{appenders}.db")), durability);
    let mut writers = Vec::new();
    for number in 0..appenders {
        writers.push((create(&*store, &format!("session-{number}")).await, Seq::ZERO));
    }
    let first_commit = store.commits();
    let (mut times, mut spent) = (Vec::new(), Duration::ZERO);
    for _ in 0..TURNS {
        let start = Instant::now();
        let tasks: Vec<_> = writers
            .drain(..)
            .map(|(lease, head)| tokio::spawn(write(Arc::clone(&store), lease, head)))
            .collect();
        for task in tasks {
            let (lease, head, taken) = task.await.unwrap();
            writers.push((lease, head));
            times.extend(taken);
        }
        spent += start.elapsed();
        let batch = times.len() as f64 / (store.commits() - first_commit) as f64;
        plain.run(batch.round() as usize);
    }
    let commits = (store.commits() - first_commit) as f64;
    let (seconds, count) = (spent.as_secs_f64(), times.len() as f64);
    println!(
        "| {:7} {appenders:2} appenders | {:9.0} | {:9.0} | {:7.1} | {:6.2} | {:6.2} | {:16.0} records/s |",
        format!("{durability:?}"),
        count / seconds,
        commits / seconds,
        count / commits,
        percentile(&mut times, 50),
        percentile(&mut times, 99),
        plain.rate(),
    );
    store.close().await.unwrap();
}

async fn write(store: Arc<SqliteStore>, lease: Lease, mut head: Seq) -> (Lease, Seq, Vec<Duration>) {
    let (start, mut times) = (Instant::now(), Vec::new());
    while start.elapsed() < TURN {
        let before = Instant::now();
        head = store.append(append(&lease, head, records(1, RECORD))).await.unwrap();
        times.push(before.elapsed());
    }
    (lease, head, times)
}

/// The lower bound for the same rows: SQLite in one loop, one statement, no sessions, no replies.
struct PlainSqlite {
    file: Connection,
    count: i64,
    spent: Duration,
}

impl PlainSqlite {
    fn new(path: &Path, durability: Durability) -> Self {
        let file = Connection::open(path).unwrap();
        let synchronous = if durability == Durability::Full { "FULL" } else { "NORMAL" };
        file.execute_batch(&format!(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = {synchronous}; PRAGMA cache_size = -1024;
             CREATE TABLE events (session INTEGER NOT NULL, seq INTEGER NOT NULL, kind TEXT NOT NULL,
                                  body BLOB NOT NULL, PRIMARY KEY (session, seq)) STRICT;"
        ))
        .unwrap();
        Self { file, count: 0, spent: Duration::ZERO }
    }

    fn run(&mut self, batch: usize) {
        let body = vec![b'x'; RECORD];
        let start = Instant::now();
        while start.elapsed() < TURN {
            self.file.execute_batch("BEGIN IMMEDIATE").unwrap();
            for _ in 0..batch {
                let sql = "INSERT INTO events VALUES (?1, ?2, 'assistant.message', ?3)";
                let mut insert = self.file.prepare_cached(sql).unwrap();
                insert.execute(params![self.count % 64, self.count / 64, body]).unwrap();
                self.count += 1;
            }
            self.file.execute_batch("COMMIT").unwrap();
        }
        self.spent += start.elapsed();
    }

    fn rate(&self) -> f64 {
        self.count as f64 / self.spent.as_secs_f64()
    }
}

/// Time to open a long and a short session, and to delete the long one while another session appends.
async fn opening(root: &Path, events: usize) {
    let store = Arc::new(SqliteStore::new(root.join("long.db"), Durability::Relaxed));
    println!();
    for (name, length) in [("short", 10), ("long", events)] {
        let mut lease = create(&*store, name).await;
        let mut head = Seq::ZERO;
        while head.0 < length as u64 - 10 {
            let count = 5000.min(length - 10 - head.0 as usize);
            head = store.append(append(&lease, head, records(count, 256))).await.unwrap();
        }
        let snapshot = Some(Bytes::from(vec![b's'; 4096]));
        store.append(Append { snapshot, ..append(&lease, head, vec![]) }).await.unwrap();
        store.append(append(&lease, head, records(10, 256))).await.unwrap();
        let mut times = Vec::new();
        for _ in 0..500 {
            let before = Instant::now();
            let opened = store.acquire(&lease.session, owner(), Take::From(lease.epoch)).await.unwrap();
            times.push(before.elapsed());
            assert_eq!((opened.tail.len(), opened.head.0), (10, length as u64));
            lease = opened.lease;
        }
        println!(
            "open a session of {length} events: p50 {:.2} ms, p99 {:.2} ms",
            percentile(&mut times, 50),
            percentile(&mut times, 99)
        );
    }
    deleting(&store).await;
    listing(&store, 10_000).await;
    store.close().await.unwrap();
}

async fn listing(store: &Arc<SqliteStore>, sessions: usize) {
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..sessions {
        let store = Arc::clone(store);
        tasks.spawn(async move { create(&*store, &format!("listed-{number}")).await });
    }
    tasks.join_all().await;
    let mut times = Vec::new();
    for _ in 0..20 {
        let before = Instant::now();
        assert!(store.list().await.unwrap().len() > sessions);
        times.push(before.elapsed());
    }
    println!("list {sessions} sessions: p50 {:.2} ms", percentile(&mut times, 50));
}

async fn deleting(store: &SqliteStore) {
    let lease = create(store, "bystander").await;
    let before = Instant::now();
    store.delete(&"long".parse().unwrap()).await.unwrap();
    let deleted = before.elapsed();
    let mut times = Vec::new();
    let mut head = Seq::ZERO;
    while times.len() < 500 {
        let before = Instant::now();
        head = store.append(append(&lease, head, records(1, RECORD))).await.unwrap();
        times.push(before.elapsed());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    println!(
        "delete the long one: {:.2} ms; appends of others meanwhile p50 {:.2} ms, p99 {:.2} ms",
        deleted.as_secs_f64() * 1000.0,
        percentile(&mut times, 50),
        percentile(&mut times, 99)
    );
}
