//! Nothing is left running, not even by a server that was killed (P6).
//!
//! All processes of a session carry a tag in their environment that nobody else has. Before a session starts its first
//! process, its tag is written to this server's ledger, a small file. A server that ends in order ends its processes and
//! removes its ledger. A server that was killed leaves it behind, and the next one to start on the same directory ends
//! whatever still carries one of its tags. A stranger is never mistaken for one of ours: a pid may be used again, a tag
//! is not.
#![expect(clippy::disallowed_methods, reason = "blocking by design; callers run it on a blocking thread")]

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use baton_agent::tools::shell::end_tagged;
use baton_store::Owner;

use crate::owner;

/// The processes of this server, as far as the next one needs to know.
pub(crate) struct Ledger {
    owner: Owner,
    directory: PathBuf,
    file: Mutex<Option<File>>,
}

impl Ledger {
    pub(crate) fn new(home: &Path, owner: Owner) -> Self {
        Self { owner, directory: directory(home), file: Mutex::default() }
    }

    /// Takes note of a tag, before anything is started under it. The page cache survives the death of a process, and
    /// after the death of the machine there is nothing to reap: no sync is needed.
    pub(crate) fn note(&self, tag: &str) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let written = self.open(&mut file).and_then(|file| writeln!(file, "{tag}"));
        if let Err(error) = written {
            tracing::warn!(%error, "cannot note which processes run; if this server is killed, they may be left behind");
        }
    }

    fn open<'a>(&self, slot: &'a mut Option<File>) -> io::Result<&'a mut File> {
        if let Some(file) = slot {
            return Ok(file);
        }
        fs::create_dir_all(&self.directory)?;
        let mut file = OpenOptions::new().create(true).append(true).open(self.path())?;
        writeln!(file, "{}", serde_json::to_string(&self.owner).map_err(io::Error::other)?)?;
        Ok(slot.insert(file))
    }

    /// This server has ended all its processes.
    pub(crate) fn close(&self) {
        if self.file.lock().unwrap_or_else(PoisonError::into_inner).take().is_some() {
            let _ = fs::remove_file(self.path());
        }
    }

    fn path(&self) -> PathBuf {
        self.directory.join(format!("{}.running", self.owner.server))
    }
}

fn directory(home: &Path) -> PathBuf {
    home.join("running")
}

/// Ends what servers left behind that are no more. Blocks; returns how many sessions had something to end.
pub(crate) fn reap(home: &Path) -> usize {
    let Ok(entries) = fs::read_dir(directory(home)) else { return 0 };
    let ledgers = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let ledgers = ledgers.filter(|path| path.extension().is_some_and(|extension| extension == "running"));
    ledgers.map(|path| reap_ledger(&path)).sum()
}

fn reap_ledger(path: &Path) -> usize {
    let text = fs::read_to_string(path).unwrap_or_default();
    let mut lines = text.lines();
    let Some(owner) = lines.next().and_then(|line| serde_json::from_str::<Owner>(line).ok()) else {
        return 0;
    };
    if owner::is_alive(&owner) {
        return 0;
    }
    let tags: Vec<&str> = lines.filter(|tag| !tag.is_empty()).collect();
    if owner::is_of_this_boot(&owner) {
        for tag in &tags {
            end_tagged(tag);
        }
    }
    let _ = fs::remove_file(path);
    tags.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_agent::tools::shell::TAG_VARIABLE;
    use std::process::{Child, Command, Stdio};

    fn tagged(tag: &str) -> Child {
        Command::new("sleep")
            .arg("600")
            .env(TAG_VARIABLE, format!("{tag}1/"))
            .stdin(Stdio::null())
            .spawn()
            .unwrap()
    }

    fn dead_owner() -> Owner {
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        Owner { pid: child.id(), started: 1, ..owner::this_process() }
    }

    #[test]
    fn what_a_dead_server_left_is_ended_and_nothing_else() {
        let home = tempfile::tempdir().unwrap();
        let (left, strange) = (uuid::Uuid::new_v4(), uuid::Uuid::new_v4());
        Ledger::new(home.path(), dead_owner()).note(&format!("{left}/"));
        let (mut orphan, mut stranger) = (tagged(&format!("{left}/")), tagged(&format!("{strange}/")));
        assert_eq!(reap(home.path()), 1);
        assert!(!orphan.wait().unwrap().success(), "it was ended");
        assert!(stranger.try_wait().unwrap().is_none(), "a stranger was not");
        stranger.kill().unwrap();
        stranger.wait().unwrap();
        assert_eq!(reap(home.path()), 0, "the ledger is gone");
    }

    #[test]
    fn the_processes_of_a_living_server_are_left_alone() {
        let home = tempfile::tempdir().unwrap();
        let tag = format!("{}/", uuid::Uuid::new_v4());
        let ledger = Ledger::new(home.path(), owner::this_process());
        ledger.note(&tag);
        let mut child = tagged(&tag);
        assert_eq!(reap(home.path()), 0);
        assert!(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
        ledger.close();
        assert_eq!(fs::read_dir(home.path().join("running")).unwrap().count(), 0);
    }
}
