//! Sessions of a workspace and their messages.

use axum::Json;
use baton_core::Change;
use baton_protocol::SessionId;
use baton_store::Summary;
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::Answer;
use super::extract::{Body, Here, Maybe, SessionHere};
use super::fold;
use super::watch::fold_of;
use super::wire::{Message, Role, Session, seconds};
use super::workspace::founding_client;
use crate::metadata;
use crate::session::Mail;

/// Titles that the client gives to a session before anybody has said what it is about.
const PLACEHOLDERS: [&str; 4] = ["", "New Session", "Untitled Session", "non-interactive"];
/// How far back the prompts of other sessions are offered again.
const PROMPTS_OF_SESSIONS: usize = 20;

pub(super) async fn list(here: Here) -> Answer<Json<Vec<Session>>> {
    let all = here.door.server.store.list().await?;
    let ours = all.iter().filter(|summary| here.workspace.holds(summary));
    Ok(Json(ours.map(|summary| row(&here, summary)).collect()))
}

/// What a list shows. A session that nobody follows is shown without what only its history knows.
fn row(here: &Here, summary: &Summary) -> Session {
    let watched = here.workspace.watch_of(&summary.session).map(|watch| watch.row());
    // One that is only just being read has no beginning yet.
    let known = watched.filter(|row| row.created_at != 0);
    with_presence(here, summary, known.unwrap_or_else(|| bare_row(summary)))
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

fn with_presence(here: &Here, summary: &Summary, row: Session) -> Session {
    Session {
        is_busy: is_busy(summary),
        attached_clients: here.door.workspaces.lookers(here.workspace.id, &summary.session),
        ..row
    }
}

pub(super) fn is_busy(summary: &Summary) -> bool {
    summary.holder.as_ref().is_some_and(|holder| holder.busy)
}

#[derive(Deserialize, Default)]
pub(super) struct NewSession {
    #[serde(default)]
    title: String,
}

pub(super) async fn create(here: Here, Maybe(new): Maybe<NewSession>) -> Answer<Json<Session>> {
    let server = &here.door.server;
    let (id, joining) = (SessionId::random(), founding_client(server, &here.workspace.key));
    let client = joining.client;
    let (handle, _) = server.registry.create(server, &id, joining).await?;
    handle.send(Mail::Leave(client))?;
    if !PLACEHOLDERS.contains(&new.title.trim()) {
        let change = Change::Name { name: new.title.trim().to_owned(), by_user: false };
        handle.ask(|respond| Mail::Change(Box::new(change), respond)).await?;
    }
    let made = super::extract::find(&here, id.as_str()).await?;
    let shown = if new.title.is_empty() { bare_row(&made).title } else { new.title };
    Ok(Json(Session { title: shown, ..bare_row(&made) }))
}

pub(super) async fn show(at: SessionHere) -> Answer<Json<Session>> {
    let fold = fold_of(&at.here.door.server, at.id()).await?;
    Ok(Json(with_presence(&at.here, &at.summary, fold.row())))
}

/// Renames a session. What else the client sends of it is not for it to decide.
pub(super) async fn save(at: SessionHere, Body(new): Body<NewSession>) -> Answer<Json<Session>> {
    let title = new.title.trim();
    if !PLACEHOLDERS.contains(&title) && title != bare_row(&at.summary).title {
        let handle = at.here.door.server.registry.open(&at.here.door.server, at.id());
        let change = Change::Name { name: title.to_owned(), by_user: true };
        handle.ask(|respond| Mail::Change(Box::new(change), respond)).await?;
    }
    show(at).await
}

pub(super) async fn delete(at: SessionHere) -> Answer<StatusCode> {
    at.here.door.server.delete(at.id()).await?;
    Ok(StatusCode::OK)
}

pub(super) async fn messages(at: SessionHere) -> Answer<Json<Vec<Message>>> {
    Ok(Json(all_messages(&at.here, at.id()).await?))
}

pub(super) async fn user_messages(at: SessionHere) -> Answer<Json<Vec<Message>>> {
    Ok(Json(of_users(all_messages(&at.here, at.id()).await?)))
}

/// What users of this directory have said lately, newest first: the client offers it again.
pub(super) async fn all_user_messages(here: Here) -> Answer<Json<Vec<Message>>> {
    let all = here.door.server.store.list().await?;
    let recent = all.iter().filter(|summary| here.workspace.holds(summary)).take(PROMPTS_OF_SESSIONS);
    let mut said = Vec::new();
    for summary in recent {
        said.extend(of_users(all_messages(&here, &summary.session).await?));
    }
    said.sort_by_key(|message| std::cmp::Reverse(message.created_at));
    Ok(Json(said))
}

fn of_users(mut messages: Vec<Message>) -> Vec<Message> {
    messages.retain(|message| message.role == Role::User);
    messages
}

/// The history, and of an answer that is being made, or was cut off, what was streamed.
async fn all_messages(here: &Here, session: &SessionId) -> Answer<Vec<Message>> {
    let partials = here.workspace.watch_of(session).map(|watch| watch.partials()).unwrap_or_default();
    let mut fold = fold_of(&here.door.server, session).await?;
    fold.fill_in(partials);
    Ok(fold.messages())
}

/// Files are not versioned here.
pub(super) async fn history(_: SessionHere) -> Json<Value> {
    Json(json!([]))
}
