//! What people have allowed in a place for good, and which folders they trust: kept in `permissions.json` of the
//! server's directory, and given to a session when a client asks for it.
#![allow(
    clippy::disallowed_methods,
    reason = "still resolves paths on a worker; to be moved to `baton_agent::blocking`"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use baton_protocol::permission::Approval;
use baton_protocol::rpc::RpcError;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::permissions::RuleEdit;
use super::{Call, Handling, success};
use crate::kept::Kept;
use crate::rpc::errors;
use crate::session::{Handle, Location, Mail, Rule};
use crate::{Server, git};

/// The file.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Permissions {
    /// What is allowed, by the key of the place.
    locations: BTreeMap<String, Vec<Rule>>,
    trusted: BTreeSet<PathBuf>,
}

fn file(server: &Server) -> Kept {
    server.keep.file("permissions.json")
}

/// A place that rules are kept for: a repository, wherever in it one is, or a directory.
#[derive(Clone)]
struct Place {
    key: String,
    kind: &'static str,
}

impl Place {
    /// Blocks.
    fn around(directory: &Path) -> Self {
        let directory = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
        let (root, kind) = match git::around(&directory) {
            Some(repository) => (repository.root, "repo"),
            None => (directory, "dir"),
        };
        Self { key: root.to_string_lossy().into_owned(), kind }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct At {
    working_directory: PathBuf,
}

pub(super) fn resolve(call: &Call<'_>) -> Handling {
    call.session()?;
    let At { working_directory } = call.parse()?;
    let Place { key, kind } = Place::around(&working_directory);
    call.now(json!({ "locationKey": key, "locationType": kind }))
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
    call.later(async move {
        grant(&server, location_key, &approval).await.map_err(|why| errors::failed(&method, why))?;
        Ok(success())
    })
}

/// Keeps a grant for a place.
pub(super) async fn grant(server: &Server, location: String, approval: &Approval) -> Result<(), String> {
    let add = RuleEdit::adding(Rule::of(approval));
    let edit = move |kept: &mut Permissions| add.apply(kept.locations.entry(location).or_default());
    file(server).edit(edit).await
}

/// Gives a session what is allowed in a place, instead of what was allowed in the last one: from here on nobody is asked
/// for it.
pub(super) fn apply(call: &Call<'_>) -> Handling {
    let handle = call.session()?;
    let At { working_directory } = call.parse()?;
    let (server, method) = (call.connection.server.clone(), call.method.to_owned());
    call.later(async move {
        let Place { key, kind } = Place::around(&working_directory);
        let mut kept: Permissions = file(&server).read().await.map_err(|why| errors::failed(&method, why))?;
        let rules = kept.locations.remove(&key).unwrap_or_default();
        let before = set_location(&handle, Location { key: key.clone(), rules: rules.clone() });
        let before = before.await.map_err(|failure| errors::of(&method, &failure))?;
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

/// Has the rules of a place hold in a session; returns the place whose rules held before.
async fn set_location(
    handle: &Handle,
    location: Location,
) -> Result<Option<String>, crate::session::Failure> {
    let before =
        |view: crate::session::View<'_>| view.settings.rules.location.as_ref().map(|place| place.key.clone());
    let before = handle.look(before).await?;
    handle.send(Mail::Adjust(Box::new(|settings| settings.rules.location = Some(location))))?;
    Ok(before)
}

/// Changes what is allowed in the place where a session works: for good, and in this session at once.
pub(super) fn modify(call: &Call<'_>, handle: Handle, edit: RuleEdit) -> Handling {
    let (server, method) = (call.connection.server.clone(), call.method.to_owned());
    call.later(async move {
        let told = |failure| errors::of(&method, &failure);
        let cwd = handle.look(|view| view.session.durable.facts.context.cwd.clone()).await.map_err(told)?;
        let Place { key, .. } = Place::around(cwd.as_ref());
        let place = key.clone();
        let change = move |kept: &mut Permissions| {
            let rules = kept.locations.entry(place).or_default();
            edit.apply(rules);
            rules.clone()
        };
        let rules = file(&server).edit(change).await.map_err(|why| errors::failed(&method, why))?;
        set_location(&handle, Location { key, rules }).await.map_err(told)?;
        Ok(success())
    })
}

#[derive(Deserialize)]
struct Folder {
    path: PathBuf,
}

/// A folder is trusted if it, or one around it, was declared to be.
pub(super) fn is_trusted(call: &Call<'_>) -> Handling {
    call.session()?;
    let Folder { path } = call.parse()?;
    let (server, method) = (call.connection.server.clone(), call.method.to_owned());
    call.later(async move {
        let kept: Permissions = file(&server).read().await.map_err(|why| errors::failed(&method, why))?;
        let path = path.canonicalize().unwrap_or(path);
        let trusted = path.ancestors().any(|ancestor| kept.trusted.contains(ancestor));
        Ok(json!({ "trusted": trusted }))
    })
}

pub(super) fn trust(call: &Call<'_>) -> Handling {
    call.session()?;
    let Folder { path } = call.parse()?;
    let Ok(path) = path.canonicalize() else {
        let why = format!("{}: {} does not exist", call.method, path.display());
        return Err(RpcError::bad_params(why));
    };
    let (server, method) = (call.connection.server.clone(), call.method.to_owned());
    call.later(async move {
        let trust = move |kept: &mut Permissions| kept.trusted.insert(path);
        file(&server).edit(trust).await.map_err(|why| errors::failed(&method, why))?;
        Ok::<Value, RpcError>(success())
    })
}
