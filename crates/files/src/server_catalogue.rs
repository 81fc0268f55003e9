//! The catalogue of MCP servers outside of sessions: those of the user, the configuration file and a workspace.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use baton_mcp::{Chosen, Declared, Origin, merge};
use baton_store::Store;

use crate::locations::Locations;
use crate::preferences::Preferences;
use crate::user_servers::UserServers;
use crate::workspace_servers::{self, WorkspaceApprovals, WorkspaceFile};

/// The catalogue of MCP servers. Nothing is cached: files are read whenever they are needed.
pub struct ServerCatalogue {
    user: UserServers,
    preferences: Preferences,
    locations: Locations,
    approvals: WorkspaceApprovals,
    settings: Vec<Declared>,
}

/// A server of the catalogue.
#[derive(Debug, Clone, PartialEq)]
pub struct CatalogueEntry {
    /// The declaration that counts.
    pub chosen: Chosen,
    /// Whether sessions use it: the user can turn names off.
    pub enabled: bool,
}

impl CatalogueEntry {
    /// Whether its file waits for the user's approval.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        matches!(self.chosen.declared.origin, Origin::Distrusted { .. })
    }
}

/// Declarations of a workspace.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WorkspaceServers {
    /// Files that count.
    pub trusted: Vec<WorkspaceFile>,
    /// Files that the user has to approve first.
    pub pending: Vec<WorkspaceFile>,
}

impl WorkspaceServers {
    /// Returns the declarations. Those of pending files are unusable, with the reason.
    #[must_use]
    pub fn declared(self) -> Vec<Declared> {
        let refused = self.pending.into_iter().flat_map(|file| {
            let problem =
                format!("{} is not trusted; approve it with `baton mcp trust`", file.path.display());
            let origin = Origin::Distrusted { file: file.path };
            file.servers.into_iter().map(move |server| match server.config {
                Ok(_) => Declared::unusable(&server.name, problem.clone(), origin.clone()),
                Err(error) => Declared { config: Err(error), origin: origin.clone(), ..server },
            })
        });
        self.trusted.into_iter().flat_map(|file| file.servers).chain(refused).collect()
    }
}

impl ServerCatalogue {
    /// Names the files in a home; nothing is read yet. `settings` are the servers of the configuration file.
    #[must_use]
    pub fn new(home: &Path, settings: Vec<Declared>) -> Self {
        Self {
            user: UserServers::new(home),
            preferences: Preferences::new(home),
            locations: Locations::new(home),
            approvals: WorkspaceApprovals::new(home),
            settings,
        }
    }

    /// Uses the settings and the grants of locations that servers of a store share, if they do.
    #[must_use]
    pub fn sharing(self, home: &Path, store: &Arc<dyn Store>) -> Self {
        Self { preferences: Preferences::of(home, store), locations: Locations::of(home, store), ..self }
    }

    /// Returns the servers of the user's file.
    #[must_use]
    pub fn user(&self) -> &UserServers {
        &self.user
    }

    /// Reads the files of a workspace. `also` are files that count besides those that the user has approved, with their
    /// digests. An unreadable workspace has none.
    pub async fn workspace(&self, cwd: &Path, also: &BTreeSet<(PathBuf, String)>) -> WorkspaceServers {
        match workspace_servers::read(cwd).await {
            Ok(files) => {
                let (trusted, pending) = self.approvals.sort(files, &self.locations, also).await;
                WorkspaceServers { trusted, pending }
            }
            Err(error) => {
                tracing::warn!(%error, "MCP servers of the workspace are not available");
                WorkspaceServers::default()
            }
        }
    }

    /// Returns all declarations, with those of a workspace if one is given; see [`workspace`](Self::workspace).
    pub async fn declared(&self, cwd: Option<&Path>, also: &BTreeSet<(PathBuf, String)>) -> Vec<Declared> {
        let mut declared = match cwd {
            Some(cwd) => self.workspace(cwd, also).await.declared(),
            None => Vec::new(),
        };
        declared.extend(self.user.declared().await);
        declared.extend(self.settings.iter().cloned());
        declared
    }

