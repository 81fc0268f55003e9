//! About the server itself.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use serde_json::{Value, json};

use super::extract::Params;
use crate::http::Shared;
use crate::http::error::{ApiError, ErrorBody};
use crate::http::guard::COOKIE;

/// Whether the process lives.
#[utoipa::path(get, path = "/api/health", tag = "system", security(()),
    responses((status = 200, description = "It does", body = Value)))]
pub(super) async fn health(State(door): State<Shared>) -> Json<Value> {
    Json(json!({ "status": "ok", "version": door.server.options.version }))
}

/// Whether the server can do its work: its store can be written.
#[utoipa::path(get, path = "/api/ready", tag = "system", security(()),
    responses((status = 200, description = "It can", body = Value), (status = 503, description = "It cannot", body = ErrorBody)))]
pub(super) async fn ready(State(door): State<Shared>) -> Result<Json<Value>, ApiError> {
    match door.readiness.of(&*door.server.store).await {
        Ok(()) => Ok(Json(json!({ "status": "ready" }))),
        Err(why) => Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "not_ready", why)),
    }
}

/// Numbers, in Prometheus' text form.
#[utoipa::path(get, path = "/api/metrics", tag = "system",
    responses((status = 200, description = "The numbers", body = String, content_type = "text/plain")))]
pub(super) async fn metrics(State(door): State<Shared>) -> Response {
    let text = door.metrics.render(&door.server);
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}

/// The models that sessions can choose from.
#[utoipa::path(get, path = "/api/models", tag = "system",
    responses((status = 200, description = "The models", body = Value), (status = 502, description = "The endpoint cannot be asked", body = ErrorBody)))]
pub(super) async fn models(State(door): State<Shared>) -> Result<Json<Value>, ApiError> {
    let failed =
        |error: baton_model::ModelError| ApiError::new(StatusCode::BAD_GATEWAY, "model", error.to_string());
    Ok(Json(json!({ "models": crate::engines::all_models(&door.server).await.map_err(failed)? })))
}

/// The description of this API.
pub(super) async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], super::openapi()).into_response()
}

#[derive(serde::Deserialize)]
pub(super) struct Welcome {
    token: Option<String>,
}

/// What a browser finds that follows the link which the server printed. The token goes from the address into a cookie that
/// scripts cannot read and other sites cannot send.
pub(super) async fn welcome(Params(query): Params<Welcome>) -> Response {
    if let Some(token) = query.token.filter(|token| token.bytes().all(|b| b.is_ascii_graphic() && b != b';'))
    {
        let cookie = format!("{COOKIE}={token}; HttpOnly; SameSite=Strict; Path=/");
        let headers = [(header::SET_COOKIE, cookie), (header::LOCATION, "/".to_owned())];
        return (StatusCode::SEE_OTHER, headers).into_response();
    }
    let text = "This is a Baton server. Its API is described at /api/openapi.json.\n";
    ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response()
}

pub(super) async fn wrong_method() -> ApiError {
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "wrong_method", "this address does not take this method")
}
