//! Files of a session: its plan, its todos, and its workspace.

use std::path::PathBuf;

use baton_agent::tools::sql::{Dependency, Todo};
use baton_core::Change;
use baton_protocol::Timestamp;
use baton_protocol::event::{Body, FileOperation, PlanChanged, WorkspaceFileChanged};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, Handled, amend, void};
use crate::errors::CallError;
use baton_runtime::metadata;
use baton_runtime::session::ask::{ListTodos, UseFiles};
use baton_runtime::session::file_requests::{FileReply, FileRequest};
use baton_runtime::session::{Handle, View};

impl Call<'_> {
    /// Sends a request about the files of a session. Records the event that `read` returns.
    fn with_files(
        &self,
        handle: Handle,
        request: FileRequest,
        read: impl FnOnce(FileReply) -> (Value, Option<Body>) + Send + 'static,
    ) -> Handled {
        let by = self.author();
        self.later(async move {
            let served = handle.ask(UseFiles { request: Box::new(request) }).await?;
            let (value, event) = read(served.map_err(CallError::failed)?);
            if let Some(event) = event {
                amend(&handle, by, Change::Noted(Box::new(event))).await?;
            }
            Ok(value)
        })
    }
}

/// Returns the operation of a change, and the path of the file.
fn changed(reply: FileReply) -> (Option<FileOperation>, Option<PathBuf>) {
    match reply {
        FileReply::Changed { operation, path } => (operation, Some(path)),
        _ => (None, None),
    }
}

/// Returns the text of a file, and its path.
fn text(reply: FileReply) -> (Option<String>, Option<PathBuf>) {
    match reply {
        FileReply::Text { content, path } => (content, path),
        _ => (None, None),
    }
}

pub(super) fn read_plan(call: &Call<'_>) -> Handled {
    let handle = call.session()?;
    call.with_files(handle, FileRequest::ReadPlan {}, |reply| {
        let (content, path) = text(reply);
        (json!({ "exists": content.is_some(), "content": content, "path": path }), None)
    })
}

#[derive(Deserialize)]
struct UpdatePlan {
    content: String,
}

pub(super) fn update_plan(call: &Call<'_>) -> Handled {
    let (handle, UpdatePlan { content }) = call.parse_for_session()?;
    call.with_files(handle, FileRequest::WritePlan { content }, plan_changed)
}

pub(super) fn delete_plan(call: &Call<'_>) -> Handled {
    let handle = call.session()?;
    call.with_files(handle, FileRequest::DeletePlan {}, plan_changed)
}

fn plan_changed(reply: FileReply) -> (Value, Option<Body>) {
    (void(), changed(reply).0.map(|operation| PlanChanged { operation }.into()))
}

/// Describes the workspace of the session.
pub(super) fn workspace(call: &Call<'_>) -> Handled {
    call.inspect(|view| json!({ "workspace": described(view), "path": view.files.path() }))
}

/// Describes the workspace of a session.
pub(super) fn described(view: &View) -> Value {
    let (session, facts) = (&view.session, &view.session.durable.facts);
    let mut workspace = json!({
        "id": session.id,
        "cwd": facts.context.cwd,
        "user_named": facts.named_by_user,
        "summary_count": facts.summaries,
        "created_at": session.durable.started,
        "updated_at": Timestamp::now(),
    });
    let optional = metadata::labels(facts).into_iter().chain([("client_name", &view.settings.client_name)]);
    for (key, value) in optional {
        if let Some(value) = value {
            workspace[key] = json!(value);
        }
    }
    workspace
}

/// Lists the todos that the model recorded.
pub(super) fn todos(call: &Call<'_>) -> Handled {
    read_todos(call, |rows, _| json!({ "rows": rows }))
}

pub(super) fn todos_with_dependencies(call: &Call<'_>) -> Handled {
    read_todos(call, |rows, dependencies| json!({ "rows": rows, "dependencies": dependencies }))
}

fn read_todos(
    call: &Call<'_>,
    encode: impl FnOnce(Vec<Value>, Vec<Value>) -> Value + Send + 'static,
) -> Handled {
    call.ask_later(&call.session()?, ListTodos {}, |(todos, dependencies)| {
        let row = |todo: Todo| {
            json!({
                "id": todo.id,
                "title": todo.title,
                "description": todo.description,
                "status": todo.status,
                "createdAt": todo.created_at,
            })
        };
        let edge = |edge: Dependency| json!({ "todoId": edge.todo_id, "dependsOn": edge.depends_on });
        encode(todos.into_iter().map(row).collect(), dependencies.into_iter().map(edge).collect())
    })
}

pub(super) fn list(call: &Call<'_>) -> Handled {
    let handle = call.session()?;
    call.with_files(handle, FileRequest::List {}, |reply| {
        let files = if let FileReply::Names(names) = reply { names } else { Vec::new() };
        (json!({ "files": files }), None)
    })
}

#[derive(Deserialize)]
struct ReadFile {
    path: String,
}

pub(super) fn read(call: &Call<'_>) -> Handled {
    let (handle, ReadFile { path }) = call.parse_for_session()?;
    call.with_files(handle, FileRequest::Read { path }, |reply| (json!({ "content": text(reply).0 }), None))
}

#[derive(Deserialize)]
struct CreateFile {
    path: String,
    content: String,
}

pub(super) fn create(call: &Call<'_>) -> Handled {
    let (handle, CreateFile { path, content }) = call.parse_for_session()?;
    if path.is_empty() {
        return Err(CallError::invalid("`path` must not be empty"));
    }
    call.with_files(handle, FileRequest::Write { path: path.clone(), content }, move |reply| {
        let event = changed(reply).0.map(|operation| WorkspaceFileChanged { operation, path }.into());
        (void(), event)
    })
}

#[derive(Deserialize)]
struct LargePaste {
    content: String,
}

/// Stores pasted text as a file of the workspace, so that the model can read parts of it.
pub(super) fn save_large_paste(call: &Call<'_>) -> Handled {
    let (handle, LargePaste { content }) = call.parse_for_session()?;
    let name = format!("paste-{}.txt", Timestamp::now().as_millis());
    let size = content.len();
    call.with_files(handle, FileRequest::Write { path: name.clone(), content }, move |reply| {
        let saved = json!({ "filePath": changed(reply).1, "filename": name, "sizeBytes": size });
        let event = WorkspaceFileChanged { operation: FileOperation::Create, path: name };
        (json!({ "saved": saved }), Some(event.into()))
    })
}
