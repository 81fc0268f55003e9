//! Errors of calls. SDKs compare some of these texts.

use std::fmt::Display;

use baton_protocol::rpc::RpcError;
use baton_runtime::session::Failure;
use baton_service::{Denied, OperationError};
use baton_store::StoreError;

/// Why a call failed. The text for the caller names the method, which [`CallError::into_rpc`] adds.
#[derive(Debug)]
pub(crate) enum CallError {
    /// The parameters are invalid.
    InvalidParams(String),
    /// The method failed.
    Failed(String),
    /// An error that is sent as it is.
    Rpc(RpcError),
}

impl CallError {
    pub(crate) fn invalid(reason: impl Display) -> Self {
        Self::InvalidParams(reason.to_string())
    }

    pub(crate) fn failed(reason: impl Display) -> Self {
        Self::Failed(reason.to_string())
    }

    /// Converts a failure so that a refusal of the session is sent as it is, without the name of the method.
    pub(crate) fn verbatim(failure: Failure) -> Self {
        match failure {
            Failure::Refused(reason) => Self::Rpc(RpcError::failed(reason)),
            other => other.into(),
        }
    }

    /// Returns the error for the caller of a method.
    pub(crate) fn into_rpc(self, method: &str) -> RpcError {
        match self {
            Self::InvalidParams(reason) => RpcError::bad_params(format!("{method}: {reason}")),
            Self::Failed(reason) => {
                RpcError::failed(format!("Request {method} failed with message: {reason}"))
            }
            Self::Rpc(error) => error,
        }
    }
}

impl From<RpcError> for CallError {
    fn from(error: RpcError) -> Self {
        Self::Rpc(error)
    }
}

impl From<Denied> for CallError {
    fn from(denied: Denied) -> Self {
        Self::Rpc(RpcError::failed(denied.to_string()))
    }
}

/// Converts the errors of operations that have a message and no kinds.
impl<E: Display> From<OperationError<E>> for CallError {
    fn from(error: OperationError<E>) -> Self {
        match error {
            OperationError::Denied(denied) => denied.into(),
            OperationError::Failed(error) => Self::failed(error),
        }
    }
}

impl From<Failure> for CallError {
    fn from(failure: Failure) -> Self {
        Self::failed(failure)
    }
}

impl From<StoreError> for CallError {
    fn from(error: StoreError) -> Self {
        Self::failed(error)
    }
}

#[cfg(test)]
mod tests {
    use baton_protocol::SessionId;
    use baton_protocol::rpc::code;

    use super::*;

    fn text(error: impl Into<CallError>) -> String {
        error.into().into_rpc("session.send").message
    }

    #[test]
    fn unknown_session_has_the_text_that_sdks_compare() {
        let id: SessionId = "abc".parse().unwrap();
        let expected = "Request session.send failed with message: Session not found: abc";
        assert_eq!(text(Failure::NotFound(id.clone())), expected);
        assert_eq!(text(Failure::Store(StoreError::NotFound(id.clone()))), expected);
        assert_eq!(text(StoreError::NotFound(id)), expected);
    }

    #[test]
    fn invalid_parameters_have_their_code_and_name_the_method() {
        let error = CallError::invalid("`path` must not be empty").into_rpc("m");
        assert_eq!(error, RpcError::new(code::INVALID_PARAMS, "m: `path` must not be empty"));
    }

    #[test]
    fn refusal_is_sent_as_it_is_where_asked_for() {
        let refused = || Failure::Refused("the queue is full".into());
        assert_eq!(CallError::verbatim(refused()).into_rpc("m").message, "the queue is full");
        assert_eq!(text(refused()), "Request session.send failed with message: the queue is full");
        assert_eq!(text(RpcError::failed("as it is")), "as it is");
    }
}
