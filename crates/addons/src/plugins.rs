//! Plugins of the user: what is installed, and the local marketplaces that are known (`plugins.json` in the home).
//!
//! An installed plugin is a copy in the home, regular files only: what was approved by installing it is what runs, whatever
//! becomes of the marketplace or the directory, until it is updated. Sessions with discovery use the enabled plugins. Nothing
//! is downloaded.

mod marketplaces;
mod replies;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use baton_disk::blocking;
use baton_files::json_file::JsonFile;
use baton_skills::{Marketplace, Plugin, copy_plugin, source_id};
use serde::{Deserialize, Serialize};

use self::marketplaces::root_of;
pub use self::replies::{
    InstalledPlugin, KnownMarketplace, MarketplaceRefresh, MarketplaceRemoval, OfferedPlugin,
    PluginInstallation, PluginUpdate, PluginUpdateResult,
};

/// Warning for plugins that were not installed from a marketplace.
const DIRECT: &str =
    "Installing a plugin from a directory is deprecated; add its marketplace, and install it from there.";

/// Plugins of the user.
pub struct Plugins {
    file: JsonFile,
    copies: PathBuf,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Content {
    marketplaces: BTreeMap<String, PathBuf>,
    installed: Vec<Installed>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Installed {
    name: String,
    /// Empty if it was installed from a directory.
    marketplace: String,
    version: Option<String>,
    enabled: bool,
    /// Where it is used.
    path: PathBuf,
    #[serde(default)]
    direct_source_id: Option<String>,
    /// Where it was copied from.
    #[serde(default)]
    installed_from: Option<PathBuf>,
    /// Digest of the hooks and servers that the user has approved by installing them.
    #[serde(default)]
    approved: Option<String>,
}

impl Installed {
    fn new(plugin: Plugin, copy: PathBuf) -> Self {
        Self {
            name: plugin.name,
            marketplace: String::new(),
            version: plugin.version,
            enabled: true,
            path: copy,
            direct_source_id: None,
            installed_from: None,
            approved: None,
        }
    }

    fn is_named(&self, name: &str) -> bool {
        name == self.name || name == self.full_name()
    }

    fn full_name(&self) -> String {
        format!("{}@{}", self.name, self.marketplace)
    }

    fn described(&self) -> InstalledPlugin {
        InstalledPlugin {
            name: self.name.clone(),
            marketplace: self.marketplace.clone(),
            enabled: self.enabled,
            version: self.version.clone(),
            direct_source_id: self.direct_source_id.clone(),
            installed_from: self.installed_from.clone(),
        }
    }
}

/// The source that a plugin is installed from.
enum Source {
    Marketplace { plugin: String, marketplace: String },
    Directory(PathBuf),
}

impl Plugins {
    /// Names the file in a home; nothing is read yet.
    #[must_use]
    pub fn new(home: &Path) -> Self {
        Self { file: JsonFile::new(home, "plugins.json"), copies: home.join("installed-plugins") }
    }

    /// Returns the directories of the plugins that sessions use, each with the digest of what the user has approved. A file
    /// that cannot be read has none.
    pub(crate) async fn enabled(&self) -> Vec<(PathBuf, Option<String>)> {
        let content: Content = self.file.read().await.unwrap_or_else(|error| {
            tracing::warn!("{error}");
            Content::default()
        });
        let enabled = content.installed.into_iter().filter(|plugin| plugin.enabled);
        enabled.map(|plugin| (plugin.path, plugin.approved)).collect()
    }

    /// Approves the declarations of an installed plugin that have this digest. Returns whether a plugin is installed there.
    pub(crate) async fn trust(&self, path: PathBuf, digest: String) -> Result<bool, String> {
        let content: Content = self.file.read().await?;
        if content.installed.iter().all(|plugin| plugin.path != path) {
            return Ok(false);
        }
        let edit = move |content: &mut Content| {
            for plugin in content.installed.iter_mut().filter(|plugin| plugin.path == path) {
                plugin.approved = Some(digest.clone());
            }
        };
        self.file.edit(edit).await.map(|()| true)
    }

    /// Lists the installed plugins.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub async fn list(&self) -> Result<Vec<InstalledPlugin>, String> {
        let content: Content = self.file.read().await?;
        Ok(content.installed.iter().map(Installed::described).collect())
    }

    /// Installs a plugin: `plugin@marketplace`, or a directory.
    ///
    /// # Errors
    /// When there is no such plugin, it cannot be used, or it would have to be downloaded.
    pub async fn install(&self, source: &str, base: &Path) -> Result<PluginInstallation, String> {
        let content: Content = self.file.read().await?;
        let mut installed = match parse_source(source, base, &content)? {
            Source::Marketplace { plugin, marketplace } => {
                let root = root_of(&content, &marketplace)?;
                let found = reading(move || Marketplace::load(&root)?.plugin(&plugin)).await?;
                let path = self.copy(found.root.clone()).await?;
                Installed { marketplace, ..Installed::new(found, path) }
            }
            Source::Directory(directory) => {
                let from = directory.clone();
                let found = reading(move || Plugin::load(&from)).await?;
                let path = self.copy(directory.clone()).await?;
                Installed {
                    direct_source_id: Some(source_id(&directory)),
                    installed_from: Some(directory),
                    ..Installed::new(found, path)
                }
            }
        };
        let (skills, digest) = contents(installed.path.clone()).await?;
        installed.approved = digest;
        let installation = PluginInstallation {
            plugin: installed.described(),
            skills_installed: skills,
            deprecation_warning: installed.marketplace.is_empty().then_some(DIRECT),
        };
        let edit = move |content: &mut Content| {
            content.installed.retain(|known| known.full_name() != installed.full_name());
            content.installed.push(installed);
        };
        self.file.edit(edit).await?;
        Ok(installation)
    }

    /// Copies a plugin into the home. Returns the copy.
    async fn copy(&self, from: PathBuf) -> Result<PathBuf, String> {
        let target = self.copies.join(source_id(&from));
        let to = target.clone();
        let copied = tokio::task::spawn_blocking(move || copy_plugin(&from, &to)).await;
        copied.map_err(|_| "the copy was aborted; see the server log".to_owned()).flatten()?;
        Ok(target)
    }

    /// Removes a plugin from the list.
    ///
    /// # Errors
    /// When it is not installed.
    pub async fn uninstall(&self, name: String, direct_source_id: Option<String>) -> Result<(), String> {
        let missing = format!("Plugin \"{name}\" is not installed");
        let is_it = move |plugin: &Installed| {
            plugin.is_named(&name)
                && (direct_source_id.is_none() || plugin.direct_source_id == direct_source_id)
        };
        let edit = move |content: &mut Content| {
            let before = content.installed.len();
            content.installed.retain(|plugin| !is_it(plugin));
            before != content.installed.len()
        };
        let removed = self.file.edit(edit).await?;
        if removed { Ok(()) } else { Err(missing) }
    }

    /// Uses plugins, or stops using them. Unknown names change nothing.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub async fn set_enabled(&self, names: Vec<String>, enabled: bool) -> Result<(), String> {
        let edit = move |content: &mut Content| {
            for plugin in &mut content.installed {
                if names.iter().any(|name| plugin.is_named(name)) {
                    plugin.enabled = enabled;
                }
            }
        };
        self.file.edit(edit).await
    }

