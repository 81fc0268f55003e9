//! Settings of the user, which apply to all sessions.

use std::convert::Infallible;

use serde_json::{Map, Value};

use crate::{Action, ImmediateAction, Operation, Permitted};

/// Reads the settings.
#[derive(Debug, Clone, Copy)]
pub struct ReadSettings;

impl Action for ReadSettings {
    const OPERATION: Operation = Operation::ReadSettings;
    type Reply = Map<String, Value>;
    type Error = String;

    async fn run(self, permitted: Permitted<'_>) -> Result<Self::Reply, String> {
        permitted.service.runtime().preferences.described().await
    }
}

/// Changes settings.
#[derive(Debug, Clone)]
pub struct ChangeSettings {
    /// The changes, by name; null removes a setting.
    pub changes: Map<String, Value>,
}

impl Action for ChangeSettings {
    const OPERATION: Operation = Operation::ChangeSettings;
    type Reply = ();
    type Error = String;

    async fn run(self, permitted: Permitted<'_>) -> Result<(), String> {
        permitted.service.runtime().preferences.set(self.changes).await
    }
}

/// Makes the server read the settings again when they are next needed.
#[derive(Debug, Clone, Copy)]
pub struct ReloadSettings;

impl ImmediateAction for ReloadSettings {
    const OPERATION: Operation = Operation::ChangeSettings;
    type Reply = ();
    type Error = Infallible;

    fn run(self, permitted: Permitted<'_>) -> Result<(), Infallible> {
        permitted.service.runtime().preferences.forget();
        Ok(())
    }
}
