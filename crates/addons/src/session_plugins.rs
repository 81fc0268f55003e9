//! Plugins in a session: which ones it uses, and which of their parts count.
//!
//! Skills, commands and agents of a plugin are text. Its hooks and MCP servers start programs, so they count only where
//! exactly these declarations were approved: by the client that lists the directory in `pluginDirectories`, by the user who
//! starts the server with `--plugin-dir`, or by the user who installs or updates the plugin. A plugin that has changed
//! since then is asked about again.

use std::path::{Path, PathBuf};

use baton_disk::blocking;
use baton_mcp::{Declared, Origin, files};
use baton_settings::Settings;
use baton_skills::{HookCommand, Parts, Plugin, Problem, Severity};

use crate::{Addons, SessionTrust};

/// Directory of a plugin that a session uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PluginDirectory {
    pub(crate) path: PathBuf,
    /// The digest of declarations that the user has approved; any, if somebody named the directory.
    pub(crate) trust: Trust,
}

/// Which declarations of a plugin may start programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trust {
    /// All: a client of the session, or the user who started the server, named the directory.
    Named,
    /// Those that were installed, or are trusted by the session, by their digests.
    Installed(Vec<String>),
}

/// A plugin that a session uses.
#[derive(Debug, Clone)]
pub struct UsedPlugin {
    /// The plugin.
    pub plugin: Plugin,
    /// What it brings besides skills.
    pub parts: Parts,
    /// Whether its hooks and servers may start programs.
    pub is_trusted: bool,
    /// Whether somebody named its directory, so that all of its programs may start.
    pub is_named: bool,
}

/// A command of a plugin that runs for a hook.
#[derive(Debug, Clone)]
pub struct PluginHook {
    /// Name of the plugin.
    pub plugin: String,
    /// Directory of the plugin.
    pub root: PathBuf,
    /// The command.
    pub command: HookCommand,
}

/// What is read of the plugins of a session.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    pub(crate) plugins: Vec<UsedPlugin>,
    pub(crate) problems: Vec<Problem>,
}

/// Returns the directories of the plugins of a session. Installed ones count with discovery; their servers always do.
pub(crate) async fn directories(
    addons: &Addons,
    settings: &Settings,
    cwd: &Path,
    installed: bool,
    trust: &SessionTrust,
) -> Vec<PluginDirectory> {
    let of_server = addons.server_plugins.directories();
    let named =
        settings.plugin_directories.iter().chain(&addons.options.plugin_directories).chain(&of_server);
    let named = named.map(|path| PluginDirectory { path: cwd.join(path), trust: Trust::Named });
    let mut directories: Vec<PluginDirectory> = named.collect();
    if installed {
        for (path, digest) in addons.plugins.enabled().await {
            if directories.iter().all(|known| known.path != path) {
                let digests = digest.into_iter().chain(trust.of(&path)).collect();
                directories.push(PluginDirectory { path, trust: Trust::Installed(digests) });
            }
        }
    }
    directories
}

/// Reads plugins. One that cannot be used is a problem; the first of two with the same name is used. Blocks.
pub(crate) fn load(directories: &[PluginDirectory]) -> Loaded {
    let mut loaded = Loaded::default();
    for PluginDirectory { path, trust } in directories {
        let plugin = match Plugin::load(path) {
            Ok(plugin) => plugin,
            Err(why) => {
                loaded.problems.push(Problem { path: path.clone(), why, severity: Severity::Error });
                continue;
            }
        };
        if loaded.plugins.iter().any(|known| known.plugin.name == plugin.name) {
            let why = format!("not used: another plugin is named {:?}", plugin.name);
            loaded.problems.push(Problem { path: path.clone(), why, severity: Severity::Warning });
            continue;
        }
        let parts = plugin.parts();
        loaded.problems.extend(parts.problems.iter().cloned());
        let is_trusted = parts.digest.is_none() || trust.covers(parts.digest.as_deref());
        loaded.plugins.push(UsedPlugin { plugin, parts, is_trusted, is_named: *trust == Trust::Named });
    }
    loaded
}

impl Trust {
    fn covers(&self, digest: Option<&str>) -> bool {
        match self {
            Self::Named => true,
            Self::Installed(approved) => {
                digest.is_some_and(|digest| approved.iter().any(|known| known == digest))
            }
        }
    }
}

impl UsedPlugin {
    /// Returns the commands that may run for hooks.
    pub(crate) fn hooks(&self) -> impl Iterator<Item = PluginHook> {
        let commands = self.parts.hooks.iter().filter(|_| self.is_trusted);
        commands.map(|command| PluginHook {
            plugin: self.plugin.name.clone(),
            root: self.plugin.root.clone(),
            command: command.clone(),
        })
    }

    /// Returns the declarations of MCP servers. Those of a plugin that is not trusted cannot be used, and say why.
    pub(crate) fn servers(&self) -> Vec<Declared> {
        let Some((path, text)) = &self.parts.servers else { return Vec::new() };
        let Plugin { name, version, root } = &self.plugin;
        let origin = Origin::Plugin { name: name.clone(), version: version.clone(), root: root.clone() };
        let declared = match files::parse(text, &origin) {
            Ok(declared) => declared,
            Err(why) => vec![Declared::unusable(
                name,
                format!("{} cannot be used: {why}", path.display()),
                origin.clone(),
            )],
        };
        if self.is_trusted {
            return declared;
        }
        let why = format!("the plugin {name} has changed since it was installed, and is not trusted");
        let untrusted = declared.into_iter().map(|server| match server.config {
            Ok(_) => Declared::unusable(&server.name, why.clone(), origin.clone()),
            Err(_) => server,
        });
        untrusted.collect()
    }

