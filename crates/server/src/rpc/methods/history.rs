//! Going back in the history.

use baton_core::Reply;
use baton_protocol::rpc::RpcError;
use baton_protocol::{Event, SessionId};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, Handling};
use crate::history::newest_first;
use crate::rpc::errors;
use crate::session::{Failure, Mail};

/// Why files are not put back: nobody keeps what they were before.
const NOT_TRACKED: &str = "file-change-tracking-disabled";
const BUSY: &str = "session-busy";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Truncate {
    session_id: SessionId,
    event_id: String,
}

/// Takes back an event and all that came after it.
pub(super) fn truncate(call: &Call<'_>) -> Handling {
    let params: Truncate = call.parse()?;
    let handle = call.attached(&params.session_id)?;
    let method = call.method.to_owned();
    call.by_responder(
        &handle,
        |respond| Mail::Truncate(params.event_id, respond),
        move |reply| match reply {
            Reply::Truncated(removed) => {
                Ok(json!({ "eventsRemoved": removed, "checkpointCleanupFailed": false }))
            }
            Reply::Refused(why) => Err(errors::failed(&method, why)),
            other => Err(RpcError::failed(format!("unexpected answer {other:?}"))),
        },
    )
}

/// Everything that a user said and that one can go back to, oldest first.
pub(super) fn rewind_points(call: &Call<'_>) -> Handling {
    let (handle, method) = (call.session()?, call.method.to_owned());
    let store = call.connection.server.store.clone();
    call.later(async move {
        let look = |view: crate::session::View<'_>| (view.head, view.session.is_busy());
        let (head, busy) = handle.look(look).await.map_err(|failure| errors::of(&method, &failure))?;
        let mut points: Vec<Value> = Vec::new();
        let take = |record: baton_store::Record| {
            points.extend(Some(record).filter(|r| r.kind == "user.message").and_then(|r| point(&r.body)));
            std::ops::ControlFlow::Continue(())
        };
        newest_first(&*store, &handle.id, head, take)
            .await
            .map_err(|error| errors::failed(&method, error))?;
        points.reverse();
        let mut answer = json!({ "fileChangeTrackingEnabled": false, "points": points });
        if busy {
            answer["unavailableReason"] = json!(BUSY);
        }
        Ok(answer)
    })
}

fn point(body: &[u8]) -> Option<Value> {
    let event = Event::parse(std::str::from_utf8(body).ok()?).ok()?;
    let baton_protocol::Body::UserMessage(message) = &event.body else { return None };
    // What a hook or the server said on the user's side is nothing that the user could come back to.
    (event.agent_id.is_none() && message.message_id.is_some()).then(|| {
        json!({
            "eventId": event.id,
            "userMessage": message.content,
            "timestamp": event.timestamp,
            "canRestoreFiles": false,
            "fileCount": 0,
            "turnChangedFiles": false,
            "linesAdded": 0,
            "linesRemoved": 0,
            "isAutopilotContinuation": false,
        })
    })
}

/// Which files going back would touch: none, because none are tracked.
pub(super) fn preview_rewind(call: &Call<'_>) -> Handling {
    call.session()?;
    call.now(json!({ "available": false, "fileCount": 0, "files": [], "reason": NOT_TRACKED }))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rewind {
    session_id: SessionId,
    event_id: String,
    mode: RewindMode,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum RewindMode {
    Conversation,
    ConversationAndFiles,
}

/// Goes back to before something that a user said. What became of it is an outcome, not an error.
pub(super) fn rewind(call: &Call<'_>) -> Handling {
    let params: Rewind = call.parse()?;
    let (handle, method) = (call.attached(&params.session_id)?, call.method.to_owned());
    if params.mode == RewindMode::ConversationAndFiles {
        return call.now(outcome(NOT_TRACKED));
    }
    let busy = handle.look(|view| view.session.is_busy());
    let gone_back = handle.ask(|respond| Mail::Truncate(params.event_id, respond));
    call.later(async move {
        let told = |failure: Failure| errors::of(&method, &failure);
        if busy.await.map_err(told)? {
            return Ok(outcome(BUSY));
        }
        let mut answer = outcome("success");
        match gone_back.await {
            Ok(Reply::Truncated(removed)) => answer["eventsRemoved"] = json!(removed),
            Ok(Reply::Refused(why)) | Err(Failure::Refused(why)) => {
                answer = outcome("truncation-failed");
                answer["error"] = json!(why);
            }
            Ok(other) => return Err(RpcError::failed(format!("unexpected answer {other:?}"))),
            Err(failure) => return Err(told(failure)),
        }
        Ok(answer)
    })
}

fn outcome(outcome: &str) -> Value {
    json!({ "outcome": outcome, "restoredFiles": [], "skippedFiles": [] })
}
