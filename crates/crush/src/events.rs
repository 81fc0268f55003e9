//! Events of the workspace's stream that are not plain objects.

use baton_protocol::SessionId;
use bytes::Bytes;
use serde_json::json;

use super::fold::{ClosedRequest, PendingRequest};
use super::wire::{ChangeKind, PermissionNotification, Session, encode};

/// Shows a request as a dialog.
pub(super) fn request_opened(pending: &PendingRequest) -> Bytes {
    match pending {
        PendingRequest::Permission(request) => encode("permission_request", ChangeKind::Created, request),
        PendingRequest::Question(batch) => encode("question_batch_request", ChangeKind::Created, batch),
    }
}

/// Marks the tool call of a permission request as waiting, in the conversation. `None` for questions.
pub(super) fn permission_pending(pending: &PendingRequest) -> Option<Bytes> {
    let PendingRequest::Permission(request) = pending else { return None };
    Some(notification(&request.tool_call_id, false, false))
}

/// Closes the dialog of a request.
pub(super) fn request_closed(closed: &ClosedRequest) -> Bytes {
    match closed.granted {
        Some(granted) => notification(&closed.tool_call_id, granted, !granted),
        None => encode("question_batch_notification", ChangeKind::Created, &json!({ "batch_id": closed.id })),
    }
}

fn notification(call: &str, granted: bool, denied: bool) -> Bytes {
    let notification = PermissionNotification { tool_call_id: call.to_owned(), granted, denied };
    encode("permission_notification", ChangeKind::Created, &notification)
}

/// Reports a completed turn.
pub(super) fn agent_finished(session: &Session) -> Bytes {
    let event = json!({ "type": "agent_finished", "session_id": session.id, "session_title": session.title });
    encode("agent_event", ChangeKind::Created, &event)
}

/// Reports an error that no message contains.
pub(super) fn agent_error(session: &SessionId, error: &str) -> Bytes {
    encode(
        "agent_event",
        ChangeKind::Created,
        &json!({ "type": "error", "session_id": session, "error": error }),
    )
}

/// Makes clients read the configuration again.
pub(super) fn config_changed(workspace: uuid::Uuid) -> Bytes {
    encode("config_changed", ChangeKind::Updated, &json!({ "workspace_id": workspace }))
}

/// Reports a deleted session. The client needs only its id.
pub(super) fn session_deleted(session: &SessionId) -> Bytes {
    encode("session", ChangeKind::Deleted, &json!({ "id": session }))
}
