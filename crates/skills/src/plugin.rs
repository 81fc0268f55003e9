//! Plugins: directories that bring skills, and the local marketplaces that list them.

use std::path::{Path, PathBuf};

use baton_agent::front_matter::printable;
use baton_agent::untrusted::{Directory, Excerpt, Unreadable};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::scan::{Found, scan, scan_single};
use crate::skill::{FILE, Origin, PluginRef, SkillSource, check_name};

/// Where a plugin describes itself.
const MANIFESTS: [&str; 4] =
    ["plugin.json", ".github/plugin.json", ".github/plugin/plugin.json", ".claude-plugin/plugin.json"];
/// Where a marketplace lists its plugins.
const MARKETPLACES: [&str; 3] =
    ["marketplace.json", ".github/plugin/marketplace.json", ".claude-plugin/marketplace.json"];
/// Largest description of a plugin or a marketplace, in bytes.
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

#[derive(Deserialize)]
struct Manifest {
    name: String,
    version: Option<String>,
}

impl Plugin {
    /// Reads the description of a plugin. A directory with nothing but a `SKILL.md` is one, too. Blocks.
    ///
    /// # Errors
    /// With the reason.
    pub fn load(root: &Path) -> Result<Self, String> {
        let shown = root.display();
        let directory = Directory::open(root).map_err(|error| format!("{shown}: {error}"))?;
        if let Some(Manifest { name, version }) = first::<Manifest>(&directory, root, &MANIFESTS)? {
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

    /// Finds the skills of the plugin. Blocks.
    #[must_use]
    pub fn skills(&self) -> Found {
        let plugin = PluginRef { name: self.name.clone(), version: self.version.clone() };
        let origin = Origin { source: SkillSource::Plugin, project: None, plugin: Some(plugin) };
        let mut found = scan_single(&self.root, &origin);
        // Opened from the plugin's directory, which a link must not leave.
        match Directory::open(&self.root).and_then(|root| root.subdirectory("skills")) {
            Ok(_) => found.add(scan(&self.root.join("skills"), &origin)),
            Err(Unreadable::Absent) => {}
            Err(error) => found.refuse(self.root.join("skills"), error),
        }
        found
    }
}

/// A marketplace on disk: a list of plugins in directories below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marketplace {
    /// Name.
    pub name: String,
    /// The directory.
    pub root: PathBuf,
    /// The plugins that it lists.
    pub plugins: Vec<Listing>,
}

/// A plugin in the list of a marketplace.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Listing {
    /// Name.
    pub name: String,
    /// What it is for.
    #[serde(default)]
    pub description: Option<String>,
    /// Version, if the marketplace says.
    #[serde(default)]
    pub version: Option<String>,
    /// Where it is.
    source: PluginPlace,
}

/// Where a marketplace says that a plugin is.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
enum PluginPlace {
    /// A directory below the marketplace.
    Directory(String),
    /// Anywhere else, which this server does not download.
    Elsewhere(serde_json::Value),
}

#[derive(Deserialize)]
struct List {
    name: String,
    plugins: Vec<Listing>,
}

impl Marketplace {
    /// Reads the list of a marketplace. Blocks.
    ///
    /// # Errors
    /// With the reason.
    pub fn load(root: &Path) -> Result<Self, String> {
        let shown = root.display();
        let directory = Directory::open(root).map_err(|error| match error {
            Unreadable::Absent => format!("Local marketplace path does not exist: {shown}"),
            error => format!("{shown}: {error}"),
        })?;
        let list: Option<List> = first(&directory, root, &MARKETPLACES)?;
        let List { name, plugins } =
            list.ok_or_else(|| format!("{shown} is not a marketplace: it has no marketplace.json"))?;
        for name in std::iter::once(&name).chain(plugins.iter().map(|plugin| &plugin.name)) {
            check_name(name).map_err(|why| format!("{shown}: {why}"))?;
        }
        Ok(Self { name, root: root.to_owned(), plugins })
    }

