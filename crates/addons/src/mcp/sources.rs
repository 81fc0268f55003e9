//! Where the servers of a session come from: its clients, the selected agent, the workspace, the user, plugins.
//!
//! Which declaration of a name counts is decided by [`merge`]. Files of the workspace start programs that the author of
//! the repository chose, so they count only after the user has approved them; see
//! [`workspace_servers`](baton_files::workspace_servers).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use baton_core::{TrustQuestion, TrustTerm};
use baton_files::server_catalogue::withheld;
use baton_files::workspace_servers::WorkspaceFile;
use baton_mcp::{Chosen, Declared, Origin, describe, merge};
use baton_protocol::Json;
use baton_protocol::agent::CustomAgent;
use baton_protocol::permission::PermissionRequest;
use baton_settings::Settings;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{SessionMcp, github};
use crate::Addons;
use crate::session_plugins::{self, UsedPlugin};

/// Declarations that are not part of a session's settings.
#[derive(Default)]
pub(super) struct Sources {
    /// Declarations of the user, the configuration file and the workspace.
    ambient: Mutex<Vec<Declared>>,
    /// Declarations of plugins.
    plugins: Mutex<Vec<Declared>>,
    /// Why the list of disabled servers cannot be read, if it cannot.
    unreadable_list: Mutex<Option<String>>,
    /// Digests of workspace files that the user was asked about while the session is open.
    asked: Mutex<BTreeSet<String>>,
}

impl Sources {
    pub(super) fn set_ambient(&self, declared: Vec<Declared>) {
        *lock(&self.ambient) = declared;
    }

    pub(super) fn set_plugins(&self, declared: Vec<Declared>) {
        *lock(&self.plugins) = declared;
    }

    /// Takes the list of disabled servers. Returns the names on it.
    pub(super) fn set_disabled(&self, list: Result<BTreeSet<String>, String>) -> BTreeSet<String> {
        let (names, unreadable) = match list {
            Ok(names) => (names, None),
            Err(error) => (BTreeSet::new(), Some(error)),
        };
        *lock(&self.unreadable_list) = unreadable;
        names
    }

    /// Returns the declarations that count. As long as the list of disabled servers cannot be read, only servers that the
    /// session enables by name can be used.
    pub(super) fn merged(&self, addons: &Addons, settings: &Settings) -> BTreeMap<String, Chosen> {
        let (ambient, plugins) = (lock(&self.ambient).clone(), lock(&self.plugins).clone());
        let built_in = github::declared(addons.options.github.as_ref(), settings);
        let mut merged =
            merge(of_session(settings).into_iter().chain(ambient).chain(plugins).chain(built_in));
        if let Some(error) = &*lock(&self.unreadable_list) {
            let is_withheld = |name: &String| !settings.enabled_mcp_servers.contains(name);
            for (_, chosen) in merged.iter_mut().filter(|(name, _)| is_withheld(name)) {
                *chosen = withheld(chosen.clone(), error);
            }
        }
        merged
    }
}

impl SessionMcp {
    /// Returns the question whether to trust files of the workspace, and installed plugins that have changed; none if
    /// there are none, or they were asked about.
    pub async fn trust_question(&self, settings: &Settings, cwd: &Path) -> Option<TrustQuestion> {
        let mut pending: Vec<Untrusted> = match settings.discovers() {
            true => {
                let workspace = self.addons.catalogue.workspace(cwd, &self.trust.all()).await;
                workspace.pending.iter().map(Untrusted::from).collect()
            }
            false => Vec::new(),
        };
        let plugins = session_plugins::untrusted(&self.addons, settings, cwd, &self.trust).await;
        pending.extend(plugins.iter().map(Untrusted::from));
        let mut asked = lock(&self.sources.asked);
        pending.retain(|file| asked.insert(format!("{} {}", file.digest, file.path.display())));
        (!pending.is_empty()).then(|| question(&pending))
    }

    /// Approves the files and plugins that a question was about: exactly those, with exactly these contents. An approval
    /// for the session is not stored.
    ///
    /// # Errors
    /// When the approval cannot be stored.
    pub async fn approve(&self, arguments: &Json, term: TrustTerm) -> Result<(), String> {
        let Approved { files } = arguments.parse().map_err(|_| "malformed question".to_owned())?;
        if term == TrustTerm::Session {
            files.into_iter().for_each(|ApprovedFile { path, digest }| self.trust.add(path, digest));
            return Ok(());
        }
        let mut others = Vec::new();
        for ApprovedFile { path, digest } in files {
            if !self.addons.plugins.trust(path.clone(), digest.clone()).await? {
                others.push((path, digest));
            }
        }
        match others.is_empty() {
            true => Ok(()),
            false => self.addons.catalogue.approve(others).await,
        }
    }
}

