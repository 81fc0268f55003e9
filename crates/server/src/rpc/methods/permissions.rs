//! Methods about what a session may do without asking: rules, directories, pages, grants.
//!
//! They change data; what a rule or grant covers is decided by the policy in `baton-core`.

use std::path::{Path, PathBuf};

use baton_core::Change;
use baton_protocol::event::PermissionMode;
use baton_protocol::rpc::RpcError;
use baton_protocol::rules::{PathScope, Rule, RuleKind, RuleListEdit, RulesEdit, UrlScope};
use baton_protocol::{Author, EventId, SessionId};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, Handling, locations, success};
use crate::locations::resolved;
use crate::rpc::errors;
use crate::session::{Handle, Mail};

/// Where temporary files are.
const TEMPORARY: &str = "/tmp";

/// Changes the rules, and answers once that is durable. What is sent to the session next finds them changed.
fn change_rules(call: &Call<'_>, handle: &Handle, edit: RulesEdit) -> Handling {
    let change = Change::Rules { edit: Box::new(edit), by: Author::sdk(call.connection.client) };
    call.by_responder(handle, |respond| Mail::Change(Box::new(change), respond), |_| Ok(success()))
}

/// The same for rules that name paths: links are resolved first, so that the policy compares what is really there.
fn change_rules_with_paths(call: &Call<'_>, handle: Handle, edit: RulesEdit) -> Handling {
    let (method, by) = (call.method.to_owned(), Author::sdk(call.connection.client));
    let home = user_home(call);
    call.later(async move {
        let told = |failure| errors::of(&method, &failure);
        let cwd = handle.look(|view| view.session.durable.facts.context.cwd.clone()).await.map_err(told)?;
        let edit = Box::new(with_resolved_paths(edit, Path::new(&cwd), home.as_deref()).await);
        let change = Box::new(Change::Rules { edit, by });
        handle.ask(|respond| Mail::Change(change, respond)).await.map_err(told)?;
        Ok(success())
    })
}

async fn with_resolved_paths(mut edit: RulesEdit, cwd: &Path, home: Option<&Path>) -> RulesEdit {
    for list in [&mut edit.approved, &mut edit.denied] {
        let replaced = list.replace.iter_mut().flatten();
        for rule in replaced.chain(&mut list.add).chain(&mut list.remove) {
            if let (RuleKind::Read | RuleKind::Write, Some(path)) = (rule.kind, &mut rule.argument) {
                *path = resolved_text(cwd, home, path).await;
            }
        }
    }
    if let Some(paths) = &mut edit.paths {
        for path in paths.directories.iter_mut().chain(&mut paths.primary) {
            *path = resolved_text(cwd, home, path).await;
        }
    }
    edit
}

