//! Prompts, the queue, cancelling, compaction, and shell commands of the user.

use axum::Json;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use baton_ask::{CompactNow, CompactionOptions, EndCommand, RunCommand};
use baton_core::ask::{Abort, Withdraw};
use baton_core::{Session, Withdrawn};
use baton_history::metadata;
use baton_protocol::attachment::{Attachment, KnownAttachment};
use baton_protocol::event::{AbortReason, Prompt, SendMode};
use baton_service::LiveSession;
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::error::{CrushError, CrushResult};
use super::extract::{JsonBody, SessionScope, WorkspaceScope, find_session};
use super::fold::RUN_KEY_PREFIX;
use super::sessions::is_busy;

/// Maximum length of a run id.
const MAX_RUN_ID: usize = 256;

/// Returns the state of the agent, which is always ready for prompts.
pub(super) async fn state(scope: WorkspaceScope) -> Json<Value> {
    let catalog = scope.workspace.catalog().await;
    let (large, _) = scope.workspace.selected(&catalog);
    let model = catalog.find(&large.model);
    Json(
        json!({ "is_busy": scope.workspace.is_busy(), "is_ready": true, "model": model, "model_cfg": large }),
    )
}

/// Answers requests to set up or reload the agent. Nothing needs reloading: models are looked up for each call.
pub(super) async fn ready(_: WorkspaceScope) -> StatusCode {
    StatusCode::OK
}

pub(super) async fn small_model(scope: WorkspaceScope) -> Json<Value> {
    let (_, small) = scope.workspace.selected(&*scope.workspace.catalog().await);
    Json(json!(small))
}

/// A prompt, as the client sends it.
#[derive(Deserialize)]
pub(super) struct NewPrompt {
    #[serde(default)]
    session_id: String,
    #[serde(default)]
    run_id: String,
    #[serde(default)]
    prompt: String,
    attachments: Option<Vec<NewAttachment>>,
}

#[derive(Deserialize)]
struct NewAttachment {
    #[serde(default)]
    file_path: String,
    #[serde(default)]
    file_name: String,
    #[serde(default)]
    mime_type: String,
    content: Option<String>,
}

/// Sends a prompt. Returns when the prompt is durable; the turn does not depend on the client's connection.
pub(super) async fn prompt(
    scope: WorkspaceScope,
    JsonBody(new): JsonBody<NewPrompt>,
) -> CrushResult<StatusCode> {
    let attachments: Vec<_> = new.attachments.into_iter().flatten().map(NewAttachment::read).collect();
    let has_text =
        |attachment: &Attachment| matches!(attachment, Attachment::Known(KnownAttachment::Selection { .. }));
    if new.prompt.trim().is_empty() && !attachments.iter().any(has_text) {
        return Err(CrushError::bad_request("the prompt is empty"));
    }
    if new.session_id.is_empty() {
        return Err(CrushError::bad_request("session_id is missing"));
    }
    if new.run_id.len() > MAX_RUN_ID {
        return Err(CrushError::bad_request(format!("run_id is longer than {MAX_RUN_ID} bytes")));
    }
    let session = find_session(&scope, &new.session_id).await?.session;
    let is_run = !new.run_id.is_empty();
    let prompt = Prompt {
        text: new.prompt,
        attachments,
        // A script that waits for a run gets a turn for its prompt alone; a prompt that a user types joins the running turn.
        mode: if is_run { SendMode::Enqueue } else { SendMode::Immediate },
        key: is_run.then(|| format!("{RUN_KEY_PREFIX}{}", new.run_id)),
        by: Some(scope.author()),
        ..Prompt::default()
    };
    scope.workspace.prompt(&session, prompt).await?;
    Ok(StatusCode::ACCEPTED)
}

impl NewAttachment {
    /// Converts text to a selection, which the model reads as text, and everything else to a blob.
    fn read(self) -> Attachment {
        let name = Some(self.file_name.clone()).filter(|name| !name.is_empty());
        let content = self.content.unwrap_or_default();
        let text = BASE64.decode(&content).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        Attachment::Known(match text {
            Some(text) if self.mime_type.starts_with("text/") => KnownAttachment::Selection {
                file_path: if self.file_path.is_empty() { self.file_name } else { self.file_path },
                display_name: name,
                text,
                selection: None,
            },
            _ => KnownAttachment::Blob { data: content, mime_type: self.mime_type, display_name: name },
        })
    }
}