/// Declarations that start programs, and that the user has not approved.
struct Untrusted {
    /// The file, or the directory of the plugin.
    path: PathBuf,
    digest: String,
    /// The programs, one a line.
    starts: Vec<String>,
}

impl From<&WorkspaceFile> for Untrusted {
    fn from(file: &WorkspaceFile) -> Self {
        Self { path: file.path.clone(), digest: file.digest.clone(), starts: starts(file) }
    }
}

impl From<&UsedPlugin> for Untrusted {
    fn from(used: &UsedPlugin) -> Self {
        let digest = used.parts.digest.clone().unwrap_or_default();
        Self { path: used.plugin.root.clone(), digest, starts: used.starts() }
    }
}

#[derive(Deserialize)]
struct Approved {
    files: Vec<ApprovedFile>,
}

#[derive(Deserialize)]
struct ApprovedFile {
    path: PathBuf,
    digest: String,
}

/// Returns the declarations of the session's clients, and of the agent that was selected.
fn of_session(settings: &Settings) -> Vec<Declared> {
    let declared = settings.mcp_servers.iter().map(|(name, config)| parse(name, config, Origin::Session));
    declared.chain(settings.agent_in_charge().map(of_agent).unwrap_or_default()).collect()
}

/// Returns the declarations of a custom agent.
pub(super) fn of_agent(agent: &CustomAgent) -> Vec<Declared> {
    let servers = agent.mcp_servers.as_ref().and_then(|servers| servers.parse().ok());
    let servers: BTreeMap<String, Json> = servers.unwrap_or_default();
    let origin = || Origin::Agent { name: agent.name.clone() };
    servers.iter().map(|(name, config)| parse(name, config, origin())).collect()
}

fn parse(name: &str, config: &Json, origin: Origin) -> Declared {
    Declared::parse(name, &config.parse().unwrap_or(Value::Null), origin)
}

/// Builds the question. It shows what would be started: what is approved is what runs.
fn question(pending: &[Untrusted]) -> TrustQuestion {
    let shown: Vec<Value> = pending
        .iter()
        .map(|file| json!({ "path": file.path, "digest": file.digest, "servers": file.starts }))
        .collect();
    let names: Vec<String> = pending.iter().map(|file| file.path.display().to_string()).collect();
    let lines: Vec<&str> = pending.iter().flat_map(|file| &file.starts).map(String::as_str).collect();
    let arguments = Json::from(json!({ "files": shown }));
    let message = format!(
        "{} declares MCP servers or hooks. Trust it, and start them?\n{}",
        names.join(", "),
        lines.join("\n")
    );
    let wants = PermissionRequest::Hook {
        tool_call_id: None,
        tool_name: "trust".into(),
        tool_args: Some(arguments.clone()),
        hook_message: Some(message),
    };
    TrustQuestion { arguments, wants }
}

/// Describes the servers of a file.
fn starts(file: &WorkspaceFile) -> Vec<String> {
    let usable = file.servers.iter().filter_map(|server| Some((&server.name, server.config.as_ref().ok()?)));
    usable.map(|(name, config)| describe(name, config)).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn question_shows_variables_directory_and_headers() {
        let origin = Origin::Workspace { file: "/w/.mcp.json".into(), root: "/w".into() };
        let declared = |name: &str, value: Value| Declared::parse(name, &value, origin.clone());
        let servers = vec![
            declared("a", json!({ "command": "x", "env": { "A": "1" }, "cwd": "/elsewhere" })),
            declared("b", json!({ "url": "https://x.example/", "headers": { "X-Key": "k" } })),
        ];
        let file = WorkspaceFile { path: "/w/.mcp.json".into(), servers, digest: "d".into() };
        let PermissionRequest::Hook { hook_message: Some(message), .. } =
            question(&[Untrusted::from(&file)]).wants
        else {
            panic!("not a question")
        };
        for shown in ["a: A=1 x\n", "cwd: /elsewhere", "b: https://x.example/\n", "header: X-Key: k"] {
            assert!(message.contains(shown), "{shown}: {message}");
        }
    }
}
