//! The door as the host of extensions.

use std::path::PathBuf;
use std::sync::{Arc, Weak};

use baton_protocol::ClientId;
use baton_runtime::Runtime;
use baton_runtime::extension_host::{Awaited, ExtensionHost};
use baton_runtime::extensions::ExtensionRequest;
use baton_runtime::session::Handle;
use baton_wire::Shares;
use serde_json::{Value, json};

use super::{PATIENCE, SessionExtensions};
use crate::{RpcDoor, RpcOptions, Shared};

/// Starts and ends extensions for the runtime, which it does not keep alive.
pub(crate) struct DoorHost {
    runtime: Weak<Runtime>,
    options: Arc<RpcOptions>,
    shares: Arc<Shares>,
    shared: Arc<Shared>,
}

impl DoorHost {
    pub(crate) fn of(door: &RpcDoor) -> Arc<Self> {
        let RpcDoor { runtime, options, shares, shared } = door.clone();
        Arc::new(Self { runtime: Arc::downgrade(&runtime), options, shares, shared })
    }

    fn door(&self) -> Option<RpcDoor> {
        let (options, shares, shared) = (self.options.clone(), self.shares.clone(), self.shared.clone());
        Some(RpcDoor { runtime: self.runtime.upgrade()?, options, shares, shared })
    }
}

impl ExtensionHost for DoorHost {
    fn start(&self, session: &Handle, client: ClientId, sdk: Option<PathBuf>) -> Awaited<()> {
        let (extensions, is_new) = self.shared.extensions.enter(client, session, sdk);
        if is_new && let Some(door) = self.door() {
            drop(extensions.start(&door));
        }
        Box::pin(async move {
            drop(tokio::time::timeout(PATIENCE, extensions.settled.cancelled()).await);
        })
    }

    fn release(&self, session: &Handle, client: ClientId) {
        self.shared.extensions.release(session, client);
    }

    fn end(&self, session: &Handle) {
        self.shared.extensions.end(session);
    }

    fn serve(&self, session: &Handle, request: ExtensionRequest) -> Awaited<Result<Value, String>> {
        let (found, door) = (self.shared.extensions.of(session), self.door());
        Box::pin(async move {
            match (found, door) {
                (Some(extensions), Some(door)) => serve(&extensions, &door, request).await,
                _ if request == ExtensionRequest::List {} => Ok(json!({ "extensions": [] })),
                _ => Err("Extensions not available".into()),
            }
        })
    }
}

async fn serve(
    extensions: &Arc<SessionExtensions>,
    door: &RpcDoor,
    request: ExtensionRequest,
) -> Result<Value, String> {
    match request {
        ExtensionRequest::List {} => return Ok(json!({ "extensions": extensions.list() })),
        ExtensionRequest::Enable { id, enabled } => {
            if !extensions.has(&id) {
                return Err(format!("this session has no extension {id:?}"));
            }
            door.runtime.addons.extensions.set_enabled(id, enabled).await?;
        }
        ExtensionRequest::Reload {} | ExtensionRequest::Start { .. } => {}
    }
    extensions.restart(door).await;
    Ok(Value::Null)
}
