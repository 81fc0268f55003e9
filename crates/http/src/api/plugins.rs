//! Plugins of the user, and the marketplaces that they come from.

use axum::Json;
use axum::extract::State;
use baton_addons::plugins::InstalledPlugin;
use baton_service::plugins::{
    AddMarketplace, BrowseMarketplace, DisablePlugins, EnablePlugins, InstallPlugin, ListMarketplaces,
    ListPlugins, RemoveMarketplace, UninstallPlugin, UpdatePlugin,
};
use baton_service::{Caller, OperationError};
use http::StatusCode;

use super::extract::{By, JsonBody, PathParams, QueryParams};
use super::types::{
    MarketplaceList, MarketplaceView, NewMarketplace, NewPlugin, OfferedPluginList, OfferedPluginView,
    PluginList, PluginView, RemoveMarketplaceQuery,
};
use crate::Shared;
use crate::error::{ApiError, ErrorBody};

async fn installed(door: &Shared, caller: &Caller) -> Result<Vec<InstalledPlugin>, ApiError> {
    Ok(door.service.perform(caller, ListPlugins {}).await?)
}

async fn find(door: &Shared, caller: &Caller, name: &str) -> Result<PluginView, ApiError> {
    let found = installed(door, caller).await?.into_iter().find(|plugin| plugin.is_named(name));
    let found = found.ok_or_else(|| ApiError::not_found(format!("no such plugin: {name}")))?;
    Ok(found.into())
}

async fn find_marketplace(door: &Shared, caller: &Caller, name: &str) -> Result<MarketplaceView, ApiError> {
    let known = door.service.perform(caller, ListMarketplaces {}).await?;
    let found = known.into_iter().find(|known| known.name == name);
    let found = found.ok_or_else(|| ApiError::not_found(format!("no such marketplace: {name}")))?;
    Ok(found.into())
}

/// Converts the error of an operation whose parameters cannot be used.
fn unusable(error: OperationError<String>) -> ApiError {
    error.map(|why| ApiError::unprocessable("unusable", why)).into()
}

/// List the installed plugins.
#[utoipa::path(get, path = "/api/plugins", operation_id = "listPlugins", tag = "plugins",
    responses((status = 200, description = "Plugins", body = PluginList)))]
pub(super) async fn list(State(door): State<Shared>, By(caller): By) -> Result<Json<PluginList>, ApiError> {
    let plugins = installed(&door, &caller).await?.into_iter().map(PluginView::from).collect();
    Ok(Json(PluginList { plugins }))
}

/// Install a plugin of a marketplace, or a copy of a directory.
#[utoipa::path(post, path = "/api/plugins", operation_id = "installPlugin", tag = "plugins", request_body = NewPlugin,
    responses((status = 201, description = "Installed", body = PluginView),
        (status = 400, description = "Malformed request body", body = ErrorBody),
        (status = 415, description = "Request body is not JSON", body = ErrorBody),
        (status = 422, description = "There is no such plugin, or it cannot be used", body = ErrorBody)))]
pub(super) async fn install(
    State(door): State<Shared>,
    By(caller): By,
    JsonBody(new): JsonBody<NewPlugin>,
) -> Result<(StatusCode, Json<PluginView>), ApiError> {
    let install = InstallPlugin { source: new.source, base: "/".into() };
    let installed = door.service.perform(&caller, install).await.map_err(unusable)?;
    Ok((StatusCode::CREATED, Json(installed.plugin.into())))
}

/// Uninstall a plugin.
#[utoipa::path(delete, path = "/api/plugins/{plugin}", operation_id = "uninstallPlugin", tag = "plugins",
    params(("plugin" = String, Path, description = "Name of the plugin, or NAME@MARKETPLACE")),
    responses((status = 204, description = "Uninstalled"),
        (status = 404, description = "No such plugin", body = ErrorBody)))]
pub(super) async fn uninstall(
    State(door): State<Shared>,
    By(caller): By,
    PathParams(plugin): PathParams<String>,
) -> Result<StatusCode, ApiError> {
    find(&door, &caller, &plugin).await?;
    let uninstall = UninstallPlugin { name: plugin, direct_source_id: None };
    door.service.perform(&caller, uninstall).await.map_err(|error| error.map(ApiError::not_found))?;
    Ok(StatusCode::NO_CONTENT)
}

/// Read a plugin again from where it was installed.
#[utoipa::path(post, path = "/api/plugins/{plugin}/update", operation_id = "updatePlugin", tag = "plugins",
    params(("plugin" = String, Path, description = "Name of the plugin, or NAME@MARKETPLACE")),
    responses((status = 200, description = "Updated", body = PluginView),
        (status = 404, description = "No such plugin", body = ErrorBody),
        (status = 422, description = "It cannot be read any more", body = ErrorBody)))]
pub(super) async fn update(
    State(door): State<Shared>,
    By(caller): By,
    PathParams(plugin): PathParams<String>,
) -> Result<Json<PluginView>, ApiError> {
    find(&door, &caller, &plugin).await?;
    let update = UpdatePlugin { name: plugin.clone() };
    door.service.perform(&caller, update).await.map_err(unusable)?;
    find(&door, &caller, &plugin).await.map(Json)
}

