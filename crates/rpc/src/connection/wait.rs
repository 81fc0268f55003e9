//! Calls that wait for the end of a turn, which may take hours.

use std::sync::Arc;

use baton_protocol::Json;
use baton_protocol::rpc::{CallId, RpcError};
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::Connection;

/// Maximum number of calls of one client that wait. Each is a task.
const MAX_WAITS: usize = 4096;

/// A call that waits. The client can cancel it until it is dropped.
pub(crate) struct Wait {
    connection: Arc<Connection>,
    id: String,
    cancelled: CancellationToken,
}

impl Wait {
    /// Waits until the client cancels the call.
    pub(crate) async fn cancelled(&self) {
        self.cancelled.cancelled().await;
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.connection.lock().waits.remove(&self.id);
    }
}

#[derive(Deserialize)]
struct CancelParams {
    id: CallId,
}

impl Connection {
    /// Registers a call that waits.
    pub(crate) fn begin_wait(self: &Arc<Self>, id: &CallId) -> Result<Wait, RpcError> {
        let (id, cancelled) = (id.as_str().to_owned(), CancellationToken::new());
        let mut state = self.lock();
        if state.waits.len() >= MAX_WAITS {
            return Err(RpcError::failed(format!("more than {MAX_WAITS} calls of this client wait")));
        }
        if state.waits.contains_key(&id) {
            return Err(RpcError::bad_params(format!("the id {id} is in use by a call that waits")));
        }
        state.waits.insert(id.clone(), cancelled.clone());
        drop(state);
        Ok(Wait { connection: self.clone(), id, cancelled })
    }

    /// Cancels a call that waits. The turn continues.
    pub(super) fn cancel_wait(&self, params: &Json) {
        let Ok(CancelParams { id }) = params.parse() else { return };
        if let Some(wait) = self.lock().waits.get(id.as_str()) {
            wait.cancel();
        }
    }

    /// Waits until the connection or the server ends.
    pub(crate) async fn ended(&self) {
        self.while_open(std::future::pending()).await;
    }
}
