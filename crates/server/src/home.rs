//! The directory of all state, closed to everybody but its owner. What an earlier version, or another umask, left open is
//! closed when a server starts.
//!
//! The directory may be shared with other programs (`COPILOT_HOME`), so only what is known to be ours is touched: files
//! by their names, directories of sessions by the store.
#![allow(clippy::disallowed_methods, reason = "blocking by design; callers run it on a blocking thread")]

use std::io;
use std::path::Path;

use baton_protocol::SessionId;
use baton_store::Store;

/// What is ours directly in the directory. Directories with all that is in them.
const OWN: [&str; 12] = [
    "baton.db",
    "baton.db-wal",
    "baton.db-shm",
    "baton.sock",
    "token",
    "permissions.json",
    "permissions.lock",
    "settings.lock",
    "servers",
    "running",
    "engines",
    "crush",
];

/// The directory of the directories of sessions.
pub(crate) const SESSIONS: &str = "session-state";

/// Closes the directory and what is ours in it. `within` are directories that somebody works in: one that holds any of
/// them is not Baton's alone and stays as it is. Returns whether others are kept out of the directory itself.
///
/// # Errors
/// When a mode cannot be changed.
pub fn secure(home: &Path, within: &[&Path]) -> io::Result<bool> {
    for name in OWN {
        baton_private::tighten_all(home.join(name))?;
    }
    let resolved = home.canonicalize().unwrap_or_else(|_| home.to_owned());
    let is_shared =
        within.iter().filter_map(|path| path.canonicalize().ok()).any(|path| path.starts_with(&resolved));
    if is_shared { Ok(false) } else { baton_private::tighten(&resolved) }
}

/// Closes the directories of the sessions that the store knows. The store is asked only if there is one to close.
pub(crate) async fn secure_sessions(home: &Path, store: &dyn Store) {
    let root = home.join(SESSIONS);
    let looked = root.clone();
    let is_any_open = tokio::task::spawn_blocking(move || is_any_open(&looked)).await;
    if !is_any_open.unwrap_or(false) {
        return;
    }
    let Ok(sessions) = store.list().await else { return };
    let own: Vec<SessionId> = sessions.into_iter().map(|summary| summary.session).collect();
    let close = move || own.iter().try_for_each(|id| baton_private::tighten_all(root.join(id.as_str())));
    match tokio::task::spawn_blocking(close).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            tracing::warn!(%error, "cannot close files of sessions to other users; check their modes");
        }
        Err(_) => {}
    }
}

fn is_any_open(root: &Path) -> bool {
    let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
    entries
        .into_iter()
        .any(|entry| entry.metadata().is_ok_and(|metadata| baton_private::is_open_to_others(&metadata)))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn make(path: &Path, mode: u32) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "x").unwrap();
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn own_files_are_closed_and_foreign_ones_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("home");
        for (name, wide) in
            [("baton.db", 0o644), ("servers/1.json", 0o666), ("config.json", 0o644), ("logs/x", 0o640)]
        {
            make(&home.join(name), wide);
        }
        for directory in [home.clone(), home.join("servers"), home.join("logs")] {
            fs::set_permissions(directory, Permissions::from_mode(0o755)).unwrap();
        }
        assert!(secure(&home, &[dir.path()]).unwrap());
        assert_eq!((mode(&home), mode(&home.join("baton.db"))), (0o700, 0o600));
        assert_eq!((mode(&home.join("servers")), mode(&home.join("servers/1.json"))), (0o700, 0o600));
        assert_eq!((mode(&home.join("config.json")), mode(&home.join("logs"))), (0o644, 0o755));
        assert_eq!(mode(&home.join("logs/x")), 0o640);
    }

    #[test]
    fn a_directory_that_somebody_works_in_stays_open() {
        let dir = tempfile::tempdir().unwrap();
        let work = dir.path().join("project/src");
        fs::create_dir_all(&work).unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        make(&dir.path().join("token"), 0o644);
        assert!(!secure(dir.path(), &[&work]).unwrap());
        assert_eq!((mode(dir.path()), mode(&dir.path().join("token"))), (0o755, 0o600));
    }
}
