//! Extensions outside of sessions.

use baton_addons::extensions::Available;

use crate::{Action, Operation, Permitted};

/// Lists the extensions of the user and of the server's directory, and whether each is enabled.
#[derive(Debug, Clone, Copy)]
pub struct ListExtensions;

impl Action for ListExtensions {
    const OPERATION: Operation = Operation::ListExtensions;
    type Reply = Vec<(Available, bool)>;
    type Error = String;

    async fn run(self, permitted: Permitted<'_>) -> Result<Self::Reply, String> {
        let runtime = permitted.service.runtime();
        let (found, _) = runtime.addons.find_extensions(&runtime.options.cwd, None).await?;
        let mut listed = Vec::new();
        for found in found {
            let disabled = runtime.addons.extensions.is_disabled(&found.id()).await?;
            listed.push((found, !disabled));
        }
        Ok(listed)
    }
}

/// Turns extensions on or off, for all sessions.
#[derive(Debug, Clone)]
pub struct EnableExtensions {
    /// Their ids.
    pub ids: Vec<String>,
    /// Whether to turn them on.
    pub enabled: bool,
}

impl Action for EnableExtensions {
    const OPERATION: Operation = Operation::EnableExtension;
    type Reply = ();
    type Error = String;

    async fn run(self, permitted: Permitted<'_>) -> Result<(), String> {
        for id in self.ids {
            permitted.service.runtime().addons.extensions.set_enabled(id, self.enabled).await?;
        }
        Ok(())
    }
}
