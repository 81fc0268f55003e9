//! Copies files of a session from one store to another: `baton store copy`.
//!
//! The history is copied before, and not here. The files of the target are replaced as a whole.

use std::path::PathBuf;

use baton_store::shared_files::{FileChange, SharedFiles};
use baton_store::{Lease, StoreError};

use crate::SessionFiles;
use crate::shared::SharedDirectory;

/// The place where a store keeps the files of its sessions.
pub enum FilePlace<'a> {
    /// A home, with a directory for each session.
    Home(PathBuf),
    /// The store itself.
    Shared(&'a dyn SharedFiles),
}

/// Replaces the files of a session in the target, where `lease` holds it.
///
/// # Errors
/// When a file cannot be read or written, or another server has acquired the session.
pub async fn copy_files(from: &FilePlace<'_>, to: &FilePlace<'_>, lease: &Lease) -> Result<(), StoreError> {
    let session = &lease.session;
    match (from, to) {
        (FilePlace::Home(from), FilePlace::Home(to)) => {
            let (from, to) = (SessionFiles::of(from, session), SessionFiles::of(to, session));
            SharedDirectory::copy(from.path(), to.path()).await
        }
        (FilePlace::Home(home), FilePlace::Shared(shared)) => {
            let files = SessionFiles::of(home, session);
            SharedDirectory::replacing(files.path(), *shared, session).await?.push(*shared, lease).await
        }
        (FilePlace::Shared(shared), FilePlace::Home(home)) => {
            SharedDirectory::fetch(SessionFiles::of(home, session).path(), *shared, session).await.map(drop)
        }
        (FilePlace::Shared(from), FilePlace::Shared(to)) => copy_shared(*from, *to, lease).await,
    }
}

async fn copy_shared(from: &dyn SharedFiles, to: &dyn SharedFiles, lease: &Lease) -> Result<(), StoreError> {
    let session = &lease.session;
    let (wanted, found) = (from.list_files(session).await?, to.list_files(session).await?);
    for file in wanted.iter().filter(|file| !found.contains(file)) {
        // Deleted meanwhile: the next copy notices.
        let Some(body) = from.read_file(session, &file.path).await? else { continue };
        to.change_files(lease, vec![FileChange::Put { file: file.clone(), body }]).await?;
    }
    let surplus = found.into_iter().filter(|file| !wanted.iter().any(|wanted| wanted.path == file.path));
    let surplus: Vec<_> = surplus.map(|file| FileChange::Delete { path: file.path }).collect();
    if surplus.is_empty() { Ok(()) } else { to.change_files(lease, surplus).await }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use baton_store::memory::MemoryStore;

    use super::*;
    use crate::shared::tests::session;

    fn plan(home: &Path) -> PathBuf {
        home.join(crate::home::SESSIONS).join("s1/plan.md")
    }

    #[tokio::test]
    async fn files_travel_through_all_kinds_of_stores() {
        let (one, two) = (MemoryStore::default(), MemoryStore::default());
        let dir = tempfile::tempdir().unwrap();
        let [a, b, c] = ["a", "b", "c"].map(|name| dir.path().join(name));
        fs::create_dir_all(plan(&a).parent().unwrap()).unwrap();
        fs::write(plan(&a), "1. think").unwrap();
        let (first, second) = (session(&one).await, session(&two).await);
        let home = |path: &PathBuf| FilePlace::Home(path.clone());
        copy_files(&home(&a), &FilePlace::Shared(&one), &first).await.unwrap();
        copy_files(&FilePlace::Shared(&one), &FilePlace::Shared(&two), &second).await.unwrap();
        copy_files(&FilePlace::Shared(&two), &home(&b), &second).await.unwrap();
        copy_files(&home(&b), &home(&c), &second).await.unwrap();
        assert_eq!(fs::read_to_string(plan(&c)).unwrap(), "1. think");
        // Again, after a change: a file that is gone is gone everywhere.
        fs::remove_file(plan(&a)).unwrap();
        fs::write(plan(&a).with_file_name("other"), "x").unwrap();
        copy_files(&home(&a), &FilePlace::Shared(&one), &first).await.unwrap();
        copy_files(&FilePlace::Shared(&one), &FilePlace::Shared(&two), &second).await.unwrap();
        copy_files(&FilePlace::Shared(&two), &home(&b), &second).await.unwrap();
        copy_files(&home(&b), &home(&c), &second).await.unwrap();
        assert!(!plan(&c).exists() && plan(&c).with_file_name("other").exists());
    }
}
