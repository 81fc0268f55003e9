//! What clients are told when something changes, in the pieces of an event stream.

use baton_protocol::SessionId;
use bytes::Bytes;
use serde_json::json;

use super::fold::{Closed, Pending};
use super::wire::{PermissionNotification, Session, What, piece};

pub(super) fn asked(pending: &Pending) -> Bytes {
    match pending {
        Pending::Permission(request) => piece("permission_request", What::Created, request),
        Pending::Question(batch) => piece("question_batch_request", What::Created, batch),
    }
}

/// That a permission is waited for, which the tool's place in the conversation shows.
pub(super) fn noticed(pending: &Pending) -> Option<Bytes> {
    let Pending::Permission(request) = pending else { return None };
    Some(notification(&request.tool_call_id, false, false))
}

pub(super) fn closed(closed: &Closed) -> Bytes {
    match closed.granted {
        Some(granted) => notification(&closed.tool_call_id, granted, !granted),
        None => piece("question_batch_notification", What::Created, &json!({ "batch_id": closed.id })),
    }
}

fn notification(call: &str, granted: bool, denied: bool) -> Bytes {
    let notification = PermissionNotification { tool_call_id: call.to_owned(), granted, denied };
    piece("permission_notification", What::Created, &notification)
}

pub(super) fn finished(session: &Session) -> Bytes {
    let event = json!({ "type": "agent_finished", "session_id": session.id, "session_title": session.title });
    piece("agent_event", What::Created, &event)
}

pub(super) fn trouble(session: &SessionId, error: &str) -> Bytes {
    piece("agent_event", What::Created, &json!({ "type": "error", "session_id": session, "error": error }))
}

pub(super) fn config_changed(workspace: uuid::Uuid) -> Bytes {
    piece("config_changed", What::Updated, &json!({ "workspace_id": workspace }))
}

/// All that a client needs of a session that is gone is its name.
pub(super) fn deleted(session: &SessionId) -> Bytes {
    piece("session", What::Deleted, &json!({ "id": session }))
}
