//! Health, metrics and models, and the response at `/` of a server without the web application.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use baton_runtime::session::Failure;
use baton_service::server::{ListModels, ReadMetrics, ShowDefaultModel};
use http::{StatusCode, header};
use serde_json::{Value, json};

use super::extract::By;
use crate::Shared;
use crate::error::{ApiError, ErrorBody};

/// Name of the demo model.
const DEMO_MODEL: &str = "baton-demo";

/// Level of the API: it increases when a client has to know about a change. New routes and fields do not change it.
const API_LEVEL: u32 = 1;

/// Check that the process is alive.
///
/// `api` is the level of this API; a client that knows the level understands the server, whatever its version.
#[utoipa::path(get, path = "/api/health", operation_id = "checkHealth", tag = "system", security(()),
    responses((status = 200, description = "Alive", body = Value)))]
pub(super) async fn health(State(door): State<Shared>) -> Json<Value> {
    Json(json!({ "status": "ok", "version": door.service.version(), "api": API_LEVEL }))
}

/// Check that the store can be written.
#[utoipa::path(get, path = "/api/ready", operation_id = "checkReadiness", tag = "system", security(()),
    responses((status = 200, description = "Ready", body = Value), (status = 503, description = "Not ready", body = ErrorBody)))]
pub(super) async fn ready(State(door): State<Shared>) -> Result<Json<Value>, ApiError> {
    match door.service.check_readiness().await {
        Ok(()) => Ok(Json(json!({ "status": "ready" }))),
        Err(why) => Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "not_ready", why)),
    }
}

/// Read metrics in Prometheus' text format.
#[utoipa::path(get, path = "/api/metrics", operation_id = "readMetrics", tag = "system",
    responses((status = 200, description = "Metrics", body = String, content_type = "text/plain")))]
pub(super) async fn metrics(State(door): State<Shared>, By(caller): By) -> Result<Response, ApiError> {
    let server = door.service.perform(&caller, ReadMetrics).await?;
    let text = door.metrics.render(door.service.version(), server);
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response())
}

/// List the models that sessions can use.
///
/// Installed engines are listed even if the provider cannot be reached; `endpointError` then says why its models are missing.
/// `default` is the model of sessions that name none, and `demo` says whether it is the demo model, which is no AI.
#[utoipa::path(get, path = "/api/models", operation_id = "listModels", tag = "system",
    responses((status = 200, description = "Models (`models`), `default` and `demo`; `endpointError` is present if those of the provider are missing", body = Value), (status = 502, description = "The provider cannot be reached, and no engine is installed", body = ErrorBody)))]
pub(super) async fn models(State(door): State<Shared>, By(caller): By) -> Result<Json<Value>, ApiError> {
    let usable = door.service.perform(&caller, ListModels).await?;
    let default = door.service.perform(&caller, ShowDefaultModel).await;
    let default = default.map_err(|error| error.map(|never| -> Failure { match never {} }))?;
    let mut list = json!({ "models": usable.models, "default": default, "demo": default == DEMO_MODEL });
    if let Some(error) = usable.endpoint_error {
        list["endpointError"] = error.to_string().into();
    }
    Ok(Json(list))
}

/// Returns the OpenAPI description of the API.
pub(super) async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], super::openapi()).into_response()
}

/// Answers requests for `/` on a server without a page.
pub(crate) async fn start_page() -> Response {
    let text = "Baton server. API description: /api/openapi.json\n";
    ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response()
}

pub(super) async fn wrong_method(By(caller): By) -> Result<(), ApiError> {
    caller.permit_unknown()?;
    let message = "method not allowed for this path; /api/openapi.json lists the methods";
    Err(ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "wrong_method", message))
}
