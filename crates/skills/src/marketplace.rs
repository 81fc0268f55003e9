//! Local marketplaces: directories that list plugins below them.

use std::path::{Path, PathBuf};

use baton_disk::front_matter::printable;
use baton_disk::untrusted::{Unreadable, UntrustedDirectory};
use serde::Deserialize;

use crate::plugin::{Plugin, first};
use crate::skill::check_name;

/// Where a marketplace lists its plugins.
const MARKETPLACES: [&str; 3] =
    ["marketplace.json", ".github/plugin/marketplace.json", ".claude-plugin/marketplace.json"];

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
        let directory = UntrustedDirectory::open(root).map_err(|error| match error {
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
        let root = UntrustedDirectory::open(&self.root).and_then(|root| root.subdirectory(place));
        let root = root.map_err(|error| match error {
            Unreadable::LeadsOut => format!("Plugin \"{name}\": {place} leads out of the marketplace"),
            error => format!("Plugin \"{name}\": {place}: {error}"),
        })?;
        let plugin = Plugin::load(root.path())?;
        let version = plugin.version.or_else(|| listed.version.as_deref().map(printable));
        Ok(Plugin { name: listed.name.clone(), version, ..plugin })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, name: &str, text: &str) {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    const SKILL: &str = "---\ndescription: d\n---\ntext";

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
