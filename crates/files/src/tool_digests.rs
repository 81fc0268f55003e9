//! Digests of MCP tools that have been called.
//!
//! A grant for a whole server, or a rule, covers tools that nobody was shown. So the [binding] of each tool is stored with
//! its first call, and a tool that describes itself in another way afterwards is asked about again. A grant for one tool
//! has the binding in itself.
//!
//! [binding]: baton_mcp::OfferedTool::binding

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use crate::json_file::JsonFile;

/// Tools that are remembered for a server.
const MOST_TOOLS: usize = 2000;

/// Content of the file: digests of tools, by the digest of their server's configuration and their name.
#[derive(Default, Clone, Serialize, Deserialize)]
#[serde(default)]
struct Content {
    tools: BTreeMap<String, BTreeMap<String, String>>,
}

/// Digests of tools, in `mcp-tools.json` of Baton's home.
pub struct ToolDigests {
    file: JsonFile,
    known: Mutex<Option<Content>>,
}

impl ToolDigests {
    /// Names the file in a home; nothing is read yet.
    #[must_use]
    pub fn new(home: &Path) -> Self {
        Self { file: JsonFile::new(home, "mcp-tools.json"), known: Mutex::default() }
    }

    /// Whether a tool was called before, and looked different then.
    pub async fn has_changed(&self, tool: &str, binding: &str) -> bool {
        let (configuration, digest) = parts(binding);
        let mut known = self.known.lock().await;
        let content = self.content(&mut known).await;
        let before = content.tools.get(configuration).and_then(|tools| tools.get(tool));
        before.is_some_and(|before| before != digest)
    }

    /// Stores the binding of a tool that is called.
    pub async fn remember(&self, tool: &str, binding: &str) {
        let (key, digest) = parts(binding);
        let (key, name, digest) = (key.to_owned(), tool.to_owned(), digest.to_owned());
        let mut known = self.known.lock().await;
        let content = self.content(&mut known).await;
        let tools = content.tools.entry(key.clone()).or_default();
        if tools.get(&name) == Some(&digest) || tools.len() >= MOST_TOOLS {
            return;
        }
        tools.insert(name.clone(), digest.clone());
        let edit = move |content: &mut Content| content.tools.entry(key).or_default().insert(name, digest);
        if let Err(error) = self.file.edit(edit).await {
            tracing::warn!(%error, "failed to store the digest of a tool; it is kept in memory until the server stops");
        }
    }

    async fn content<'a>(&self, known: &'a mut Option<Content>) -> &'a mut Content {
        if known.is_none() {
            *known = Some(self.file.read().await.unwrap_or_default());
        }
        known.get_or_insert_default()
    }
}

/// Splits a binding into the digests of the server's configuration and of the tool.
fn parts(binding: &str) -> (&str, &str) {
    binding.split_once(':').unwrap_or((binding, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn changed_tool_is_noticed_also_after_a_restart() {
        let home = tempfile::tempdir().unwrap();
        let digests = ToolDigests::new(home.path());
        assert!(!digests.has_changed("t", "server:adds").await, "never called");
        digests.remember("t", "server:adds").await;
        assert!(!digests.has_changed("t", "server:adds").await);

        let restarted = ToolDigests::new(home.path());
        assert!(restarted.has_changed("t", "server:deletes").await);
        assert!(!restarted.has_changed("t", "other:deletes").await, "another server");
        restarted.remember("t", "server:deletes").await;
        assert!(!restarted.has_changed("t", "server:deletes").await, "the user has seen it");
    }
}
