//! Failures as SDK clients are told. Some texts are matched by the SDKs themselves.

use baton_protocol::SessionId;
use baton_protocol::rpc::RpcError;
use baton_store::StoreError;

use crate::session::Failure;

/// A call about a session that the client is not attached to, or that is not there.
pub(crate) fn not_found(method: &str, session: &SessionId) -> RpcError {
    failed(method, format_args!("Session not found: {session}"))
}

/// A call that failed.
pub(crate) fn failed(method: &str, why: impl std::fmt::Display) -> RpcError {
    RpcError::failed(format!("Request {method} failed with message: {why}"))
}

/// A failure of a session as the answer to a call.
pub(crate) fn of(method: &str, failure: &Failure) -> RpcError {
    match failure {
        Failure::Store(StoreError::NotFound(session)) => not_found(method, session),
        other => failed(method, other),
    }
}