/// Use a plugin in new sessions again.
#[utoipa::path(post, path = "/api/plugins/{plugin}/enable", operation_id = "enablePlugin", tag = "plugins",
    params(("plugin" = String, Path, description = "Name of the plugin, or NAME@MARKETPLACE")),
    responses((status = 200, description = "Enabled", body = PluginView),
        (status = 404, description = "No such plugin", body = ErrorBody)))]
pub(super) async fn enable(
    State(door): State<Shared>,
    By(caller): By,
    PathParams(plugin): PathParams<String>,
) -> Result<Json<PluginView>, ApiError> {
    find(&door, &caller, &plugin).await?;
    door.service.perform(&caller, EnablePlugins { names: vec![plugin.clone()] }).await?;
    find(&door, &caller, &plugin).await.map(Json)
}

/// Stop using a plugin in new sessions.
#[utoipa::path(post, path = "/api/plugins/{plugin}/disable", operation_id = "disablePlugin", tag = "plugins",
    params(("plugin" = String, Path, description = "Name of the plugin, or NAME@MARKETPLACE")),
    responses((status = 200, description = "Disabled", body = PluginView),
        (status = 404, description = "No such plugin", body = ErrorBody)))]
pub(super) async fn disable(
    State(door): State<Shared>,
    By(caller): By,
    PathParams(plugin): PathParams<String>,
) -> Result<Json<PluginView>, ApiError> {
    find(&door, &caller, &plugin).await?;
    door.service.perform(&caller, DisablePlugins { names: vec![plugin.clone()] }).await?;
    find(&door, &caller, &plugin).await.map(Json)
}

/// List the marketplaces.
#[utoipa::path(get, path = "/api/marketplaces", operation_id = "listMarketplaces", tag = "plugins",
    responses((status = 200, description = "Marketplaces", body = MarketplaceList)))]
pub(super) async fn marketplaces(
    State(door): State<Shared>,
    By(caller): By,
) -> Result<Json<MarketplaceList>, ApiError> {
    let known = door.service.perform(&caller, ListMarketplaces {}).await?;
    Ok(Json(MarketplaceList { marketplaces: known.into_iter().map(MarketplaceView::from).collect() }))
}

/// Add a marketplace in a directory of the server's machine.
#[utoipa::path(post, path = "/api/marketplaces", operation_id = "addMarketplace", tag = "plugins",
    request_body = NewMarketplace,
    responses((status = 201, description = "Added", body = MarketplaceView),
        (status = 400, description = "Malformed request body", body = ErrorBody),
        (status = 415, description = "Request body is not JSON", body = ErrorBody),
        (status = 422, description = "It cannot be used, or one of its name is known", body = ErrorBody)))]
pub(super) async fn add_marketplace(
    State(door): State<Shared>,
    By(caller): By,
    JsonBody(new): JsonBody<NewMarketplace>,
) -> Result<(StatusCode, Json<MarketplaceView>), ApiError> {
    let add = AddMarketplace { source: new.source, base: "/".into() };
    let name = door.service.perform(&caller, add).await.map_err(unusable)?;
    Ok((StatusCode::CREATED, Json(find_marketplace(&door, &caller, &name).await?)))
}

/// Remove a marketplace.
#[utoipa::path(delete, path = "/api/marketplaces/{marketplace}", operation_id = "removeMarketplace", tag = "plugins",
    params(("marketplace" = String, Path, description = "Name of the marketplace"), RemoveMarketplaceQuery),
    responses((status = 204, description = "Removed"),
        (status = 400, description = "Malformed query", body = ErrorBody),
        (status = 404, description = "No such marketplace", body = ErrorBody),
        (status = 409, description = "Its plugins are installed, or it is the default one", body = ErrorBody)))]
pub(super) async fn remove_marketplace(
    State(door): State<Shared>,
    By(caller): By,
    PathParams(name): PathParams<String>,
    QueryParams(query): QueryParams<RemoveMarketplaceQuery>,
) -> Result<StatusCode, ApiError> {
    find_marketplace(&door, &caller, &name).await?;
    let remove = RemoveMarketplace { name: name.clone(), force: query.force };
    let removed = door.service.perform(&caller, remove).await;
    let removed = removed.map_err(|error| error.map(|why| ApiError::conflict("default", why)))?;
    match removed.removed {
        true => Ok(StatusCode::NO_CONTENT),
        false => {
            let why = format!("plugins of {name} are installed; uninstall them, or use force");
            Err(ApiError::conflict("in_use", why))
        }
    }
}

/// List the plugins of a marketplace.
#[utoipa::path(get, path = "/api/marketplaces/{marketplace}/plugins", operation_id = "browseMarketplace", tag = "plugins",
    params(("marketplace" = String, Path, description = "Name of the marketplace")),
    responses((status = 200, description = "Plugins", body = OfferedPluginList),
        (status = 404, description = "No such marketplace", body = ErrorBody),
        (status = 422, description = "It cannot be read", body = ErrorBody)))]
pub(super) async fn browse(
    State(door): State<Shared>,
    By(caller): By,
    PathParams(name): PathParams<String>,
) -> Result<Json<OfferedPluginList>, ApiError> {
    find_marketplace(&door, &caller, &name).await?;
    let offered = door.service.perform(&caller, BrowseMarketplace { name }).await.map_err(unusable)?;
    Ok(Json(OfferedPluginList { plugins: offered.into_iter().map(OfferedPluginView::from).collect() }))
}
