//! Warnings of engine programs about their own configuration, which are the same in each run: they are shown once.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::json_file::JsonFile;

/// Warnings that are remembered for an engine.
const MOST_WARNINGS: usize = 64;
/// Characters by which a warning is recognised.
const LENGTH: usize = 500;

/// Content of the file: warnings that were shown, by engine, newest last.
#[derive(Default, Clone, Serialize, Deserialize)]
#[serde(default)]
struct Content {
    shown: BTreeMap<String, VecDeque<String>>,
}

/// Warnings that were shown, in `engine-warnings.json` of Baton's home.
pub struct EngineWarnings(JsonFile);

impl EngineWarnings {
    /// Names the file in a home; nothing is read yet.
    #[must_use]
    pub fn new(home: &Path) -> Self {
        Self(JsonFile::new(home, "engine-warnings.json"))
    }

    /// Remembers a warning. Returns whether it is new; a warning is, too, if that cannot be stored.
    pub async fn is_new(&self, engine: &str, warning: &str) -> bool {
        let (engine, warning) = (engine.to_owned(), warning.chars().take(LENGTH).collect::<String>());
        let known = self.0.read::<Content>().await.unwrap_or_default();
        if known.shown.get(&engine).is_some_and(|shown| shown.contains(&warning)) {
            return false;
        }
        let edit = move |content: &mut Content| {
            let shown = content.shown.entry(engine).or_default();
            shown.push_back(warning);
            if shown.len() > MOST_WARNINGS {
                shown.pop_front();
            }
        };
        if let Err(error) = self.0.edit(edit).await {
            tracing::debug!(%error, "failed to store a warning of an engine; it is shown again");
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn warning_is_new_once_for_each_engine_also_after_a_restart() {
        let home = tempfile::tempdir().unwrap();
        let warnings = EngineWarnings::new(home.path());
        assert!(warnings.is_new("codex", "`x` is deprecated").await);
        let restarted = EngineWarnings::new(home.path());
        assert!(!restarted.is_new("codex", "`x` is deprecated").await);
        assert!(restarted.is_new("claude", "`x` is deprecated").await);
        assert!(restarted.is_new("codex", "`y` is deprecated").await);
    }
}
