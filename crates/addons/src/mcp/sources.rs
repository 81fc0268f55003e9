//! Where the servers of a session come from: its clients, the selected agent, the workspace, the user, plugins.
//!
//! Which declaration of a name counts is decided by [`merge`]. Files of the workspace start programs that the author of
//! the repository chose, so they count only after the user has approved them; see
//! [`workspace_servers`](baton_files::workspace_servers).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use baton_core::TrustQuestion;
use baton_files::workspace_servers::WorkspaceFile;
use baton_mcp::{Chosen, Declared, Origin, describe, merge};
use baton_protocol::Json;
use baton_protocol::permission::PermissionRequest;
use serde::Deserialize;
use serde_json::{Value, json};

use super::SessionMcp;
use crate::Addons;
use baton_settings::Settings;

/// Declarations that are not part of a session's settings.
#[derive(Default)]
pub(super) struct Sources {
    /// Declarations of the user, the configuration file and the workspace.
    ambient: Mutex<Vec<Declared>>,
    /// Declarations of plugins.
    plugins: Mutex<Vec<Declared>>,
    /// Digests of workspace files that the user was asked about while the session is open.
    asked: Mutex<BTreeSet<String>>,
}

impl Sources {
    /// Reads the declarations of the user, the configuration file and the workspace.
    pub(super) async fn ambient(&self, addons: &Addons, settings: &Settings, cwd: &Path) -> Vec<Declared> {
        addons.catalogue.declared(settings.discovers().then_some(cwd)).await
    }

    pub(super) fn set_ambient(&self, declared: Vec<Declared>) {
        *lock(&self.ambient) = declared;
    }

    /// Returns the declarations that count.
    pub(super) fn merged(&self, settings: &Settings) -> BTreeMap<String, Chosen> {
        let (ambient, plugins) = (lock(&self.ambient).clone(), lock(&self.plugins).clone());
        merge(of_session(settings).into_iter().chain(ambient).chain(plugins))
    }
}

impl SessionMcp {
    /// Replaces the declarations of plugins, whose origin is [`Origin::Plugin`]. They count from the next turn or request
    /// on. Plugins are installed by the user, so no further question is asked.
    #[allow(dead_code, reason = "the entry point for plugins")]
    pub fn set_plugin_servers(&self, declared: Vec<Declared>) {
        *lock(&self.sources.plugins) = declared;
    }

    /// Returns the question whether to trust files of the workspace; none if there are none, or they were asked about.
    pub async fn trust_question(&self, settings: &Settings, cwd: &Path) -> Option<TrustQuestion> {
        if !settings.discovers() {
            return None;
        }
        let mut pending = self.addons.catalogue.workspace(cwd).await.pending;
        let mut asked = lock(&self.sources.asked);
        pending.retain(|file| asked.insert(format!("{} {}", file.digest, file.path.display())));
        (!pending.is_empty()).then(|| question(&pending))
    }

    /// Approves the files that a question was about: exactly those, with exactly these contents.
    pub async fn approve(&self, arguments: &Json) -> Result<(), String> {
        let Approved { files } = arguments.parse().map_err(|_| "malformed question".to_owned())?;
        let files = files.into_iter().map(|file| (file.path, file.digest)).collect();
        self.addons.catalogue.approve(files).await
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
    let parse = |(name, config): (&String, &Json), origin: Origin| {
        Declared::parse(name, &config.parse().unwrap_or(Value::Null), origin)
    };
    let mut declared: Vec<Declared> =
        settings.mcp_servers.iter().map(|server| parse(server, Origin::Session)).collect();
    if let Some(agent) = settings.agent_in_charge()
        && let Some(servers) = agent.mcp_servers.as_ref().and_then(|servers| servers.parse().ok())
    {
        let servers: BTreeMap<String, Json> = servers;
        declared
            .extend(servers.iter().map(|server| parse(server, Origin::Agent { name: agent.name.clone() })));
    }
    declared
}

/// Builds the question about files. It shows what would be started: what is approved is what runs.
fn question(files: &[WorkspaceFile]) -> TrustQuestion {
    let shown: Vec<Value> = files
        .iter()
        .map(|file| json!({ "path": file.path, "digest": file.digest, "servers": starts(file) }))
        .collect();
    let names: Vec<String> = files.iter().map(|file| file.path.display().to_string()).collect();
    let lines: Vec<String> = files.iter().flat_map(starts).collect();
    let arguments = Json::from(json!({ "files": shown }));
    let message =
        format!("{} declares MCP servers. Trust it, and start them?\n{}", names.join(", "), lines.join("\n"));
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
        let PermissionRequest::Hook { hook_message: Some(message), .. } = question(&[file]).wants else {
            panic!("not a question")
        };
        for shown in ["a: A=1 x\n", "cwd: /elsewhere", "b: https://x.example/\n", "header: X-Key: k"] {
            assert!(message.contains(shown), "{shown}: {message}");
        }
    }
}
