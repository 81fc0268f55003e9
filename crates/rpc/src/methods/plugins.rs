//! Plugins of the user, and the marketplaces that they come from.

use std::path::PathBuf;

use baton_protocol::rpc::RpcError;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, Handled, void};
use crate::errors::CallError;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Params {
    name: Option<String>,
    names: Vec<String>,
    source: String,
    working_directory: Option<PathBuf>,
    direct_source_id: Option<String>,
    force: Option<bool>,
}

#[derive(Deserialize)]
struct BuiltIn {
    paths: Vec<PathBuf>,
}

/// Sets the plugins that every session has. Sessions that exist would not have them, so there must be none.
fn set_built_in(call: &Call<'_>) -> Handled {
    let BuiltIn { paths } = call.parse()?;
    if !call.runtime().registry.all().is_empty() {
        let reason = "Cannot set built-in plugins while sessions are active. \
                      Call plugins.builtin.set before creating any sessions.";
        return Err(CallError::failed(reason));
    }
    call.runtime().addons.server_plugins.set_built_in(paths).map_err(CallError::invalid)?;
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
    call.runtime().addons.server_plugins.set_additional(paths).map_err(CallError::invalid)?;
    call.now(json!({}))
}

/// Calls the handler of a method about plugins of the user.
pub(super) fn user(call: &Call<'_>) -> Handled {
    const METHODS: [&str; 13] = [
        "plugins.list",
        "plugins.install",
        "plugins.uninstall",
        "plugins.update",
        "plugins.updateAll",
        "plugins.enable",
        "plugins.disable",
        "plugins.marketplaces.list",
        "plugins.marketplaces.add",
        "plugins.marketplaces.remove",
        "plugins.marketplaces.browse",
        "plugins.marketplaces.refresh",
        "plugins.builtin.set",
    ];
    let Some(method) = METHODS.into_iter().find(|method| *method == call.method) else {
        return Err(RpcError::unknown_method(call.method).into());
    };
    if method == "plugins.builtin.set" {
        return set_built_in(call);
    }
    let params: Params = if method.ends_with("list") || method == "plugins.updateAll" {
        Params::default()
    } else {
        call.parse()?
    };
    let runtime = call.runtime().clone();
    call.later(async move {
        let plugins = &runtime.addons.plugins;
        let base = params.working_directory.unwrap_or_else(|| runtime.options.cwd.clone());
        let named = || params.name.clone().ok_or_else(|| CallError::invalid("`name` is required"));
        let reply = match method {
            "plugins.list" => plugins.list().await.map(|plugins| json!({ "plugins": plugins })),
            "plugins.install" => plugins.install(&params.source, &base).await.map(|done| json!(done)),
            "plugins.uninstall" => {
                plugins.uninstall(named()?, params.direct_source_id).await.map(|()| void())
            }
            "plugins.update" => plugins.update(&named()?).await.map(|done| json!(done)),
            "plugins.updateAll" => plugins.update_all().await.map(|results| json!({ "results": results })),
            "plugins.enable" => plugins.set_enabled(params.names, true).await.map(|()| void()),
            "plugins.disable" => plugins.set_enabled(params.names, false).await.map(|()| void()),
            "plugins.marketplaces.list" => {
                plugins.marketplaces().await.map(|known| json!({ "marketplaces": known }))
            }
            "plugins.marketplaces.add" => {
                plugins.add_marketplace(&params.source, &base).await.map(|name| json!({ "name": name }))
            }
            "plugins.marketplaces.remove" => {
                let removed = plugins.remove_marketplace(named()?, params.force.unwrap_or(false)).await;
                removed.map(|removed| json!(removed))
            }
            "plugins.marketplaces.browse" => {
                plugins.browse(&named()?).await.map(|plugins| json!({ "plugins": plugins }))
            }
            _ => plugins.refresh(params.name).await.map(|results| json!({ "results": results })),
        };
        reply.map_err(CallError::failed)
    })
}
