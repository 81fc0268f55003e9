//! Sessions.

use baton_protocol::Timestamp;
use baton_protocol::environment::ClientEnvironment;
use baton_protocol::event::{AgentMode, PermissionMode};
use baton_service::Service;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::super::sandbox::NewSandbox;
use super::Limit;
use super::provider::Provider;

/// A session.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionView {
    pub(crate) id: String,
    /// Name that a client set, or the beginning of the first prompt.
    pub(crate) title: Option<String>,
    /// Working directory.
    pub(crate) cwd: Option<String>,
    pub(crate) repository: Option<String>,
    pub(crate) branch: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    pub(crate) created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub(crate) updated_at: Timestamp,
    /// Sequence number of the last event.
    pub(crate) head: u64,
    /// Whether a turn runs or a prompt is queued. Also true for pending work that a stopped server left.
    pub(crate) busy: bool,
    /// Process that holds the session, if it is a different server.
    pub(crate) held_by: Option<Holder>,
    /// Model of the session: the one it chose, else the one that answered. For an engine, such as `codex`, its name,
    /// optionally with one of its models.
    pub(crate) model: Option<String>,
    /// Cost of the model calls in US dollars, if the price of each model is configured.
    pub(crate) cost: Option<f64>,
    /// Number of clients that receive the session's events from this server.
    pub(crate) watching: usize,
    /// Part of the history that cannot be read, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) damage: Option<String>,
}

/// A different server that holds a session.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Holder {
    pub(crate) host: String,
    pub(crate) pid: u32,
}

impl SessionView {
    pub(crate) fn of(summary: &baton_store::Summary, service: &Service) -> Self {
        let overview = service.describe(summary);
        let context = overview.metadata.context.unwrap_or_default();
        Self {
            id: summary.session.to_string(),
            title: overview.metadata.summary,
            cwd: Some(context.cwd).filter(|cwd| !cwd.is_empty()),
            repository: context.repository,
            branch: context.branch,
            created_at: summary.created,
            updated_at: summary.modified,
            head: summary.head.0,
            busy: overview.busy,
            held_by: overview.held_by.map(|holder| Holder { host: holder.host, pid: holder.pid }),
            cost: overview.cost,
            model: overview.model,
            watching: overview.watching,
            damage: summary.damage.clone(),
        }
    }
}

/// List of sessions.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SessionList {
    pub(crate) sessions: Vec<SessionView>,
}

/// Which sessions to list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// Only sessions with this working directory.
    pub(crate) cwd: Option<String>,
    /// Maximum number of sessions.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 10000)]
    pub(crate) limit: Option<Limit<10_000>>,
}

/// Settings of a new session.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct NewSession {
    /// Session id: letters, digits and any of - _ . : @ + ~; default: a random id.
    #[schema(max_length = 128, pattern = "^[A-Za-z0-9_:@+~-][A-Za-z0-9_.:@+~-]*$")]
    pub(crate) id: Option<String>,
    /// Working directory; default: that of the server.
    pub(crate) cwd: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) reasoning_effort: Option<String>,
    /// Text to add to the system prompt.
    pub(crate) instructions: Option<String>,
    /// The only tools that the model may use.
    pub(crate) available_tools: Option<Vec<String>>,
    /// Tools that the model may not use.
    pub(crate) excluded_tools: Option<Vec<String>>,
    /// Run tools without asking for permission.
    #[serde(default)]
    pub(crate) allow_all_tools: bool,
    /// Let the model ask the user: questions, and in plan mode for approval of its plan. They stay pending until a client
    /// answers.
    #[serde(default)]
    pub(crate) questions: bool,
    /// Keep copies of files before tools change them, so that a rewind can restore them.
    #[serde(default)]
    pub(crate) track_files: bool,
    /// Model endpoint of this session, in place of the server's.
    pub(crate) provider: Option<Provider>,
    /// Variables of your environment, for the commands of the session in place of the server's. They are filtered, kept in memory
    /// only, and never returned: send them again after a restart of the server.
    #[schema(value_type = Option<std::collections::HashMap<String, String>>)]
    pub(crate) environment: Option<ClientEnvironment>,
    /// What the programs of the session may touch: a level, or a level with rules; default: that of the configuration.
    pub(crate) sandbox: Option<NewSandbox>,
}

/// Fields of a session to change.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SessionChange {
    #[schema(pattern = "\\S")]
    pub(crate) name: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) reasoning_effort: Option<String>,
    /// Model endpoint of this session, in place of the one it had.
    pub(crate) provider: Option<Provider>,
    /// Variables of your environment, for the next commands of the session.
    #[schema(value_type = Option<std::collections::HashMap<String, String>>)]
    pub(crate) environment: Option<ClientEnvironment>,
    /// Agent mode.
    #[schema(value_type = Option<ModeName>)]
    pub(crate) mode: Option<AgentMode>,
    /// Permission mode.
    #[schema(value_type = Option<PermissionModeName>)]
    pub(crate) permissions: Option<PermissionMode>,
}

/// Agent mode: how far the agent works on its own.
// The names of `AgentMode`.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase", as = Mode)]
#[allow(dead_code, reason = "only described in the OpenAPI document")]
pub(crate) enum ModeName {
    Interactive,
    Plan,
    Autopilot,
    Shell,
}

/// Permission mode: what happens to requests that no rule or grant decides.
// The names of `PermissionMode`.
#[derive(ToSchema)]
#[schema(rename_all = "kebab-case", as = Permissions)]
#[allow(dead_code, reason = "only described in the OpenAPI document")]
pub(crate) enum PermissionModeName {
    Manual,
    Assisted,
    AllowAll,
}
