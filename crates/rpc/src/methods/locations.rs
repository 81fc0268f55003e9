//! Locations: their grants, and trusted folders.

use std::path::PathBuf;

use baton_core::Change;
use baton_files::locations::{Location, NewGrant};
use baton_protocol::Author;
use baton_protocol::permission::Approval;
use baton_protocol::rules::{LocationRules, RuleListEdit, RulesEdit};
use baton_runtime::session::{Failure, Handle};
use serde::Deserialize;
use serde_json::json;

use super::{Call, Handled, amend, success};
use crate::errors::CallError;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Directory {
    working_directory: PathBuf,
}

pub(super) fn resolve(call: &Call<'_>) -> Handled {
    let (_, Directory { working_directory }) = call.parse_for_session()?;
    call.later(async move {
        let Location { key, kind } = location_of(working_directory).await?;
        Ok(json!({ "locationKey": key, "locationType": kind }))
    })
}

async fn location_of(directory: PathBuf) -> Result<Location, CallError> {
    Location::of(directory).await.map_err(CallError::failed)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AddApproval {
    location_key: String,
    approval: Approval,
}

pub(super) fn add_approval(call: &Call<'_>) -> Handled {
    let (_, AddApproval { location_key, approval }) = call.parse_for_session()?;
    let (runtime, by) = (call.runtime().clone(), call.author());
    call.later(async move {
        // The client names a server and a tool, and has not been shown either.
        let grant = NewGrant { approval, by, binding: None };
        runtime.locations.grant(location_key, grant).await.map_err(CallError::failed)?;
        Ok(success())
    })
}

/// Applies the grants of a location to a session, in place of those of the last one.
pub(super) fn apply(call: &Call<'_>) -> Handled {
    let (handle, Directory { working_directory }) = call.parse_for_session()?;
    let (runtime, by) = (call.runtime().clone(), call.author());
    call.later(async move {
        let Location { key, kind } = location_of(working_directory).await?;
        let rules = runtime.locations.rules(&key).await.map_err(CallError::failed)?;
        let location = LocationRules { key: key.clone(), rules: rules.clone() };
        let before = set_location(&handle, location, by).await?;
        Ok(json!({
            "changed": before.as_ref() != Some(&key),
            "locationKey": key,
            "locationType": kind,
            "appliedRuleCount": rules.len(),
            "appliedRules": rules,
            "appliedDirectoryCount": 0,
        }))
    })
}

/// Applies the rules of a location to a session. Returns the location whose rules applied before.
async fn set_location(
    handle: &Handle,
    location: LocationRules,
    by: Author,
) -> Result<Option<String>, Failure> {
    let view = handle.inspect().await?;
    let before = view.session.durable.rules.location.as_ref().map(|known| known.key.clone());
    let edit = Box::new(RulesEdit { location: Some(Some(location)), ..RulesEdit::default() });
    amend(handle, by.clone(), Change::Rules { edit, by }).await?;
    Ok(before)
}

/// Changes the stored grants of the location of a session, and applies them to the session.
pub(super) fn modify(call: &Call<'_>, handle: Handle, edit: RuleListEdit) -> Handled {
    let (runtime, by) = (call.runtime().clone(), call.author());
    call.later(async move {
        let cwd = handle.inspect().await?.cwd().to_owned();
        let Location { key, .. } = location_of(cwd.into()).await?;
        let rules = runtime.locations.edit(key.clone(), edit, by.clone()).await;
        let rules = rules.map_err(CallError::failed)?;
        set_location(&handle, LocationRules { key, rules }, by).await?;
        Ok(success())
    })
}

#[derive(Deserialize)]
struct Folder {
    path: PathBuf,
}

pub(super) fn is_trusted(call: &Call<'_>) -> Handled {
    let (_, Folder { path }) = call.parse_for_session()?;
    let runtime = call.runtime().clone();
    call.later(async move {
        let trusted = runtime.locations.is_trusted(path).await.map_err(CallError::failed)?;
        Ok(json!({ "trusted": trusted }))
    })
}

pub(super) fn trust(call: &Call<'_>) -> Handled {
    let (_, Folder { path }) = call.parse_for_session()?;
    let runtime = call.runtime().clone();
    call.later(async move {
        let Ok(folder) = tokio::fs::canonicalize(&path).await else {
            return Err(CallError::invalid(format_args!("{} does not exist", path.display())));
        };
        runtime.locations.trust(folder).await.map_err(CallError::failed)?;
        Ok(success())
    })
}
