//! Backups and restores of whole homes; archives that nobody wrote in good faith.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;

use baton_store::sqlite::{Durability, SqliteStore};
use baton_store::{NewRecord, NewSession, Seq, Span, Store};
use bytes::Bytes;
use tar::{Builder, EntryType, Header};

use super::*;
use crate::backup::{BackupOptions, BackupReport, Pace, backup};

fn owner() -> Owner {
    Owner { server: "s".into(), host: "h".into(), boot: "b".into(), pid: 7, started: 1 }
}

/// A home with sessions, each with one file and the files that Baton derives.
struct Home(tempfile::TempDir);

impl Home {
    async fn with_sessions(names: &[&str]) -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        let store = SqliteStore::new(home.path("baton.db"), Durability::Relaxed);
        for name in names {
            let records = vec![NewRecord { kind: "k".into(), body: Bytes::from((*name).to_owned()) }; 3];
            let session = name.parse().unwrap();
            let new = NewSession {
                session,
                owner: owner(),
                created: Timestamp(1),
                records,
                meta: Bytes::new(),
                busy: true,
            };
            store.create(new).await.unwrap();
            let directory = home.path("session-state").join(name);
            std::fs::create_dir_all(directory.join("rewind")).unwrap();
            std::fs::write(directory.join("rewind/copy"), name).unwrap();
            std::fs::write(directory.join("events.jsonl"), "{}").unwrap();
        }
        store.close().await.unwrap();
        std::fs::write(home.path("permissions.json"), r#"{"locations":{}}"#).unwrap();
        std::fs::write(home.path("token"), "secret-token").unwrap();
        home
    }

    fn empty() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn back_up(&self, file: &Path, with_token: bool) -> BackupReport {
        let home = self.0.path();
        let pace = Pace::Shared;
        let options = BackupOptions { home, file, version: "1.2.3", with_token, replace: false, pace };
        backup(&options, &mut |_| {}).unwrap()
    }

    fn restore(&self, file: &Path, replace: bool) -> Result<RestoreReport, OpsError> {
        let options = RestoreOptions { home: self.0.path(), file, replace, is_alive: |_| false };
        restore(&options, &mut |_, _| {})
    }

    async fn history(&self, session: &str) -> Vec<Bytes> {
        let store = SqliteStore::new(self.path("baton.db"), Durability::Relaxed);
        let all = Span::After { after: Seq::ZERO, limit: 100 };
        store.read(&session.parse().unwrap(), all).await.unwrap().into_iter().map(|r| r.body).collect()
    }

    /// All names in the home, without the logs that every look at the database creates.
    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.retain(|name| !name.ends_with("-wal") && !name.ends_with("-shm"));
        names.sort();
        names
    }
}