    /// Reads a plugin again from where it was installed.
    ///
    /// # Errors
    /// When it is not installed, or cannot be read any more.
    pub async fn update(&self, name: &str) -> Result<PluginUpdate, String> {
        let content: Content = self.file.read().await?;
        let known = content.installed.iter().find(|plugin| plugin.is_named(name)).cloned();
        let known = known.ok_or_else(|| format!("Plugin \"{name}\" is not installed"))?;
        let source = match &known.installed_from {
            Some(directory) => directory.display().to_string(),
            None => known.full_name(),
        };
        let installed = self.install(&source, Path::new("/")).await?;
        if !known.enabled {
            self.set_enabled(vec![known.full_name()], false).await?;
        }
        Ok(PluginUpdate {
            skills_installed: installed.skills_installed,
            previous_version: known.version,
            new_version: installed.plugin.version,
        })
    }

    /// Updates all plugins. One that fails does not affect the others.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub async fn update_all(&self) -> Result<Vec<PluginUpdateResult>, String> {
        let content: Content = self.file.read().await?;
        let mut results = Vec::new();
        for plugin in content.installed {
            let (update, error) = match self.update(&plugin.full_name()).await {
                Ok(update) => (Some(update), None),
                Err(error) => (None, Some(error)),
            };
            let Installed { name, marketplace, .. } = plugin;
            results.push(PluginUpdateResult { name, marketplace, success: error.is_none(), error, update });
        }
        Ok(results)
    }
}

async fn reading<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    blocking::run(work).await.map_err(|error| error.to_string())?
}

/// Returns the number of skills of a plugin, and the digest of its hooks and servers.
async fn contents(root: PathBuf) -> Result<(usize, Option<String>), String> {
    reading(move || {
        let plugin = Plugin::load(&root)?;
        Ok((plugin.skills().skills.len(), plugin.parts().digest))
    })
    .await
}

fn is_remote(source: &str) -> bool {
    let is_repository = !source.starts_with(['/', '.', '~']) && source.split('/').count() == 2;
    source.contains("://") || source.starts_with("git@") || is_repository
}

fn parse_source(source: &str, base: &Path, content: &Content) -> Result<Source, String> {
    if let Some((plugin, marketplace)) = source.rsplit_once('@')
        && !source.contains('/')
    {
        let (plugin, marketplace) = (plugin.to_owned(), marketplace.to_owned());
        return Ok(match marketplace.is_empty() {
            // An installed plugin without a marketplace.
            true => match content.installed.iter().find(|known| known.name == plugin) {
                Some(Installed { installed_from: Some(from), .. }) => Source::Directory(from.clone()),
                _ => return Err(format!("Plugin \"{plugin}\" is not installed")),
            },
            false => Source::Marketplace { plugin, marketplace },
        });
    }
    if is_remote(source) {
        return Err(format!("{source} is not on this machine; clone it, and install its directory"));
    }
    Ok(Source::Directory(base.join(source)))
}
