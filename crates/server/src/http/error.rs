//! What went wrong, for programs and for people.

use axum::Json;
use axum::response::{IntoResponse, Response};
use baton_store::StoreError;
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use crate::session::Failure;

/// Every answer that is not a success has this body.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ErrorBody {
    error: ErrorDetail,
}

/// What went wrong.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ErrorDetail {
    /// For programs: one word that does not change.
    #[schema(example = "not_found")]
    code: &'static str,
    /// For people: what happened, and what to do.
    message: String,
}

/// A request that is not answered with what it asked for.
#[derive(Debug)]
pub(crate) struct ApiError {
    status: StatusCode,
    code: &'static str,
    pub(super) message: String,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into() }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    pub(crate) fn conflict(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, code, message)
    }

    pub(crate) fn unprocessable(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, code, message)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = ErrorBody { error: ErrorDetail { code: self.code, message: self.message } };
        (self.status, Json(body)).into_response()
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        let message = error.to_string();
        match error {
            StoreError::NotFound(_) => Self::not_found(message),
            StoreError::Exists(_) => Self::conflict("exists", message),
            StoreError::Held { .. } => Self::conflict("in_use", message),
            StoreError::Fenced(_) => Self::conflict("taken_over", message),
            StoreError::OutOfStep { .. } => Self::internal(message),
            StoreError::Medium { .. } => Self::new(StatusCode::INSUFFICIENT_STORAGE, "storage", message),
        }
    }
}

impl From<Failure> for ApiError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Store(error) => error.into(),
            Failure::NotFound(id) => Self::not_found(format!("Session not found: {id}")),
            Failure::Refused(why) => Self::conflict("refused", why),
        }
    }
}

/// For addresses that lead nowhere.
pub(super) async fn no_such_place() -> ApiError {
    ApiError::not_found("there is nothing at this address; /api/openapi.json lists what there is")
}