#[tokio::test]
async fn restored_home_has_all_sessions_and_files_and_no_token() {
    let home = Home::with_sessions(&["one", "two"]).await;
    std::os::unix::fs::symlink("/etc/passwd", home.path("session-state/one/link")).unwrap();
    let long = "n".repeat(180);
    std::fs::write(home.path("session-state/one").join(&long), "long").unwrap();
    std::fs::create_dir(home.path("session-state/of-another-program")).unwrap();
    std::fs::write(home.path("session-state/of-another-program/x"), "x").unwrap();
    let file = home.path("backup.tar");
    let report = home.back_up(&file, false);
    assert_eq!((report.sessions, report.files), (2, 4));
    assert_eq!(report.skipped, [Path::new("session-state/one/link")]);
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let bytes = std::fs::read(&file).unwrap();
    assert!(!bytes.windows(12).any(|part| part == b"secret-token"));

    let new = Home::empty();
    let restored = new.restore(&file, false).unwrap();
    assert_eq!((restored.sessions, restored.files, &*restored.baton), (2, 4, "1.2.3"));
    assert_eq!(restored.moved_aside, None);
    assert_eq!(new.names(), ["baton.db", "permissions.json", "session-state"]);
    assert_eq!(new.history("two").await, home.history("two").await);
    assert_eq!(std::fs::read_to_string(new.path("session-state/one").join(&long)).unwrap(), "long");
    assert!(!new.path("session-state/one/events.jsonl").exists(), "Baton writes it again");
    assert!(!new.path("session-state/of-another-program").exists());
    for private in ["baton.db", "permissions.json", "session-state/two/rewind/copy"] {
        assert_eq!(std::fs::metadata(new.path(private)).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let store = SqliteStore::new(new.path("baton.db"), Durability::Relaxed);
    assert!(store.list().await.unwrap().iter().all(|summary| summary.holder.is_none()), "nobody holds them");
}

#[tokio::test]
async fn token_is_in_the_backup_if_asked_for() {
    let home = Home::with_sessions(&["one"]).await;
    home.back_up(&home.path("b.tar"), true);
    let new = Home::empty();
    std::fs::write(new.path("token"), "of the new home").unwrap();
    let restored = new.restore(&home.path("b.tar"), false).unwrap();
    assert!(restored.token, "the report says so");
    assert_eq!(std::fs::read_to_string(new.path("token")).unwrap(), "secret-token");
}

#[tokio::test]
async fn restore_ends_logins_and_links_and_lists_the_people() {
    let home = Home::with_sessions(&["one"]).await;
    let list = r#"{"people":[{"name":"ada","role":"admin","token":"t"}],"logins":[{"secret":"l"}],"links":[{"code":"c"}]}"#;
    let store = SqliteStore::new(home.path("baton.db"), Durability::Relaxed);
    assert!(store.write_document("people", 0, Bytes::from(list)).await.unwrap());
    store.close().await.unwrap();
    home.back_up(&home.path("b.tar"), false);
    let new = Home::empty();
    let restored = new.restore(&home.path("b.tar"), false).unwrap();
    assert_eq!(restored.people, [RestoredPerson { name: "ada".into(), role: "admin".into() }]);
    assert!(!restored.token);
    let store = SqliteStore::new(new.path("baton.db"), Durability::Relaxed);
    let body = store.document("people").await.unwrap().unwrap().body;
    assert_eq!(&body[..], br#"{"people":[{"name":"ada","role":"admin","token":"t"}]}"#);
}

#[tokio::test]
async fn home_with_sessions_is_replaced_only_by_force_and_kept_aside() {
    let (home, other) = (Home::with_sessions(&["one"]).await, Home::with_sessions(&["two"]).await);
    std::fs::create_dir_all(other.path("session-state/foreign")).unwrap();
    home.back_up(&home.path("b.tar"), false);
    let before = other.names();
    assert!(matches!(other.restore(&home.path("b.tar"), false), Err(OpsError::NotEmpty(_))));
    let missing = other.restore(&home.path("missing.tar"), false);
    assert!(matches!(missing, Err(OpsError::File { .. })), "the file is checked first: {missing:?}");
    assert_eq!(other.names(), before);
    let restored = other.restore(&home.path("b.tar"), true).unwrap();
    let aside = restored.moved_aside.unwrap();
    assert!(aside.join("baton.db").exists() && aside.join("session-state/two/rewind/copy").exists());
    assert_eq!(other.history("one").await.len(), 3);
    assert!(!other.path("session-state/two").exists());
    assert!(other.path("session-state/foreign").exists(), "another program's");
    assert_eq!(std::fs::read_to_string(other.path("token")).unwrap(), "secret-token", "the token stays");
}

#[tokio::test]
async fn home_in_use_is_not_replaced() {
    let home = Home::with_sessions(&["one"]).await;
    home.back_up(&home.path("b.tar"), false);
    let file = &home.path("b.tar");
    let options =
        RestoreOptions { home: home.0.path(), file, replace: true, is_alive: |owner| owner.pid == 7 };
    let error = restore(&options, &mut |_, _| {}).unwrap_err().to_string();
    assert!(error.contains("process 7") && error.contains("baton stop"), "{error}");
}

#[tokio::test]
async fn restore_that_was_killed_after_its_commit_is_completed() {
    for killed_after_phase_one in [false, true] {
        let (home, other) = (Home::with_sessions(&["one"]).await, Home::with_sessions(&["two"]).await);
        home.back_up(&home.path("b.tar"), false);
        let staging = other.path(".restore-x");
        std::fs::create_dir(&staging).unwrap();
        unpack::unpack(&home.path("b.tar"), &staging, &mut |_, _| {}).unwrap();
        apply::commit(other.0.path(), &staging).unwrap();
        if killed_after_phase_one {
            let committed = other.path("restoring");
            std::fs::create_dir_all(committed.join(".old")).unwrap();
            std::fs::rename(other.path("baton.db"), committed.join(".old/baton.db")).unwrap();
        }
        finish(other.0.path()).unwrap();
        assert_eq!(other.history("one").await.len(), 3);
        assert_eq!(std::fs::read_to_string(other.path("session-state/one/rewind/copy")).unwrap(), "one");
        let names = other.names();
        assert!(!names.iter().any(|name| name.starts_with(".restore") || name == "restoring"), "{names:?}");
        assert!(names.iter().any(|name| name.starts_with("before-restore-")), "{names:?}");
        finish(other.0.path()).unwrap();
    }
}

/// The members of a backup, as name and content.
fn members(file: &Path) -> Vec<(String, Vec<u8>)> {
    let mut archive = tar::Archive::new(std::fs::File::open(file).unwrap());
    let mut found = Vec::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let mut content = Vec::new();
        std::io::Read::read_to_end(&mut entry, &mut content).unwrap();
        found.push((entry.path().unwrap().to_str().unwrap().to_owned(), content));
    }
    found
}

fn header(kind: EntryType, name: &str, size: usize) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size as u64);
    header.set_mode(0o7777);
    // Not `set_path`, which refuses what an attacker would write.
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header
}

