//! How `baton attach` finds a server of this machine: each `baton serve` leaves a small file in the data directory that
//! says where it listens, and takes it away when it ends. One that a killed server left behind is passed over, and
//! removed: the process is known by more than its number.
#![expect(clippy::disallowed_methods, reason = "runs on the main thread, before or after the server's work")]

use std::path::{Path, PathBuf};

use anyhow::Context;
use baton_server::owner;
use baton_store::Owner;
use serde::{Deserialize, Serialize};

/// Where a server listens. No secrets: the token stays in its own file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Beacon {
    owner: Owner,
    /// The address of its HTTP door.
    pub(crate) url: Option<String>,
    /// The socket file of its HTTP door.
    pub(crate) socket: Option<PathBuf>,
    /// Where its token is, if it needs one.
    pub(crate) token_file: Option<PathBuf>,
}

/// A beacon that is lit. Put out when dropped.
pub(crate) struct Lit(PathBuf);

impl Drop for Lit {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Beacon {
    pub(crate) fn new(url: Option<String>, socket: Option<PathBuf>, token_file: Option<PathBuf>) -> Self {
        Self { owner: owner::this_process(), url, socket, token_file }
    }

    /// Lets others find this server.
    pub(crate) fn light(&self, home: &Path) -> anyhow::Result<Lit> {
        let (directory, name) = (directory(home), format!("{}.json", self.owner.pid));
        let write = || {
            baton_private::create_dir_all(&directory)?;
            // Whole or not at all: somebody may be looking.
            let unfinished = directory.join(format!(".{name}"));
            baton_private::write(&unfinished, serde_json::to_vec(self)?)?;
            std::fs::rename(&unfinished, directory.join(&name))
        };
        write().with_context(|| format!("cannot write to {}", directory.display()))?;
        Ok(Lit(directory.join(name)))
    }

    /// The servers that run, newest first.
    pub(crate) fn all(home: &Path) -> Vec<Self> {
        let files = std::fs::read_dir(directory(home)).into_iter().flatten().flatten();
        let mut found: Vec<Self> = files.filter_map(|file| read(&file.path())).collect();
        found.sort_by_key(|beacon| std::cmp::Reverse(beacon.owner.started));
        found
    }
}

fn directory(home: &Path) -> PathBuf {
    home.join("servers")
}

fn read(path: &Path) -> Option<Beacon> {
    let beacon: Beacon = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
    if owner::is_alive(&beacon.owner) {
        return Some(beacon);
    }
    let _ = std::fs::remove_file(path);
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_living_are_found_and_the_dead_are_cleared_away() {
        let home = tempfile::tempdir().unwrap();
        assert!(Beacon::all(home.path()).is_empty());
        let beacon = Beacon::new(Some("http://127.0.0.1:1".into()), None, None);
        let mut dead = beacon.clone();
        dead.owner.started += 1 << 40; // Far from now: the next process id may be somebody who started just after us.
        dead.owner.pid += 1;
        let left_behind = dead.light(home.path()).unwrap();
        let lit = beacon.light(home.path()).unwrap();
        let found = Beacon::all(home.path());
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].url, beacon.url);
        assert!(!left_behind.0.exists());
        drop(lit);
        assert!(Beacon::all(home.path()).is_empty());
    }
}
