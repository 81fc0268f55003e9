//! What a session may do without asking: rules, directories, web pages.
#![allow(
    clippy::disallowed_methods,
    reason = "still resolves paths on a worker; to be moved to `baton_agent::blocking`"
)]

use std::path::{Path, PathBuf};

use baton_core::Change;
use baton_protocol::SessionId;
use baton_protocol::event::PermissionMode;
use baton_protocol::rpc::RpcError;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, Handling, locations, success};
use crate::rpc::errors;
use crate::session::{Handle, Mail, Paths, Rule, Rules, Urls, View, is_within};

/// Where temporary files are.
const TEMPORARY: &str = "/tmp";

/// Changes the rules, and says that it worked. What is sent next to the session finds them changed.
fn adjust(call: &Call<'_>, handle: &Handle, change: impl FnOnce(&mut Rules) + Send + 'static) -> Handling {
    let adjust = Mail::Adjust(Box::new(move |settings| change(&mut settings.rules)));
    handle.send(adjust).map_err(|failure| errors::of(call.method, &failure))?;
    call.now(success())
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
    workspace_path: Option<PathBuf>,
    additional_directories: Option<Vec<PathBuf>>,
    include_temp_directory: Option<bool>,
    unrestricted: Option<bool>,
}

impl From<PathsConfig> for Paths {
    fn from(config: PathsConfig) -> Self {
        let mut directories = config.additional_directories.unwrap_or_default();
        if config.include_temp_directory.unwrap_or(true) {
            directories.push(PathBuf::from(TEMPORARY));
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
    let adjusted = adjust(call, &handle, move |rules| params.apply(rules))?;
    match mode {
        None => Ok(adjusted),
        Some(mode) => {
            let change = Box::new(Change::Permissions(mode));
            call.by_responder(&handle, |respond| Mail::Change(change, respond), |_| Ok(success()))
        }
    }
}

impl Configure {
    fn apply(self, to: &mut Rules) {
        if let Some(set) = self.rules {
            (to.approved, to.denied) = (set.approved, set.denied);
        }
        to.all_reads = self.approve_all_read_permission_requests.unwrap_or(to.all_reads);
        if let Some(paths) = self.paths {
            to.paths = paths.into();
        }
        if let Some(urls) = self.urls {
            let allowed = urls.initial_allowed.unwrap_or_default();
            to.urls = Urls { allowed, unrestricted: urls.unrestricted.unwrap_or(false) };
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ModifyRules {
    session_id: SessionId,
    #[serde(default)]
    scope: Scope,
    #[serde(flatten)]
    edit: RuleEdit,
}

/// How long a rule holds: as long as the session is in memory, or for good in the place where it works.
#[derive(Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Scope {
    #[default]
    Session,
    Location,
}

/// What is to be done to a list of rules.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RuleEdit {
    #[serde(default)]
    add: Option<Vec<Rule>>,
    #[serde(default)]
    remove: Option<Vec<Rule>>,
    #[serde(default)]
    remove_all: Option<bool>,
}

impl RuleEdit {
    pub(super) fn adding(rules: Vec<Rule>) -> Self {
        Self { add: Some(rules), ..Self::default() }
    }

    /// Adds first, then removes.
    pub(super) fn apply(self, rules: &mut Vec<Rule>) {
        for rule in self.add.unwrap_or_default() {
            if !rules.contains(&rule) {
                rules.push(rule);
            }
        }
        let remove = self.remove.unwrap_or_default();
        let all = self.remove_all.unwrap_or(false);
        rules.retain(|rule| !all && !remove.contains(rule));
    }
}

pub(super) fn modify_rules(call: &Call<'_>) -> Handling {
    let ModifyRules { session_id, scope, edit } = call.parse()?;
    let handle = call.attached(&session_id)?;
    match scope {
        Scope::Session => adjust(call, &handle, move |rules| edit.apply(&mut rules.approved)),
        Scope::Location => locations::modify(call, handle, edit),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reset {
    session_id: SessionId,
    include_location: Option<bool>,
}

/// Forgets what was granted in this session. What is kept for the place stays kept; it only stops to hold here.
pub(super) fn reset(call: &Call<'_>) -> Handling {
    let Reset { session_id, include_location } = call.parse()?;
    let handle = call.attached(&session_id)?;
    adjust(call, &handle, move |rules| {
        rules.approved.clear();
        if include_location.unwrap_or(true) {
            rules.location = None;
        }
    })?;
    let change = Box::new(Change::ForgetApprovals);
    call.by_responder(&handle, |respond| Mail::Change(change, respond), |_| Ok(success()))
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
    adjust(call, &handle, move |rules| rules.urls.unrestricted = enabled)
}

/// Everybody who is attached sees every request, wanted or not; and that a prompt was shown is nobody's business but
/// the client's.
pub(super) fn noted(call: &Call<'_>) -> Handling {
    call.session()?;
    call.now(success())
}

pub(super) fn list_paths(call: &Call<'_>) -> Handling {
    call.view(|view| {
        let primary = primary(&view);
        let mut directories = vec![primary.clone()];
        directories.extend(view.settings.rules.paths.directories.iter().cloned());
        json!({ "primary": primary, "directories": directories })
    })
}

fn primary(view: &View<'_>) -> PathBuf {
    let own = || PathBuf::from(&view.session.durable.facts.context.cwd);
    view.settings.rules.paths.primary.clone().unwrap_or_else(own)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OnePath {
    session_id: SessionId,
    path: PathBuf,
}

fn directory(call: &Call<'_>) -> Result<(Handle, PathBuf), RpcError> {
    let OnePath { session_id, path } = call.parse()?;
    if !path.is_absolute() || !path.is_dir() {
        let path = path.display();
        let why = format!("{}: {path} is not the full path of a directory that exists", call.method);
        return Err(RpcError::bad_params(why));
    }
    Ok((call.attached(&session_id)?, path))
}

pub(super) fn add_path(call: &Call<'_>) -> Handling {
    let (handle, path) = directory(call)?;
    adjust(call, &handle, |rules| {
        if !rules.paths.directories.contains(&path) {
            rules.paths.directories.push(path);
        }
    })
}

pub(super) fn update_primary(call: &Call<'_>) -> Handling {
    let (handle, path) = directory(call)?;
    adjust(call, &handle, |rules| rules.paths.primary = Some(path))
}

pub(super) fn is_allowed(call: &Call<'_>) -> Handling {
    check(call, |view, path| {
        let cwd = Path::new(&view.session.durable.facts.context.cwd);
        view.settings.rules.paths.allow(path, cwd)
    })
}

pub(super) fn is_in_workspace(call: &Call<'_>) -> Handling {
    check(call, |view, path| is_within(path, &primary(view)))
}

fn check(call: &Call<'_>, test: impl FnOnce(&View<'_>, &Path) -> bool + Send + 'static) -> Handling {
    let OnePath { path, .. } = call.parse()?;
    call.view(move |view| -> Value { json!({ "allowed": test(&view, &path) }) })
}
