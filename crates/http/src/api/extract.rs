//! Extractors that report invalid requests as an [`ApiError`].

use std::sync::Arc;

use axum::body::{Bytes, HttpBody as _};
use axum::extract::rejection::{BytesRejection, PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Path, Query};
use baton_protocol::SessionId;
use baton_service::Caller;
use baton_wire::SlowBody;
use http::header::CONTENT_TYPE;
use http::{Extensions, HeaderMap, StatusCode};

use crate::error::ApiError;
use crate::memory::{PersonalMemory, Room};

/// Extracts a JSON body.
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<S: Send + Sync, T: serde::de::DeserializeOwned> FromRequest<S> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: axum::extract::Request, state: &S) -> Result<Self, ApiError> {
        let (body, _room) = json_of(request, state).await?;
        baton_json::from_str(&body).map(Self).map_err(|error| malformed::<T>(&body, &error))
    }
}

/// Extracts a JSON body that may be missing.
pub(crate) struct OptionalJsonBody<T>(pub(crate) Option<T>);

impl<S: Send + Sync, T: serde::de::DeserializeOwned> FromRequest<S> for OptionalJsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: axum::extract::Request, state: &S) -> Result<Self, ApiError> {
        if request.body().size_hint().exact() == Some(0) {
            return Ok(Self(None));
        }
        JsonBody::from_request(request, state).await.map(|JsonBody(body)| Self(body))
    }
}

/// Reads a body that is announced as JSON. It counts as memory of the sender.
async fn json_of<S: Send + Sync>(
    request: axum::extract::Request,
    state: &S,
) -> Result<(String, Option<Room>), ApiError> {
    if !is_json(request.headers()) {
        let message = "send the header `Content-Type: application/json`";
        return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "bad_request", message));
    }
    let sender = request.extensions().get::<Caller>().and_then(Caller::person);
    let size = request.body().size_hint().upper().unwrap_or(u64::MAX);
    let room = match request.extensions().get::<Arc<PersonalMemory>>().cloned() {
        Some(memory) => Some(memory.room(sender, size).await?),
        None => None,
    };
    let body = Bytes::from_request(request, state).await.map_err(|rejection| unread(&rejection))?;
    let text = String::from_utf8(body.into()).map(|text| (text, room));
    text.map_err(|_| ApiError::bad_request("the request body is not JSON: it is not UTF-8"))
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"))
}

/// Says why a body could not be read.
fn unread(rejection: &BytesRejection) -> ApiError {
    if let Some(error) = SlowBody::among_causes_of(rejection) {
        return ApiError::new(StatusCode::REQUEST_TIMEOUT, "too_slow", error.to_string());
    }
    let code = if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE { "too_large" } else { "bad_request" };
    ApiError::new(rejection.status(), code, rejection.body_text())
}

/// Says what is wrong with a body, and where.
fn malformed<T: serde::de::DeserializeOwned>(body: &str, error: &serde_json::Error) -> ApiError {
    // Skips values without building them. The category of the error does not tell: an array in place of a name is
    // reported as a mistake in the syntax.
    if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(body) {
        return ApiError::bad_request(format!("the request body is not JSON: {error}"));
    }
    let path = baton_json::path_of::<T>(body);
    let place = if path.is_empty() { path } else { format!("{path}: ") };
    ApiError::unprocessable("bad_request", format!("malformed request body: {place}{error}"))
}

/// Extracts the sender of a request, as the guard identified it.
pub(crate) struct By(pub(crate) Caller);

impl<S: Send + Sync> FromRequestParts<S> for By {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut http::request::Parts, _: &S) -> Result<Self, ApiError> {
        caller_of(&parts.extensions).cloned().map(Self)
    }
}

/// Returns the sender of a request, as the guard identified it.
pub(crate) fn caller_of(extensions: &Extensions) -> Result<&Caller, ApiError> {
    extensions.get().ok_or_else(|| ApiError::internal("the request was not authenticated"))
}

/// Extracts the query.
pub(super) struct QueryParams<T>(pub(super) T);

impl<S: Send + Sync, T: serde::de::DeserializeOwned> FromRequestParts<S> for QueryParams<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut http::request::Parts, state: &S) -> Result<Self, ApiError> {
        let read = Query::<T>::from_request_parts(parts, state).await;
        read.map(|Query(query)| Self(query))
            .map_err(|rejection: QueryRejection| ApiError::bad_request(rejection.body_text()))
    }
}

/// Extracts the parameters of the path.
pub(super) struct PathParams<T>(pub(super) T);

impl<S: Send + Sync, T: serde::de::DeserializeOwned + Send> FromRequestParts<S> for PathParams<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut http::request::Parts, state: &S) -> Result<Self, ApiError> {
        let read = Path::<T>::from_request_parts(parts, state).await;
        read.map(|Path(path)| Self(path))
            .map_err(|rejection: PathRejection| ApiError::bad_request(rejection.body_text()))
    }
}

/// Parses a session id. An invalid one is reported as not found.
pub(super) fn session_id(text: &str) -> Result<SessionId, ApiError> {
    text.parse().map_err(|_| ApiError::session_not_found(text))
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Thing {
        #[serde(rename = "size")]
        _size: u32,
    }

    async fn refused(kind: &str, body: impl Into<Body>) -> (u16, String) {
        let request = axum::extract::Request::post("/").header("content-type", kind);
        let read = JsonBody::<Thing>::from_request(request.body(body.into()).unwrap(), &()).await;
        let error = read.err().unwrap();
        (error.status.as_u16(), error.message)
    }

    #[tokio::test]
    async fn malformed_body_is_explained_without_words_of_the_program() {
        let json = "application/json; charset=utf-8";
        let (status, unknown) = refused(json, r#"{"size": 1, "colour": 2}"#).await;
        assert!(
            status == 422 && unknown.starts_with("malformed request body: colour: unknown field"),
            "{unknown}"
        );
        let (status, array) = refused(json, "[1]").await;
        assert!(
            status == 422 && array.starts_with("malformed request body: invalid type: sequence"),
            "{array}"
        );
        let (status, broken) = refused("Application/x+JSON", r#"{"size""#).await;
        assert!(status == 400 && broken.starts_with("the request body is not JSON: "), "{broken}");
        let (status, bytes) = refused(json, b"{\"size\": \"\xff\"}".as_slice()).await;
        assert!(status == 400 && bytes.starts_with("the request body is not JSON: "), "{bytes}");
        for other in ["text/plain", "application/jsonp", ""] {
            let (status, message) = refused(other, "{}").await;
            assert!(
                status == 415 && message.contains("Content-Type: application/json"),
                "{other}: {message}"
            );
        }
    }
}
