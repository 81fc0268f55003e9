//! Copies of a file that is in use.

use super::*;
use crate::sqlite::backup::{self, Pace};

#[tokio::test(flavor = "multi_thread")]
async fn copy_under_load_contains_every_write_acknowledged_before_it_began() {
    let fixture = Fixture::new();
    let lease = fixture.create("s", (0..2000).map(|_| record(2000)).collect()).await;
    let source = fixture.store.database.path().to_owned();
    let target = source.with_file_name("copy.db");
    let (wanted, mut head) = (target.clone(), 2000);
    let (begun, mut begins) = tokio::sync::mpsc::unbounded_channel();
    let (more, next) = mpsc::channel::<()>();
    let copying = tokio::task::spawn_blocking(move || {
        // Each step of the copy waits for a write: without its transaction, SQLite would start again each time.
        backup::copy(&source, &wanted, Pace::Shared, &mut |progress| {
            begun.send(progress).unwrap();
            let _ = next.recv_timeout(POLL_LIMIT);
        })
    });
    let mut steps = Vec::new();
    while let Some(step) = begins.recv().await {
        steps.push(step.done);
        head = fixture.store.append(append(&lease, head, vec![record(2000); 100])).await.unwrap().0;
        more.send(()).unwrap();
    }
    let contents = copying.await.unwrap().unwrap();
    assert_eq!((contents.sessions, contents.format), (1, 3));
    assert!(steps.len() > 3 && steps.is_sorted(), "it goes on and does not start again: {steps:?}");

    assert_eq!(backup::check(&target).unwrap(), contents);
    let copy = SqliteStore::new(&target, Durability::Relaxed);
    let summary = copy.summary(&id("s")).await.unwrap().unwrap();
    assert_eq!(summary.holder, None, "no server of another time or machine holds it");
    assert_eq!(summary.head, Seq(2000), "the state when the copy began");
    let opened = copy.acquire(&id("s"), owner(), Take::IfFree).await.unwrap();
    assert_eq!(opened.tail.len() as u64, opened.head.0);
}

#[tokio::test]
async fn damaged_or_foreign_file_is_refused() {
    let fixture = Fixture::new();
    fixture.create("s", (0..200).map(|_| record(1000)).collect()).await;
    let source = fixture.store.database.path().to_owned();
    let target = source.with_file_name("copy.db");
    backup::copy(&source, &target, Pace::Full, &mut |_| {}).unwrap();
    assert!(backup::copy(&source, &target, Pace::Full, &mut |_| {}).is_err(), "nothing is overwritten");
    backup::check(&target).unwrap();

    let mut bytes = std::fs::read(&target).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 8192].fill(0xff);
    std::fs::write(&target, &bytes).unwrap();
    assert!(backup::check(&target).is_err(), "damaged");
    std::fs::write(&target, "some text").unwrap();
    assert!(backup::check(&target).is_err(), "not a database");
    std::fs::write(&target, "").unwrap();
    assert!(backup::check(&target).is_err(), "empty");
    let missing =
        backup::copy(&source.with_file_name("x.db"), &source.with_file_name("y.db"), Pace::Full, &mut |_| {});
    assert!(missing.unwrap_err().to_string().contains("no such file"));
}
