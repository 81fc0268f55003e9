//! Plugins: directories that bring skills, commands, agents, hooks and MCP servers.

use std::path::{Path, PathBuf};

use baton_disk::front_matter::printable;
use baton_disk::untrusted::{Excerpt, Unreadable, UntrustedDirectory};
use ring::digest::{Context, SHA256};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::agent_file::{AgentFile, scan_agents_below};
use crate::copy::hex;
use crate::hooks_file::{HookCommand, parse_hooks};
use crate::scan::{Problem, Severity, SkillScan, scan_below, scan_commands, scan_single};
use crate::skill::{FILE, PluginRef, SkillOrigin, SkillSource, check_name};

/// Where a plugin describes itself.
const MANIFESTS: [&str; 4] =
    ["plugin.json", ".github/plugin.json", ".github/plugin/plugin.json", ".claude-plugin/plugin.json"];
/// Where a plugin declares hooks, if its description does not say.
const HOOKS: [&str; 2] = ["hooks.json", "hooks/hooks.json"];
/// Where a plugin declares MCP servers, if its description does not say.
const SERVERS: &str = ".mcp.json";
/// Largest file that describes a plugin, in bytes.
const MAX_BYTES: usize = 1 << 20;

/// A plugin on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plugin {
    /// Name.
    pub name: String,
    /// Version, if it says.
    pub version: Option<String>,
    /// The directory.
    pub root: PathBuf,
}

/// What a plugin brings besides skills. A part that cannot be used is a problem, and the others are used.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Parts {
    /// Agents, named `plugin:agent`.
    pub agents: Vec<AgentFile>,
    /// Commands for hooks.
    pub hooks: Vec<HookCommand>,
    /// The file that declares MCP servers, and its text.
    pub servers: Option<(PathBuf, String)>,
    /// Digest of the declarations that start programs; none if there are none. Trust is for one digest.
    pub digest: Option<String>,
    /// Files with problems.
    pub problems: Vec<Problem>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    name: String,
    version: Option<String>,
    mcp_servers: Option<Value>,
    hooks: Option<Value>,
}

impl Plugin {
    /// Reads the description of a plugin. A directory with nothing but a `SKILL.md` is one, too. Blocks.
    ///
    /// # Errors
    /// With the reason.
    pub fn load(root: &Path) -> Result<Self, String> {
        let shown = root.display();
        let directory = UntrustedDirectory::open(root).map_err(|error| format!("{shown}: {error}"))?;
        if let Some(Manifest { name, version, .. }) = first::<Manifest>(&directory, root, &MANIFESTS)? {
            check_name(&name).map_err(|why| format!("{shown}: {why}"))?;
            let version = version.map(|version| printable(&version));
            return Ok(Self { name, version, root: root.to_owned() });
        }
        match directory.read(FILE, 1) {
            Ok(_) => {
                let name = root.file_name().unwrap_or_default().to_string_lossy().into_owned();
                check_name(&name).map_err(|why| format!("{shown}: {why}"))?;
                Ok(Self { name, version: None, root: root.to_owned() })
            }
            Err(_) => Err(format!("{shown} is not a plugin: it has no plugin.json and no SKILL.md")),
        }
    }

    /// Finds the skills and commands of the plugin. Links must not leave its directory. Blocks.
    #[must_use]
    pub fn skills(&self) -> SkillScan {
        let plugin = PluginRef { name: self.name.clone(), version: self.version.clone() };
        let origin = SkillOrigin { source: SkillSource::Plugin, project: None, plugin: Some(plugin) };
        let mut found = scan_single(&self.root, &origin);
        found.add(scan_below(&self.root, Path::new("skills"), &origin));
        found.add(scan_commands(&self.root, Path::new("commands"), &origin));
        found
    }

