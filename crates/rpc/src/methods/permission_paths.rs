//! Directories that a session may use without asking.

use std::path::{Component, PathBuf};

use baton_core::Change;
use baton_files::locations::resolved;
use baton_protocol::rules::RulesEdit;
use serde::Deserialize;
use serde_json::json;

use super::{Call, Handled, amend, success};
use crate::errors::CallError;

pub(super) fn list(call: &Call<'_>) -> Handled {
    call.inspect(|view| {
        let durable = &view.session.durable;
        let primary = durable.rules.paths.primary.as_ref().unwrap_or(&durable.facts.context.cwd);
        let directories: Vec<&String> =
            [primary].into_iter().chain(&durable.rules.paths.directories).collect();
        json!({ "primary": primary, "directories": directories })
    })
}

#[derive(Deserialize)]
struct OnePath {
    path: PathBuf,
}

pub(super) fn add(call: &Call<'_>) -> Handled {
    change_directory(call, |directory| RulesEdit { add_directory: Some(directory), ..RulesEdit::default() })
}

pub(super) fn update_primary(call: &Call<'_>) -> Handled {
    change_directory(call, |directory| RulesEdit { primary: Some(directory), ..RulesEdit::default() })
}

/// Changes the rules with an existing directory.
fn change_directory(call: &Call<'_>, edit: impl FnOnce(String) -> RulesEdit + Send + 'static) -> Handled {
    let (handle, OnePath { path }) = call.parse_for_session()?;
    let by = call.author();
    call.later(async move {
        let is_directory = tokio::fs::metadata(&path).await.is_ok_and(|found| found.is_dir());
        if !path.is_absolute() || !is_directory {
            let path = path.display();
            return Err(CallError::invalid(format_args!(
                "{path} is not the absolute path of an existing directory"
            )));
        }
        let directory = resolved(path).await.to_string_lossy().into_owned();
        amend(&handle, by.clone(), Change::Rules { edit: Box::new(edit(directory)), by }).await?;
        Ok(success())
    })
}

pub(super) fn is_allowed(call: &Call<'_>) -> Handled {
    check(call, true)
}

pub(super) fn is_in_workspace(call: &Call<'_>) -> Handled {
    check(call, false)
}

/// Returns whether a path is in the primary directory or, with `additional`, in an additional one. A path with `..` is in none.
fn check(call: &Call<'_>, additional: bool) -> Handled {
    let (handle, OnePath { path }) = call.parse_for_session()?;
    call.later(async move {
        let view = handle.inspect().await?;
        let paths = &view.session.durable.rules.paths;
        let primary = paths.primary.clone().unwrap_or_else(|| view.cwd().to_owned());
        let has_parent = path.components().any(|part| part == Component::ParentDir);
        let path = resolved(path).await;
        let mut directories = vec![resolved(primary.into()).await];
        if additional {
            directories.extend(paths.directories.iter().map(PathBuf::from));
        }
        let inside = !has_parent && directories.iter().any(|directory| path.starts_with(directory));
        Ok(json!({ "allowed": inside || (additional && paths.unrestricted) }))
    })
}
