//! Archives of backups.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::OnceLock;

use baton_ops::restore::{RestoreOptions, RestoreReport, restore};
use baton_protocol::Timestamp;
use baton_store::sqlite::{Durability, SqliteStore};
use baton_store::{NewRecord, NewSession, Owner, Store};
use bytes::Bytes;
use ring::digest::{SHA256, digest};
use tar::{EntryType, Header};

/// Restores an archive that the input is, and one that the input describes ([`Recipe`]). Nothing is written outside of the home;
/// a home that is restored has exactly the files of the archive, for its owner only; and otherwise it stays empty.
pub fn archive(data: &[u8]) {
    restore_from(data, None);
    let recipe = Recipe::of(data);
    restore_from(&recipe.archive(), Some(&recipe));
}

fn restore_from(archive: &[u8], recipe: Option<&Recipe<'_>>) {
    let outer = tempfile::tempdir().expect("a directory");
    let (home, file) = (outer.path().join("home"), outer.path().join("backup.tar"));
    fs::write(&file, archive).expect("a file");
    let options = RestoreOptions { home: &home, file: &file, replace: false, is_alive: |_| false };
    let report = restore(&options, &mut |_, _| {});
    let mut around = names(outer.path());
    around.retain(|name| name != "home");
    assert_eq!(around, ["backup.tar"], "nothing is beside the home");
    match (report, recipe) {
        (Ok(report), Some(recipe)) => recipe.check(&home, &report),
        // An input that is a valid archive byte by byte can be longer than what it describes.
        (Ok(_), None) => {}
        (Err(_), _) => assert_eq!(names(&home), [""; 0], "a refused archive leaves nothing"),
    }
}

/// Names in a directory; none if there is no directory.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
}

/// Description of an archive, so that a mutation yields an archive with valid checksums: one member a line, `TYPE NAME=CONTENT`.
/// `TYPE` is the character of the tar format (`0`: a file, `2`: a link to `CONTENT`). Contents that no mutation finds have names:
/// `@manifest`, `@database` (with the session `s`), `@digests` (of all members before it), and `@cut` (of a file that the archive
/// announces, and does not have).
struct Recipe<'a> {
    members: Vec<Member<'a>>,
}

struct Member<'a> {
    kind: u8,
    name: &'a [u8],
    content: Content<'a>,
}

enum Content<'a> {
    Bytes(&'a [u8]),
    Digests,
    Cut,
}

const MANIFEST: &[u8] = br#"{"format":1,"baton":"1.2.3","created":"2026-01-01T00:00:00.000Z","sessions":1}"#;

impl<'a> Recipe<'a> {
    fn of(data: &'a [u8]) -> Self {
        let lines = data.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let member = |line: &'a [u8]| {
            let (kind, rest) = line.split_first()?;
            let rest = rest.strip_prefix(b" ").unwrap_or(rest);
            let equals = rest.iter().position(|byte| *byte == b'=')?;
            let content = match &rest[equals + 1..] {
                b"@manifest" => Content::Bytes(MANIFEST),
                b"@database" => Content::Bytes(database()),
                b"@digests" => Content::Digests,
                b"@cut" => Content::Cut,
                bytes => Content::Bytes(bytes),
            };
            Some(Member { kind: *kind, name: &rest[..equals], content })
        };
        Self { members: lines.filter_map(member).collect() }
    }

    fn archive(&self) -> Vec<u8> {
        let (mut archive, mut digests) = (Vec::new(), String::new());
        for Member { kind, name, content } in &self.members {
            // A name that is longer than its field precedes its member.
            if name.len() > 100 {
                append(&mut archive, b'L', b"././@LongLink", name, name.len());
            }
            match content {
                Content::Bytes(bytes) => {
                    append(&mut archive, *kind, name, bytes, bytes.len());
                    digests += &format!("{}  {}\n", hex(bytes), String::from_utf8_lossy(name));
                }
                Content::Digests => append(&mut archive, *kind, name, digests.as_bytes(), digests.len()),
                Content::Cut => append(&mut archive, *kind, name, b"", 1 << 32),
            }
        }
        archive.resize(archive.len() + 1024, 0);
        archive
    }

    /// Checks a home that was restored: it has the files of the archive, and nothing else.
    fn check(&self, home: &Path, report: &RestoreReport) {
        let mut expected = 0;
        for Member { kind, name, content } in &self.members {
            let name = str::from_utf8(name).expect("a name that a backup has");
            assert_eq!(*kind, b'0', "{name:?} is a file");
            let Content::Bytes(content) = content else { continue };
            if !["baton-backup.json", "baton.db"].contains(&name) {
                expected += 1;
                assert_eq!(fs::read(home.join(name)).expect("the file"), *content, "{name:?}");
            }
        }
        assert_eq!((report.sessions, report.files), (1, expected));
        let mut files = Vec::new();
        walk(home, &mut files);
        files.retain(|file| !file.starts_with("baton.db"));
        assert_eq!(files.len() as u64, expected, "{files:?}");
    }
}

/// Appends a member: a link to its content, or a file of a size.
fn append(archive: &mut Vec<u8>, kind: u8, name: &[u8], content: &[u8], size: usize) {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::new(kind));
    let field = &mut header.as_gnu_mut().expect("the format").name;
    let fitting = name.len().min(field.len());
    field[..fitting].copy_from_slice(&name[..fitting]);
    let is_link = matches!(kind, b'1' | b'2');
    if is_link {
        // A target that does not fit is left out.
        let _ = header.set_link_name_literal(content);
    }
    header.set_size(if is_link { 0 } else { size as u64 });
    header.set_mode(0o777);
    header.set_cksum();
    archive.extend_from_slice(header.as_bytes());
    if !is_link {
        archive.extend_from_slice(content);
        archive.resize(archive.len().next_multiple_of(512), 0);
    }
}

fn hex(content: &[u8]) -> String {
    digest(&SHA256, content).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Lists the files below a directory. All are regular files of their owner.
fn walk(directory: &Path, files: &mut Vec<String>) {
    for name in names(directory) {
        let path = directory.join(&name);
        let metadata = fs::symlink_metadata(&path).expect("a file");
        assert_eq!(metadata.permissions().mode() & 0o077, 0, "{name:?} is private");
        if metadata.is_dir() {
            walk(&path, files);
        } else {
            assert!(metadata.is_file(), "{name:?} is a regular file");
            files.push(name);
        }
    }
}

/// Returns the database of a home with the session `s`.
fn database() -> &'static [u8] {
    static DATABASE: OnceLock<Vec<u8>> = OnceLock::new();
    DATABASE.get_or_init(|| {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("baton.db");
        let store = SqliteStore::new(&path, Durability::Relaxed);
        let session = NewSession {
            session: "s".parse().expect("a name"),
            owner: Owner { server: "s".into(), host: "h".into(), boot: "b".into(), pid: 1, started: 1 },
            created: Timestamp(1),
            records: vec![NewRecord { kind: "k".into(), body: Bytes::from_static(b"{}") }],
            meta: Bytes::new(),
            busy: false,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let created = runtime.block_on(async {
            store.create(session).await?;
            store.close().await
        });
        created.expect("a database");
        fs::read(&path).expect("a database")
    })
}
