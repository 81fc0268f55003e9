//! The marketplaces that are known: local directories, which list plugins.

use std::path::{Path, PathBuf};

use baton_skills::Marketplace;

use super::{
    Content, KnownMarketplace, MarketplaceRefresh, MarketplaceRemoval, OfferedPlugin, Plugins, is_remote,
    reading,
};

/// The marketplace that SDKs expect to be listed. It is on GitHub, so it cannot be used here.
const DEFAULT: (&str, &str) = ("copilot-plugins", "github/copilot-plugins");
impl Plugins {
    /// Lists the marketplaces.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub async fn marketplaces(&self) -> Result<Vec<KnownMarketplace>, String> {
        let content: Content = self.file.read().await?;
        let default = KnownMarketplace {
            name: DEFAULT.0.to_owned(),
            source: format!("GitHub: {}", DEFAULT.1),
            is_default: true,
        };
        let local = content.marketplaces.into_iter().map(|(name, path)| KnownMarketplace {
            name,
            source: format!("Local: {}", path.display()),
            is_default: false,
        });
        Ok(std::iter::once(default).chain(local).collect())
    }

    /// Adds a marketplace in a directory. Replies its name.
    ///
    /// # Errors
    /// When it cannot be read, or one of that name is known.
    pub async fn add_marketplace(&self, source: &str, base: &Path) -> Result<String, String> {
        if is_remote(source) {
            return Err(format!("{source} is not on this machine; clone it, and add its directory"));
        }
        let path = base.join(source);
        let root = path.clone();
        let found = reading(move || Marketplace::load(&root)).await?;
        let name = found.name.clone();
        let edit = move |content: &mut Content| {
            if found.name == DEFAULT.0 || content.marketplaces.contains_key(&found.name) {
                return Err(format!("Marketplace \"{}\" already registered", found.name));
            }
            content.marketplaces.insert(found.name, path);
            Ok(())
        };
        self.file.edit(edit).await??;
        Ok(name)
    }

    /// Removes a marketplace. Without force, one whose plugins are installed stays.
    ///
    /// # Errors
    /// When it is not known, or is the default one.
    pub async fn remove_marketplace(&self, name: String, force: bool) -> Result<MarketplaceRemoval, String> {
        if name == DEFAULT.0 {
            return Err(format!("Marketplace \"{name}\" is the default one and cannot be removed"));
        }
        let edit = move |content: &mut Content| {
            if !content.marketplaces.contains_key(&name) {
                return Err(format!("Marketplace \"{name}\" not found"));
            }
            let dependent = content.installed.iter().filter(|plugin| plugin.marketplace == name);
            let dependent: Vec<String> = dependent.map(|plugin| plugin.name.clone()).collect();
            if !dependent.is_empty() && !force {
                return Ok(MarketplaceRemoval { removed: false, dependent_plugins: dependent });
            }
            content.marketplaces.remove(&name);
            content.installed.retain(|plugin| plugin.marketplace != name);
            Ok(MarketplaceRemoval { removed: true, dependent_plugins: Vec::new() })
        };
        self.file.edit(edit).await?
    }

    /// Lists the plugins of a marketplace.
    ///
    /// # Errors
    /// When it is not known, or cannot be read.
    pub async fn browse(&self, name: &str) -> Result<Vec<OfferedPlugin>, String> {
        let root = root_of(&self.file.read().await?, name)?;
        let found = reading(move || Marketplace::load(&root)).await?;
        let offered = found.plugins.iter().map(|plugin| OfferedPlugin {
            name: plugin.name.clone(),
            description: plugin.description.clone(),
            version: plugin.version.clone(),
        });
        Ok(offered.collect())
    }

    /// Reads marketplaces again: one, or all.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub async fn refresh(&self, name: Option<String>) -> Result<Vec<MarketplaceRefresh>, String> {
        let content: Content = self.file.read().await?;
        let names = match name {
            Some(name) => vec![name],
            None => content.marketplaces.keys().cloned().collect(),
        };
        let mut results = Vec::new();
        for name in names {
            let error = self.browse(&name).await.err();
            results.push(MarketplaceRefresh { name, success: error.is_none(), error });
        }
        Ok(results)
    }
}

/// Returns the directory of a marketplace.
pub(super) fn root_of(content: &Content, marketplace: &str) -> Result<PathBuf, String> {
    if marketplace == DEFAULT.0 {
        return Err(format!(
            "Marketplace \"{marketplace}\" is on GitHub; this server uses local marketplaces only. Clone {} and add its \
             directory.",
            DEFAULT.1
        ));
    }
    let root = content.marketplaces.get(marketplace).cloned();
    root.ok_or_else(|| format!("Marketplace \"{marketplace}\" not found"))
}
