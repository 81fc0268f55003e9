//! Rewinding the conversation, with or without files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use baton_ask::files::PreviewUndo;
use baton_ask::{Rewind, TruncateAt};
use baton_ask::{RewindOutcome, Rewound};
use baton_core::Session;
use baton_files::rewind::{FileHistory, Point, TouchedFile};
use baton_protocol::event::{ChangedFile, Preimage};
use baton_service::sessions::ReadFileHistory;
use baton_service::{Caller, LiveSession, Service};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, Handled};
use crate::errors::CallError;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Truncate {
    event_id: String,
}

/// Rewinds the conversation to before an event. Files stay as they are.
pub(super) fn truncate(call: &Call<'_>) -> Handled {
    let (handle, Truncate { event_id }) = call.parse_for_session()?;
    let removed = |events| json!({ "eventsRemoved": events, "checkpointCleanupFailed": false });
    call.ask(&handle, TruncateAt { event: event_id, by: Some(call.author()) }, removed)
}

/// Inputs of a rewind: the state of the session, and the changes of its tools.
pub(super) struct RewindState {
    session: Session,
    pub(super) file_history: FileHistory,
}

impl RewindState {
    pub(super) async fn load(
        service: &Service,
        caller: &Caller,
        handle: &LiveSession,
    ) -> Result<Self, CallError> {
        let view = handle.inspect().await?;
        let read = ReadFileHistory { id: handle.id().clone(), head: view.head };
        let file_history = service.perform(caller, read).await?;
        Ok(Self { session: view.session, file_history })
    }

    /// Returns why files cannot be restored, if so.
    pub(super) fn files_unavailable(&self) -> Option<RewindOutcome> {
        self.session.rewind_obstacle(true).map(RewindOutcome::from)
    }
}

/// Lists the prompts before which the conversation can be rewound, oldest first. Unavailable while a turn runs, because it may
/// change files.
pub(super) fn list_points(call: &Call<'_>) -> Handled {
    let handle = call.session()?;
    let (service, caller) = (call.service().clone(), call.caller());
    call.later(async move {
        let state = RewindState::load(&service, &caller, &handle).await?;
        let mut result =
            json!({ "fileChangeTrackingEnabled": state.session.durable.facts.tracks_files, "points": [] });
        match state.session.rewind_obstacle(false) {
            Some(obstacle) => result["unavailableReason"] = json!(RewindOutcome::from(obstacle)),
            None => result["points"] = points(state.file_history.points()).into(),
        }
        Ok(result)
    })
}

fn points(all: Vec<(Point, BTreeMap<PathBuf, TouchedFile>)>) -> Vec<Value> {
    let (mut files, mut can_restore) = (BTreeSet::new(), false);
    let mut points = Vec::new();
    for (point, touched) in all.into_iter().rev() {
        let changed: Vec<(&PathBuf, &TouchedFile, &ChangedFile)> =
            touched.iter().filter_map(|(path, file)| Some((path, file, file.last.as_ref()?))).collect();
        files.extend(changed.iter().map(|(path, ..)| (*path).clone()));
        let has_snapshot =
            |file: &TouchedFile| file.gap.is_none() && !matches!(file.before, Preimage::NotKept { .. });
        can_restore |= changed.iter().any(|(_, file, _)| has_snapshot(file));
        points.push(json!({
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
    points.reverse();
    points
}

/// Lists the files that a rewind would restore, and the changes that it would undo.
pub(super) fn preview(call: &Call<'_>) -> Handled {
    let (handle, Truncate { event_id }) = call.parse_for_session()?;
    let (service, caller) = (call.service().clone(), call.caller());
    call.later(async move {
        let state = RewindState::load(&service, &caller, &handle).await?;
        if let Some(reason) = state.files_unavailable() {
            return Ok(json!({ "available": false, "fileCount": 0, "files": [], "reason": reason }));
        }
        let found = event_id.parse().ok().and_then(|event| state.file_history.place_of(event));
        let Some(from) = found else {
            return Err(CallError::failed(format_args!("Event {event_id} not found in session")));
        };
        let touched = state.file_history.touched_since(from);
        // Compared where the files are.
        let files = handle.ask(PreviewUndo { touched }).await?;
        Ok(json!({ "available": true, "fileCount": files.len(), "files": files }))
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RewindParams {
    event_id: String,
    mode: RewindMode,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum RewindMode {
    Conversation,
    ConversationAndFiles,
}

/// Rewinds the conversation to before a prompt. A rewind that is refused or fails is an outcome, not an error.
pub(super) fn rewind(call: &Call<'_>) -> Handled {
    let (handle, RewindParams { event_id: event, mode }) = call.parse_for_session()?;
    let with_files = mode == RewindMode::ConversationAndFiles;
    let ask = Rewind { event, with_files, by: Some(call.author()) };
    call.ask(&handle, ask, |rewound| described(&rewound))
}

fn described(rewound: &Rewound) -> Value {
    let skipped = rewound.skipped.iter().map(|(path, reason)| json!({ "path": path, "reason": reason }));
    let mut result = json!({
        "outcome": rewound.outcome,
        "restoredFiles": rewound.restored,
        "skippedFiles": skipped.collect::<Vec<Value>>(),
    });
    if let Some(removed) = rewound.removed {
        result["eventsRemoved"] = json!(removed);
    }
    if let Some(error) = &rewound.error {
        result["error"] = json!(error);
    }
    result
}
