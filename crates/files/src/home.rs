//! Baton's home, accessible to its owner only. Modes that an earlier version or another umask left too wide are corrected
//! when a server starts.
//!
//! The home may be shared with other programs (`COPILOT_HOME`), so only files known to be Baton's are changed: files by
//! their names, session directories by the ids in the store.
#![allow(clippy::disallowed_methods, reason = "blocking by design; callers run it on a blocking thread")]

use std::io;
use std::path::Path;

use baton_protocol::SessionId;
use baton_store::Store;

/// Baton's files and directories directly in the home. Directories are closed with all their content.
const OWN: [&str; 13] = [
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
    "sandbox",
];

/// Directory, in the home, of the session directories.
pub(crate) const SESSIONS: &str = "session-state";

/// Removes access of other users to the home and to Baton's files in it. A home that contains a directory of `within`, in
/// which users work, is not Baton's alone and keeps its mode. Returns whether other users have no access to the home now.
///
/// # Errors
/// When a mode cannot be changed.
pub fn secure(home: &Path, within: &[&Path]) -> io::Result<bool> {
    for name in OWN {
        baton_disk::private::tighten_all(home.join(name))?;
    }
    let resolved = home.canonicalize().unwrap_or_else(|_| home.to_owned());
    let is_shared =
        within.iter().filter_map(|path| path.canonicalize().ok()).any(|path| path.starts_with(&resolved));
    if is_shared { Ok(false) } else { baton_disk::private::tighten(&resolved) }
}

/// Removes access of other users to the session directories. The store is read only if there is one to close.
pub async fn secure_sessions(home: &Path, store: &dyn Store) {
    let root = home.join(SESSIONS);
    let checked = root.clone();
    let is_any_open = tokio::task::spawn_blocking(move || is_any_open(&checked)).await;
    if !is_any_open.unwrap_or(false) {
        return;
    }
    let Ok(sessions) = store.list().await else { return };
    let own: Vec<SessionId> = sessions.into_iter().map(|summary| summary.session).collect();
    let close =
        move || own.iter().try_for_each(|id| baton_disk::private::tighten_all(root.join(id.as_str())));
    match tokio::task::spawn_blocking(close).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            tracing::warn!(%error, "failed to remove access of other users to session files; check their modes");
        }
        Err(_) => {}
    }
}

fn is_any_open(root: &Path) -> bool {
    let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
    entries
        .into_iter()
        .any(|entry| entry.metadata().is_ok_and(|metadata| baton_disk::private::is_open_to_others(&metadata)))
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
    fn own_files_are_closed_and_files_of_other_programs_keep_their_modes() {
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
    fn home_that_contains_a_working_directory_keeps_its_mode() {
        let dir = tempfile::tempdir().unwrap();
        let work = dir.path().join("project/src");
        fs::create_dir_all(&work).unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        make(&dir.path().join("token"), 0o644);
        assert!(!secure(dir.path(), &[&work]).unwrap());
        assert_eq!((mode(dir.path()), mode(&dir.path().join("token"))), (0o755, 0o600));
    }
}