fn write(file: &Path, build: impl FnOnce(&mut Builder<Vec<u8>>)) {
    let mut tar = Builder::new(Vec::new());
    build(&mut tar);
    std::fs::write(file, tar.into_inner().unwrap()).unwrap();
}

fn put(tar: &mut Builder<Vec<u8>>, name: &str, content: &[u8]) {
    let mut header = header(EntryType::Regular, name, content.len());
    header.set_cksum();
    tar.append(&header, content).unwrap();
}

#[tokio::test]
async fn hostile_and_damaged_archives_are_refused_and_change_nothing() {
    let home = Home::with_sessions(&["one"]).await;
    let good = home.path("good.tar");
    home.back_up(&good, false);
    let (good_bytes, good_members) = (std::fs::read(&good).unwrap(), members(&good));
    let bad = home.path("bad.tar");
    let new = Home::empty();
    let outside = home.path("outside");
    let refuse = |expected: &str| {
        let error = new.restore(&bad, false).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}\nlacks {expected}");
        assert_eq!(new.names(), [""; 0], "nothing is left behind: {error}");
        assert!(!outside.exists());
    };

    std::fs::write(&bad, "not a tar file").unwrap();
    refuse("not a backup");
    std::fs::write(&bad, "I am Baton's built-in model. ".repeat(100)).unwrap();
    refuse("cannot be restored: it is not a backup of Baton, or its beginning is damaged");
    std::fs::write(&bad, "").unwrap();
    refuse("not a backup");
    for part in [1, 2, 3] {
        std::fs::write(&bad, &good_bytes[..good_bytes.len() * part / 4]).unwrap();
        refuse("cannot be restored");
    }
    let mut flipped = good_bytes;
    let middle = flipped.windows(12).position(|part| part == b"\"locations\":").unwrap();
    flipped[middle + 1] = b'L';
    std::fs::write(&bad, &flipped).unwrap();
    refuse("\"permissions.json\" was changed or damaged");

    // Everything but the digests, and then something of the attacker's.
    let with = |attack: &dyn Fn(&mut Builder<Vec<u8>>)| {
        write(&bad, |tar| {
            for (name, content) in good_members.iter().filter(|(name, _)| name != "SHA256SUMS") {
                put(tar, name, content);
            }
            attack(tar);
        });
    };
    with(&|_| {});
    refuse("its end is missing");
    for name in ["../outside", "/tmp/x", "session-state/../../outside", "session-state/one/../../../outside"]
    {
        with(&|tar| put(tar, name, b"x"));
        refuse("which no backup has");
    }
    for kind in [
        EntryType::Symlink,
        EntryType::Link,
        EntryType::Char,
        EntryType::Block,
        EntryType::Fifo,
        EntryType::Directory,
        EntryType::GNUSparse,
        EntryType::XHeader,
        EntryType::GNULongLink,
    ] {
        with(&|tar| {
            let mut header = header(kind, "session-state/one/x", 0);
            header.set_link_name("/etc/passwd").unwrap();
            header.set_cksum();
            tar.append(&header, &[][..]).unwrap();
        });
        refuse("more than plain files");
    }
    with(&|tar| put(tar, "session-state/one/rewind/copy", b"again"));
    refuse("twice");
    with(&|tar| put(tar, "session-state/unknown/x", b"x"));
    refuse("cannot be restored");
    with(&|tar| {
        let mut header = header(EntryType::Regular, "session-state/one/x", 1 << 40);
        header.set_cksum();
        tar.get_mut().write_all(header.as_bytes()).unwrap();
    });
    refuse("cannot be restored");
    with(&|tar| {
        let mut header = header(EntryType::GNULongName, "././@LongLink", 100_000);
        header.set_cksum();
        tar.append(&header, &vec![b'a'; 100_000][..]).unwrap();
    });
    refuse("too long");
    write(&bad, |tar| {
        good_members.iter().for_each(|(name, content)| put(tar, name, content));
        put(tar, "session-state/one/late", b"x");
    });
    refuse("comes after its end");
}
