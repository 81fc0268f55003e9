//! The user's MCP servers: `mcp-config.json` in the home, and the names of disabled ones in `settings.json`.

use std::collections::BTreeSet;
use std::path::Path;

use baton_mcp::{Declared, Origin, ServerConfig};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::json_file::JsonFile;
use crate::preferences::Preferences;

/// Name of the file.
const FILE: &str = "mcp-config.json";
/// Setting with the names of disabled servers.
const DISABLED: &str = "disabledMcpServers";

/// Why the user's servers were not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UserServerError {
    /// There is a server of that name.
    #[error("MCP server '{0}' already exists. Use 'mcp.config.update' to modify it.")]
    Exists(String),
    /// There is no server of that name.
    #[error("MCP server '{0}' not found.")]
    Unknown(String),
    /// The configuration cannot be used.
    #[error("{0}")]
    Unusable(String),
    /// The file cannot be read or written.
    #[error("{0}")]
    File(String),
}

fn check(name: &str, config: &Value) -> Result<(), UserServerError> {
    let parsed = ServerConfig::parse(name, config);
    parsed.map(drop).map_err(|error| UserServerError::Unusable(error.to_string()))
}

/// The user's MCP servers.
pub struct UserServers {
    file: JsonFile,
}

/// The file. Fields of other programs stay.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Content {
    #[serde(rename = "mcpServers")]
    servers: Map<String, Value>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

impl UserServers {
    /// Names the file in a home; nothing is read yet.
    pub fn new(home: &Path) -> Self {
        Self { file: JsonFile::new(home, FILE) }
    }

    /// Returns the servers as they are written, with the defaults that clients expect to see.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub async fn list(&self) -> Result<Map<String, Value>, String> {
        let servers = self.file.read::<Content>().await?.servers;
        let shown = |(name, value): (String, Value)| {
            let config = ServerConfig::parse(&name, &value).map_or(value, |config| config.to_value());
            (name, config)
        };
        Ok(servers.into_iter().map(shown).collect())
    }

    /// Adds a server.
    ///
    /// # Errors
    /// When there is one of that name, the configuration cannot be used, or the file cannot be written.
    pub async fn add(&self, name: String, config: Value) -> Result<(), UserServerError> {
        check(&name, &config)?;
        self.edit(move |servers| match servers.contains_key(&name) {
            true => Err(UserServerError::Exists(name)),
            false => {
                servers.insert(name, config);
                Ok(())
            }
        })
        .await
    }

    /// Replaces the configuration of a server.
    ///
    /// # Errors
    /// When there is none of that name, the configuration cannot be used, or the file cannot be written.
    pub async fn update(&self, name: String, config: Value) -> Result<(), UserServerError> {
        check(&name, &config)?;
        self.edit(move |servers| match servers.get_mut(&name) {
            Some(known) => {
                *known = config;
                Ok(())
            }
            None => Err(UserServerError::Unknown(name)),
        })
        .await
    }

    /// Removes a server.
    ///
    /// # Errors
    /// When there is none of that name, or the file cannot be written.
    pub async fn remove(&self, name: String) -> Result<(), UserServerError> {
        self.edit(move |servers| match servers.remove(&name) {
            Some(_) => Ok(()),
            None => Err(UserServerError::Unknown(name)),
        })
        .await
    }

    async fn edit(
        &self,
        edit: impl FnOnce(&mut Map<String, Value>) -> Result<(), UserServerError> + Clone + Send + 'static,
    ) -> Result<(), UserServerError> {
        let edited = self.file.edit(move |content: &mut Content| edit(&mut content.servers)).await;
        edited.map_err(UserServerError::File)?
    }

    /// Enables or disables servers for new sessions. Unknown names are remembered.
    ///
    /// # Errors
    /// When the settings cannot be written.
    pub async fn enable(
        &self,
        preferences: &Preferences,
        names: Vec<String>,
        enabled: bool,
    ) -> Result<(), String> {
        let mut disabled = disabled(preferences).await?;
        match enabled {
            true => disabled.retain(|name| !names.contains(name)),
            false => disabled.extend(names),
        }
        let value = if disabled.is_empty() { Value::Null } else { json!(disabled) };
        preferences.set(Map::from_iter([(DISABLED.to_owned(), value)])).await
    }

    /// Returns the names that are disabled for new sessions.
    ///
    /// # Errors
    /// When the settings cannot be read, or the list in them is malformed. No server may be started then.
    pub async fn disabled(&self, preferences: &Preferences) -> Result<BTreeSet<String>, String> {
        disabled(preferences).await
    }

    /// Returns the declarations for a session. A file that cannot be used is one unusable server: sessions must not fail
    /// because of it, and people must see it.
    pub async fn declared(&self) -> Vec<Declared> {
        match self.file.read::<Content>().await {
            Ok(content) => {
                let servers = content.servers.iter();
                servers.map(|(name, value)| Declared::parse(name, value, Origin::User)).collect()
            }
            Err(error) => {
                tracing::warn!(%error, "the user's MCP servers are not available");
                vec![Declared::unusable(FILE, error, Origin::User)]
            }
        }
    }
}

