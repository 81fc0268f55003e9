//! The archive of a backup: a tar file that `tar` lists and `sha256sum` checks.
//!
//! Members, in this order: the manifest, the database, settings, grants of locations, the token if wanted, files of
//! sessions, and the digests of all of them. All are regular files. The digests come last, so that an archive that was cut
//! off is recognised.

mod read;
mod write;

use std::path::{Component, Path, PathBuf};

use baton_protocol::{SessionId, Timestamp};
use serde::{Deserialize, Serialize};

pub(crate) use self::read::{ArchiveReader, OpenMember, Sums};
pub(crate) use self::write::Writer;

/// Version of the archive's layout.
pub(crate) const FORMAT: u32 = 1;

/// Directory of the session directories, in the archive and in the home.
pub(crate) const SESSIONS: &str = "session-state";

/// Limits of a name in the archive.
const MAX_NAME: usize = 2048;
const MAX_DEPTH: usize = 32;

/// Description of an archive: its first member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Manifest {
    /// Version of the layout.
    pub(crate) format: u32,
    /// Version of the Baton that wrote the archive.
    pub(crate) baton: String,
    /// Time of the backup.
    pub(crate) created: Timestamp,
    /// Number of sessions.
    pub(crate) sessions: u64,
}

/// A member of the archive. Every name that is read from an archive becomes one, or is refused.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ArchiveMember {
    Manifest,
    /// A file directly in the home.
    Home(HomeFile),
    /// A file in the directory of a session.
    Session {
        session: SessionId,
        /// Path in the session's directory: plain names, no links, no way out.
        path: PathBuf,
    },
    Digests,
}

/// A file directly in the home that a backup contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum HomeFile {
    Database,
    Permissions,
    Settings,
    Token,
}

impl HomeFile {
    pub(crate) const ALL: [Self; 4] = [Self::Database, Self::Permissions, Self::Settings, Self::Token];

    /// Returns its name, in the archive and in the home.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Database => "baton.db",
            Self::Permissions => "permissions.json",
            Self::Settings => "settings.json",
            Self::Token => "token",
        }
    }
}

const MANIFEST: &str = "baton-backup.json";
const DIGESTS: &str = "SHA256SUMS";

impl ArchiveMember {
    /// Parses a name. Returns `None` for every name that a backup does not write.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        if name.len() > MAX_NAME || name.chars().any(char::is_control) {
            return None;
        }
        if let Some(file) = HomeFile::ALL.into_iter().find(|file| file.name() == name) {
            return Some(Self::Home(file));
        }
        match name {
            MANIFEST => return Some(Self::Manifest),
            DIGESTS => return Some(Self::Digests),
            _ => {}
        }
        let (session, path) = name.strip_prefix(SESSIONS)?.strip_prefix('/')?.split_once('/')?;
        Some(Self::Session { session: session.parse().ok()?, path: plain(path)? })
    }

    /// Returns the name in the archive; none if the path cannot be one.
    pub(crate) fn name(&self) -> Option<String> {
        let name = match self {
            Self::Manifest => MANIFEST.to_owned(),
            Self::Digests => DIGESTS.to_owned(),
            Self::Home(file) => file.name().to_owned(),
            Self::Session { session, path } => format!("{SESSIONS}/{session}/{}", path.to_str()?),
        };
        (Self::parse(&name).as_ref() == Some(self)).then_some(name)
    }

    /// Returns the path in a home; none for the archive's own members.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        match self {
            Self::Manifest | Self::Digests => None,
            Self::Home(file) => Some(file.name().into()),
            Self::Session { session, path } => Some(Path::new(SESSIONS).join(session.as_str()).join(path)),
        }
    }
}

/// Returns a relative path of plain names only, written in the one usual way.
fn plain(text: &str) -> Option<PathBuf> {
    let path = Path::new(text);
    let is_plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    let rebuilt: PathBuf = path.components().collect();
    let depth = path.components().count();
    (is_plain && depth > 0 && depth <= MAX_DEPTH && rebuilt.as_os_str() == path.as_os_str())
        .then_some(rebuilt)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_a_backup_writes_are_parsed_and_written_back() {
        for name in [
            "baton-backup.json",
            "baton.db",
            "token",
            "SHA256SUMS",
            "session-state/s-1/rewind/ab",
            "session-state/s/ä b",
        ] {
            assert_eq!(ArchiveMember::parse(name).unwrap().name().as_deref(), Some(name));
        }
    }

    #[test]
    fn every_other_name_is_refused() {
        let deep = format!("session-state/s/{}x", "d/".repeat(MAX_DEPTH));
        let long = format!("session-state/s/{}", "x".repeat(MAX_NAME));
        for name in [
            "",
            "/",
            ".",
            "..",
            "other",
            "/baton.db",
            "./baton.db",
            "baton.db/",
            "baton.db-wal",
            "session-state",
            "session-state/s",
            "session-state/s/",
            "session-state//x",
            "session-state/../x",
            "session-state/../../x",
            "session-state/s/../x",
            "session-state/s/./x",
            "session-state/s//x",
            "session-state/s/x/",
            "session-state/s//etc/passwd",
            "session-state/s/a\nb",
            "session-state/s/a\0b",
            "session-state/.hidden/x",
            "servers/1.json",
            "running/x",
            &deep,
            &long,
        ] {
            assert_eq!(ArchiveMember::parse(name), None, "{name:?}");
        }
    }
}
