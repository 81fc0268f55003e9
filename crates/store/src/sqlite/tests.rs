//! What can only be seen from inside: batches, query plans, clearing away, a full disk. The rest is in
//! `tests/`.

use std::sync::mpsc;

use baton_protocol::Timestamp;
use bytes::Bytes;
use rusqlite::StatementStatus;
use tokio::task::JoinHandle;

use super::*;
use crate::Holder;

fn id(name: &str) -> SessionId {
    name.parse().unwrap()
}

fn owner() -> Owner {
    Owner { server: "test".into(), host: "host".into(), boot: "boot".into(), pid: 1, started: 1 }
}

fn record(size: usize) -> NewRecord {
    NewRecord { kind: "kind".into(), body: vec![7; size].into() }
}

fn append(lease: &Lease, expected: u64, records: Vec<NewRecord>) -> Append {
    Append {
        lease: lease.clone(),
        expected: Seq(expected),
        records,
        modified: Timestamp(2),
        meta: None,
        snapshot: None,
        busy: false,
    }
}

struct Bench {
    store: Arc<SqliteStore>,
    _directory: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = Arc::new(SqliteStore::new(directory.path().join("baton.db"), Durability::Relaxed));
        Self { store, _directory: directory }
    }

    async fn create(&self, name: &str, records: Vec<NewRecord>) -> Lease {
        let (session, owner, meta) = (id(name), owner(), Bytes::new());
        let new = NewSession { session, owner, created: Timestamp(1), records, meta, busy: false };
        self.store.create(new).await.unwrap()
    }

    async fn head(&self, name: &str) -> u64 {
        self.store.summary(&id(name)).await.unwrap().unwrap().head.0
    }

    /// Keeps the writer busy until the returned gate is dropped, so that what is written meanwhile forms one
    /// batch.
    async fn block(&self) -> mpsc::Sender<()> {
        let (gate, wait) = mpsc::channel::<()>();
        let (arrived, arrival) = tokio::sync::oneshot::channel();
        let arrived = Mutex::new(Some(arrived));
        let store = Arc::clone(&self.store);
        tokio::spawn(async move {
            let block = move |_: &Connection| {
                arrived.lock().unwrap().take().unwrap().send(()).unwrap();
                let _ = wait.recv();
                Ok(())
            };
            store.write(0, block).await
        });
        arrival.await.unwrap();
        gate
    }

    fn spawn<T, W>(&self, work: W) -> JoinHandle<Result<T, StoreError>>
    where
        T: Send + 'static,
        W: Fn(&Connection) -> Result<T, Fault> + Send + 'static,
    {
        let store = Arc::clone(&self.store);
        tokio::spawn(async move { store.write(0, work).await })
    }

    async fn until_waiting(&self, jobs: usize) {
        while self.store.queue().unwrap().waiting() < jobs {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn writes_that_queue_up_are_committed_together() {
    let bench = Bench::new();
    let mut leases = Vec::new();
    for number in 0..100 {
        leases.push(bench.create(&format!("s{number}"), vec![]).await);
    }
    let gate = bench.block().await;
    let before = bench.store.commits();
    let writes: Vec<_> = leases
        .iter()
        .map(|lease| {
            let write = append(lease, 0, vec![record(1000)]);
            bench.spawn(move |file| write::append(file, &write))
        })
        .collect();
    bench.until_waiting(100).await;
    drop(gate);
    for write in writes {
        assert_eq!(write.await.unwrap().unwrap(), Seq(1));
    }
    assert_eq!(
        bench.store.commits() - before,
        2,
        "one commit for the write that blocked, one for all others"
    );
}

/// Runs a job between two good ones, in one batch with them, and returns the three answers.
async fn between_two_good_ones<W>(bench: &Bench, work: W) -> [Result<Seq, StoreError>; 3]
where
    W: Fn(&Connection) -> Result<Seq, Fault> + Send + 'static,
{
    let (a, b) = (bench.create("a", vec![]).await, bench.create("b", vec![]).await);
    let gate = bench.block().await;
    let (first, last) = (append(&a, 0, vec![record(1)]), append(&b, 0, vec![record(1)]));
    let first = bench.spawn(move |file| write::append(file, &first));
    let middle = bench.spawn(work);
    let last = bench.spawn(move |file| write::append(file, &last));
    bench.until_waiting(3).await;
    drop(gate);
    [first.await.unwrap(), middle.await.unwrap(), last.await.unwrap()]
}

#[tokio::test]
async fn a_refused_write_does_not_disturb_its_neighbours() {
    let bench = Bench::new();
    let other = bench.create("other", vec![]).await;
    let before = bench.store.commits();
    let wrong = append(&other, 5, vec![record(1)]);
    let answers = between_two_good_ones(&bench, move |file| write::append(file, &wrong)).await;
    assert!(matches!(answers, [Ok(Seq(1)), Err(StoreError::OutOfStep { .. }), Ok(Seq(1))]), "{answers:?}");
    assert_eq!(bench.store.commits() - before, 4, "two to prepare, one that blocks, one for all three");
    assert_eq!((bench.head("a").await, bench.head("b").await, bench.head("other").await), (1, 1, 0));
}

#[tokio::test]
async fn a_write_that_fails_halfway_fails_alone() {
    for way_to_fail in ["SELECT * FROM nowhere", "ROLLBACK"] {
        let bench = Bench::new();
        let other = bench.create("other", vec![]).await;
        let half_done = append(&other, 0, vec![record(1)]);
        let answers = between_two_good_ones(&bench, move |file| {
            write::append(file, &half_done)?;
            file.execute_batch(way_to_fail)?; // the second is what SQLite does by itself when the disk is full
            Err(Fault::Unusable("the test wants it so".into()))
        })
        .await;
        assert!(matches!(answers, [Ok(Seq(1)), Err(StoreError::Medium { .. }), Ok(Seq(1))]), "{answers:?}");
        assert_eq!((bench.head("a").await, bench.head("b").await, bench.head("other").await), (1, 1, 0));
    }
}

#[tokio::test]
async fn when_the_commit_fails_everybody_learns_it_and_nothing_is_done() {
    let bench = Bench::new();
    let answers = between_two_good_ones(&bench, |file| {
        // A promise that is checked, and broken, only at the commit.
        file.execute_batch(
            "CREATE TABLE parent (id INTEGER PRIMARY KEY);
             CREATE TABLE child (parent REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
             INSERT INTO child VALUES (1)",
        )?;
        Ok(Seq::ZERO)
    })
    .await;
    for answer in answers {
        assert!(matches!(answer, Err(StoreError::Medium { .. })), "{answer:?}");
    }
    assert_eq!((bench.head("a").await, bench.head("b").await), (0, 0));
    bench.create("c", vec![record(1)]).await;
    assert_eq!(bench.head("c").await, 1, "and it goes on");
}

#[tokio::test]
async fn a_full_disk_loses_nothing_that_was_acknowledged_and_heals() {
    let bench = Bench::new();
    let lease = bench.create("s", vec![]).await;
    let limit = |pages: u32| {
        move |file: &Connection| {
            Ok(file.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |row| row.get::<_, i64>(0))?)
        }
    };
    bench.store.write(0, limit(40)).await.unwrap();
    let mut head = 0;
    let error = loop {
        match bench.store.append(append(&lease, head, vec![record(5000)])).await {
            Ok(seq) => head = seq.0,
            Err(error) => break error.to_string(),
        }
    };
    assert!(head > 1);
    assert!(error.contains("Free some space"), "{error}");
    assert_eq!(bench.head("s").await, head);
    let all = Span::After { after: Seq::ZERO, limit: usize::MAX };
    assert_eq!(bench.store.read(&id("s"), all).await.unwrap().len() as u64, head);

    bench.store.write(0, limit(1_000_000)).await.unwrap();
    assert_eq!(bench.store.append(append(&lease, head, vec![record(5000)])).await.unwrap(), Seq(head + 1));
}

#[tokio::test]
async fn reading_costs_what_it_returns_not_what_the_history_holds() {
    let bench = Bench::new();
    for (name, length) in [("short", 20), ("long", 20_000)] {
        let lease = bench.create(name, (0..length - 10).map(|_| record(1)).collect()).await;
        let snapshot = Some(Bytes::from_static(b"snapshot"));
        bench.store.append(Append { snapshot, ..append(&lease, length - 10, vec![]) }).await.unwrap();
        bench.store.append(append(&lease, length - 10, vec![record(1); 10])).await.unwrap();
    }
    let (plans, steps) = bench
        .store
        .query(|file| {
            let mut plans = Vec::new();
            let mut steps = Vec::new();
            for sql in [read::RECORDS_AFTER, read::RECORDS_BEFORE] {
                let plan: String =
                    file.query_row(&format!("EXPLAIN QUERY PLAN {sql}"), [1, 1, 1], |row| row.get(3))?;
                plans.push(plan);
                for (name, length) in [("short", 20), ("long", 20_000)] {
                    let key: i64 =
                        file.query_row("SELECT key FROM sessions WHERE id = ?1", [name], |row| row.get(0))?;
                    let mut statement = file.prepare(sql)?;
                    let place = if sql == read::RECORDS_AFTER { length - 10 } else { 11 };
                    let found = statement.query_map([key, place, i64::MAX], |_| Ok(()))?.count();
                    assert_eq!(found, 10);
                    steps.push(statement.get_status(StatementStatus::VmStep));
                }
            }
            Ok((plans, steps))
        })
        .await
        .unwrap()
        .unwrap();
    for plan in plans {
        assert!(
            plan.starts_with("SEARCH events USING INDEX") && plan.contains("session=? AND seq"),
            "{plan}"
        );
    }
    // One step more or less is for the end of the index, where there is no next entry to look at.
    assert!(steps[0].abs_diff(steps[1]) <= 1 && steps[2].abs_diff(steps[3]) <= 1, "{steps:?}");

    let opened = bench.store.summary(&id("long")).await.unwrap().unwrap();
    let Holder { epoch, .. } = opened.holder.unwrap();
    let opened = bench.store.acquire(&id("long"), owner(), Take::From(epoch)).await.unwrap();
    assert_eq!((opened.tail.len(), opened.head), (10, Seq(20_000)));
}

#[tokio::test]
async fn a_deleted_session_is_cleared_away_bit_by_bit() {
    let bench = Bench::new();
    bench.create("kept", vec![record(1); 5]).await;
    let gone = bench.create("gone", vec![record(1); 25]).await;
    let snapshot = Some(Bytes::from_static(b"snapshot"));
    bench.store.append(Append { snapshot, ..append(&gone, 25, vec![]) }).await.unwrap();
    // In one write, so that the writer finds no quiet moment to do it itself.
    let left = bench.store.write(0, |file| {
        let events = || file.query_row("SELECT count(*) FROM events", [], |row| row.get::<_, i64>(0));
        let mut left = vec![events()?];
        assert!(write::delete(file, &id("gone"))?);
        left.push(events()?);
        while write::sweep(file, 10)? {
            left.push(events()?);
        }
        left.push(file.query_row("SELECT count(*) FROM snapshots", [], |row| row.get(0))?);
        Ok(left)
    });
    assert_eq!(left.await.unwrap(), [30, 30, 20, 10, 5, 0]);
    assert_eq!(bench.head("kept").await, 5);
}

#[tokio::test]
async fn the_writer_clears_away_by_itself() {
    let bench = Bench::new();
    let sessions = bench.create("gone", vec![record(1); 2500]).await;
    assert!(bench.store.delete(&sessions.session).await.unwrap());
    let count = |file: &Connection| {
        Ok(file.query_row("SELECT count(*) FROM events", [], |row| row.get::<_, i64>(0))?)
    };
    while bench.store.query(count).await.unwrap() != Some(0) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_closed_store_says_so() {
    let bench = Bench::new();
    let lease = bench.create("s", vec![]).await;
    let waiting = append(&lease, 0, vec![record(1)]);
    let gate = bench.block().await;
    let waiting = bench.spawn(move |file| write::append(file, &waiting));
    bench.until_waiting(1).await;
    let closing = tokio::spawn({
        let store = Arc::clone(&bench.store);
        async move { store.close().await }
    });
    while !matches!(*bench.store.state(), State::Closed) {
        tokio::task::yield_now().await;
    }
    let late = bench.store.append(append(&lease, 1, vec![])).await.unwrap_err().to_string();
    assert!(late.contains("shutting down"), "{late}");
    let late = bench.store.list().await.unwrap_err().to_string();
    assert!(late.contains("shutting down"), "{late}");
    drop(gate);
    assert_eq!(waiting.await.unwrap().unwrap(), Seq(1), "what was queued is finished");
    closing.await.unwrap().unwrap();
    assert!(!bench.store.place.path().with_extension("db-wal").exists(), "the log is folded into the file");
    bench.store.close().await.unwrap();
}

#[tokio::test]
async fn a_file_that_others_keep_locked_is_reported_and_then_works() {
    let bench = Bench::new();
    let lease = bench.create("s", vec![]).await;
    bench.store.write(0, |file| Ok(file.busy_timeout(std::time::Duration::ZERO)?)).await.unwrap();
    let other = Connection::open(bench.store.place.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = bench.store.append(append(&lease, 0, vec![record(1)])).await.unwrap_err().to_string();
    assert!(error.contains("Another process keeps the file locked"), "{error}");
    assert_eq!(bench.head("s").await, 0, "reading goes on");
    other.execute_batch("ROLLBACK").unwrap();
    bench.store.append(append(&lease, 0, vec![record(1)])).await.unwrap();
}

#[tokio::test]
async fn whoever_is_overtaken_between_taking_and_reading_learns_it() {
    let bench = Bench::new();
    let first = bench.create("s", vec![record(1)]).await;
    let second = bench.store.acquire(&id("s"), owner(), Take::From(first.epoch)).await.unwrap().lease;
    bench.store.append(append(&second, 1, vec![record(1)])).await.unwrap();
    let late = bench.store.query(move |file| read::opened(file, first)).await;
    assert!(matches!(late, Err(StoreError::Fenced(_))), "{late:?}");
}
