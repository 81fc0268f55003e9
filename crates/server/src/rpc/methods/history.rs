//! Going back in the history, also with files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use baton_agent::tools::unified_diff;
use baton_core::Reply;
use baton_protocol::SessionId;
use baton_protocol::event::{ChangedFile, Preimage};
use baton_protocol::rpc::RpcError;
use baton_store::{Seq, Store};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::{Call, Handling};
use crate::rewind::{Now, Plan, Point, Shelf, Touched, Trail, lines_between, text_now, text_of};
use crate::rpc::errors;
use crate::session::{Failure, Handle, Mail, Rewind, RewindOutcome, Rewound, View};

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

/// What is known of a session that somebody wants to go back in.
pub(super) struct Known {
    busy: bool,
    tracks_files: bool,
    shelf: Shelf,
    trail: Trail,
}

impl Known {
    pub(super) async fn of(handle: &Handle, store: &dyn Store) -> Result<Self, Failure> {
        let look = |view: View<'_>| {
            let facts = &view.session.durable.facts;
            (view.head, view.session.is_busy(), facts.tracks_files, Shelf::of(view.tools.directory()))
        };
        let (head, busy, tracks_files, shelf) = handle.look(look).await?;
        let trail = Trail::read(store, &handle.id, head).await?;
        Ok(Self { busy, tracks_files, shelf, trail })
    }

    /// Why files cannot be put back, if that is so.
    pub(super) fn unavailable(&self) -> Option<RewindOutcome> {
        match (self.busy, self.tracks_files) {
            (true, _) => Some(RewindOutcome::SessionBusy),
            (false, false) => Some(RewindOutcome::FileChangeTrackingDisabled),
            (false, true) => None,
        }
    }

    /// All that the session has changed, file by file, with paths relative to where it works.
    pub(super) async fn changes(self, cwd: String) -> Vec<Value> {
        let touched = self.trail.touched_since(Seq(0));
        let look = move || {
            let changed = touched.iter().filter(|(_, file)| file.last.is_some());
            changed.filter_map(|(path, file)| change(&self.shelf, &cwd, path, &file.before)).collect()
        };
        tokio::task::spawn_blocking(look).await.unwrap_or_default()
    }
}

/// Everything that a user said and that one can go back to, oldest first. Not while something goes on: it may change files.
pub(super) fn rewind_points(call: &Call<'_>) -> Handling {
    let (handle, method) = (call.session()?, call.method.to_owned());
    let store = call.connection.server.store.clone();
    call.later(async move {
        let known = Known::of(&handle, &*store).await.map_err(|failure| errors::of(&method, &failure))?;
        let mut answer = json!({ "fileChangeTrackingEnabled": known.tracks_files, "points": [] });
        match known.busy {
            true => answer["unavailableReason"] = json!(RewindOutcome::SessionBusy),
            false => answer["points"] = points(known.trail.points()).into(),
        }
        Ok(answer)
    })
}

fn points(all: Vec<(Point, BTreeMap<PathBuf, Touched>)>) -> Vec<Value> {
    let (mut files, mut can_restore) = (BTreeSet::new(), false);
    let mut told = Vec::new();
    for (point, touched) in all.into_iter().rev() {
        let changed: Vec<(&PathBuf, &Touched, &ChangedFile)> =
            touched.iter().filter_map(|(path, file)| Some((path, file, file.last.as_ref()?))).collect();
        files.extend(changed.iter().map(|(path, ..)| (*path).clone()));
        let is_kept = |file: &Touched| file.gap.is_none() && !matches!(file.before, Preimage::NotKept { .. });
        can_restore |= changed.iter().any(|(_, file, _)| is_kept(file));
        told.push(json!({
            "eventId": point.event,
            "userMessage": point.message,
            "timestamp": point.timestamp,
            "canRestoreFiles": can_restore,
            "fileCount": files.len(),
            "turnChangedFiles": !changed.is_empty(),
            "linesAdded": changed.iter().map(|(.., last)| last.lines_added).sum::<u64>(),
            "linesRemoved": changed.iter().map(|(.., last)| last.lines_removed).sum::<u64>(),
            "isAutopilotContinuation": false,
        }));
    }
    told.reverse();
    told
}

