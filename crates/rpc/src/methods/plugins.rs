//! Plugins of the user, and the marketplaces that they come from. Plugins of this server.

use std::path::PathBuf;

use baton_service::OperationError;
use baton_service::plugins::{
    AddMarketplace, BrowseMarketplace, DisablePlugins, EnablePlugins, InstallPlugin, ListMarketplaces,
    ListPlugins, RefreshMarketplaces, RemoveMarketplace, ServerPluginsError, SetServerPlugins,
    UninstallPlugin, UpdateAllPlugins, UpdatePlugin,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::call::perform;
use super::{Call, Handled, void};
use crate::errors::CallError;

#[derive(Deserialize)]
struct Named {
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ManyNamed {
    names: Vec<String>,
}

/// Where something comes from.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Origin {
    source: String,
    working_directory: Option<PathBuf>,
}

impl Origin {
    /// Returns the source, and what it is relative to.
    fn of(call: &Call<'_>) -> Result<(String, PathBuf), CallError> {
        let Self { source, working_directory } = call.parse()?;
        Ok((source, working_directory.unwrap_or_else(|| call.service().default_directory().to_owned())))
    }
}

pub(super) fn list(call: &Call<'_>) -> Handled {
    perform(call, ListPlugins {}, |plugins| json!({ "plugins": plugins }))
}

pub(super) fn install(call: &Call<'_>) -> Handled {
    let (source, base) = Origin::of(call)?;
    perform(call, InstallPlugin { source, base }, |installed| json!(installed))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Uninstall {
    name: String,
    direct_source_id: Option<String>,
}

pub(super) fn uninstall(call: &Call<'_>) -> Handled {
    let Uninstall { name, direct_source_id } = call.parse()?;
    perform(call, UninstallPlugin { name, direct_source_id }, |()| void())
}

pub(super) fn update(call: &Call<'_>) -> Handled {
    let Named { name } = call.parse()?;
    perform(call, UpdatePlugin { name }, |update| json!(update))
}

pub(super) fn update_all(call: &Call<'_>) -> Handled {
    perform(call, UpdateAllPlugins {}, |results| json!({ "results": results }))
}

pub(super) fn enable(call: &Call<'_>) -> Handled {
    let ManyNamed { names } = call.parse()?;
    perform(call, EnablePlugins { names }, |()| void())
}

pub(super) fn disable(call: &Call<'_>) -> Handled {
    let ManyNamed { names } = call.parse()?;
    perform(call, DisablePlugins { names }, |()| void())
}

pub(super) fn marketplaces(call: &Call<'_>) -> Handled {
    perform(call, ListMarketplaces {}, |known| json!({ "marketplaces": known }))
}

pub(super) fn add_marketplace(call: &Call<'_>) -> Handled {
    let (source, base) = Origin::of(call)?;
    perform(call, AddMarketplace { source, base }, |name| json!({ "name": name }))
}

#[derive(Deserialize)]
struct Remove {
    name: String,
    force: Option<bool>,
}

pub(super) fn remove_marketplace(call: &Call<'_>) -> Handled {
    let Remove { name, force } = call.parse()?;
    perform(call, RemoveMarketplace { name, force: force.unwrap_or(false) }, |removed| json!(removed))
}

pub(super) fn browse(call: &Call<'_>) -> Handled {
    let Named { name } = call.parse()?;
    perform(call, BrowseMarketplace { name }, |plugins| json!({ "plugins": plugins }))
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Refresh {
    name: Option<String>,
}

pub(super) fn refresh(call: &Call<'_>) -> Handled {
    let Refresh { name } = call.parse()?;
    perform(call, RefreshMarketplaces { name }, |results| json!({ "results": results }))
}

#[derive(Deserialize)]
struct BuiltIn {
    paths: Vec<PathBuf>,
}

/// Sets the plugins that every session has. Sessions that exist would not have them, so there must be none.
pub(super) fn set_built_in(call: &Call<'_>) -> Handled {
    let BuiltIn { paths } = call.parse()?;
    set(call, SetServerPlugins::BuiltIn(paths))?;
    call.now(void())
}

#[derive(Deserialize)]
struct Additional {
    plugins: Vec<AdditionalPlugin>,
}

#[derive(Deserialize)]
struct AdditionalPlugin {
    #[serde(default)]
    name: String,
    #[serde(default, alias = "cachePath")]
    cache_path: Option<PathBuf>,
    source: Option<Value>,
    enabled: Option<bool>,
}

impl AdditionalPlugin {
    /// Returns its directory.
    fn directory(&self) -> Result<PathBuf, CallError> {
        let of_source =
            self.source.as_ref().and_then(|source| source.get("path")?.as_str().map(PathBuf::from));
        self.cache_path.clone().or(of_source).ok_or_else(|| {
            CallError::failed(format!(
                "The plugin {:?} has no directory; clone it, and pass cache_path.",
                self.name
            ))
        })
    }
}

/// Sets plugins that sessions use in addition to their own.
pub(super) fn set_additional(call: &Call<'_>) -> Handled {
    let Additional { plugins } = call.parse()?;
    let enabled = plugins.iter().filter(|plugin| plugin.enabled != Some(false));
    let paths = enabled.map(AdditionalPlugin::directory).collect::<Result<_, _>>()?;
    set(call, SetServerPlugins::Additional(paths))?;
    call.now(json!({}))
}

fn set(call: &Call<'_>, plugins: SetServerPlugins) -> Result<(), CallError> {
    call.service().perform_now(&call.caller(), plugins).map_err(|error| match error {
        OperationError::Failed(ServerPluginsError::Invalid(why)) => CallError::invalid(why),
        error => error.into(),
    })
}
