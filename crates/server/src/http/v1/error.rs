//! What went wrong, in the form that crush's client reads: `{"message": …}`.

use axum::Json;
use axum::response::{IntoResponse, Response};
use baton_store::StoreError;
use http::StatusCode;
use serde_json::json;

use crate::session::Failure;

/// A request that is not answered with what it asked for.
#[derive(Debug)]
pub(super) struct V1Error {
    status: StatusCode,
    message: String,
}

pub(super) type Answer<T> = Result<T, V1Error>;

impl V1Error {
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

    pub(super) fn unexpected(answer: &baton_core::Reply) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, format!("unexpected answer {answer:?}"))
    }

    pub(super) fn no_session(id: &str) -> Self {
        Self::not_found(format!("there is no session {id:?} in this workspace"))
    }
}

impl IntoResponse for V1Error {
    fn into_response(self) -> Response {
        (self.status, Json(json!({ "message": self.message }))).into_response()
    }
}

impl From<StoreError> for V1Error {
    fn from(error: StoreError) -> Self {
        let status = match &error {
            StoreError::NotFound(_) => StatusCode::NOT_FOUND,
            StoreError::Exists(_) | StoreError::Held { .. } | StoreError::Fenced(_) => StatusCode::CONFLICT,
            StoreError::OutOfStep { .. } => StatusCode::INTERNAL_SERVER_ERROR,
            StoreError::Medium { .. } => StatusCode::INSUFFICIENT_STORAGE,
        };
        Self::new(status, error.to_string())
    }
}

impl From<Failure> for V1Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Store(error) => error.into(),
            Failure::NotFound(id) => Self::no_session(id.as_str()),
            Failure::Refused(why) => Self::conflict(why),
        }
    }
}

/// For addresses under `/v1` that lead nowhere.
pub(super) async fn no_such_place() -> V1Error {
    V1Error::not_found("there is nothing at this address")
}

pub(super) async fn wrong_method() -> V1Error {
    V1Error::new(StatusCode::METHOD_NOT_ALLOWED, "this address does not take this method")
}
