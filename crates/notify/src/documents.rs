//! Reads and changes documents of the store. A change is repeated if another server was faster.

use std::sync::Arc;

use baton_store::{Store, StoreError};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Failure to read or write the state of notifications.
#[derive(Debug, thiserror::Error)]
pub enum NotifyError {
    /// The stored state cannot be read.
    #[error("the stored notifications ({0}) cannot be read: {1}")]
    Damaged(&'static str, String),
    /// The system has no random numbers.
    #[error("the system has no random numbers")]
    NoRandom,
    /// A subscription cannot be used.
    #[error("this subscription cannot be used: {0}")]
    Unusable(String),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Reads a document, and its version.
pub(crate) async fn read<T: DeserializeOwned + Default>(
    store: &Arc<dyn Store>,
    name: &'static str,
) -> Result<(T, u64), NotifyError> {
    let Some(document) = store.document(name).await? else { return Ok((T::default(), 0)) };
    let parsed = serde_json::from_slice(&document.body);
    let value = parsed.map_err(|error| NotifyError::Damaged(name, error.to_string()))?;
    Ok((value, document.version))
}

/// Changes a document. Writes nothing if the change left it as it was.
pub(crate) async fn edit<T: Serialize + DeserializeOwned + Default, R>(
    store: &Arc<dyn Store>,
    name: &'static str,
    mut change: impl FnMut(&mut T) -> R,
) -> Result<(R, T), NotifyError> {
    let encode =
        |value: &T| serde_json::to_vec(value).map_err(|error| NotifyError::Damaged(name, error.to_string()));
    loop {
        let (mut value, version) = read::<T>(store, name).await?;
        let before = encode(&value)?;
        let result = change(&mut value);
        let after = encode(&value)?;
        if before == after || store.write_document(name, version, after.into()).await? {
            return Ok((result, value));
        }
    }
}
