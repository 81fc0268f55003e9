//! Group commit: writes that share a transaction, and closing the store.

use super::*;

#[tokio::test]
async fn queued_writes_share_one_commit() {
    let fixture = Fixture::new();
    let mut leases = Vec::new();
    for number in 0..100 {
        leases.push(fixture.create(&format!("s{number}"), vec![]).await);
    }
    let gate = fixture.block().await;
    let before = fixture.store.commits();
    let writes: Vec<_> = leases
        .iter()
        .map(|lease| {
            let write = append(lease, 0, vec![record(1000)]);
            fixture.spawn(move |file| write::append(file, &write))
        })
        .collect();
    fixture.until_queued(100).await;
    drop(gate);
    for write in writes {
        assert_eq!(write.await.unwrap().unwrap(), Seq(1));
    }
    assert_eq!(fixture.store.commits() - before, 2, "one commit for the blocking write, one for all others");
}

/// Runs a job in one batch between two valid appends, and returns the three results.
async fn between_valid_appends<W>(fixture: &Fixture, work: W) -> [Result<Seq, StoreError>; 3]
where
    W: Fn(&Connection) -> Result<Seq, Fault> + Send + 'static,
{
    let (a, b) = (fixture.create("a", vec![]).await, fixture.create("b", vec![]).await);
    let gate = fixture.block().await;
    let (first, last) = (append(&a, 0, vec![record(1)]), append(&b, 0, vec![record(1)]));
    let first = fixture.spawn(move |file| write::append(file, &first));
    let middle = fixture.spawn(work);
    let last = fixture.spawn(move |file| write::append(file, &last));
    fixture.until_queued(3).await;
    drop(gate);
    [first.await.unwrap(), middle.await.unwrap(), last.await.unwrap()]
}

#[tokio::test]
async fn refused_write_leaves_the_batch_intact() {
    let fixture = Fixture::new();
    let other = fixture.create("other", vec![]).await;
    let before = fixture.store.commits();
    let wrong = append(&other, 5, vec![record(1)]);
    let results = between_valid_appends(&fixture, move |file| write::append(file, &wrong)).await;
    assert!(matches!(results, [Ok(Seq(1)), Err(StoreError::OutOfStep { .. }), Ok(Seq(1))]), "{results:?}");
    assert_eq!(
        fixture.store.commits() - before,
        4,
        "two for the setup, one for the blocking write, one for all three"
    );
    assert_eq!((fixture.head("a").await, fixture.head("b").await, fixture.head("other").await), (1, 1, 0));
}

#[tokio::test]
async fn write_that_fails_halfway_fails_alone() {
    for way_to_fail in ["SELECT * FROM nowhere", "ROLLBACK"] {
        let fixture = Fixture::new();
        let other = fixture.create("other", vec![]).await;
        let half_done = append(&other, 0, vec![record(1)]);
        let results = between_valid_appends(&fixture, move |file| {
            write::append(file, &half_done)?;
            file.execute_batch(way_to_fail)?; // SQLite itself rolls back when the disk is full
            Err(Fault::Unusable("planned by the test".into()))
        })
        .await;
        assert!(matches!(results, [Ok(Seq(1)), Err(StoreError::Medium { .. }), Ok(Seq(1))]), "{results:?}");
        assert_eq!(
            (fixture.head("a").await, fixture.head("b").await, fixture.head("other").await),
            (1, 1, 0)
        );
    }
}

#[tokio::test]
async fn failed_commit_fails_every_write_of_the_batch() {
    let fixture = Fixture::new();
    let results = between_valid_appends(&fixture, |file| {
        // A constraint that is checked, and violated, only at the commit.
        file.execute_batch(
            "CREATE TABLE parent (id INTEGER PRIMARY KEY);
             CREATE TABLE child (parent REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
             INSERT INTO child VALUES (1)",
        )?;
        Ok(Seq::ZERO)
    })
    .await;
    for result in results {
        assert!(matches!(result, Err(StoreError::Medium { .. })), "{result:?}");
    }
    assert_eq!((fixture.head("a").await, fixture.head("b").await), (0, 0));
    fixture.create("c", vec![record(1)]).await;
    assert_eq!(fixture.head("c").await, 1, "the store stays usable");
}

#[tokio::test]
async fn closed_store_finishes_queued_writes_and_refuses_new_ones() {
    let fixture = Fixture::new();
    let lease = fixture.create("s", vec![]).await;
    let waiting = append(&lease, 0, vec![record(1)]);
    let gate = fixture.block().await;
    let waiting = fixture.spawn(move |file| write::append(file, &waiting));
    fixture.until_queued(1).await;
    let closing = tokio::spawn({
        let store = Arc::clone(&fixture.store);
        async move { store.close().await }
    });
    poll_until(async || matches!(*fixture.store.state(), State::Closed)).await;
    let late = fixture.store.append(append(&lease, 1, vec![])).await.unwrap_err().to_string();
    assert!(late.contains("shutting down"), "{late}");
    let late = fixture.store.list().await.unwrap_err().to_string();
    assert!(late.contains("shutting down"), "{late}");
    drop(gate);
    assert_eq!(waiting.await.unwrap().unwrap(), Seq(1), "a queued write is finished");
    closing.await.unwrap().unwrap();
    assert!(!fixture.store.database.path().with_extension("db-wal").exists(), "the log is checkpointed");
    fixture.store.close().await.unwrap();
}