    /// Reads a plugin of the marketplace. Blocks.
    ///
    /// # Errors
    /// When it does not list the plugin, or the plugin is not below it.
    pub fn plugin(&self, name: &str) -> Result<Plugin, String> {
        let Some(listed) = self.plugins.iter().find(|listed| listed.name == name) else {
            let names: Vec<&str> = self.plugins.iter().map(|listed| listed.name.as_str()).collect();
            let (market, names) = (&self.name, names.join(", "));
            return Err(format!(
                "Plugin \"{name}\" not found in marketplace \"{market}\". Available plugins: {names}"
            ));
        };
        let PluginPlace::Directory(place) = &listed.source else {
            return Err(format!(
                "Plugin \"{name}\" is not on this machine; this server installs local plugins only"
            ));
        };
        let root = Directory::open(&self.root).and_then(|root| root.subdirectory(place));
        let root = root.map_err(|error| match error {
            Unreadable::LeadsOut => format!("Plugin \"{name}\": {place} leads out of the marketplace"),
            error => format!("Plugin \"{name}\": {place}: {error}"),
        })?;
        let plugin = Plugin::load(root.path())?;
        let version = plugin.version.or_else(|| listed.version.as_deref().map(printable));
        Ok(Plugin { name: listed.name.clone(), version, ..plugin })
    }
}

/// Parses the first of these files that exists.
fn first<T: DeserializeOwned>(
    directory: &Directory,
    root: &Path,
    names: &[&str],
) -> Result<Option<T>, String> {
    for name in names {
        let failed = |why: String| format!("{}: {why}", root.join(name).display());
        let text = match directory.read(name, MAX_BYTES) {
            Err(Unreadable::Absent) => continue,
            Ok(Excerpt { is_cut: true, .. }) => return Err(failed(format!("larger than {MAX_BYTES} bytes"))),
            read => read.and_then(Excerpt::into_text).map_err(|error| failed(error.to_string()))?,
        };
        return serde_json::from_str(&text).map(Some).map_err(|error| failed(error.to_string()));
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

    const SKILL: &str = "---\ndescription: d\n---\ntext";

    #[test]
    fn plugin_brings_its_skills() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), "plugin.json", r#"{"name":"kit","version":"1.2"}"#);
        write(dir.path(), "skills/pdf/SKILL.md", SKILL);
        let plugin = Plugin::load(dir.path()).unwrap();
        assert_eq!((plugin.name.as_str(), plugin.version.as_deref()), ("kit", Some("1.2")));
        let found = plugin.skills();
        assert_eq!((found.skills[0].name.as_str(), found.skills[0].command.as_str()), ("pdf", "kit:pdf"));
        assert!(Plugin::load(&dir.path().join("skills")).unwrap_err().contains("not a plugin"));
        write(dir.path(), "plugin.json", "{");
        assert!(Plugin::load(dir.path()).unwrap_err().contains("plugin.json"));
    }

    #[test]
    fn links_out_of_a_plugin_are_refused() {
        let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        write(dir.path(), "plugin.json", r#"{"name":"kit"}"#);
        write(outside.path(), "secret/SKILL.md", SKILL);
        symlink(outside.path(), dir.path().join("skills")).unwrap();
        let found = Plugin::load(dir.path()).unwrap().skills();
        assert_eq!((found.skills.len(), found.problems.len()), (0, 1));
    }

    #[test]
    fn marketplace_lists_plugins_below_it_only() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("market");
        let list = r#"{"name":"m","owner":{},"plugins":[{"name":"a","source":"./a","version":"1"},
            {"name":"b","source":"../b"},{"name":"c","source":{"source":"github","repo":"o/r"}}]}"#;
        write(&root, "marketplace.json", list);
        write(&root, "a/SKILL.md", SKILL);
        write(dir.path(), "b/SKILL.md", SKILL);
        let market = Marketplace::load(&root).unwrap();
        assert_eq!(market.plugin("a").unwrap().version.as_deref(), Some("1"));
        assert!(market.plugin("b").unwrap_err().contains("leads out"));
        assert!(market.plugin("c").unwrap_err().contains("local plugins only"));
        assert!(market.plugin("d").unwrap_err().contains("Available plugins: a, b, c"));
        assert!(Marketplace::load(&dir.path().join("none")).unwrap_err().contains("does not exist"));
    }
}
