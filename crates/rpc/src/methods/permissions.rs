//! Rules and grants of a session.
//!
//! These methods change data; what a rule or grant covers is decided by the policy in `baton-core`.

use std::path::{Path, PathBuf};

use baton_core::Change;
use baton_core::ask::Amend;
use baton_protocol::EventId;
use baton_protocol::event::PermissionMode;
use baton_protocol::rules::{PathScope, Rule, RuleKind, RuleListEdit, RulesEdit, UrlScope};
use serde::Deserialize;
use serde_json::json;

use super::{Call, Handled, amend, locations, success};
use baton_files::locations::resolved;
use baton_service::LiveSession;

/// Directory of temporary files.
const TEMPORARY: &str = "/tmp";

/// Changes rules that name paths, and then the mode, if one is given. Links in the paths are resolved first, because the policy
/// compares real paths.
fn change_rules(
    call: &Call<'_>,
    handle: LiveSession,
    edit: RulesEdit,
    mode: Option<PermissionMode>,
) -> Handled {
    let (by, home) = (call.author(), user_home(call));
    call.later(async move {
        let cwd = handle.inspect().await?.cwd().to_owned();
        let edit = Box::new(with_resolved_paths(edit, Path::new(&cwd), home.as_deref()).await);
        // Rules first: no request is decided by the new mode without the new deny rules.
        amend(&handle, by.clone(), Change::Rules { edit, by: by.clone() }).await?;
        if let Some(mode) = mode {
            amend(&handle, by, Change::Permissions(mode)).await?;
        }
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

/// Resolves the path of a rule: from the working directory, or from the user's home if it begins with `~`.
async fn resolved_text(cwd: &Path, home: Option<&Path>, path: &str) -> String {
    let path = match (path.strip_prefix('~'), home) {
        (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => {
            home.join(rest.trim_start_matches('/'))
        }
        _ => cwd.join(path),
    };
    resolved(path).await.to_string_lossy().into_owned()
}

/// Returns the home directory of the user, as commands of sessions see it.
fn user_home(call: &Call<'_>) -> Option<PathBuf> {
    call.service().tool_variable("HOME").map(PathBuf::from)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Configure {
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

/// Replaces the parts of the configuration that are given. The others stay.
pub(super) fn configure(call: &Call<'_>) -> Handled {
    let (handle, params): (_, Configure) = call.parse_for_session()?;
    let mode = params.approve_all_tool_permission_requests.map(approve_all_mode);
    change_rules(call, handle, params.into(), mode)
}

/// Returns allow-all mode, or the mode that asks.
pub(super) fn approve_all_mode(approve_all: bool) -> PermissionMode {
    if approve_all { PermissionMode::AllowAll } else { PermissionMode::Manual }
}

impl From<Configure> for RulesEdit {
    fn from(params: Configure) -> Self {
        let replace = |rules: Vec<Rule>| RuleListEdit { replace: Some(rules), ..RuleListEdit::default() };
        let (approved, denied) =
            params.rules.map(|set| (replace(set.approved), replace(set.denied))).unwrap_or_default();
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
    #[serde(default)]
    scope: Scope,
    add: Option<Vec<Rule>>,
    remove: Option<Vec<Rule>>,
    remove_all: Option<bool>,
}

/// Where a rule applies: in the session only, or in all sessions of its location.
#[derive(Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Scope {
    #[default]
    Session,
    Location,
}

pub(super) fn modify_rules(call: &Call<'_>) -> Handled {
    let (handle, ModifyRules { scope, add, remove, remove_all }) = call.parse_for_session()?;
    let edit = RuleListEdit {
        replace: None,
        add: add.unwrap_or_default(),
        remove: remove.unwrap_or_default(),
        remove_all: remove_all.unwrap_or(false),
    };
    match scope {
        Scope::Session => {
            change_rules(call, handle, RulesEdit { approved: edit, ..RulesEdit::default() }, None)
        }
        Scope::Location => locations::modify(call, handle, edit),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reset {
    include_location: Option<bool>,
}

/// Revokes all grants and allow rules of a session. Grants of its location stay stored, and stop applying to this session.
pub(super) fn reset(call: &Call<'_>) -> Handled {
    let (handle, Reset { include_location }) = call.parse_for_session()?;
    let by = call.author();
    let edit = Box::new(RulesEdit {
        approved: RuleListEdit { remove_all: true, ..RuleListEdit::default() },
        location: include_location.unwrap_or(true).then_some(None),
        ..RulesEdit::default()
    });
    let rules = Change::Rules { edit, by: by.clone() };
    handle.tell(Amend::by(by.clone(), rules))?;
    call.amend(&handle, Change::Revoke { grant: None, by }, success())
}

/// Lists the grants of a session, with the author of each, and its rules.
pub(super) fn list_grants(call: &Call<'_>) -> Handled {
    call.inspect(|view| {
        let durable = &view.session.durable;
        json!({ "grants": durable.grants, "rules": durable.rules, "mode": durable.facts.permissions })
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RevokeGrant {
    grant_id: EventId,
}

/// Revokes a grant. Replies whether it existed.
pub(super) fn revoke_grant(call: &Call<'_>) -> Handled {
    let (handle, RevokeGrant { grant_id }) = call.parse_for_session()?;
    let change = Change::Revoke { grant: Some(grant_id), by: call.author() };
    let ask = Amend::by(call.author(), change);
    call.ask(&handle, ask, |event| json!({ "success": event.is_some() }))
}

#[derive(Deserialize)]
struct Enabled {
    enabled: bool,
}

pub(super) fn unrestricted_urls(call: &Call<'_>) -> Handled {
    let (handle, Enabled { enabled }) = call.parse_for_session()?;
    let edit = Box::new(RulesEdit { unrestricted_urls: Some(enabled), ..RulesEdit::default() });
    call.amend(&handle, Change::Rules { edit, by: call.author() }, success())
}

/// Answers methods with nothing to do: every attached client is sent every request.
pub(super) fn acknowledge(call: &Call<'_>) -> Handled {
    call.session()?;
    call.now(success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn paths_of_rules_are_relative_to_the_working_directory_or_the_home() {
        let home = Some(Path::new("/nowhere/home"));
        let resolved = async |path: &str| resolved_text(Path::new("/nowhere/work"), home, path).await;
        assert_eq!(resolved("~/.ssh").await, "/nowhere/home/.ssh");
        assert_eq!(resolved("~").await, "/nowhere/home");
        assert_eq!(resolved("~other").await, "/nowhere/work/~other");
        assert_eq!(resolved("src").await, "/nowhere/work/src");
        assert_eq!(resolved("/etc").await, "/etc");
    }
}
