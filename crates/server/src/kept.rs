//! Small files of our own in the server's directory: read when somebody wants to know, written whole.
//!
//! Several servers may share the directory, so a change is read, made and written under a lock of the file system. What
//! is acknowledged is on the disk.
#![allow(clippy::disallowed_methods, reason = "runs on a blocking thread")]

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use baton_private as private;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The directory of such files.
pub(crate) struct Keep {
    directory: PathBuf,
}

impl Keep {
    pub(crate) fn at(directory: &Path) -> Self {
        Self { directory: directory.to_owned() }
    }

    pub(crate) fn file(&self, name: &str) -> Kept {
        Kept { path: self.directory.join(name) }
    }
}

/// One of the files.
#[derive(Clone)]
pub(crate) struct Kept {
    path: PathBuf,
}

impl Kept {
    /// What the file holds; nothing if there is none.
    pub(crate) async fn read<T>(&self) -> Result<T, String>
    where
        T: DeserializeOwned + Default + Send + 'static,
    {
        self.blocking(|path| read(path)).await
    }

    /// Changes what the file holds, and returns what the change returns once that is durable.
    pub(crate) async fn edit<T, R>(
        &self,
        change: impl FnOnce(&mut T) -> R + Send + 'static,
    ) -> Result<R, String>
    where
        T: DeserializeOwned + Serialize + Default,
        R: Send + 'static,
    {
        self.blocking(|path| edit(path, change)).await
    }

    async fn blocking<R: Send + 'static>(
        &self,
        work: impl FnOnce(&Path) -> io::Result<R> + Send + 'static,
    ) -> Result<R, String> {
        let path = self.path.clone();
        let done = tokio::task::spawn_blocking(move || work(&path)).await.map_err(io::Error::other);
        done.flatten().map_err(|error| format!("cannot read or write {}: {error}", self.path.display()))
    }
}

fn read<T: DeserializeOwned + Default>(path: &Path) -> io::Result<T> {
    match std::fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(io::Error::other),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(T::default()),
        Err(error) => Err(error),
    }
}

fn edit<T, R>(path: &Path, change: impl FnOnce(&mut T) -> R) -> io::Result<R>
where
    T: DeserializeOwned + Serialize + Default,
{
    if let Some(parent) = path.parent() {
        private::create_dir_all(parent)?;
    }
    let lock = private::create(path.with_extension("lock"))?;
    lock.lock()?;
    let mut content = read(path)?;
    let result = change(&mut content);
    // Beside it first, then in its place, so that a crash in between leaves the old one whole.
    let beside = path.with_extension("new");
    let mut file = private::create(&beside)?;
    file.write_all(&serde_json::to_vec_pretty(&content)?)?;
    file.sync_all()?;
    std::fs::rename(beside, path)?;
    Ok(result)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    type Numbers = BTreeMap<String, u32>;

    #[tokio::test(flavor = "multi_thread")]
    async fn no_change_is_lost_to_another() {
        let dir = tempfile::tempdir().unwrap();
        let count = |n: u32| {
            // As two servers would: each with a lock of its own.
            let file = Keep::at(&dir.path().join("home")).file("numbers.json");
            async move {
                file.edit(move |kept: &mut Numbers| {
                    kept.insert(n.to_string(), n);
                    *kept.entry("sum".into()).or_default() += n;
                })
                .await
                .unwrap();
            }
        };
        futures_util::future::join_all((1..=20).map(count)).await;
        let kept: Numbers = Keep::at(&dir.path().join("home")).file("numbers.json").read().await.unwrap();
        assert_eq!((kept.len(), kept["sum"]), (21, 210));
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_understood_is_named_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("n.json"), "{ not json").unwrap();
        let file = Keep::at(dir.path()).file("n.json");
        let why = file.edit(|kept: &mut Numbers| kept.clear()).await.unwrap_err();
        assert!(why.contains("n.json"), "{why}");
        assert_eq!(std::fs::read_to_string(dir.path().join("n.json")).unwrap(), "{ not json");
    }
}