    /// Reads what the plugin brings besides skills. Blocks.
    #[must_use]
    pub fn parts(&self) -> Parts {
        let mut parts = Parts::default();
        let directory = match UntrustedDirectory::open(&self.root) {
            Ok(directory) => directory,
            Err(error) => {
                parts.refuse(self.root.clone(), error);
                return parts;
            }
        };
        let (agents, problems) = scan_agents_below(&self.root, Path::new("agents"), Some(&self.name));
        parts.agents = agents;
        parts.problems.extend(problems);
        let manifest = first::<Manifest>(&directory, &self.root, &MANIFESTS).ok().flatten();
        let (servers, hooks) = manifest.map(|found| (found.mcp_servers, found.hooks)).unwrap_or_default();
        let mut digest = Context::new(&SHA256);
        if let Some((path, text)) = self.declared(&directory, servers, "mcpServers", &[SERVERS], &mut parts) {
            digest.update(text.as_bytes());
            parts.servers = Some((path, text));
        }
        digest.update(b"\0");
        if let Some((path, text)) = self.declared(&directory, hooks, "hooks", &HOOKS, &mut parts) {
            digest.update(text.as_bytes());
            match parse_hooks(&text) {
                Ok((commands, problems)) => {
                    parts.hooks = commands;
                    problems.into_iter().for_each(|why| parts.refuse(path.clone(), why));
                }
                Err(why) => parts.refuse(path, why),
            }
        }
        let starts = parts.servers.is_some() || !parts.hooks.is_empty();
        parts.digest = starts.then(|| hex(digest.finish().as_ref()));
        parts
    }

    /// Returns a declaration: from the description itself, from the file that it names, or from the usual place.
    fn declared(
        &self,
        directory: &UntrustedDirectory,
        said: Option<Value>,
        key: &str,
        usual: &[&str],
        parts: &mut Parts,
    ) -> Option<(PathBuf, String)> {
        let named = match said {
            Some(inline @ Value::Object(_)) => {
                // Hooks in the description have the form of the file, or are only the map in it.
                let whole = inline.get(key).is_some().then(|| inline.clone());
                let text = whole.unwrap_or_else(|| json!({ key: inline })).to_string();
                return Some((self.root.join(MANIFESTS[0]), text));
            }
            Some(Value::String(name)) => Some(name),
            _ => None,
        };
        let names: Vec<&str> = named.as_deref().map_or_else(|| usual.to_vec(), |name| vec![name]);
        for name in names {
            let path = self.root.join(name);
            match read(directory, name) {
                Ok(Some(text)) => return Some((path, text)),
                Ok(None) if named.is_some() => parts.refuse(path, Unreadable::Absent),
                Ok(None) => {}
                Err(why) => parts.refuse(path, why),
            }
        }
        None
    }
}

impl Parts {
    fn refuse(&mut self, path: PathBuf, why: impl std::fmt::Display) {
        self.problems.push(Problem { path, why: why.to_string(), severity: Severity::Error });
    }
}

/// Reads a file below a directory; none if it does not exist.
fn read(directory: &UntrustedDirectory, name: &str) -> Result<Option<String>, String> {
    match directory.read(name, MAX_BYTES) {
        Err(Unreadable::Absent) => Ok(None),
        Ok(Excerpt { is_cut: true, .. }) => Err(format!("larger than {MAX_BYTES} bytes")),
        read => read.and_then(Excerpt::into_text).map(Some).map_err(|error| error.to_string()),
    }
}