async fn disabled(preferences: &Preferences) -> Result<BTreeSet<String>, String> {
    let value = preferences.get(DISABLED).await?;
    let Some(value) = value else { return Ok(BTreeSet::new()) };
    // A list that is not understood must not mean that nothing is disabled.
    baton_json::from_value(&value).map_err(|error| {
        format!("{DISABLED} in settings.json is not a list of names; correct or remove it: {error}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn servers_are_added_changed_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let servers = UserServers::new(dir.path());
        assert!(servers.list().await.unwrap().is_empty());
        let unusable = servers.add("a".into(), json!({ "args": [] })).await.unwrap_err();
        assert!(unusable.to_string().contains("command"));
        servers.add("a".into(), json!({ "command": "x" })).await.unwrap();
        assert!(matches!(
            servers.add("a".into(), json!({ "command": "y" })).await,
            Err(UserServerError::Exists(_))
        ));
        assert_eq!(servers.list().await.unwrap()["a"], json!({ "command": "x", "tools": ["*"], "args": [] }));
        servers.update("a".into(), json!({ "command": "y", "args": ["z"] })).await.unwrap();
        assert_eq!(servers.declared().await[0].origin.source(), Some("user"));
        servers.remove("a".into()).await.unwrap();
        assert_eq!(servers.remove("a".into()).await, Err(UserServerError::Unknown("a".into())));
    }

    #[tokio::test]
    async fn disabled_names_are_kept_with_the_settings() {
        let dir = tempfile::tempdir().unwrap();
        let servers = UserServers::new(dir.path());
        let preferences = Preferences::new(dir.path());
        servers.enable(&preferences, vec!["a".into(), "b".into()], false).await.unwrap();
        servers.enable(&preferences, vec!["b".into(), "c".into()], true).await.unwrap();
        assert_eq!(servers.disabled(&preferences).await.unwrap(), BTreeSet::from(["a".to_owned()]));
    }

    #[tokio::test]
    async fn malformed_list_of_disabled_servers_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let (servers, preferences) = (UserServers::new(dir.path()), Preferences::new(dir.path()));
        for settings in [r#"{"disabledMcpServers":"a"}"#, r#"{"disabledMcpServers":[1]}"#, "{"] {
            std::fs::write(dir.path().join("settings.json"), settings).unwrap();
            let error = servers.disabled(&preferences).await.unwrap_err();
            assert!(error.contains("settings.json"), "{error}");
            assert!(servers.enable(&preferences, vec!["b".into()], false).await.is_err(), "{settings}");
        }
    }

    #[tokio::test]
    async fn malformed_file_is_an_unusable_server() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("mcp-config.json"), "{").unwrap();
        let servers = UserServers::new(dir.path());
        let declared = servers.declared().await;
        assert_eq!((declared.len(), declared[0].name.as_str()), (1, FILE));
        assert!(declared[0].config.is_err());
        assert!(servers.list().await.is_err());
    }
}