    /// Returns all servers, with those of a workspace if one is given. If the list of disabled names cannot be read, none is
    /// enabled, and each has the reason.
    pub async fn entries(&self, cwd: Option<&Path>) -> BTreeMap<String, CatalogueEntry> {
        let disabled = self.disabled().await;
        let entry = |(name, chosen): (String, Chosen)| {
            let entry = match &disabled {
                Ok(disabled) => CatalogueEntry { enabled: !disabled.contains(&name), chosen },
                Err(error) => CatalogueEntry { enabled: false, chosen: withheld(chosen, error) },
            };
            (name, entry)
        };
        merge(self.declared(cwd, &BTreeSet::new()).await).into_iter().map(entry).collect()
    }

    /// Returns the names that the user has turned off.
    ///
    /// # Errors
    /// When the list cannot be read. No server may be started then.
    pub async fn disabled(&self) -> Result<BTreeSet<String>, String> {
        self.user.disabled(&self.preferences).await
    }

    /// Turns names on or off for new sessions.
    ///
    /// # Errors
    /// When the settings cannot be written.
    pub async fn enable(&self, names: Vec<String>, enabled: bool) -> Result<(), String> {
        self.user.enable(&self.preferences, names, enabled).await
    }

    /// Approves files of a workspace with exactly these contents: paths and digests.
    ///
    /// # Errors
    /// When the approvals cannot be stored.
    pub async fn approve(&self, files: Vec<(PathBuf, String)>) -> Result<(), String> {
        self.approvals.approve(files).await
    }
}

/// Makes a server unusable because the list of disabled servers cannot be read: it may be on it.
#[must_use]
pub fn withheld(chosen: Chosen, error: &str) -> Chosen {
    let Declared { name, origin, .. } = chosen.declared;
    let problem = format!("not started, because it may be disabled: {error}");
    Chosen { declared: Declared::unusable(&name, problem, origin), ..chosen }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn all_sources_are_listed_and_workspaces_wait_for_approval() {
        let (home, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let settings = vec![Declared::parse("conf", &json!({ "command": "c" }), Origin::Settings)];
        let catalogue = ServerCatalogue::new(home.path(), settings);
        catalogue.user().add("mine".into(), json!({ "command": "m" })).await.unwrap();
        std::fs::write(
            dir.path().join(".mcp.json"),
            r#"{"mcpServers":{"theirs":{"command":"t"},"mine":{"command":"evil"}}}"#,
        )
        .unwrap();
        catalogue.enable(vec!["conf".into()], false).await.unwrap();

        let outside = catalogue.entries(None).await;
        assert_eq!(outside.keys().collect::<Vec<_>>(), ["conf", "mine"]);
        assert!(!outside["conf"].enabled && outside["mine"].enabled);

        let inside = catalogue.entries(Some(dir.path())).await;
        assert!(inside["theirs"].is_pending() && inside["theirs"].chosen.declared.config.is_err());
        assert_eq!(inside["mine"].chosen.declared.origin, Origin::User, "an untrusted file replaces nothing");
        let pending = catalogue.workspace(dir.path(), &BTreeSet::new()).await.pending;
        let approved = pending.into_iter().map(|file| (file.path, file.digest)).collect();
        catalogue.approve(approved).await.unwrap();
        let inside = catalogue.entries(Some(dir.path())).await;
        assert!(!inside["theirs"].is_pending() && inside["theirs"].chosen.declared.config.is_ok());
        assert!(matches!(inside["mine"].chosen.declared.origin, Origin::Workspace { .. }));
    }

    #[tokio::test]
    async fn no_server_is_enabled_if_the_list_of_disabled_ones_is_malformed() {
        let home = tempfile::tempdir().unwrap();
        let settings = vec![Declared::parse("conf", &json!({ "command": "c" }), Origin::Settings)];
        let catalogue = || ServerCatalogue::new(home.path(), settings.clone());
        assert!(catalogue().entries(None).await["conf"].enabled);
        std::fs::write(home.path().join("settings.json"), r#"{"disabledMcpServers":"conf"}"#).unwrap();
        let entries = catalogue().entries(None).await;
        assert!(!entries["conf"].enabled);
        let problem = entries["conf"].chosen.declared.config.as_ref().unwrap_err().to_string();
        assert!(problem.contains("settings.json"), "{problem}");
    }
}
