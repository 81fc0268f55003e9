//! The sandbox of a session.

use axum::Json;
use axum::extract::State;
use baton_core::ask::Amend;
use baton_core::{Change, Session};
use baton_protocol::sandbox::{SandboxChoice, SandboxLevel, SandboxNetwork, SandboxPolicy};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::extract::{By, JsonBody, PathParams, session_id};
use crate::Shared;
use crate::error::{ApiError, ErrorBody};

/// A level, or a level with rules.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum NewSandbox {
    Level(LevelName),
    Policy(Policy),
}

/// A level with the rules that change it. Paths are absolute.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = SandboxPolicy)]
pub(crate) struct Policy {
    level: LevelName,
    /// Paths that programs may write, beside the working directory.
    #[serde(default)]
    write: Vec<String>,
    /// Paths that programs may read although they are hidden by default.
    #[serde(default)]
    read: Vec<String>,
    /// Paths that are hidden, beside the secrets that always are.
    #[serde(default)]
    hide: Vec<String>,
    /// `none`, or `asked`: hosts that a rule, a grant or a person allows; default: that of the level.
    #[schema(value_type = Option<NetworkName>)]
    network: Option<SandboxNetwork>,
    /// Hosts that programs may reach without a request, such as `example.org` or `127.0.0.1:5432`.
    #[serde(default)]
    hosts: Vec<String>,
}

/// What programs may touch.
// The names of `SandboxLevel`.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
#[schema(as = SandboxLevel)]
pub(crate) enum LevelName {
    ReadOnly,
    Workspace,
    Off,
}

impl From<LevelName> for SandboxLevel {
    fn from(name: LevelName) -> Self {
        match name {
            LevelName::ReadOnly => Self::ReadOnly,
            LevelName::Workspace => Self::Workspace,
            LevelName::Off => Self::Off,
        }
    }
}

/// What programs in the sandbox may reach.
// The names of `SandboxNetwork`.
#[derive(ToSchema)]
#[schema(rename_all = "kebab-case", as = SandboxNetwork)]
#[allow(dead_code, reason = "only described in the OpenAPI document")]
pub(crate) enum NetworkName {
    None,
    Asked,
}

impl NewSandbox {
    /// Returns the choice of the caller.
    pub(crate) fn choice(self) -> Result<SandboxChoice, ApiError> {
        let policy = match self {
            Self::Level(level) => SandboxPolicy::of(level.into()),
            Self::Policy(Policy { level, write, read, hide, network, hosts }) => {
                let level = level.into();
                let network = network.unwrap_or(SandboxPolicy::of(level).network);
                SandboxPolicy { level, write, read, hide, network, hosts }
            }
        };
        match policy.relative_path() {
            Some(path) => {
                Err(ApiError::unprocessable("relative_path", format!("{path:?} is not an absolute path")))
            }
            None => Ok(SandboxChoice::of_user(policy)),
        }
    }
}

/// The sandbox of a session.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SandboxView {
    #[schema(value_type = LevelName)]
    level: SandboxLevel,
    /// Whether somebody chose it. Without a sandbox on this system, commands are then refused; otherwise they run outside.
    chosen: bool,
    /// Whether programs run inside.
    active: bool,
    /// Why they do not although the level says so.
    reason: Option<String>,
    write: Vec<String>,
    read: Vec<String>,
    hide: Vec<String>,
    #[schema(value_type = NetworkName)]
    network: SandboxNetwork,
    hosts: Vec<String>,
}

impl SandboxView {
    pub(crate) fn of(session: &Session) -> Self {
        let SandboxChoice { policy, chosen } = session.sandbox().clone();
        let SandboxPolicy { level, write, read, hide, network, hosts } = policy;
        let active = session.sandbox_level().is_inside();
        let reason = session.live.sandbox.missing.clone().filter(|_| level.is_inside());
        Self { level, chosen, active, reason, write, read, hide, network, hosts }
    }
}

/// What to set.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SandboxEdit {
    /// The sandbox; null returns to that of the configuration.
    sandbox: Option<NewSandbox>,
}

/// Set what the programs of a session may touch.
///
/// Holds from the next call on.
#[utoipa::path(put, path = "/api/sessions/{id}/sandbox", operation_id = "setSandbox", tag = "sessions", params(("id" = String, Path, description = "Session id")), request_body = SandboxEdit,
    responses((status = 200, description = "The sandbox", body = SandboxView),
        (status = 400, description = "Malformed request body", body = ErrorBody),
        (status = 404, description = "No such session", body = ErrorBody),
        (status = 409, description = "A different server holds the session", body = ErrorBody),
        (status = 415, description = "Request body is not JSON", body = ErrorBody),
        (status = 422, description = "Request body does not match the schema, or a path is not absolute", body = ErrorBody)))]
pub(super) async fn set(
    State(door): State<Shared>,
    By(caller): By,
    PathParams(id): PathParams<String>,
    JsonBody(edit): JsonBody<SandboxEdit>,
) -> Result<Json<SandboxView>, ApiError> {
    let id = session_id(&id)?;
    let choice = edit.sandbox.map(NewSandbox::choice).transpose()?.map(Box::new);
    door.service.ask(&caller, &id, Amend::by(caller.author(), Change::Sandbox(choice))).await?;
    let session = door.service.open(&caller, &id).await?.inspect().await?.session;
    Ok(Json(SandboxView::of(&session)))
}
