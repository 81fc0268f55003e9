//! Files damaged by a crash, a bad disk or a user: opened as far as possible, reported, never a panic.

use std::path::Path;

use baton_store::{Store, StoreError, Take};

use crate::support::{assert_whole, id, new_session, next, owner, read_all, sqlite};

/// The files of a store copied while it is open, as a crash leaves them: the database and its log.
struct CrashedFiles {
    file: Vec<u8>,
    log: Vec<u8>,
    /// Length of the log after each acknowledged record.
    acknowledged: Vec<usize>,
}

async fn crash_after(records: u64) -> CrashedFiles {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("baton.db");
    let log = root.path().join("baton.db-wal");
    let store = sqlite(&path);
    let lease = store.create(new_session("s", 0)).await.unwrap();
    let mut acknowledged = Vec::new();
    for head in 0..records {
        store.append(next(&lease, head)).await.unwrap();
        acknowledged.push(usize::try_from(std::fs::metadata(&log).unwrap().len()).unwrap());
    }
    CrashedFiles { file: std::fs::read(&path).unwrap(), log: std::fs::read(&log).unwrap(), acknowledged }
}

impl CrashedFiles {
    /// Writes the files with this log into a new directory.
    fn restore(&self, log: &[u8]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("baton.db"), &self.file).unwrap();
        std::fs::write(root.path().join("baton.db-wal"), log).unwrap();
        root
    }

    /// Number of records that were acknowledged while the log was no longer than this.
    fn acknowledged_within(&self, bytes: usize) -> u64 {
        self.acknowledged.iter().filter(|length| **length <= bytes).count() as u64
    }
}

/// Opens a damaged copy and returns the number of records of `s`, asserting that they are an intact prefix.
async fn recovered(directory: tempfile::TempDir) -> u64 {
    let store = sqlite(&directory.path().join("baton.db"));
    match store.summary(&id("s")).await.unwrap() {
        None => 0,
        Some(summary) => {
            let head = assert_whole(&store, "s").await;
            // The session is writable again.
            let take = Take::From(summary.holder.unwrap().epoch);
            let opened = store.acquire(&id("s"), owner("next"), take).await.unwrap();
            store.append(next(&opened.lease, head)).await.unwrap();
            assert_eq!(assert_whole(&store, "s").await, head + 1);
            head
        }
    }
}

#[tokio::test]
async fn truncated_log_loses_only_the_records_cut_off() {
    let crashed = crash_after(12).await;
    // A stride that shares no factor with the page size cuts pages at all kinds of offsets.
    for length in (0..=crashed.log.len()).step_by(1531).chain([crashed.log.len()]) {
        let head = recovered(crashed.restore(&crashed.log[..length])).await;
        assert!(head >= crashed.acknowledged_within(length), "cut at {length}: only {head} records");
        assert!(head <= 12);
    }
}

#[tokio::test]
async fn log_with_a_garbage_tail_loses_only_that_tail() {
    let crashed = crash_after(12).await;
    for from in (0..crashed.log.len()).step_by(4799) {
        for filler in [0, 0xFF] {
            let mut log = crashed.log.clone();
            log[from..].fill(filler);
            let head = recovered(crashed.restore(&log)).await;
            assert!(head >= crashed.acknowledged_within(from), "garbage from {from}: only {head} records");
        }
    }
}

/// Creates a file with a few hundred records and closes it properly.
async fn intact_file(path: &Path) {
    let store = sqlite(path);
    store.create(new_session("s", 300)).await.unwrap();
    store.close().await.unwrap();
}

/// Calls every method. Each call may succeed or fail with advice; none may panic.
async fn try_everything(path: &Path) -> Vec<StoreError> {
    let store = sqlite(path);
    let mut errors = Vec::new();
    let mut note = |result: Result<(), StoreError>| errors.extend(result.err());
    note(store.list().await.map(drop));
    note(store.summary(&id("s")).await.map(drop));
    note(read_all(&store, "s").await.map(drop));
    if let Ok(Some(summary)) = store.summary(&id("s")).await {
        let take = Take::From(summary.holder.unwrap().epoch);
        match store.acquire(&id("s"), owner("next"), take).await {
            Ok(opened) => note(store.append(next(&opened.lease, opened.head.0)).await.map(drop)),
            Err(error) => note(Err(error)),
        }
    }
    note(store.create(new_session("new", 3)).await.map(drop));
    note(store.delete(&id("s")).await.map(drop));
    let _ = store.close().await;
    errors
}

#[tokio::test]
async fn overwritten_header_is_reported_with_advice() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("baton.db");
    intact_file(&path).await;
    let mut content = std::fs::read(&path).unwrap();
    content[..100].fill(b'x');
    std::fs::write(&path, content).unwrap();
    let errors = try_everything(&path).await;
    assert_eq!(errors.len(), 5);
    for error in errors {
        let text = error.to_string();
        assert!(text.contains("Move it away") && text.contains("baton sessions import"), "{text}");
    }
}

