//! Small JSON values, such as the user's settings: read whole, replaced whole. They are files in Baton's home, or documents of
//! a store that servers share.
//!
//! Several servers may edit one, so an edit reads, changes and replaces a file under a file lock, and a document only if its
//! version has not changed. An edit is durable when it returns.
#![allow(clippy::disallowed_methods, reason = "runs on a blocking thread")]

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use baton_disk::private;
use baton_store::{Store, StoreError};
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A JSON value that several servers may read and edit.
#[derive(Clone)]
pub struct JsonFile {
    medium: Medium,
}

/// Where a value is.
#[derive(Clone)]
enum Medium {
    File(PathBuf),
    Document(Arc<dyn Store>, String),
}

impl JsonFile {
    /// Names the file; nothing is read or created yet.
    pub fn new(home: &Path, name: &str) -> Self {
        Self { medium: Medium::File(home.join(name)) }
    }

    /// Names a document of a store; nothing is read or created yet.
    pub fn shared(store: &Arc<dyn Store>, name: &str) -> Self {
        Self { medium: Medium::Document(store.clone(), name.to_owned()) }
    }

    /// Whether other servers can change the value without a sign on this machine.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self.medium, Medium::Document(..))
    }

    /// Reads the content; the default value if the file does not exist.
    pub async fn read<T>(&self) -> Result<T, String>
    where
        T: DeserializeOwned + Default + Send + 'static,
    {
        match &self.medium {
            Medium::File(path) => on_file(path, |path| read(path)).await,
            Medium::Document(store, name) => Ok(read_document(&**store, name).await?.1),
        }
    }

    /// Changes the content, and returns the result of `change` once the new content is durable.
    pub async fn edit<T, R>(
        &self,
        change: impl FnOnce(&mut T) -> R + Clone + Send + 'static,
    ) -> Result<R, String>
    where
        T: DeserializeOwned + Serialize + Default + Send,
        R: Send + 'static,
    {
        match &self.medium {
            Medium::File(path) => on_file(path, |path| edit(path, change)).await,
            Medium::Document(store, name) => edit_document(&**store, name, change).await,
        }
    }
}

/// Reads or writes a file on the blocking pool, and names it if that fails.
pub(crate) async fn on_file<R: Send + 'static>(
    path: &Path,
    work: impl FnOnce(&Path) -> io::Result<R> + Send + 'static,
) -> Result<R, String> {
    let owned = path.to_owned();
    let done = tokio::task::spawn_blocking(move || work(&owned)).await.map_err(io::Error::other);
    done.flatten().map_err(|error| format!("cannot read or write {}: {error}", path.display()))
}

/// Reads a document, with its version; 0 and the default value if there is none.
async fn read_document<T: DeserializeOwned + Default>(
    store: &dyn Store,
    name: &str,
) -> Result<(u64, T), String> {
    let failed = |error: &dyn std::fmt::Display| format!("cannot read {name} in the store: {error}");
    match store.document(name).await.map_err(|error| failed(&error))? {
        None => Ok((0, T::default())),
        Some(found) => {
            let content = serde_json::from_slice(&found.body).map_err(|error| failed(&error))?;
            Ok((found.version, content))
        }
    }
}

async fn edit_document<T, R>(
    store: &dyn Store,
    name: &str,
    change: impl FnOnce(&mut T) -> R + Clone,
) -> Result<R, String>
where
    T: DeserializeOwned + Serialize + Default,
{
    loop {
        let (version, mut content) = read_document(store, name).await?;
        let result = change.clone()(&mut content);
        let body = serde_json::to_vec(&content).map_err(|error| error.to_string())?;
        let written = store.write_document(name, version, Bytes::from(body)).await;
        if written.map_err(|error: StoreError| format!("cannot write {name} in the store: {error}"))? {
            return Ok(result);
        }
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

    #[tokio::test(flavor = "multi_thread")]
    async fn concurrent_edits_of_a_document_are_all_applied() {
        let store: Arc<dyn Store> = Arc::new(baton_store::memory::MemoryStore::default());
        let add = |n: u32| {
            let file = JsonFile::shared(&store, "numbers");
            async move { file.edit(move |numbers: &mut Numbers| numbers.insert(n.to_string(), n)).await.unwrap() }
        };
        futures_util::future::join_all((1..=20).map(add)).await;
        let numbers: Numbers = JsonFile::shared(&store, "numbers").read().await.unwrap();
        assert_eq!(numbers.len(), 20);
        assert!(JsonFile::shared(&store, "other").read::<Numbers>().await.unwrap().is_empty());
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
