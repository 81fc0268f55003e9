//! Replies to clients about plugins and marketplaces.

use std::path::PathBuf;

use serde::Serialize;

/// An installed plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InstalledPlugin {
    /// Its name.
    pub name: String,
    /// The marketplace that it comes from; empty if it was copied from a directory.
    pub marketplace: String,
    /// Whether sessions use it.
    pub enabled: bool,
    /// Its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Id of the directory that it was copied from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direct_source_id: Option<String>,
    /// The directory that it was copied from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub installed_from: Option<PathBuf>,
}

impl InstalledPlugin {
    /// Whether a name means the plugin: `NAME` or `NAME@MARKETPLACE`.
    #[must_use]
    pub fn is_named(&self, name: &str) -> bool {
        name == self.name || name == format!("{}@{}", self.name, self.marketplace)
    }
}

/// A plugin that was just installed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginInstallation {
    /// The plugin.
    pub plugin: InstalledPlugin,
    /// Number of its skills.
    pub skills_installed: usize,
    /// Warning about where it comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecation_warning: Option<&'static str>,
}

/// A plugin that was updated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginUpdate {
    /// Number of its skills.
    pub skills_installed: usize,
    /// Its version before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_version: Option<String>,
    /// Its version now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_version: Option<String>,
}

/// The update of one of several plugins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginUpdateResult {
    /// Its name.
    pub name: String,
    /// The marketplace that it comes from; empty if it was copied from a directory.
    pub marketplace: String,
    /// Whether it was updated.
    pub success: bool,
    /// Why it was not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What has changed.
    #[serde(flatten)]
    pub update: Option<PluginUpdate>,
}

/// A marketplace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KnownMarketplace {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub source: String,
    /// Whether it is listed without having been added.
    pub is_default: bool,
}

/// A plugin of a marketplace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OfferedPlugin {
    /// Its name.
    pub name: String,
    /// What it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// Result of removing a marketplace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MarketplaceRemoval {
    /// Whether it was removed.
    pub removed: bool,
    /// The installed plugins that prevent it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dependent_plugins: Vec<String>,
}

/// Result of reading a marketplace again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MarketplaceRefresh {
    /// Its name.
    pub name: String,
    /// Whether it could be read.
    pub success: bool,
    /// Why it could not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