#[tokio::test]
async fn damage_at_any_page_is_reported_or_harmless() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("baton.db");
    intact_file(&path).await;
    let intact = std::fs::read(&path).unwrap();
    let page = 4096;
    let mut damaged = Vec::new();
    for place in (0..intact.len()).step_by(page) {
        damaged.push(intact[..place + page / 2].to_vec()); // cut in the middle of a page
        let mut garbled = intact.clone();
        garbled[place + 8..(place + 600).min(intact.len())].fill(0xA5);
        damaged.push(garbled);
    }
    let mut reported = 0;
    for content in damaged {
        std::fs::write(&path, content).unwrap();
        let _ = std::fs::remove_file(root.path().join("baton.db-wal"));
        let _ = std::fs::remove_file(root.path().join("baton.db-shm"));
        for error in try_everything(&path).await {
            match error {
                // A lookup in an unreadable table finds nothing.
                StoreError::NotFound(_) => {}
                StoreError::Medium { cause, .. } => {
                    reported += 1;
                    let advice = ["Move it away", "The disk reported an error"];
                    assert!(advice.iter().any(|advice| cause.contains(advice)), "{cause}");
                }
                other => panic!("{other}"),
            }
        }
    }
    assert!(reported > 0);
}

#[tokio::test]
async fn empty_file_is_treated_as_a_new_one() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("baton.db");
    std::fs::write(&path, b"").unwrap();
    let store = sqlite(&path);
    assert!(store.list().await.unwrap().is_empty());
    store.create(new_session("s", 2)).await.unwrap();
    assert_eq!(assert_whole(&store, "s").await, 2);
}

fn names(all: &[baton_store::Summary]) -> Vec<&str> {
    let mut names: Vec<&str> = all.iter().map(|summary| summary.session.as_str()).collect();
    names.sort_unstable();
    names
}

#[tokio::test]
async fn damaged_row_hides_no_other_session() {
    for damage in ["owner = 'no JSON'", "head = -1", "size = -1", "epoch = -1, owner = '{}'"] {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("baton.db");
        let store = sqlite(&path);
        for name in ["a", "b", "c"] {
            store.create(new_session(name, 3)).await.unwrap();
        }
        store.close().await.unwrap();
        let file = rusqlite::Connection::open(&path).unwrap();
        file.execute(&format!("UPDATE sessions SET {damage} WHERE id = 'b'"), []).unwrap();
        drop(file);
        let store = sqlite(&path);
        let all = store.list().await.unwrap();
        assert_eq!(names(&all), ["a", "b", "c"], "{damage}");
        let damaged: Vec<&str> = all
            .iter()
            .filter(|summary| summary.damage.is_some())
            .map(|summary| summary.session.as_str())
            .collect();
        assert_eq!(damaged, ["b"], "{damage}");
        assert_whole(&store, "c").await;
    }
}

#[tokio::test]
async fn damaged_page_hides_only_its_own_sessions() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("baton.db");
    let store = sqlite(&path);
    // Each row fills a page.
    let meta = |mark: &str| bytes::Bytes::from(mark.repeat(3500 / mark.len()));
    for name in ["aaa", "bbb", "ccc", "ddd"] {
        let new = baton_store::NewSession { meta: meta(&format!("<{name}>")), ..new_session(name, 1) };
        store.create(new).await.unwrap();
    }
    store.close().await.unwrap();
    let mut content = std::fs::read(&path).unwrap();
    let at = content.windows(10).position(|window| window == b"<bbb><bbb>").unwrap();
    let page = at / 4096 * 4096;
    content[page..page + 64].fill(0xFF);
    std::fs::write(&path, content).unwrap();
    let all = sqlite(&path).list().await.unwrap();
    assert_eq!(names(&all), ["aaa", "bbb", "ccc", "ddd"]);
    assert_eq!(all.iter().filter(|summary| summary.damage.is_none()).count(), 3, "{all:?}");
}

#[tokio::test]
async fn probe_of_an_unwritable_store_fails() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("baton.db");
    let store = sqlite(&path);
    let log = path.with_extension("db-wal");
    let length = || std::fs::metadata(&log).map_or(0, |found| found.len());
    let before = length();
    store.probe().await.unwrap();
    assert!(length() > before, "a probe that writes nothing cannot detect a full disk");
    store.close().await.unwrap();
    let file = rusqlite::Connection::open(&path).unwrap();
    file.execute_batch("DROP TABLE epochs").unwrap();
    drop(file);
    assert!(matches!(sqlite(&path).probe().await, Err(StoreError::Medium { .. })));
}
