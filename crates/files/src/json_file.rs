//! Small JSON files in Baton's home, such as the user's settings: read whole, replaced whole.
//!
//! Several servers may share the home, so an edit reads, changes and replaces the file under a file lock. An edit is
//! durable when it returns.
#![allow(clippy::disallowed_methods, reason = "runs on a blocking thread")]

use std::io;
use std::path::{Path, PathBuf};

use baton_private as private;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A JSON file that several servers may read and edit.
#[derive(Clone)]
pub struct JsonFile {
    path: PathBuf,
}

impl JsonFile {
    /// Names the file; nothing is read or created yet.
    pub fn new(home: &Path, name: &str) -> Self {
        Self { path: home.join(name) }
    }

    /// Reads the content; the default value if the file does not exist.
    pub async fn read<T>(&self) -> Result<T, String>
    where
        T: DeserializeOwned + Default + Send + 'static,
    {
        on_file(&self.path, |path| read(path)).await
    }

    /// Changes the content, and returns the result of `change` once the new content is durable.
    pub async fn edit<T, R>(&self, change: impl FnOnce(&mut T) -> R + Send + 'static) -> Result<R, String>
    where
        T: DeserializeOwned + Serialize + Default,
        R: Send + 'static,
    {
        on_file(&self.path, |path| edit(path, change)).await
    }
}

/// Reads or writes a file on the blocking pool, and names it if that fails.
pub(crate) async fn on_file<R: Send + 'static>(
    path: &Path,
    work: impl FnOnce(&Path) -> io::Result<R> + Send + 'static,
) -> Result<R, String> {
    let own = path.to_owned();
    let done = tokio::task::spawn_blocking(move || work(&own)).await.map_err(io::Error::other);
    done.flatten().map_err(|error| format!("cannot read or write {}: {error}", path.display()))
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
    private::replace_synced(path, serde_json::to_vec_pretty(&content)?)?;
    Ok(result)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    type Numbers = BTreeMap<String, u32>;

    #[tokio::test(flavor = "multi_thread")]
    async fn concurrent_edits_are_all_applied() {
        let dir = tempfile::tempdir().unwrap();
        let add = |n: u32| {
            // Like two servers: each edit takes the file lock itself.
            let file = JsonFile::new(&dir.path().join("home"), "numbers.json");
            async move {
                file.edit(move |numbers: &mut Numbers| {
                    numbers.insert(n.to_string(), n);
                    *numbers.entry("sum".into()).or_default() += n;
                })
                .await
                .unwrap();
            }
        };
        futures_util::future::join_all((1..=20).map(add)).await;
        let file = JsonFile::new(&dir.path().join("home"), "numbers.json");
        let numbers: Numbers = file.read().await.unwrap();
        assert_eq!((numbers.len(), numbers["sum"]), (21, 210));
    }

    #[tokio::test]
    async fn malformed_file_is_reported_and_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("n.json"), "{ not json").unwrap();
        let file = JsonFile::new(dir.path(), "n.json");
        let error = file.edit(|numbers: &mut Numbers| numbers.clear()).await.unwrap_err();
        assert!(error.contains("n.json"), "{error}");
        assert_eq!(std::fs::read_to_string(dir.path().join("n.json")).unwrap(), "{ not json");
    }
}