/// Which files going back to before something would put back, and what that would undo.
pub(super) fn preview_rewind(call: &Call<'_>) -> Handling {
    let Truncate { session_id, event_id } = call.parse()?;
    let (handle, method) = (call.attached(&session_id)?, call.method.to_owned());
    let store = call.connection.server.store.clone();
    call.later(async move {
        let known = Known::of(&handle, &*store).await.map_err(|failure| errors::of(&method, &failure))?;
        if let Some(reason) = known.unavailable() {
            return Ok(json!({ "available": false, "fileCount": 0, "files": [], "reason": reason }));
        }
        let place = event_id.parse().ok().and_then(|event| known.trail.place_of(event));
        let Some(from) = place else {
            return Err(errors::failed(&method, format_args!("Event {event_id} not found in session")));
        };
        let touched = known.trail.touched_since(from);
        let look = move || {
            Plan::of(&known.shelf, touched)
                .restore
                .iter()
                .map(|(path, before)| undone(&known.shelf, path, before))
                .collect::<Vec<Value>>()
        };
        let files =
            tokio::task::spawn_blocking(look).await.map_err(|error| errors::failed(&method, error))?;
        Ok(json!({ "available": true, "fileCount": files.len(), "files": files }))
    })
}

/// What putting one file back would undo.
fn undone(shelf: &Shelf, path: &Path, before: &Preimage) -> Value {
    let change = match before {
        Preimage::Absent => "created",
        _ if Now::of(path) == Now::Absent => "deleted",
        _ => "modified",
    };
    let (added, removed) = lines_between(shelf, before, path);
    json!({ "path": path, "changeType": change, "linesAdded": added, "linesRemoved": removed })
}

/// How a file differs from what it was before the session changed it, if it does.
fn change(shelf: &Shelf, cwd: &str, path: &Path, before: &Preimage) -> Option<Value> {
    let now = Now::of(path);
    if now.is(before) {
        return None;
    }
    let kind = match (before, now) {
        (Preimage::Absent, _) => "added",
        (_, Now::Absent) => "deleted",
        _ => "modified",
    };
    let shown = path.strip_prefix(cwd).unwrap_or(path);
    let old = text_of(shelf, before).filter(|_| *before != Preimage::Absent);
    let diff = match (before, old, text_now(path)) {
        (Preimage::Absent, _, Some(new)) => Some(unified_diff(shown, None, &new)),
        (_, Some(old), Some(new)) => Some(unified_diff(shown, Some(&old), &new)),
        // Not text, or too much of it, or not kept.
        _ => None,
    };
    let mut told = json!({ "path": shown, "changeType": kind, "diff": diff.clone().unwrap_or_default() });
    if diff.is_none() {
        told["isTruncated"] = json!(true);
    }
    Some(told)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RewindParams {
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
    let RewindParams { session_id, event_id: event, mode } = call.parse()?;
    let (handle, method) = (call.attached(&session_id)?, call.method.to_owned());
    let (done, finished) = oneshot::channel();
    let wish = Rewind { event, with_files: mode == RewindMode::ConversationAndFiles, done };
    handle.send(Mail::Rewind(Box::new(wish))).map_err(|failure| errors::of(&method, &failure))?;
    call.later(async move {
        let rewound = finished.await.unwrap_or_else(|_| Err(Failure::NotFound(handle.id.clone())));
        rewound.map(|rewound| told(&rewound)).map_err(|failure| errors::of(&method, &failure))
    })
}

fn told(rewound: &Rewound) -> Value {
    let skipped = rewound.skipped.iter().map(|(path, reason)| json!({ "path": path, "reason": reason }));
    let mut answer = json!({
        "outcome": rewound.outcome,
        "restoredFiles": rewound.restored,
        "skippedFiles": skipped.collect::<Vec<Value>>(),
    });
    if let Some(removed) = rewound.removed {
        answer["eventsRemoved"] = json!(removed);
    }
    if let Some(error) = &rewound.error {
        answer["error"] = json!(error);
    }
    answer
}
