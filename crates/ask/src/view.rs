//! Copies of the state of live sessions.

use std::sync::Arc;

use baton_core::Session;
use baton_files::SessionFiles;
use baton_store::Seq;
use serde::{Deserialize, Serialize};

use baton_settings::Settings;

/// State of a live session at one moment, as a copy.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct View {
    /// State of the core.
    pub session: Session,
    /// Settings that are not part of the history. Serialised without credentials.
    pub settings: Arc<Settings>,
    /// Sequence number of the last durable event.
    pub head: Seq,
    /// Files of the session.
    pub files: SessionFiles,
}

impl View {
    /// Returns the working directory of the session.
    #[must_use]
    pub fn cwd(&self) -> &str {
        &self.session.durable.facts.context.cwd
    }
}
