//! Files of a session: its plan, its todos, and its workspace.

use baton_agent::tools::sql::{Dependency, Todo};
use baton_core::Change;
use baton_protocol::Timestamp;
use baton_protocol::event::{Body, FileOperation, PlanChanged, WorkspaceFileChanged};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, Handled, amend, blocking, void};
use crate::errors::CallError;
use baton_runtime::metadata;
use baton_runtime::session::ask::ListTodos;
use baton_runtime::session::{Handle, View};
use baton_runtime::workspace::{FileError, Workspace};

impl Call<'_> {
    /// Runs work on the files of a session, on a thread that may block. Records the event that it returns.
    fn with_files(
        &self,
        handle: Handle,
        work: impl FnOnce(Workspace) -> Result<(Value, Option<Body>), FileError> + Send + 'static,
    ) -> Handled {
        self.later(async move {
            let workspace = handle.inspect().await?.files.workspace();
            let done = blocking(move || work(workspace)).await?;
            let (value, event) = done.map_err(CallError::failed)?;
            if let Some(event) = event {
                amend(&handle, Change::Noted(Box::new(event))).await?;
            }
            Ok(value)
        })
    }
}

pub(super) fn read_plan(call: &Call<'_>) -> Handled {
    let handle = call.session()?;
    call.with_files(handle, |files| {
        let content = files.read_plan()?;
        Ok((json!({ "exists": content.is_some(), "content": content, "path": files.plan() }), None))
    })
}

#[derive(Deserialize)]
struct UpdatePlan {
    content: String,
}

pub(super) fn update_plan(call: &Call<'_>) -> Handled {
    let (handle, params): (_, UpdatePlan) = call.parse_for_session()?;
    call.with_files(handle, move |files| {
        let operation = files.write_plan(&params.content)?;
        Ok((void(), Some(PlanChanged { operation }.into())))
    })
}

pub(super) fn delete_plan(call: &Call<'_>) -> Handled {
    let handle = call.session()?;
    call.with_files(handle, |files| {
        let deleted = files.delete_plan()?;
        let event = deleted.then(|| PlanChanged { operation: FileOperation::Delete }.into());
        Ok((void(), event))
    })
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
    call.with_files(handle, |files| Ok((json!({ "files": files.list()? }), None)))
}

#[derive(Deserialize)]
struct ReadFile {
    path: String,
}

pub(super) fn read(call: &Call<'_>) -> Handled {
    let (handle, ReadFile { path }) = call.parse_for_session()?;
    call.with_files(handle, move |files| Ok((json!({ "content": files.read(&path)? }), None)))
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
    call.with_files(handle, move |files| {
        let operation = files.write(&path, &content)?;
        Ok((void(), Some(WorkspaceFileChanged { operation, path }.into())))
    })
}

#[derive(Deserialize)]
struct LargePaste {
    content: String,
}

/// Stores pasted text as a file of the workspace, so that the model can read parts of it.
pub(super) fn save_large_paste(call: &Call<'_>) -> Handled {
    let (handle, LargePaste { content }) = call.parse_for_session()?;
    call.with_files(handle, move |files| {
        let name = format!("paste-{}.txt", Timestamp::now().as_millis());
        files.write(&name, &content)?;
        let saved =
            json!({ "filePath": files.path_of(&name)?, "filename": name, "sizeBytes": content.len() });
        let event = WorkspaceFileChanged { operation: FileOperation::Create, path: name };
        Ok((json!({ "saved": saved }), Some(event.into())))
    })
}
