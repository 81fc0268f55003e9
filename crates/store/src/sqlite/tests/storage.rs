//! The file under stress: a full disk, long histories, deletion, locks, takeovers.

use rusqlite::StatementStatus;

use super::*;
use crate::Holder;

#[tokio::test]
async fn full_disk_loses_no_acknowledged_write_and_recovers() {
    let fixture = Fixture::new();
    let lease = fixture.create("s", vec![]).await;
    let limit = |pages: u32| {
        move |file: &Connection| {
            Ok(file.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |row| row.get::<_, i64>(0))?)
        }
    };
    fixture.store.write(0, limit(40)).await.unwrap();
    let mut head = 0;
    let error = loop {
        match fixture.store.append(append(&lease, head, vec![record(5000)])).await {
            Ok(seq) => head = seq.0,
            Err(error) => break error.to_string(),
        }
    };
    assert!(head > 1);
    assert!(error.contains("Free some space"), "{error}");
    assert_eq!(fixture.head("s").await, head);
    let all = Span::After { after: Seq::ZERO, limit: usize::MAX };
    assert_eq!(fixture.store.read(&id("s"), all).await.unwrap().len() as u64, head);

    fixture.store.write(0, limit(1_000_000)).await.unwrap();
    assert_eq!(fixture.store.append(append(&lease, head, vec![record(5000)])).await.unwrap(), Seq(head + 1));
}

#[tokio::test]
async fn cost_of_a_read_is_independent_of_history_length() {
    let fixture = Fixture::new();
    for (name, length) in [("short", 20), ("long", 20_000)] {
        let lease = fixture.create(name, (0..length - 10).map(|_| record(1)).collect()).await;
        let snapshot = Some(Bytes::from_static(b"snapshot"));
        fixture.store.append(Append { snapshot, ..append(&lease, length - 10, vec![]) }).await.unwrap();
        fixture.store.append(append(&lease, length - 10, vec![record(1); 10])).await.unwrap();
    }
    let (plans, steps) = fixture
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
                    let boundary = if sql == read::RECORDS_AFTER { length - 10 } else { 11 };
                    let found = statement.query_map([key, boundary, i64::MAX], |_| Ok(()))?.count();
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
    // At the end of the index SQLite has no next entry to look at, which saves one step.
    assert!(steps[0].abs_diff(steps[1]) <= 1 && steps[2].abs_diff(steps[3]) <= 1, "{steps:?}");

    let opened = fixture.store.summary(&id("long")).await.unwrap().unwrap();
    let Holder { epoch, .. } = opened.holder.unwrap();
    let opened = fixture.store.acquire(&id("long"), owner(), Take::From(epoch)).await.unwrap();
    assert_eq!((opened.tail.len(), opened.head), (10, Seq(20_000)));
}

#[tokio::test]
async fn events_of_a_deleted_session_are_removed_in_steps() {
    let fixture = Fixture::new();
    fixture.create("other", vec![record(1); 5]).await;
    let gone = fixture.create("gone", vec![record(1); 25]).await;
    let snapshot = Some(Bytes::from_static(b"snapshot"));
    fixture.store.append(Append { snapshot, ..append(&gone, 25, vec![]) }).await.unwrap();
    // In one write, so that the writer has no idle moment to sweep by itself.
    let left = fixture.store.write(0, |file| {
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
    assert_eq!(fixture.head("other").await, 5);
}

#[tokio::test]
async fn idle_writer_removes_events_of_deleted_sessions() {
    let fixture = Fixture::new();
    let lease = fixture.create("gone", vec![record(1); 2500]).await;
    assert!(fixture.store.delete(&lease.session).await.unwrap());
    let count = |file: &Connection| {
        Ok(file.query_row("SELECT count(*) FROM events", [], |row| row.get::<_, i64>(0))?)
    };
    poll_until(async || fixture.store.query(count).await.unwrap() == Some(0)).await;
}

#[tokio::test]
async fn locked_file_is_reported_and_usable_after_unlock() {
    let fixture = Fixture::new();
    let lease = fixture.create("s", vec![]).await;
    fixture.store.write(0, |file| Ok(file.busy_timeout(std::time::Duration::ZERO)?)).await.unwrap();
    let other = Connection::open(fixture.store.database.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = fixture.store.append(append(&lease, 0, vec![record(1)])).await.unwrap_err().to_string();
    assert!(error.contains("Another process keeps the file locked"), "{error}");
    assert_eq!(fixture.head("s").await, 0, "reads still work");
    other.execute_batch("ROLLBACK").unwrap();
    fixture.store.append(append(&lease, 0, vec![record(1)])).await.unwrap();
}

#[tokio::test]
async fn takeover_between_acquisition_and_read_is_reported() {
    let fixture = Fixture::new();
    let first = fixture.create("s", vec![record(1)]).await;
    let second = fixture.store.acquire(&id("s"), owner(), Take::From(first.epoch)).await.unwrap().lease;
    fixture.store.append(append(&second, 1, vec![record(1)])).await.unwrap();
    let late = fixture.store.query(move |file| read::opened(file, first)).await;
    assert!(matches!(late, Err(StoreError::Fenced(_))), "{late:?}");
}