    /// Describes the programs that the plugin would start, one a line.
    pub(crate) fn starts(&self) -> Vec<String> {
        let trusted = Self { is_trusted: true, ..self.clone() };
        let servers = trusted.servers();
        let usable = servers.iter().filter_map(|server| Some((&server.name, server.config.as_ref().ok()?)));
        let servers = usable.map(|(name, config)| baton_mcp::describe(name, config));
        servers.chain(self.parts.hooks.iter().map(describe_hook)).collect()
    }
}

/// Describes everything that a command of a hook starts with: a variable such as `BASH_ENV` runs as well. Quoted, so that
/// control and invisible characters are shown.
fn describe_hook(hook: &HookCommand) -> String {
    let variables = hook.env.iter().map(|(name, value)| format!(" {name:?}={value:?}"));
    let variables: String = variables.collect();
    let environment = if variables.is_empty() { variables } else { format!(", with{variables}") };
    let directory = hook.cwd.as_ref().map_or_else(String::new, |cwd| format!(", in {cwd:?}"));
    format!("hook {:?}: {:?}{environment}{directory}", hook.hook, hook.line)
}

/// Reads the declarations of MCP servers of a session's plugins.
pub(crate) async fn servers(
    addons: &Addons,
    settings: &Settings,
    cwd: &Path,
    trust: &SessionTrust,
) -> Vec<Declared> {
    let loaded = used(addons, settings, cwd, trust).await;
    loaded.iter().flat_map(UsedPlugin::servers).collect()
}

/// Reads the plugins whose declarations start programs, and that are not trusted.
pub(crate) async fn untrusted(
    addons: &Addons,
    settings: &Settings,
    cwd: &Path,
    trust: &SessionTrust,
) -> Vec<UsedPlugin> {
    let mut loaded = used(addons, settings, cwd, trust).await;
    loaded.retain(|plugin| !plugin.is_trusted);
    loaded
}

async fn used(addons: &Addons, settings: &Settings, cwd: &Path, trust: &SessionTrust) -> Vec<UsedPlugin> {
    let directories = directories(addons, settings, cwd, true, trust).await;
    if directories.is_empty() {
        return Vec::new();
    }
    match blocking::run(move || load(&directories)).await {
        Ok(loaded) => loaded.plugins,
        Err(error) => {
            tracing::warn!(%error, "failed to read plugins");
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plugin(root: &Path, line: &str) {
        std::fs::create_dir_all(root).unwrap();
        std::fs::write(root.join("plugin.json"), r#"{"name":"kit"}"#).unwrap();
        let hooks = format!(r#"{{"hooks":{{"preToolUse":[{{"bash":"{line}"}}]}}}}"#);
        std::fs::write(root.join("hooks.json"), hooks).unwrap();
        let servers = r#"{"mcpServers":{"a":{"command":"x"},"b":7}}"#;
        std::fs::write(root.join(".mcp.json"), servers).unwrap();
    }

    fn loaded(root: &Path, trust: Trust) -> UsedPlugin {
        let mut loaded = load(&[PluginDirectory { path: root.to_owned(), trust }]);
        loaded.plugins.remove(0)
    }

    #[test]
    fn installed_plugin_that_has_changed_starts_nothing() {
        let dir = tempfile::tempdir().unwrap();
        plugin(dir.path(), "./check");
        let named = loaded(dir.path(), Trust::Named);
        assert!(named.is_trusted && named.hooks().count() == 1);
        let digest = named.parts.digest;
        let digest: Vec<String> = digest.into_iter().collect();
        assert!(loaded(dir.path(), Trust::Installed(digest.clone())).is_trusted);
        plugin(dir.path(), "./evil");
        let changed = loaded(dir.path(), Trust::Installed(digest));
        assert_eq!((changed.is_trusted, changed.hooks().count()), (false, 0));
        let servers = changed.servers();
        assert!(servers.iter().all(|server| server.config.is_err()), "{servers:?}");
        assert!(servers[0].config.as_ref().unwrap_err().problem.contains("not trusted"));
        assert_eq!(changed.starts(), ["a: x", "hook \"preToolUse\": \"./evil\""]);
        assert!(
            !loaded(dir.path(), Trust::Installed(Vec::new())).is_trusted,
            "installed before there was a digest"
        );
    }

    #[test]
    fn question_shows_variables_and_directory_of_a_hook() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("plugin.json"), r#"{"name":"kit"}"#).unwrap();
        let hooks = r#"{"hooks":{"preToolUse":[{"bash":"true","env":{"BASH_ENV":"./evil"},"cwd":"sub"}]}}"#;
        std::fs::write(dir.path().join("hooks.json"), hooks).unwrap();
        let starts = loaded(dir.path(), Trust::Installed(Vec::new())).starts();
        assert_eq!(starts, [r#"hook "preToolUse": "true", with "BASH_ENV"="./evil", in "sub""#]);
    }

    #[test]
    fn broken_plugins_cost_themselves_only() {
        let dir = tempfile::tempdir().unwrap();
        plugin(&dir.path().join("good"), "x");
        plugin(&dir.path().join("same-name"), "x");
        let named = |name: &str| PluginDirectory { path: dir.path().join(name), trust: Trust::Named };
        let loaded = load(&[named("none"), named("good"), named("same-name")]);
        assert_eq!((loaded.plugins.len(), loaded.problems.len()), (1, 2), "{:?}", loaded.problems);
    }
}
