//! Files of a session: its plan, its todos, and its workspace.

use baton_agent::tools::sql::{Dependency, Todo};
use baton_ask::ListTodos;
use baton_ask::View;
use baton_ask::files::{
    DeletePlan, FileChange, ListFiles, ReadFile, ReadPlan, TextFile, WriteFile, WritePlan,
};
use baton_core::Change;
use baton_history::metadata;
use baton_protocol::Timestamp;
use baton_protocol::event::{Body, FileOperation, PlanChanged, WorkspaceFileChanged};
use baton_service::{ClientAsk, LiveSession};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, Handled, amend, void};
use crate::errors::CallError;

impl Call<'_> {
    /// Changes files of a session. Records the event that `read` returns.
    fn change_files<A: ClientAsk>(
        &self,
        handle: LiveSession,
        ask: A,
        read: impl FnOnce(A::Reply) -> (Value, Option<Body>) + Send + 'static,
    ) -> Handled {
        let by = self.author();
        self.later(async move {
            let (value, event) = read(handle.ask(ask).await?);
            if let Some(event) = event {
                amend(&handle, by, Change::Noted(Box::new(event))).await?;
            }
            Ok(value)
        })
    }
}

pub(super) fn read_plan(call: &Call<'_>) -> Handled {
    call.ask_later(
        &call.session()?,
        ReadPlan {},
        |TextFile { content, path }| json!({ "exists": content.is_some(), "content": content, "path": path }),
    )
}

#[derive(Deserialize)]
struct UpdatePlan {
    content: String,
}

pub(super) fn update_plan(call: &Call<'_>) -> Handled {
    let (handle, UpdatePlan { content }) = call.parse_for_session()?;
    call.change_files(handle, WritePlan { content }, plan_changed)
}

pub(super) fn delete_plan(call: &Call<'_>) -> Handled {
    call.change_files(call.session()?, DeletePlan {}, plan_changed)
}

fn plan_changed(FileChange { operation, .. }: FileChange) -> (Value, Option<Body>) {
    (void(), operation.map(|operation| PlanChanged { operation }.into()))
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
    call.ask_later(&call.session()?, ListFiles {}, |files| json!({ "files": files }))
}

#[derive(Deserialize)]
struct ReadParams {
    path: String,
}

pub(super) fn read(call: &Call<'_>) -> Handled {
    let (handle, ReadParams { path }) = call.parse_for_session()?;
    call.ask_later(&handle, ReadFile { path }, |file| json!({ "content": file.content }))
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
    call.change_files(handle, WriteFile { path: path.clone(), content }, move |change| {
        let event = change.operation.map(|operation| WorkspaceFileChanged { operation, path }.into());
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
    call.change_files(handle, WriteFile { path: name.clone(), content }, move |change| {
        let saved = json!({ "filePath": change.path, "filename": name, "sizeBytes": size });
        let event = WorkspaceFileChanged { operation: FileOperation::Create, path: name };
        (json!({ "saved": saved }), Some(event.into()))
    })
}
