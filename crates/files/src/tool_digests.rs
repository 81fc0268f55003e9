//! What the tools of MCP servers looked like when the user last let one run.
//!
//! A grant names a server and a tool. A server that later gives the name to something else would inherit the grant, so the
//! description and the schema of a tool are remembered with its first call, and a tool that has changed is asked about
//! again.

use std::collections::BTreeMap;
use std::path::Path;

use baton_mcp::{Reach, RemoteTool, ServerConfig};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::Mutex;

use crate::json_file::JsonFile;

/// Tools that are remembered for a server.
const MOST_TOOLS: usize = 2000;

/// Content of the file: digests of tools, by server and tool.
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
    pub async fn has_changed(&self, server: &str, config: &ServerConfig, tool: &RemoteTool) -> bool {
        let mut known = self.known.lock().await;
        let content = self.content(&mut known).await;
        let before = content.tools.get(&key(server, config)).and_then(|tools| tools.get(&tool.name));
        before.is_some_and(|before| *before != digest(tool))
    }

    /// Remembers a tool that the user lets run.
    pub async fn remember(&self, server: &str, config: &ServerConfig, tool: &RemoteTool) {
        let (key, name, digest) = (key(server, config), tool.name.clone(), digest(tool));
        let mut known = self.known.lock().await;
        let content = self.content(&mut known).await;
        let tools = content.tools.entry(key.clone()).or_default();
        if tools.get(&name) == Some(&digest) || tools.len() >= MOST_TOOLS {
            return;
        }
        tools.insert(name.clone(), digest.clone());
        let edit = move |content: &mut Content| content.tools.entry(key).or_default().insert(name, digest);
        if let Err(error) = self.file.edit(edit).await {
            tracing::warn!(%error, "what a tool looks like is remembered until the server stops");
        }
    }

    async fn content<'a>(&self, known: &'a mut Option<Content>) -> &'a mut Content {
        if known.is_none() {
            *known = Some(self.file.read().await.unwrap_or_default());
        }
        known.get_or_insert_default()
    }
}

/// Identifies a server: another program or address under the same name is another server.
fn key(server: &str, config: &ServerConfig) -> String {
    let reach = match &config.reach {
        Reach::Local(local) => json!([local.command, local.args]),
        Reach::Remote(remote) => json!(remote.url.as_str()),
    };
    format!("{server} {}", sha256(&reach.to_string()))
}

fn digest(tool: &RemoteTool) -> String {
    sha256(&json!([tool.title, tool.description, tool.schema, tool.read_only_hint]).to_string())
}

fn sha256(text: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;

    fn tool(description: &str) -> RemoteTool {
        RemoteTool {
            name: "t".into(),
            title: "t".into(),
            description: description.into(),
            schema: json!({}),
            read_only_hint: false,
            for_model: true,
            raw: Map::new(),
        }
    }

    #[tokio::test]
    async fn changed_tool_is_noticed_also_after_a_restart() {
        let home = tempfile::tempdir().unwrap();
        let config = |command: &str| ServerConfig::parse("s", &json!({ "command": command })).unwrap();
        let digests = ToolDigests::new(home.path());
        assert!(!digests.has_changed("s", &config("a"), &tool("adds")).await, "never called");
        digests.remember("s", &config("a"), &tool("adds")).await;
        assert!(!digests.has_changed("s", &config("a"), &tool("adds")).await);

        let restarted = ToolDigests::new(home.path());
        assert!(restarted.has_changed("s", &config("a"), &tool("deletes")).await);
        assert!(!restarted.has_changed("s", &config("b"), &tool("deletes")).await, "another server");
        restarted.remember("s", &config("a"), &tool("deletes")).await;
        assert!(!restarted.has_changed("s", &config("a"), &tool("deletes")).await, "the user has seen it");
    }
}
