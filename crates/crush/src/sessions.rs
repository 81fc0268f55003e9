//! Sessions of a workspace, and their messages.

use std::sync::Arc;

use axum::Json;
use baton_core::Change;
use baton_core::ask::Amend;
use baton_protocol::SessionId;
use baton_store::Summary;
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::CrushResult;
use super::extract::{JsonBody, OptionalBody, SessionScope, WorkspaceScope, find_session};
use super::fold;
use super::watch::fold_history;
use super::wire::{Message, MessageRole, Session, seconds};
use super::workspace::creating_client;
use baton_history::metadata;
use baton_runtime::session::subscription::NoEvents;
use baton_service::sessions::{CreateSession, DeleteSession, ListSessions};

/// Titles that the client gives to a session before its first prompt.
const PLACEHOLDERS: [&str; 4] = ["", "New Session", "Untitled Session", "non-interactive"];
/// Number of recent sessions whose prompts the client offers for reuse.
const RECENT_SESSIONS: usize = 20;

pub(super) async fn list(scope: WorkspaceScope) -> CrushResult<Json<Vec<Session>>> {
    let all = scope.door.service.perform(&scope.caller, ListSessions).await?;
    let contained = all.iter().filter(|summary| scope.workspace.contains(summary));
    Ok(Json(contained.map(|summary| row(&scope, summary)).collect()))
}

/// Returns the list entry of a session. Fields that only the history has are missing if the session is not watched.
fn row(scope: &WorkspaceScope, summary: &Summary) -> Session {
    let watched = scope.workspace.watch_of(&summary.session).map(|watch| watch.row());
    // A watch that has not read the first event yet knows nothing.
    let known = watched.filter(|row| row.created_at != 0);
    with_presence(scope, summary, known.unwrap_or_else(|| bare_row(summary)))
}

fn bare_row(summary: &Summary) -> Session {
    let metadata = metadata::decode(&summary.meta);
    Session {
        id: summary.session.clone(),
        parent_session_id: String::new(),
        title: fold::title(metadata.name.as_deref(), metadata.title.as_deref()),
        message_count: 0,
        prompt_tokens: 0,
        completion_tokens: 0,
        summary_message_id: String::new(),
        cost: 0.0,
        created_at: seconds(summary.created),
        updated_at: seconds(summary.modified),
        is_busy: false,
        attached_clients: 0,
    }
}

fn with_presence(scope: &WorkspaceScope, summary: &Summary, row: Session) -> Session {
    Session {
        is_busy: is_busy(summary),
        attached_clients: scope.door.workspaces.viewers(scope.workspace.id, &summary.session),
        ..row
    }
}

pub(super) fn is_busy(summary: &Summary) -> bool {
    metadata::is_unfinished(summary)
}

#[derive(Deserialize, Default)]
pub(super) struct NewSession {
    #[serde(default)]
    title: String,
}

pub(super) async fn create(
    scope: WorkspaceScope,
    OptionalBody(new): OptionalBody<NewSession>,
) -> CrushResult<Json<Session>> {
    let (service, id) = (&scope.door.service, SessionId::random());
    let joining = creating_client(service, &scope.workspace.key, scope.author());
    let client = joining.client;
    let create = CreateSession { id: id.clone(), joining, port: Arc::new(NoEvents) };
    let (session, _) = service.perform(&scope.caller, create).await?;
    session.leave(client);
    if !PLACEHOLDERS.contains(&new.title.trim()) {
        let change = Change::Name { name: new.title.trim().to_owned(), by_user: false };
        session.ask(Amend::by(scope.author(), change)).await?;
    }
    let created = bare_row(&find_session(&scope, id.as_str()).await?);
    let title = if new.title.is_empty() { created.title.clone() } else { new.title };
    Ok(Json(Session { title, ..created }))
}

pub(super) async fn show(at: SessionScope) -> CrushResult<Json<Session>> {
    let fold = fold_history(&at.scope.door.service, &at.scope.caller, at.id()).await?;
    Ok(Json(with_presence(&at.scope, &at.summary, fold.row())))
}

/// Renames a session. Other fields that the client sends are ignored.
pub(super) async fn save(
    at: SessionScope,
    JsonBody(new): JsonBody<NewSession>,
) -> CrushResult<Json<Session>> {
    let title = new.title.trim();
    if !PLACEHOLDERS.contains(&title) && title != bare_row(&at.summary).title {
        let session = at.open();
        let change = Change::Name { name: title.to_owned(), by_user: true };
        session.ask(Amend::by(at.scope.author(), change)).await?;
    }
    show(at).await
}

pub(super) async fn delete(at: SessionScope) -> CrushResult<StatusCode> {
    at.scope.door.service.perform(&at.scope.caller, DeleteSession { id: at.id().clone() }).await?;
    Ok(StatusCode::OK)
}

pub(super) async fn messages(at: SessionScope) -> CrushResult<Json<Vec<Message>>> {
    Ok(Json(all_messages(&at.scope, at.id()).await?))
}

pub(super) async fn user_messages(at: SessionScope) -> CrushResult<Json<Vec<Message>>> {
    Ok(Json(of_users(all_messages(&at.scope, at.id()).await?)))
}

/// Lists recent prompts of all sessions of the directory, newest first. The client offers them for reuse.
pub(super) async fn all_user_messages(scope: WorkspaceScope) -> CrushResult<Json<Vec<Message>>> {
    let all = scope.door.service.perform(&scope.caller, ListSessions).await?;
    let recent = all.iter().filter(|summary| scope.workspace.contains(summary)).take(RECENT_SESSIONS);
    let mut prompts = Vec::new();
    for summary in recent {
        prompts.extend(of_users(all_messages(&scope, &summary.session).await?));
    }
    prompts.sort_by_key(|message| std::cmp::Reverse(message.created_at));
    Ok(Json(prompts))
}

fn of_users(mut messages: Vec<Message>) -> Vec<Message> {
    messages.retain(|message| message.role == MessageRole::User);
    messages
}

/// Returns the messages of the history, with the streamed part of incomplete responses.
async fn all_messages(scope: &WorkspaceScope, session: &SessionId) -> CrushResult<Vec<Message>> {
    let partials = scope.workspace.watch_of(session).map(|watch| watch.partials()).unwrap_or_default();
    let mut fold = fold_history(&scope.door.service, &scope.caller, session).await?;
    fold.add_partials(partials);
    Ok(fold.messages())
}

/// Returns an empty list of file versions, which Baton does not have.
pub(super) async fn history(_: SessionScope) -> Json<Value> {
    Json(json!([]))
}
