//! Prompts and what comes of them: accepted at once, run whoever stays; the queue, cancel, and commands of a person.

use axum::Json;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use baton_core::{Session, Withdrawn};
use baton_protocol::attachment::{Attachment, KnownAttachment};
use baton_protocol::event::{AbortReason, Prompt, SendMode, ShellRun};
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::{Answer, V1Error};
use super::extract::{Body, Here, SessionHere, find};
use super::fold::RUN_KEY;
use super::sessions::is_busy;
use crate::metadata;
use crate::session::{Handle, Mail};
use crate::work;

/// The longest name that a client may give to a run.
const LONGEST_RUN_ID: usize = 256;

/// Whether the agent can be prompted. It always can.
pub(super) async fn state(here: Here) -> Json<Value> {
    let offer = here.workspace.offer().await;
    let (large, _) = here.workspace.selected(&offer);
    let model = offer.find(&large.model);
    Json(json!({ "is_busy": here.workspace.is_busy(), "is_ready": true, "model": model, "model_cfg": large }))
}

/// There is nothing to set up or to load again: models are looked up when they are asked.
pub(super) async fn ready(_: Here) -> StatusCode {
    StatusCode::OK
}

pub(super) async fn small_model(here: Here) -> Json<Value> {
    let (_, small) = here.workspace.selected(&*here.workspace.offer().await);
    Json(json!(small))
}

/// A prompt as the client sends it.
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

/// Takes a prompt. Answered when it is accepted for good; the run is nobody's from there on.
pub(super) async fn prompt(here: Here, Body(new): Body<NewPrompt>) -> Answer<StatusCode> {
    let attachments: Vec<_> = new.attachments.into_iter().flatten().map(NewAttachment::read).collect();
    let has_text =
        |attachment: &Attachment| matches!(attachment, Attachment::Known(KnownAttachment::Selection { .. }));
    if new.prompt.trim().is_empty() && !attachments.iter().any(has_text) {
        return Err(V1Error::bad_request("the prompt is empty"));
    }
    if new.session_id.is_empty() {
        return Err(V1Error::bad_request("session_id is missing"));
    }
    if new.run_id.len() > LONGEST_RUN_ID {
        return Err(V1Error::bad_request(format!("a run_id has at most {LONGEST_RUN_ID} characters")));
    }
    let session = find(&here, &new.session_id).await?.session;
    let is_run = !new.run_id.is_empty();
    let prompt = Prompt {
        text: new.prompt,
        attachments,
        // Somebody who waits for a run waits for a turn of its own; what a person types joins the turn that runs.
        mode: if is_run { SendMode::Enqueue } else { SendMode::Immediate },
        key: is_run.then(|| format!("{RUN_KEY}{}", new.run_id)),
        ..Prompt::default()
    };
    here.workspace.prompt(&session, prompt).await?;
    Ok(StatusCode::ACCEPTED)
}

impl NewAttachment {
    /// Text is given to the model as text, everything else as it is.
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

pub(super) async fn session_state(at: SessionHere) -> Json<Value> {
    let metadata = metadata::decode(&at.summary.meta);
    let title = super::fold::title(metadata.name.as_deref(), metadata.title.as_deref());
    Json(json!({ "id": at.id(), "title": title, "is_busy": is_busy(&at.summary) }))
}

/// Cancels what runs and what was accepted before. A session that does nothing, or is none, is left alone.
pub(super) async fn cancel(
    here: Here,
    axum::extract::Path((_, sid)): axum::extract::Path<(String, String)>,
) -> Answer<StatusCode> {
    if let Ok(summary) = find(&here, &sid).await {
        let handle = here.door.server.registry.open(&here.door.server, &summary.session);
        handle.ask(|respond| Mail::Abort(AbortReason::UserInitiated, respond)).await?;
    }
    Ok(StatusCode::OK)
}

/// The prompts that wait, the oldest first. The one that is being begun with does not wait any more.
fn waiting(session: &Session) -> Vec<String> {
    let waits = session.durable.inbox.iter().filter(|accepted| !session.has_begun(accepted.id));
    waits.map(|accepted| accepted.prompt.text.clone()).collect()
}

async fn queue_of(at: &SessionHere) -> Answer<Vec<String>> {
    // What is not in memory and does nothing has no queue: no need to bring it in.
    if at.here.door.server.registry.get(at.id()).is_none() && !is_busy(&at.summary) {
        return Ok(Vec::new());
    }
    Ok(open(at).look(|view| waiting(view.session)).await?)
}

fn open(at: &SessionHere) -> Handle {
    at.here.door.server.registry.open(&at.here.door.server, at.id())
}

pub(super) async fn queued(at: SessionHere) -> Answer<Json<usize>> {
    Ok(Json(queue_of(&at).await?.len()))
}

pub(super) async fn queue(at: SessionHere) -> Answer<Json<Vec<String>>> {
    Ok(Json(queue_of(&at).await?))
}

pub(super) async fn clear_queue(at: SessionHere) -> Answer<StatusCode> {
    if !queue_of(&at).await?.is_empty() {
        open(&at).ask(|respond| Mail::Withdraw(Withdrawn::All, respond)).await?;
    }
    Ok(StatusCode::OK)
}

/// Has the conversation summarised, and waits for that. Beside a turn that runs, too.
pub(super) async fn summarize(at: SessionHere) -> Answer<StatusCode> {
    work::compact_now(&open(&at), work::Wish::default()).await?;
    Ok(StatusCode::OK)
}

#[derive(Deserialize)]
pub(super) struct NewCommand {
    #[serde(default)]
    command: String,
}

/// Runs a command of a person in the session's directory. The model hears of it with the next prompt.
pub(super) async fn shell(at: SessionHere, Body(new): Body<NewCommand>) -> Answer<Json<Value>> {
    if new.command.trim().is_empty() {
        return Err(V1Error::bad_request("the command is empty"));
    }
    let handle = open(&at);
    let (room, cwd) =
        handle.look(|view| (view.tools.clone(), view.session.durable.facts.context.cwd.clone())).await?;
    let ran = room.run_for_person(cwd.into(), &new.command).await;
    let exit_code = ran.exit_code.unwrap_or(-1);
    let run = ShellRun { command: new.command, output: ran.output, exit_code };
    let answer = json!({ "output": run.output, "exit_code": exit_code });
    handle.send(Mail::Note(None, Box::new(run.into())))?;
    Ok(Json(answer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_given_as_text_and_the_rest_as_it_is() {
        let read = |mime: &str, content: &str| {
            let json = json!({"file_path": "/a/b", "file_name": "b", "mime_type": mime, "content": content});
            serde_json::from_value::<NewAttachment>(json).unwrap().read()
        };
        assert!(
            matches!(read("text/plain", "aGk="), Attachment::Known(KnownAttachment::Selection { text, .. }) if text == "hi")
        );
        assert!(
            matches!(read("image/png", "aGk="), Attachment::Known(KnownAttachment::Blob { data, .. }) if data == "aGk=")
        );
        assert!(
            matches!(read("text/plain", "/w=="), Attachment::Known(KnownAttachment::Blob { .. })),
            "no UTF-8"
        );
    }
}
