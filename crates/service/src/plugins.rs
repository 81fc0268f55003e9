//! Plugins of the user, and the marketplaces that they come from.

use std::path::PathBuf;

use baton_addons::plugins::{
    InstalledPlugin, KnownMarketplace, MarketplaceRefresh, MarketplaceRemoval, OfferedPlugin,
    PluginInstallation, PluginUpdate, PluginUpdateResult, Plugins,
};

use crate::{Action, ImmediateAction, Operation, Permitted};

/// Generates operations on plugins: `operation Name { fields } -> Reply: |plugins, action| future`.
macro_rules! plugin_actions {
    ($(
        $(#[$doc:meta])*
        $operation:ident $name:ident { $( $(#[$field_doc:meta])* $field:ident: $type:ty ),* $(,)? } -> $reply:ty:
        |$plugins:ident, $action:pat_param| $run:expr;
    )*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, Default)]
            pub struct $name {
                $( $(#[$field_doc])* pub $field: $type, )*
            }

            impl Action for $name {
                const OPERATION: Operation = Operation::$operation;
                type Reply = $reply;
                type Error = String;

                async fn run(self, permitted: Permitted<'_>) -> Result<$reply, String> {
                    let $plugins: &Plugins = &permitted.service.runtime().addons.plugins;
                    let $action = self;
                    $run.await
                }
            }
        )*
    };
}

plugin_actions! {
    /// Lists the installed plugins.
    ListPlugins ListPlugins {} -> Vec<InstalledPlugin>: |plugins, _| plugins.list();

    /// Installs a plugin of a marketplace, or a copy of a directory.
    InstallPlugin InstallPlugin {
        /// `NAME@MARKETPLACE`, or a directory.
        source: String,
        /// What a relative directory is relative to.
        base: PathBuf,
    } -> PluginInstallation: |plugins, action| plugins.install(&action.source, &action.base);

    /// Uninstalls a plugin.
    UninstallPlugin UninstallPlugin {
        /// Its name, or `NAME@MARKETPLACE`.
        name: String,
        /// Id of the directory that it was copied from, if several have the name.
        direct_source_id: Option<String>,
    } -> (): |plugins, action| plugins.uninstall(action.name, action.direct_source_id);

    /// Reads a plugin again from where it was installed.
    UpdatePlugin UpdatePlugin {
        /// Its name, or `NAME@MARKETPLACE`.
        name: String,
    } -> PluginUpdate: |plugins, action| plugins.update(&action.name);

    /// Reads all plugins again.
    UpdatePlugin UpdateAllPlugins {} -> Vec<PluginUpdateResult>: |plugins, _| plugins.update_all();

    /// Uses plugins in new sessions again.
    EnablePlugin EnablePlugins {
        /// Their names.
        names: Vec<String>,
    } -> (): |plugins, action| plugins.set_enabled(action.names, true);

    /// Stops using plugins in new sessions.
    DisablePlugin DisablePlugins {
        /// Their names.
        names: Vec<String>,
    } -> (): |plugins, action| plugins.set_enabled(action.names, false);

    /// Lists the marketplaces.
    ListMarketplaces ListMarketplaces {} -> Vec<KnownMarketplace>: |plugins, _| plugins.marketplaces();

    /// Adds a marketplace in a directory of the server's machine. Replies with its name.
    AddMarketplace AddMarketplace {
        /// The directory.
        source: String,
        /// What a relative directory is relative to.
        base: PathBuf,
    } -> String: |plugins, action| plugins.add_marketplace(&action.source, &action.base);

    /// Removes a marketplace, unless plugins of it are installed.
    RemoveMarketplace RemoveMarketplace {
        /// Its name.
        name: String,
        /// Whether to uninstall its plugins.
        force: bool,
    } -> MarketplaceRemoval: |plugins, action| plugins.remove_marketplace(action.name, action.force);

    /// Lists the plugins of a marketplace.
    BrowseMarketplace BrowseMarketplace {
        /// Its name.
        name: String,
    } -> Vec<OfferedPlugin>: |plugins, action| plugins.browse(&action.name);

    /// Reads marketplaces again.
    RefreshMarketplaces RefreshMarketplaces {
        /// The marketplace; none means all.
        name: Option<String>,
    } -> Vec<MarketplaceRefresh>: |plugins, action| plugins.refresh(action.name);
}

/// Sets plugins that all sessions of this server have.
#[derive(Debug, Clone)]
pub enum SetServerPlugins {
    /// Plugins of the program that embeds this server. Sessions that exist would not have them, so there must be none.
    BuiltIn(Vec<PathBuf>),
    /// Plugins in addition to those of sessions.
    Additional(Vec<PathBuf>),
}

/// Why the plugins were not set.
#[derive(Debug, thiserror::Error)]
pub enum ServerPluginsError {
    /// Sessions exist.
    #[error(
        "Cannot set built-in plugins while sessions are active. Call plugins.builtin.set before creating any sessions."
    )]
    SessionsExist,
    /// A path cannot be used.
    #[error("{0}")]
    Invalid(String),
}

impl ImmediateAction for SetServerPlugins {
    const OPERATION: Operation = Operation::SetServerPlugins;
    type Reply = ();
    type Error = ServerPluginsError;

    fn run(self, permitted: Permitted<'_>) -> Result<(), ServerPluginsError> {
        let runtime = permitted.service.runtime();
        let plugins = &runtime.addons.server_plugins;
        match self {
            Self::BuiltIn(_) if !runtime.registry.all().is_empty() => Err(ServerPluginsError::SessionsExist),
            Self::BuiltIn(paths) => plugins.set_built_in(paths).map_err(ServerPluginsError::Invalid),
            Self::Additional(paths) => plugins.set_additional(paths).map_err(ServerPluginsError::Invalid),
        }
    }
}
