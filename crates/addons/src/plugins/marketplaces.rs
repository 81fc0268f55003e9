//! The marketplaces that are known: local directories, which list plugins.

use std::path::{Path, PathBuf};

use baton_skills::Marketplace;
use serde_json::{Value, json};

use super::{Content, Plugins, is_remote, reading};

/// The marketplace that SDKs expect to be listed. It is on GitHub, so it cannot be used here.
const DEFAULT: (&str, &str) = ("copilot-plugins", "github/copilot-plugins");
impl Plugins {
    /// Lists the marketplaces.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub async fn marketplaces(&self) -> Result<Value, String> {
        let content: Content = self.file.read().await?;
        let default =
            json!({ "name": DEFAULT.0, "source": format!("GitHub: {}", DEFAULT.1), "isDefault": true });
        let local = content.marketplaces.iter().map(|(name, path)| {
            json!({ "name": name, "source": format!("Local: {}", path.display()), "isDefault": false })
        });
        Ok(json!({ "marketplaces": std::iter::once(default).chain(local).collect::<Vec<_>>() }))
    }

    /// Adds a marketplace in a directory. Replies its name.
    ///
    /// # Errors
    /// When it cannot be read, or one of that name is known.
    pub async fn add_marketplace(&self, source: &str, base: &Path) -> Result<Value, String> {
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
        Ok(json!({ "name": name }))
    }

    /// Removes a marketplace. Without force, one whose plugins are installed stays.
    ///
    /// # Errors
    /// When it is not known, or is the default one.
    pub async fn remove_marketplace(&self, name: String, force: bool) -> Result<Value, String> {
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
                return Ok(json!({ "removed": false, "dependentPlugins": dependent }));
            }
            content.marketplaces.remove(&name);
            content.installed.retain(|plugin| plugin.marketplace != name);
            Ok(json!({ "removed": true }))
        };
        self.file.edit(edit).await?
    }

    /// Lists the plugins of a marketplace.
    ///
    /// # Errors
    /// When it is not known, or cannot be read.
    pub async fn browse(&self, name: &str) -> Result<Value, String> {
        let root = root_of(&self.file.read().await?, name)?;
        let found = reading(move || Marketplace::load(&root)).await?;
        let listed = found.plugins.iter().map(|plugin| {
            let mut listed = json!({ "name": plugin.name });
            for (name, text) in [("description", &plugin.description), ("version", &plugin.version)] {
                if let Some(text) = text {
                    listed[name] = json!(text);
                }
            }
            listed
        });
        Ok(json!({ "plugins": listed.collect::<Vec<_>>() }))
    }

    /// Reads marketplaces again: one, or all.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub async fn refresh(&self, name: Option<String>) -> Result<Value, String> {
        let content: Content = self.file.read().await?;
        let names = match name {
            Some(name) => vec![name],
            None => content.marketplaces.keys().cloned().collect(),
        };
        let mut results = Vec::new();
        for name in names {
            results.push(match self.browse(&name).await {
                Ok(_) => json!({ "name": name, "success": true }),
                Err(error) => json!({ "name": name, "success": false, "error": error }),
            });
        }
        Ok(json!({ "results": results }))
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
