//! Calls to clients: those that supply credentials, and those that carry model requests.

use std::future::Future;
use std::pin::Pin;

use baton_protocol::rpc::RpcError;
use baton_protocol::{ClientId, Json};
use serde_json::Value;

/// Why a call to a client failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CallFailed {
    /// The client is not connected any more, or cannot be called.
    #[error("the client has disconnected")]
    Gone,
    /// The client replied with an error.
    #[error("the client answered with an error: {0}")]
    Refused(RpcError),
}

/// A call to a client, to be awaited.
pub type Calling = Pin<Box<dyn Future<Output = Result<Json, CallFailed>> + Send>>;

/// Clients of a session, by id.
pub trait Clients: Send + Sync {
    /// Calls a method of a client.
    fn call(&self, client: ClientId, method: &'static str, params: Value) -> Calling;
}