/// Parses the first of these files that exists.
pub(crate) fn first<T: DeserializeOwned>(
    directory: &UntrustedDirectory,
    root: &Path,
    names: &[&str],
) -> Result<Option<T>, String> {
    for name in names {
        let failed = |why: String| format!("{}: {why}", root.join(name).display());
        if let Some(text) = read(directory, name).map_err(failed)? {
            return baton_json::from_str(&text).map(Some).map_err(|error| failed(error.to_string()));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn write(root: &Path, name: &str, text: &str) {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn plugin(root: &Path) -> Plugin {
        Plugin::load(root).unwrap()
    }

    const SKILL: &str = "---\ndescription: d\n---\ntext";
    const HOOK: &str = r#"{"version":1,"hooks":{"preToolUse":[{"type":"command","bash":"./check.sh"}]}}"#;

    #[test]
    fn plugin_brings_its_skills_and_commands() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), "plugin.json", r#"{"name":"kit","version":"1.2"}"#);
        write(dir.path(), "skills/pdf/SKILL.md", SKILL);
        write(dir.path(), "commands/ship.md", "Ship it.");
        write(dir.path(), "commands/notes.txt", "no command");
        let kit = plugin(dir.path());
        assert_eq!((kit.name.as_str(), kit.version.as_deref()), ("kit", Some("1.2")));
        let found = kit.skills();
        let [pdf, ship] = &*found.skills else { panic!("{found:?}") };
        assert_eq!((pdf.name.as_str(), pdf.command.as_str()), ("pdf", "kit:pdf"));
        assert_eq!(
            (ship.command.as_str(), ship.user_invocable, ship.model_invocable),
            ("kit:ship", true, false)
        );
        assert_eq!(ship.read().unwrap().unwrap(), "Ship it.");
        assert!(Plugin::load(&dir.path().join("skills")).unwrap_err().contains("not a plugin"));
        write(dir.path(), "plugin.json", "{");
        assert!(Plugin::load(dir.path()).unwrap_err().contains("plugin.json"));
    }

    #[test]
    fn plugin_brings_agents_hooks_and_servers() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), "plugin.json", r#"{"name":"kit"}"#);
        assert_eq!(plugin(dir.path()).parts(), Parts::default());
        write(dir.path(), "agents/reviewer.agent.md", "You review.");
        assert_eq!(plugin(dir.path()).parts().digest, None, "text starts nothing");
        write(dir.path(), "hooks.json", HOOK);
        write(dir.path(), ".mcp.json", r#"{"mcpServers":{"a":{"command":"x"}}}"#);
        let parts = plugin(dir.path()).parts();
        assert_eq!(parts.agents[0].agent.name, "kit:reviewer");
        assert_eq!(
            (parts.hooks[0].hook.as_str(), parts.hooks[0].line.as_str()),
            ("preToolUse", "./check.sh")
        );
        assert!(parts.servers.as_ref().unwrap().1.contains("mcpServers"));
        let digest = parts.digest.unwrap();
        write(dir.path(), "hooks.json", &HOOK.replace("check", "other"));
        assert_ne!(plugin(dir.path()).parts().digest.unwrap(), digest);
    }

    #[test]
    fn description_declares_parts_or_names_their_files() {
        let dir = tempfile::tempdir().unwrap();
        let root = &dir.path().join("kit");
        let manifest = r#"{"name":"kit","mcpServers":{"a":{"command":"x"}},"hooks":"config/h.json"}"#;
        write(root, "plugin.json", manifest);
        write(root, "config/h.json", HOOK);
        let parts = plugin(root).parts();
        assert_eq!(parts.servers.unwrap().1, r#"{"mcpServers":{"a":{"command":"x"}}}"#);
        assert_eq!(parts.hooks.len(), 1);
        write(root, "plugin.json", r#"{"name":"kit","mcpServers":"none.json","hooks":"../h.json"}"#);
        write(dir.path(), "h.json", HOOK);
        let parts = plugin(root).parts();
        assert_eq!((parts.problems.len(), parts.digest), (2, None), "{:?}", parts.problems);
    }

    #[test]
    fn links_out_of_a_plugin_are_refused() {
        let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        write(dir.path(), "plugin.json", r#"{"name":"kit"}"#);
        write(outside.path(), "secret/SKILL.md", SKILL);
        write(outside.path(), "evil.md", "evil");
        write(outside.path(), "file.json", HOOK);
        for name in ["skills", "commands", "agents"] {
            symlink(outside.path(), dir.path().join(name)).unwrap();
        }
        for name in ["hooks.json", ".mcp.json"] {
            symlink(outside.path().join("file.json"), dir.path().join(name)).unwrap();
        }
        let kit = plugin(dir.path());
        let (found, parts) = (kit.skills(), kit.parts());
        assert_eq!((found.skills.len(), found.problems.len()), (0, 2), "{found:?}");
        assert_eq!((parts.agents.len(), parts.hooks.len(), parts.servers), (0, 0, None));
        assert_eq!(parts.problems.len(), 3, "{:?}", parts.problems);
    }

    #[test]
    fn malformed_parts_cost_themselves_only() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), "plugin.json", r#"{"name":"kit"}"#);
        write(dir.path(), "hooks.json", "{");
        write(dir.path(), "agents/a.md", "---\nname: [\n---\n");
        write(dir.path(), "agents/b.md", "Good.");
        let parts = plugin(dir.path()).parts();
        assert_eq!((parts.agents.len(), parts.hooks.len(), parts.problems.len()), (1, 0, 2));
    }
}