pub(super) async fn session_state(at: SessionScope) -> Json<Value> {
    let metadata = metadata::decode(&at.summary.meta);
    let title = super::fold::title(metadata.name.as_deref(), metadata.title.as_deref());
    Json(json!({ "id": at.id(), "title": title, "is_busy": is_busy(&at.summary) }))
}

/// Cancels the running turn and all queued prompts. Has no effect on an idle or unknown session.
pub(super) async fn cancel(
    scope: WorkspaceScope,
    axum::extract::Path((_, sid)): axum::extract::Path<(String, String)>,
) -> CrushResult<StatusCode> {
    if let Ok(summary) = find_session(&scope, &sid).await {
        let handle = scope.open(&summary.session);
        handle.ask(Abort { reason: AbortReason::UserInitiated, by: Some(scope.author()) }).await?;
    }
    Ok(StatusCode::OK)
}

/// Returns the queued prompts, oldest first, without those that have started.
fn queued_prompts(session: &Session) -> Vec<String> {
    let queued = session.durable.inbox.iter().filter(|accepted| !session.has_begun(accepted.id));
    queued.map(|accepted| accepted.prompt.text.clone()).collect()
}

async fn queue_of(at: &SessionScope) -> CrushResult<Vec<String>> {
    // An idle session that is not live has no queue, and need not be loaded.
    if at.scope.door.service.live(&at.scope.caller, at.id()).is_none() && !is_busy(&at.summary) {
        return Ok(Vec::new());
    }
    Ok(queued_prompts(&at.open().inspect().await?.session))
}

pub(super) async fn queued(at: SessionScope) -> CrushResult<Json<usize>> {
    Ok(Json(queue_of(&at).await?.len()))
}

pub(super) async fn queue(at: SessionScope) -> CrushResult<Json<Vec<String>>> {
    Ok(Json(queue_of(&at).await?))
}

pub(super) async fn clear_queue(at: SessionScope) -> CrushResult<StatusCode> {
    if !queue_of(&at).await?.is_empty() {
        at.open().ask(Withdraw { which: Withdrawn::All }).await?;
    }
    Ok(StatusCode::OK)
}

/// Compacts the conversation, also during a turn. Returns when the compaction has ended.
pub(super) async fn summarize(at: SessionScope) -> CrushResult<StatusCode> {
    at.open().ask(CompactNow { options: CompactionOptions::default() }).await?;
    Ok(StatusCode::OK)
}

#[derive(Deserialize)]
pub(super) struct NewCommand {
    #[serde(default)]
    command: String,
}

/// Runs a command of the user in the session's directory. The model sees it with the next prompt.
pub(super) async fn shell(at: SessionScope, JsonBody(new): JsonBody<NewCommand>) -> CrushResult<Json<Value>> {
    if new.command.trim().is_empty() {
        return Err(CrushError::bad_request("the command is empty"));
    }
    let session = at.open();
    let by = Some(at.scope.author());
    let running = RunningCommand { session: &session, name: Uuid::new_v4().to_string() };
    let ran = session.ask(RunCommand { name: running.name.clone(), command: new.command, by }).await?;
    // The name is random, so it is not that of a running command.
    let ran = ran.unwrap_or_default();
    Ok(Json(json!({ "output": ran.output, "exit_code": ran.exit_code.unwrap_or(-1) })))
}

/// Ends the command when the request is cancelled.
struct RunningCommand<'a> {
    session: &'a LiveSession,
    name: String,
}

impl Drop for RunningCommand<'_> {
    fn drop(&mut self) {
        // Has no effect on a command that has ended, and fails for a closed session, which has none.
        drop(self.session.tell(EndCommand { name: std::mem::take(&mut self.name) }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_attachments_become_selections_and_others_blobs() {
        let read = |mime: &str, content: &str| {
            let json = json!({"file_path": "/a/b", "file_name": "b", "mime_type": mime, "content": content});
            baton_json::from_value::<NewAttachment>(&json).unwrap().read()
        };
        assert!(
            matches!(read("text/plain", "aGk="), Attachment::Known(KnownAttachment::Selection { text, .. }) if text == "hi")
        );
        assert!(
            matches!(read("image/png", "aGk="), Attachment::Known(KnownAttachment::Blob { data, .. }) if data == "aGk=")
        );
        assert!(
            matches!(read("text/plain", "/w=="), Attachment::Known(KnownAttachment::Blob { .. })),
            "not UTF-8"
        );
    }
}
