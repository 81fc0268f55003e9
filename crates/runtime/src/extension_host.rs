//! Where the extensions of sessions run.
//!
//! An extension is a process on the machine of the session's directory, and a client of the session. So the server that holds
//! the session starts it, for clients of all servers. It speaks the protocol of SDKs: the door with that protocol is the host,
//! and registers itself with [`Runtime::host_extensions`](crate::Runtime::host_extensions).

use std::path::PathBuf;
use std::sync::Arc;

pub use baton_addons::Awaited;
use baton_ask::extensions::{ExtensionsAsk, ExtensionsReply, StartExtensions};
use baton_protocol::ClientId;
use baton_protocol::params::SessionParams;

use crate::Runtime;
use crate::session::Handle;

/// Starts and ends the extensions of sessions that this server holds.
pub trait ExtensionHost: Send + Sync {
    /// Starts the extensions of a session for a client, unless they are started. The future is ready when they have settled;
    /// they go on without it.
    fn start(&self, session: &Handle, client: ClientId, sdk: Option<PathBuf>) -> Awaited<()>;

    /// Ends the extensions of a session if this was the last client that wanted them. Does not wait.
    fn release(&self, session: &Handle, client: ClientId);

    /// Ends the extensions of a session that is not here any more. Does not wait.
    fn end(&self, session: &Handle);

    /// Serves an ask other than a start.
    fn serve(&self, session: &Handle, ask: ExtensionsAsk) -> Awaited<Result<ExtensionsReply, String>>;
}

impl Runtime {
    /// Sets the host of extensions. The first one counts.
    pub fn host_extensions(&self, host: Arc<dyn ExtensionHost>) {
        let _ = self.extension_host.set(host);
    }

    pub(crate) fn extension_host(&self) -> Option<&dyn ExtensionHost> {
        self.extension_host.get().map(AsRef::as_ref)
    }
}

/// Returns the ask of a client that wants extensions; none for others, and for extensions themselves.
pub(crate) fn start_ask(client: ClientId, params: &SessionParams) -> Option<StartExtensions> {
    let sdk = params.extension_sdk_path.clone().map(PathBuf::from);
    params.request_extensions.unwrap_or(false).then_some(StartExtensions { client, sdk })
}
