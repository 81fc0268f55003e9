//! The door as the host of extensions.

use std::path::PathBuf;
use std::sync::{Arc, Weak};

use baton_ask::extensions::{EnableExtension, ExtensionsAsk, ExtensionsReply};
use baton_protocol::ClientId;
use baton_runtime::Runtime;
use baton_runtime::extension_host::{Awaited, ExtensionHost};
use baton_runtime::session::Handle;
use baton_service::Service;
use baton_wire::Shares;

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
        let RpcDoor { runtime, options, shares, shared, .. } = door.clone();
        Arc::new(Self { runtime: Arc::downgrade(&runtime), options, shares, shared })
    }

    fn door(&self) -> Option<RpcDoor> {
        let (options, shares, shared) = (self.options.clone(), self.shares.clone(), self.shared.clone());
        let runtime = self.runtime.upgrade()?;
        Some(RpcDoor { service: Service::new(&runtime), runtime, options, shares, shared })
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

    fn serve(&self, session: &Handle, ask: ExtensionsAsk) -> Awaited<Result<ExtensionsReply, String>> {
        let (found, door) = (self.shared.extensions.of(session), self.door());
        Box::pin(async move {
            match (found, door, ask) {
                (Some(extensions), Some(door), ask) => serve(&extensions, &door, ask).await,
                (_, _, ExtensionsAsk::ListExtensions(_)) => {
                    Ok(ExtensionsReply::ListExtensions(Box::default()))
                }
                _ => Err("Extensions not available".into()),
            }
        })
    }
}

async fn serve(
    extensions: &Arc<SessionExtensions>,
    door: &RpcDoor,
    ask: ExtensionsAsk,
) -> Result<ExtensionsReply, String> {
    use ExtensionsReply as Reply;
    match ask {
        ExtensionsAsk::ListExtensions(_) => Ok(Reply::ListExtensions(Box::new(extensions.list()))),
        ExtensionsAsk::EnableExtension(EnableExtension { id, enabled }) => {
            if !extensions.has(&id) {
                return Err(format!("this session has no extension {id:?}"));
            }
            door.runtime.addons.extensions.set_enabled(id, enabled).await?;
            extensions.restart(door).await;
            Ok(Reply::EnableExtension(Box::new(())))
        }
        ExtensionsAsk::ReloadExtensions(_) => {
            extensions.restart(door).await;
            Ok(Reply::ReloadExtensions(Box::new(())))
        }
        ExtensionsAsk::StartExtensions(_) => Err("extensions are started by the session".into()),
    }
}