/// A path of a rule as the policy compares it: from the working directory, or from the user's home where it begins with `~`.
async fn resolved_text(cwd: &Path, home: Option<&Path>, path: &str) -> String {
    let path = match (path.strip_prefix('~'), home) {
        (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => {
            home.join(rest.trim_start_matches('/'))
        }
        _ => cwd.join(path),
    };
    resolved(path).await.to_string_lossy().into_owned()
}

/// The home directory of the user, as commands of sessions know it.
fn user_home(call: &Call<'_>) -> Option<PathBuf> {
    let environment = &call.connection.server.options.environment;
    environment.iter().find(|(name, _)| name == "HOME").map(|(_, home)| PathBuf::from(home))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Configure {
    session_id: SessionId,
    approve_all_tool_permission_requests: Option<bool>,
    approve_all_read_permission_requests: Option<bool>,
    rules: Option<RuleSet>,
    paths: Option<PathsConfig>,
    urls: Option<UrlsConfig>,
}

#[derive(Deserialize)]
struct RuleSet {
    approved: Vec<Rule>,
    denied: Vec<Rule>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PathsConfig {
    workspace_path: Option<String>,
    additional_directories: Option<Vec<String>>,
    include_temp_directory: Option<bool>,
    unrestricted: Option<bool>,
}

impl From<PathsConfig> for PathScope {
    fn from(config: PathsConfig) -> Self {
        let mut directories = config.additional_directories.unwrap_or_default();
        if config.include_temp_directory.unwrap_or(true) {
            directories.push(TEMPORARY.to_owned());
        }
        let unrestricted = config.unrestricted.unwrap_or(false);
        Self { primary: config.workspace_path, directories, unrestricted }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UrlsConfig {
    initial_allowed: Option<Vec<String>>,
    unrestricted: Option<bool>,
}

/// Sets what is named, whole, and leaves the rest as it is.
pub(super) fn configure(call: &Call<'_>) -> Handling {
    let params: Configure = call.parse()?;
    let handle = call.attached(&params.session_id)?;
    let mode = params.approve_all_tool_permission_requests;
    let mode = mode.map(|all| if all { PermissionMode::AllowAll } else { PermissionMode::Manual });
    let (method, by) = (call.method.to_owned(), Author::sdk(call.connection.client));
    let home = user_home(call);
    let edit = RulesEdit::from(params);
    call.later(async move {
        let told = |failure| errors::of(&method, &failure);
        let cwd = handle.look(|view| view.session.durable.facts.context.cwd.clone()).await.map_err(told)?;
        let edit = Box::new(with_resolved_paths(edit, Path::new(&cwd), home.as_deref()).await);
        // Rules first: no request is decided by the new mode without the new deny rules.
        let rules = Box::new(Change::Rules { edit, by });
        handle.ask(|respond| Mail::Change(rules, respond)).await.map_err(told)?;
        if let Some(mode) = mode {
            let change = Box::new(Change::Permissions(mode));
            handle.ask(|respond| Mail::Change(change, respond)).await.map_err(told)?;
        }
        Ok(success())
    })
}

impl From<Configure> for RulesEdit {
    fn from(params: Configure) -> Self {
        let whole = |rules: Vec<Rule>| RuleListEdit { replace: Some(rules), ..RuleListEdit::default() };
        let (approved, denied) =
            params.rules.map(|set| (whole(set.approved), whole(set.denied))).unwrap_or_default();
        Self {
            approved,
            denied,
            all_reads: params.approve_all_read_permission_requests,
            paths: params.paths.map(PathScope::from),
            urls: params.urls.map(|urls| UrlScope {
                allowed: urls.initial_allowed.unwrap_or_default(),
                unrestricted: urls.unrestricted.unwrap_or(false),
            }),
            ..Self::default()
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ModifyRules {
    session_id: SessionId,
    #[serde(default)]
    scope: Scope,
    add: Option<Vec<Rule>>,
    remove: Option<Vec<Rule>>,
    remove_all: Option<bool>,
}

/// How long a rule holds: as long as the session does, or for good in the location where it works.
#[derive(Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Scope {
    #[default]
    Session,
    Location,
}

pub(super) fn modify_rules(call: &Call<'_>) -> Handling {
    let ModifyRules { session_id, scope, add, remove, remove_all } = call.parse()?;
    let handle = call.attached(&session_id)?;
    let edit = RuleListEdit {
        replace: None,
        add: add.unwrap_or_default(),
        remove: remove.unwrap_or_default(),
        remove_all: remove_all.unwrap_or(false),
    };
    match scope {
        Scope::Session => {
            change_rules_with_paths(call, handle, RulesEdit { approved: edit, ..RulesEdit::default() })
        }
        Scope::Location => locations::modify(call, handle, edit),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reset {
    session_id: SessionId,
    include_location: Option<bool>,
}

/// Revokes all grants and allow rules of this session. What is stored for the location stays; it only stops to hold here.
pub(super) fn reset(call: &Call<'_>) -> Handling {
    let Reset { session_id, include_location } = call.parse()?;
    let handle = call.attached(&session_id)?;
    let by = Author::sdk(call.connection.client);
    let edit = Box::new(RulesEdit {
        approved: RuleListEdit { remove_all: true, ..RuleListEdit::default() },
        location: include_location.unwrap_or(true).then_some(None),
        ..RulesEdit::default()
    });
    let rules = Box::new(Change::Rules { edit, by: by.clone() });
    handle.send(Mail::Change(rules, Box::new(drop))).map_err(|failure| errors::of(call.method, &failure))?;
    let revoke = Box::new(Change::Revoke { grant: None, by });
    call.by_responder(&handle, |respond| Mail::Change(revoke, respond), |_| Ok(success()))
}

/// Lists the grants of a session and its standing rules, with who gave each grant.
pub(super) fn list_grants(call: &Call<'_>) -> Handling {
    call.view(|view| {
        let durable = &view.session.durable;
        json!({ "grants": durable.grants, "rules": durable.rules, "mode": durable.facts.permissions })
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RevokeGrant {
    session_id: SessionId,
    grant_id: EventId,
}

/// Revokes one grant. Answers whether there was such a grant.
pub(super) fn revoke_grant(call: &Call<'_>) -> Handling {
    let RevokeGrant { session_id, grant_id } = call.parse()?;
    let handle = call.attached(&session_id)?;
    let change = Change::Revoke { grant: Some(grant_id), by: Author::sdk(call.connection.client) };
    call.by_responder(
        &handle,
        |respond| Mail::Change(Box::new(change), respond),
        |reply| Ok(json!({ "success": matches!(reply, baton_core::Reply::Done(Some(_))) })),
    )
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Enabled {
    session_id: SessionId,
    enabled: bool,
}

pub(super) fn unrestricted_urls(call: &Call<'_>) -> Handling {
    let Enabled { session_id, enabled } = call.parse()?;
    let handle = call.attached(&session_id)?;
    change_rules(call, &handle, RulesEdit { unrestricted_urls: Some(enabled), ..RulesEdit::default() })
}

/// Answers hints that change nothing: every attached client is shown every request.
pub(super) fn noted(call: &Call<'_>) -> Handling {
    call.session()?;
    call.now(success())
}

pub(super) fn list_paths(call: &Call<'_>) -> Handling {
    call.view(|view| {
        let durable = &view.session.durable;
        let primary = durable.rules.paths.primary.as_ref().unwrap_or(&durable.facts.context.cwd);
        let directories: Vec<&String> =
            [primary].into_iter().chain(&durable.rules.paths.directories).collect();
        json!({ "primary": primary, "directories": directories })
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OnePath {
    session_id: SessionId,
    path: PathBuf,
}

/// Changes the rules for a directory that exists.
fn change_directory(call: &Call<'_>, edit: impl FnOnce(String) -> RulesEdit + Send + 'static) -> Handling {
    let OnePath { session_id, path } = call.parse()?;
    let (handle, method) = (call.attached(&session_id)?, call.method.to_owned());
    let by = Author::sdk(call.connection.client);
    call.later(async move {
        let is_directory = tokio::fs::metadata(&path).await.is_ok_and(|found| found.is_dir());
        if !path.is_absolute() || !is_directory {
            let path = path.display();
            let why = format!("{method}: {path} is not the full path of a directory that exists");
            return Err(RpcError::bad_params(why));
        }
        let directory = resolved(path).await.to_string_lossy().into_owned();
        let change = Box::new(Change::Rules { edit: Box::new(edit(directory)), by });
        let changed = handle.ask(|respond| Mail::Change(change, respond)).await;
        changed.map_err(|failure| errors::of(&method, &failure))?;
        Ok::<Value, RpcError>(success())
    })
}

pub(super) fn add_path(call: &Call<'_>) -> Handling {
    change_directory(call, |directory| RulesEdit { add_directory: Some(directory), ..RulesEdit::default() })
}

pub(super) fn update_primary(call: &Call<'_>) -> Handling {
    change_directory(call, |directory| RulesEdit { primary: Some(directory), ..RulesEdit::default() })
}

pub(super) fn is_allowed(call: &Call<'_>) -> Handling {
    check(call, true)
}

pub(super) fn is_in_workspace(call: &Call<'_>) -> Handling {
    check(call, false)
}

/// Whether a path is in the workspace, or also in one of the further directories. One with `..` in it is in none.
fn check(call: &Call<'_>, further: bool) -> Handling {
    let OnePath { session_id, path } = call.parse()?;
    let (handle, method) = (call.attached(&session_id)?, call.method.to_owned());
    call.later(async move {
        let scope = handle.look(|view| {
            let durable = &view.session.durable;
            let paths = durable.rules.paths.clone();
            (paths.primary.clone().unwrap_or_else(|| durable.facts.context.cwd.clone()), paths)
        });
        let (primary, paths) = scope.await.map_err(|failure| errors::of(&method, &failure))?;
        let is_straight = path.components().all(|part| part != std::path::Component::ParentDir);
        let path = resolved(path).await;
        let mut directories = vec![resolved(primary.into()).await];
        if further {
            directories.extend(paths.directories.iter().map(PathBuf::from));
        }
        let inside = is_straight && directories.iter().any(|directory| path.starts_with(directory));
        Ok(json!({ "allowed": inside || (further && paths.unrestricted) }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn paths_of_rules_mean_what_a_person_means_by_them() {
        let home = Some(Path::new("/nowhere/home"));
        let resolved = async |path: &str| resolved_text(Path::new("/nowhere/work"), home, path).await;
        assert_eq!(resolved("~/.ssh").await, "/nowhere/home/.ssh");
        assert_eq!(resolved("~").await, "/nowhere/home");
        assert_eq!(resolved("~other").await, "/nowhere/work/~other");
        assert_eq!(resolved("src").await, "/nowhere/work/src");
        assert_eq!(resolved("/etc").await, "/etc");
    }
}
