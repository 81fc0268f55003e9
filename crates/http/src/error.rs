//! Error responses of the session API.

use axum::Json;
use axum::response::{IntoResponse, Response};
use baton_store::StoreError;
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use baton_addons::mcp::UserServerError;
use baton_history::fork::ForkError;
use baton_model::ModelError;
use baton_notify::NotifyError;
use baton_runtime::session::Failure;
use baton_service::grants::RevokeError;
use baton_service::mcp::SessionMcpError;
use baton_service::notifications::NotificationError;
use baton_service::requests::LoginError;
use baton_service::sessions::PreviewError;
use baton_service::skills::SkillError;
use baton_service::{Denied, OperationError};

use crate::api::By;

/// Body of every error response.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ErrorBody {
    error: ErrorDetail,
}

/// Description of an error.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ErrorDetail {
    /// Stable identifier, for programs.
    #[schema(example = "not_found")]
    code: &'static str,
    /// What failed and what to do, for people.
    message: String,
}

/// Error of a request, with its status and code.
#[derive(Debug)]
pub(crate) struct ApiError {
    pub(super) status: StatusCode,
    code: &'static str,
    pub(super) message: String,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into() }
    }

    /// Returns the identifier for programs.
    #[cfg(test)]
    pub(crate) fn code(&self) -> &'static str {
        self.code
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    pub(crate) fn session_not_found(id: impl std::fmt::Display) -> Self {
        Self::not_found(format!("Session not found: {id}"))
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
            StoreError::Elsewhere { .. } => Self::conflict("elsewhere", message),
            StoreError::OutOfStep { .. } => Self::internal(message),
            StoreError::Medium { .. } => Self::new(StatusCode::INSUFFICIENT_STORAGE, "storage", message),
        }
    }
}

impl From<Failure> for ApiError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Store(error) => error.into(),
            Failure::NotFound(id) => Self::session_not_found(id),
            Failure::Refused(why) => Self::conflict("refused", why),
            Failure::Internal(_) => Self::internal(failure.to_string()),
        }
    }
}

impl From<UserServerError> for ApiError {
    fn from(error: UserServerError) -> Self {
        let message = error.to_string();
        match error {
            UserServerError::Exists(name) => {
                Self::conflict("exists", format!("there is an MCP server {name:?}; remove it first"))
            }
            UserServerError::Unknown(name) => Self::not_found(format!("no such MCP server: {name}")),
            UserServerError::Unusable(_) => Self::unprocessable("unusable", message),
            UserServerError::File(_) => Self::internal(message),
        }
    }
}

impl<E> From<OperationError<E>> for ApiError
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

impl From<Denied> for ApiError {
    fn from(denied: Denied) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", denied.to_string())
    }
}

/// For operations that cannot fail.
impl From<std::convert::Infallible> for ApiError {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}

/// For failures of the server's own files, which have a message and no kinds.
impl From<String> for ApiError {
    fn from(message: String) -> Self {
        Self::internal(message)
    }
}

impl From<ModelError> for ApiError {
    fn from(error: ModelError) -> Self {
        Self::new(StatusCode::BAD_GATEWAY, "model", error.to_string())
    }
}

impl From<ForkError> for ApiError {
    fn from(error: ForkError) -> Self {
        match error {
            ForkError::Store(error) => error.into(),
            error => Self::not_found(error.to_string()),
        }
    }
}

impl From<PreviewError> for ApiError {
    fn from(error: PreviewError) -> Self {
        match error {
            PreviewError::Failed(failure) => failure.into(),
            PreviewError::NoSuchPrompt { .. } => Self::not_found(error.to_string()),
        }
    }
}

impl From<LoginError> for ApiError {
    fn from(error: LoginError) -> Self {
        match error {
            LoginError::NotPending(_) => Self::not_found(error.to_string()),
            LoginError::Failed(Failure::Refused(why)) => Self::unprocessable("refused", why),
            LoginError::Failed(failure) => failure.into(),
        }
    }
}

impl From<RevokeError> for ApiError {
    fn from(error: RevokeError) -> Self {
        match error {
            RevokeError::NoSuchGrant(_) => Self::not_found(error.to_string()),
            RevokeError::Failed(why) => Self::internal(why),
        }
    }
}

impl From<SessionMcpError> for ApiError {
    fn from(error: SessionMcpError) -> Self {
        let message = error.to_string();
        match error {
            SessionMcpError::Unknown(_) => Self::not_found(message),
            SessionMcpError::Disabled(_) => Self::conflict("disabled", message),
            SessionMcpError::Server(_) => Self::new(StatusCode::BAD_GATEWAY, "mcp_error", message),
            SessionMcpError::Failed(failure) => failure.into(),
        }
    }
}

impl From<SkillError> for ApiError {
    fn from(error: SkillError) -> Self {
        match error {
            SkillError::InvalidName { .. } => Self::unprocessable("invalid_name", error.to_string()),
            SkillError::Failed(why) => Self::internal(why),
        }
    }
}

impl From<NotificationError> for ApiError {
    fn from(error: NotificationError) -> Self {
        let message = error.to_string();
        match error {
            NotificationError::Off | NotificationError::Unknown(_) => Self::not_found(message),
            NotificationError::NotAccepted(_) => Self::new(StatusCode::BAD_GATEWAY, "push", message),
            NotificationError::Failed(NotifyError::Store(error)) => error.into(),
            NotificationError::Failed(NotifyError::Unusable(_)) => Self::unprocessable("unusable", message),
            NotificationError::Failed(_) => Self::internal(message),
        }
    }
}

/// Handles requests for paths without a route.
pub(super) async fn unknown_path(By(caller): By) -> Result<(), ApiError> {
    caller.permit_unknown()?;
    Err(ApiError::not_found("unknown path; /api/openapi.json lists all paths"))
}
