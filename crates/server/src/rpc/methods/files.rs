//! A session's own files: its plan, and what it keeps in its workspace.

use std::path::PathBuf;

use baton_agent::tools::sql::{Dependency, Todo};
use baton_core::Change;
use baton_protocol::SessionId;
use baton_protocol::event::{Body, FileOperation, PlanChanged, WorkspaceFileChanged};
use baton_protocol::rpc::RpcError;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, Handling, void};
use crate::metadata;
use crate::rpc::errors;
use crate::session::{Handle, Mail, View};
use crate::workspace::{FileError, Workspace};

impl Call<'_> {
    /// Does something with the files of the session, where it may block.
    pub(super) fn with_files(
        &self,
        handle: Handle,
        work: impl FnOnce(Workspace) -> Result<(Value, Option<Body>), FileError> + Send + 'static,
    ) -> Handling {
        let (server, method) = (self.connection.server.clone(), self.method.to_owned());
        self.later(async move {
            let told = |failure| errors::of(&method, &failure);
            let id = handle.id.clone();
            let directory = handle
                .look(move |view| server.session_directory(&id, view.settings.config_dir.as_deref()))
                .await
                .map_err(told)?;
            let done = tokio::task::spawn_blocking(move || work(Workspace::at(directory))).await;
            let failed = |error: String| errors::failed(&method, error);
            let (value, event) =
                done.map_err(|e| failed(e.to_string()))?.map_err(|e| failed(e.to_string()))?;
            if let Some(event) = event {
                let change = Change::Noted(Box::new(event));
                handle.ask(|respond| Mail::Change(Box::new(change), respond)).await.map_err(told)?;
            }
            Ok(value)
        })
    }
}

pub(super) fn read_plan(call: &Call<'_>) -> Handling {
    let handle = call.session()?;
    call.with_files(handle, |files| {
        let content = files.read_plan()?;
        Ok((json!({ "exists": content.is_some(), "content": content, "path": files.plan() }), None))
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UpdatePlan {
    session_id: SessionId,
    content: String,
}

pub(super) fn update_plan(call: &Call<'_>) -> Handling {
    let params: UpdatePlan = call.parse()?;
    let handle = call.attached(&params.session_id)?;
    call.with_files(handle, move |files| {
        let operation = files.write_plan(&params.content)?;
        Ok((void(), Some(PlanChanged { operation }.into())))
    })
}

pub(super) fn delete_plan(call: &Call<'_>) -> Handling {
    let handle = call.session()?;
    call.with_files(handle, |files| {
        let deleted = files.delete_plan()?;
        let event = deleted.then(|| PlanChanged { operation: FileOperation::Delete }.into());
        Ok((void(), event))
    })
}

/// The facts of the session's workspace.
pub(super) fn workspace(call: &Call<'_>) -> Handling {
    let server = call.connection.server.clone();
    call.view(move |view| {
        let directory: PathBuf =
            server.session_directory(&view.session.id, view.settings.config_dir.as_deref());
        json!({ "workspace": described(&view), "path": directory })
    })
}

/// The facts of a session's workspace.
pub(super) fn described(view: &View<'_>) -> Value {
    let (session, facts) = (view.session, &view.session.durable.facts);
    let mut workspace = json!({
        "id": session.id,
        "cwd": facts.context.cwd,
        "user_named": facts.named_by_user,
        "summary_count": facts.summaries,
        "created_at": session.durable.started,
        "updated_at": baton_protocol::Timestamp::now(),
    });
    let optional = metadata::place(facts).into_iter().chain([("client_name", &view.settings.client_name)]);
    for (key, value) in optional {
        if let Some(value) = value {
            workspace[key] = json!(value);
        }
    }
    workspace
}

/// The things to do that the model has written down.
pub(super) fn todos(call: &Call<'_>) -> Handling {
    read_todos(call, |rows, _| json!({ "rows": rows }))
}

pub(super) fn todos_with_dependencies(call: &Call<'_>) -> Handling {
    read_todos(call, |rows, dependencies| json!({ "rows": rows, "dependencies": dependencies }))
}

fn read_todos(
    call: &Call<'_>,
    tell: impl FnOnce(Vec<Value>, Vec<Value>) -> Value + Send + 'static,
) -> Handling {
    let (handle, method) = (call.session()?, call.method.to_owned());
    call.later(async move {
        let tools = handle.look(|view| view.tools.clone()).await.map_err(|f| errors::of(&method, &f))?;
        let read = tokio::task::spawn_blocking(move || tools.todos()).await;
        let failed = |error: String| errors::failed(&method, error);
        let (todos, dependencies) = read.map_err(|e| failed(e.to_string()))?.map_err(failed)?;
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
        Ok(tell(todos.into_iter().map(row).collect(), dependencies.into_iter().map(edge).collect()))
    })
}

pub(super) fn list(call: &Call<'_>) -> Handling {
    let handle = call.session()?;
    call.with_files(handle, |files| Ok((json!({ "files": files.list()? }), None)))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReadFile {
    session_id: SessionId,
    path: String,
}

pub(super) fn read(call: &Call<'_>) -> Handling {
    let params: ReadFile = call.parse()?;
    let handle = call.attached(&params.session_id)?;
    call.with_files(handle, move |files| Ok((json!({ "content": files.read(&params.path)? }), None)))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CreateFile {
    session_id: SessionId,
    path: String,
    content: String,
}

pub(super) fn create(call: &Call<'_>) -> Handling {
    let params: CreateFile = call.parse()?;
    if params.path.is_empty() {
        return Err(RpcError::bad_params("session.workspaces.createFile: `path` must not be empty"));
    }
    let handle = call.attached(&params.session_id)?;
    call.with_files(handle, move |files| {
        let operation = files.write(&params.path, &params.content)?;
        Ok((void(), Some(WorkspaceFileChanged { operation, path: params.path }.into())))
    })
}
