//! Error responses, in the form that crush's client reads: `{"message": …}`.

use axum::Json;
use axum::response::{IntoResponse, Response};
use baton_store::StoreError;
use http::StatusCode;
use serde_json::json;

use baton_runtime::session::Failure;
use baton_service::{Denied, OperationError};

/// Error of a request, with its status.
#[derive(Debug)]
pub(super) struct CrushError {
    status: StatusCode,
    message: String,
}

pub(super) type CrushResult<T> = Result<T, CrushError>;

impl CrushError {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub(super) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }

    pub(super) fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, message)
    }

    pub(super) fn no_session(id: &str) -> Self {
        Self::not_found(format!("no such session in this workspace: {id:?}"))
    }
}

impl IntoResponse for CrushError {
    fn into_response(self) -> Response {
        (self.status, Json(json!({ "message": self.message }))).into_response()
    }
}

impl From<StoreError> for CrushError {
    fn from(error: StoreError) -> Self {
        let status = match &error {
            StoreError::NotFound(_) => StatusCode::NOT_FOUND,
            StoreError::Exists(_)
            | StoreError::Held { .. }
            | StoreError::Fenced(_)
            | StoreError::Elsewhere { .. } => StatusCode::CONFLICT,
            StoreError::OutOfStep { .. } => StatusCode::INTERNAL_SERVER_ERROR,
            StoreError::Medium { .. } => StatusCode::INSUFFICIENT_STORAGE,
        };
        Self::new(status, error.to_string())
    }
}

impl From<Failure> for CrushError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Store(error) => error.into(),
            Failure::NotFound(id) => Self::no_session(id.as_str()),
            Failure::Refused(why) => Self::conflict(why),
            Failure::Internal(_) => Self::new(StatusCode::INTERNAL_SERVER_ERROR, failure.to_string()),
        }
    }
}

impl From<Denied> for CrushError {
    fn from(denied: Denied) -> Self {
        Self::new(StatusCode::FORBIDDEN, denied.to_string())
    }
}

impl<E> From<OperationError<E>> for CrushError
where
    Self: From<E>,
{
    fn from(error: OperationError<E>) -> Self {
        match error {
            OperationError::Denied(denied) => denied.into(),
            OperationError::Failed(error) => error.into(),
        }
    }
}

/// Handles requests for paths under `/v1` without a route.
pub(super) async fn unknown_path() -> CrushError {
    CrushError::not_found("unknown path")
}

pub(super) async fn wrong_method() -> CrushError {
    CrushError::new(StatusCode::METHOD_NOT_ALLOWED, "method not allowed for this path")
}
