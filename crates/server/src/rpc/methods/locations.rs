//! Methods about locations: their grants, and trusted folders.

use std::path::PathBuf;

use baton_core::Change;
use baton_protocol::Author;
use baton_protocol::permission::Approval;
use baton_protocol::rpc::RpcError;
use baton_protocol::rules::{LocationRules, RuleListEdit, RulesEdit};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, Handling, success};
use crate::locations::Location;
use crate::rpc::errors;
use crate::session::{Failure, Handle, Mail};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct At {
    working_directory: PathBuf,
}

pub(super) fn resolve(call: &Call<'_>) -> Handling {
    call.session()?;
    let At { working_directory } = call.parse()?;
    let method = call.method.to_owned();
    call.later(async move {
        let found = Location::of(working_directory).await;
        let Location { key, kind } = found.map_err(|why| errors::failed(&method, why))?;
        Ok(json!({ "locationKey": key, "locationType": kind }))
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AddApproval {
    location_key: String,
    approval: Approval,
}

pub(super) fn add_approval(call: &Call<'_>) -> Handling {
    call.session()?;
    let AddApproval { location_key, approval } = call.parse()?;
    let (server, method) = (call.connection.server.clone(), call.method.to_owned());
    let by = Author::sdk(call.connection.client);
    call.later(async move {
        let stored = server.locations.grant(location_key, &approval, by).await;
        stored.map_err(|why| errors::failed(&method, why))?;
        Ok(success())
    })
}

/// Applies the grants of a location to a session, in place of those of the last one.
pub(super) fn apply(call: &Call<'_>) -> Handling {
    let handle = call.session()?;
    let At { working_directory } = call.parse()?;
    let (server, method) = (call.connection.server.clone(), call.method.to_owned());
    let by = Author::sdk(call.connection.client);
    call.later(async move {
        let found = Location::of(working_directory).await;
        let Location { key, kind } = found.map_err(|why| errors::failed(&method, why))?;
        let rules = server.locations.rules(&key).await.map_err(|why| errors::failed(&method, why))?;
        let location = LocationRules { key: key.clone(), rules: rules.clone() };
        let before = set_location(&handle, location, by).await;
        let before = before.map_err(|failure| errors::of(&method, &failure))?;
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

/// Has the rules of a location hold in a session; returns the location whose rules held before.
async fn set_location(
    handle: &Handle,
    location: LocationRules,
    by: Author,
) -> Result<Option<String>, Failure> {
    let before =
        handle.look(|view| view.session.durable.rules.location.as_ref().map(|known| known.key.clone()));
    let before = before.await?;
    let edit = Box::new(RulesEdit { location: Some(Some(location)), ..RulesEdit::default() });
    handle.ask(|respond| Mail::Change(Box::new(Change::Rules { edit, by }), respond)).await?;
    Ok(before)
}

/// Changes the grants of the location where a session works: for good, and in this session at once.
pub(super) fn modify(call: &Call<'_>, handle: Handle, edit: RuleListEdit) -> Handling {
    let (server, method) = (call.connection.server.clone(), call.method.to_owned());
    let by = Author::sdk(call.connection.client);
    call.later(async move {
        let told = |failure| errors::of(&method, &failure);
        let cwd = handle.look(|view| view.session.durable.facts.context.cwd.clone()).await.map_err(told)?;
        let found = Location::of(cwd.into()).await;
        let Location { key, .. } = found.map_err(|why| errors::failed(&method, why))?;
        let rules = server.locations.edit(key.clone(), edit, by.clone()).await;
        let rules = rules.map_err(|why| errors::failed(&method, why))?;
        set_location(&handle, LocationRules { key, rules }, by).await.map_err(told)?;
        Ok(success())
    })
}

#[derive(Deserialize)]
struct Folder {
    path: PathBuf,
}

pub(super) fn is_trusted(call: &Call<'_>) -> Handling {
    call.session()?;
    let Folder { path } = call.parse()?;
    let (server, method) = (call.connection.server.clone(), call.method.to_owned());
    call.later(async move {
        let trusted = server.locations.is_trusted(path).await.map_err(|why| errors::failed(&method, why))?;
        Ok(json!({ "trusted": trusted }))
    })
}

pub(super) fn trust(call: &Call<'_>) -> Handling {
    call.session()?;
    let Folder { path } = call.parse()?;
    let (server, method) = (call.connection.server.clone(), call.method.to_owned());
    call.later(async move {
        let Ok(folder) = tokio::fs::canonicalize(&path).await else {
            return Err(RpcError::bad_params(format!("{method}: {} does not exist", path.display())));
        };
        server.locations.trust(folder).await.map_err(|why| errors::failed(&method, why))?;
        Ok::<Value, RpcError>(success())
    })
}
