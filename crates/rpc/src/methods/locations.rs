//! Locations: their grants, and trusted folders.

use std::path::PathBuf;

use baton_core::Change;
use baton_protocol::Author;
use baton_protocol::permission::Approval;
use baton_protocol::rules::{LocationRules, RuleListEdit, RulesEdit};
use serde::Deserialize;
use serde_json::json;

use super::{Call, Handled, amend, success};
use crate::errors::CallError;
use baton_files::locations::Location;
use baton_service::grants::{EditLocationRules, GrantAtLocation, IsTrusted, ReadLocationRules, Trust};
use baton_service::{AskError, LiveSession};

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
    let (service, caller) = (call.service().clone(), call.caller());
    call.later(async move {
        service.perform(&caller, GrantAtLocation { location: location_key, approval }).await?;
        Ok(success())
    })
}

/// Applies the grants of a location to a session, in place of those of the last one.
pub(super) fn apply(call: &Call<'_>) -> Handled {
    let (handle, Directory { working_directory }) = call.parse_for_session()?;
    let (service, caller) = (call.service().clone(), call.caller());
    call.later(async move {
        let Location { key, kind } = location_of(working_directory).await?;
        let rules = service.perform(&caller, ReadLocationRules { location: key.clone() }).await?;
        let location = LocationRules { key: key.clone(), rules: rules.clone() };
        let before = set_location(&handle, location, caller.author()).await?;
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
    handle: &LiveSession,
    location: LocationRules,
    by: Author,
) -> Result<Option<String>, AskError> {
    let view = handle.inspect().await?;
    let before = view.session.durable.rules.location.as_ref().map(|known| known.key.clone());
    let edit = Box::new(RulesEdit { location: Some(Some(location)), ..RulesEdit::default() });
    amend(handle, by.clone(), Change::Rules { edit, by }).await?;
    Ok(before)
}

/// Changes the stored grants of the location of a session, and applies them to the session.
pub(super) fn modify(call: &Call<'_>, handle: LiveSession, edit: RuleListEdit) -> Handled {
    let (service, caller) = (call.service().clone(), call.caller());
    call.later(async move {
        let cwd = handle.inspect().await?.cwd().to_owned();
        let Location { key, .. } = location_of(cwd.into()).await?;
        let rules = service.perform(&caller, EditLocationRules { location: key.clone(), edit }).await?;
        set_location(&handle, LocationRules { key, rules }, caller.author()).await?;
        Ok(success())
    })
}

#[derive(Deserialize)]
struct Folder {
    path: PathBuf,
}

pub(super) fn is_trusted(call: &Call<'_>) -> Handled {
    let (_, Folder { path }) = call.parse_for_session()?;
    let (service, caller) = (call.service().clone(), call.caller());
    call.later(async move {
        let trusted = service.perform(&caller, IsTrusted { folder: path }).await?;
        Ok(json!({ "trusted": trusted }))
    })
}

pub(super) fn trust(call: &Call<'_>) -> Handled {
    let (_, Folder { path }) = call.parse_for_session()?;
    let (service, caller) = (call.service().clone(), call.caller());
    call.later(async move {
        let Ok(folder) = tokio::fs::canonicalize(&path).await else {
            return Err(CallError::invalid(format_args!("{} does not exist", path.display())));
        };
        service.perform(&caller, Trust { folder }).await?;
        Ok(success())
    })
}
