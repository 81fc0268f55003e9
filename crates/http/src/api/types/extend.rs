//! Skills, plugins and marketplaces.

use baton_addons::plugins::{InstalledPlugin, KnownMarketplace, OfferedPlugin};
use baton_addons::skills::overview::SkillOverview;
use baton_ask::skills::{SkillDetails, SkillEntry};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// A skill. All texts are those of its file.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SkillView {
    pub(crate) name: String,
    /// When to use it.
    #[serde(default)]
    pub(crate) description: String,
    /// Where it comes from: `custom`, `project`, `inherited`, `personal-copilot`, `personal-agents`, `plugin` or `sdk`.
    pub(crate) source: String,
    /// The plugin that it belongs to.
    pub(crate) plugin_name: Option<String>,
    /// Its file; empty if a client supplies the skill.
    #[serde(default)]
    pub(crate) path: String,
    /// Whether sessions use it.
    pub(crate) enabled: bool,
    /// Whether it has a slash command.
    pub(crate) user_invocable: bool,
    /// What follows the slash command.
    pub(crate) argument_hint: Option<String>,
    /// Its text, where one skill is shown.
    pub(crate) content: Option<String>,
}

impl From<SkillOverview> for SkillView {
    fn from(skill: SkillOverview) -> Self {
        Self {
            name: skill.name,
            description: skill.description,
            source: skill.source,
            plugin_name: skill.plugin_name,
            path: skill.path.display().to_string(),
            enabled: skill.enabled,
            user_invocable: skill.user_invocable,
            argument_hint: skill.argument_hint,
            content: None,
        }
    }
}

impl From<SkillEntry> for SkillView {
    fn from(skill: SkillEntry) -> Self {
        Self {
            name: skill.name,
            description: skill.description,
            source: skill.source,
            plugin_name: skill.plugin_name,
            path: skill.path.display().to_string(),
            enabled: skill.enabled,
            user_invocable: skill.user_invocable,
            argument_hint: skill.argument_hint,
            content: None,
        }
    }
}

impl From<SkillDetails> for SkillView {
    fn from(details: SkillDetails) -> Self {
        Self { content: Some(details.content), ..details.skill.into() }
    }
}

impl From<baton_ask::skills::SkillList> for SkillList {
    fn from(list: baton_ask::skills::SkillList) -> Self {
        Self { skills: list.skills.into_iter().map(SkillView::from).collect(), problems: list.problems }
    }
}

/// Skills, and those that cannot be used.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct SkillList {
    pub(crate) skills: Vec<SkillView>,
    /// Skills and plugins that cannot be used, each with the reason.
    #[serde(default)]
    pub(crate) problems: Vec<String>,
}

/// Query of skills outside of sessions.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct SkillsQuery {
    /// Absolute path of the directory whose project skills are included. Default: those of the user only.
    pub(crate) cwd: Option<String>,
}

/// An installed plugin.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PluginView {
    pub(crate) name: String,
    /// Marketplace that it comes from; empty if it was copied from a directory.
    pub(crate) marketplace: String,
    pub(crate) version: Option<String>,
    pub(crate) enabled: bool,
    /// Directory that it was copied from.
    pub(crate) installed_from: Option<String>,
}

impl From<InstalledPlugin> for PluginView {
    fn from(plugin: InstalledPlugin) -> Self {
        Self {
            name: plugin.name,
            marketplace: plugin.marketplace,
            version: plugin.version,
            enabled: plugin.enabled,
            installed_from: plugin.installed_from.map(|path| path.display().to_string()),
        }
    }
}

/// Installed plugins.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct PluginList {
    pub(crate) plugins: Vec<PluginView>,
}

/// A plugin to install.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct NewPlugin {
    /// `PLUGIN@MARKETPLACE`, or an absolute path of a directory on the server's machine.
    pub(crate) source: String,
}

/// A marketplace of plugins.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MarketplaceView {
    pub(crate) name: String,
    /// Where it is.
    pub(crate) source: String,
    /// Whether it is listed without having been added.
    pub(crate) is_default: bool,
}

impl From<KnownMarketplace> for MarketplaceView {
    fn from(known: KnownMarketplace) -> Self {
        Self { name: known.name, source: known.source, is_default: known.is_default }
    }
}

/// Marketplaces.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct MarketplaceList {
    pub(crate) marketplaces: Vec<MarketplaceView>,
}

/// A marketplace to add.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewMarketplace {
    /// Absolute path of a directory on the server's machine.
    pub(crate) source: String,
}

/// Query of the removal of a marketplace.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct RemoveMarketplaceQuery {
    /// Uninstall its plugins, too.
    #[serde(default)]
    pub(crate) force: bool,
}

/// A plugin of a marketplace.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct OfferedPluginView {
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    pub(crate) version: Option<String>,
}

impl From<OfferedPlugin> for OfferedPluginView {
    fn from(offered: OfferedPlugin) -> Self {
        Self { name: offered.name, description: offered.description, version: offered.version }
    }
}

/// Plugins of a marketplace.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct OfferedPluginList {
    pub(crate) plugins: Vec<OfferedPluginView>,
}
