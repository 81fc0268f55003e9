//! Parameters of the calls that create and drive sessions.
//!
//! Every field is optional and unknown fields are ignored: SDK versions differ in which fields they send, not
//! in their meaning. A field of the wrong type is an error that names the field.
#![allow(missing_docs, reason = "field names are those of the wire; the struct is documented")]

use std::collections::BTreeMap;

use baton_json::path_of;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::agent::{CustomAgent, SessionLimits};
use crate::attachment::Attachment;
use crate::environment::ClientEnvironment;
use crate::event::{AgentMode, Prompt, SendMode};
use crate::ids::SessionId;
use crate::json::Json;
use crate::provider::{ProviderConfig, ProviderModel};
use crate::rpc::RpcError;
use crate::sandbox::{SandboxChoice, SandboxLevel, SandboxNetwork, SandboxPolicy};
use crate::tool::{SlashCommand, ToolSpec};
use crate::workflow::Definition;

/// Parses the parameters of a method.
///
/// # Errors
/// An invalid-params error that names the field and the problem.
pub fn parse<T: DeserializeOwned>(method: &str, params: &Json) -> Result<T, RpcError> {
    let text = if params.as_str() == "null" { "{}" } else { params.as_str() };
    baton_json::from_str(text).map_err(|error| invalid(method, &path_of::<T>(text), &error))
}

fn invalid(method: &str, at: &str, error: &serde_json::Error) -> RpcError {
    let field = if at.is_empty() { String::new() } else { format!(" `{at}`") };
    RpcError::bad_params(format!("{method}: invalid parameter{field}: {error}"))
}

/// Parameters of `session.create` and `session.resume`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SessionParams {
    /// Whether these settings are stored with the session. Not on the wire: SDKs send them again when they
    /// resume; APIs whose clients do not resume set this.
    #[serde(skip)]
    pub keep: bool,
    /// Create only: sandbox of the session's programs; `None` means that of the configuration. Not on the wire: each API has
    /// words of its own for it.
    #[serde(skip)]
    pub sandbox: Option<Box<SandboxChoice>>,
    /// Variables of the client, for the commands of the session in place of the server's. Not on the wire: only doors whose
    /// clients may be on this machine take them.
    #[serde(skip)]
    pub environment: Option<ClientEnvironment>,
    /// Sandbox, in the words of SDKs.
    pub sandbox_config: Option<SandboxConfig>,
    pub session_id: Option<SessionId>,
    pub client_name: Option<String>,
    /// Create only: the name that the user chose.
    pub name: Option<String>,
    pub model: Option<String>,
    pub reasoning_effort: Option<String>,
    pub model_capabilities: Option<Json>,
    pub tools: Option<Vec<ToolSpec>>,
    pub commands: Option<Vec<SlashCommand>>,
    pub system_message: Option<SystemMessageConfig>,
    pub available_tools: Option<Vec<String>>,
    pub excluded_tools: Option<Vec<String>>,
    /// Sent by the newest SDKs only.
    pub tool_filter_precedence: Option<String>,
    pub default_agent: Option<DefaultAgent>,
    pub custom_agents: Option<Vec<CustomAgent>>,
    /// The custom agent that the conversation starts with.
    pub agent: Option<String>,
    pub excluded_builtin_agents: Option<Vec<String>>,
    pub session_limits: Option<SessionLimits>,
    pub provider: Option<ProviderConfig>,
    pub providers: Option<Vec<ProviderConfig>>,
    pub models: Option<Vec<ProviderModel>>,
    pub capi: Option<CapiOptions>,
    pub enable_citations: Option<bool>,
    pub large_output: Option<LargeOutput>,
    pub infinite_sessions: Option<InfiniteSessions>,
    pub request_permission: Option<bool>,
    pub request_user_input: Option<bool>,
    pub request_elicitation: Option<bool>,
    /// Whether the session uses GitHub's MCP server, and with which tools.
    pub github_mcp_tool_config: Option<GithubMcpToolConfig>,
    /// Whether the client shows MCP apps.
    pub request_mcp_apps: Option<bool>,
    pub request_exit_plan_mode: Option<bool>,
    pub request_auto_mode_switch: Option<bool>,
    pub hooks: Option<bool>,
    /// MCP servers of the session, by name.
    pub mcp_servers: Option<BTreeMap<String, Json>>,
    /// Names of MCP servers that the session does not use, wherever they are configured.
    pub disabled_mcp_servers: Option<Vec<String>>,
    /// Directories whose subdirectories are skills.
    pub skill_directories: Option<Vec<String>>,
    /// Names of skills that the session does not use.
    pub disabled_skills: Option<Vec<String>>,
    /// Whether the session has skills; `None` means yes.
    pub enable_skills: Option<bool>,
    /// Whether skills, agents and plugins of the project and the user are looked for; `None` means no.
    pub enable_config_discovery: Option<bool>,
    /// Directories of plugins.
    pub plugin_directories: Option<Vec<String>>,
    /// Whether the client supplies skills itself, on request.
    pub has_skill_provider: Option<bool>,
    pub working_directory: Option<String>,
    pub additional_directories: Option<Vec<String>>,
    #[serde(alias = "enableStreaming")]
    pub streaming: Option<bool>,
    /// Whether the client receives streamed events of sub-agents; `None` means yes.
    pub include_sub_agent_streaming_events: Option<bool>,
    pub config_dir: Option<String>,
    pub instruction_directories: Option<Vec<String>>,
    pub git_hub_token: Option<String>,
    /// Whether the session takes snapshots of files before its tools change them.
    pub enable_file_change_tracking: Option<bool>,
    /// Whether extensions of the workspace and the user join the session.
    pub request_extensions: Option<bool>,
    /// Directory of the SDK that extensions import.
    pub extension_sdk_path: Option<String>,
    /// Workflows whose code the client has, in the words of older SDKs.
    pub factories: Option<Vec<Definition>>,
    /// Workflows whose code the client has.
    pub workflows: Option<Vec<Definition>>,
    /// Resume only: do not record the resume.
    pub disable_resume: Option<bool>,
    /// Resume only: continue the work that was pending when the last client left.
    pub continue_pending_work: Option<bool>,
}

/// Sandbox of a session, in the words of SDKs. Rules that this server does not have are ignored.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SandboxConfig {
    pub enabled: bool,
    pub user_policy: Option<SandboxUserPolicy>,
    /// Whether the working directory can be written; `None` means yes.
    pub add_current_working_directory: Option<bool>,
}

/// Rules of a [`SandboxConfig`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SandboxUserPolicy {
    pub filesystem: Option<SandboxFilesystem>,
    pub network: Option<SandboxNetworkRules>,
}

/// Rules about files.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SandboxFilesystem {
    pub readwrite_paths: Vec<String>,
    pub readonly_paths: Vec<String>,
    pub denied_paths: Vec<String>,
}

/// Rules about the network.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SandboxNetworkRules {
    pub allow_outbound: Option<bool>,
    pub allow_local_network: Option<bool>,
    pub allowed_hosts: Vec<String>,
}

impl SandboxConfig {
    /// Returns the policy that the configuration asks for; `None` if it asks for no sandbox.
    #[must_use]
    pub fn choice(&self) -> Option<SandboxChoice> {
        if !self.enabled {
            return None;
        }
        let writes_here = self.add_current_working_directory.unwrap_or(true);
        let level = if writes_here { SandboxLevel::Workspace } else { SandboxLevel::ReadOnly };
        let rules = self.user_policy.clone().unwrap_or_default();
        let files = rules.filesystem.unwrap_or_default();
        // Traffic that the configuration allows is asked about all the same: a client answers for its user.
        let reach = rules.network.unwrap_or_default();
        let network = match reach.allow_outbound {
            Some(false) => SandboxNetwork::None,
            Some(true) | None => SandboxNetwork::Asked,
        };
        let policy = SandboxPolicy {
            write: files.readwrite_paths,
            read: files.readonly_paths,
            hide: files.denied_paths,
            network,
            hosts: reach.allowed_hosts,
            ..SandboxPolicy::of(level)
        };
        Some(SandboxChoice { policy, chosen: true })
    }
}

/// Options for the server's default endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CapiOptions {
    /// Whether to use a WebSocket where the model supports it; `None` means yes.
    pub enable_web_socket_responses: Option<bool>,
}

/// Changes to the default system prompt.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SystemMessageConfig {
    pub mode: SystemMessageMode,
    pub content: Option<String>,
    pub sections: BTreeMap<String, SectionOverride>,
}

/// How the default system prompt is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SystemMessageMode {
    /// Text is appended to it.
    #[default]
    Append,
    /// It is replaced.
    Replace,
    /// Single sections are changed.
    Customize,
}

/// A change of one section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SectionOverride {
    pub action: SectionAction,
    pub content: Option<String>,
}

/// The change of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SectionAction {
    Replace,
    Remove,
    Append,
    Prepend,
    Preserve,
    /// The client receives the text and returns a replacement.
    Transform,
}

/// Settings of the default agent.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DefaultAgent {
    pub excluded_tools: Vec<String>,
}

/// When to compact a conversation that outgrows the model's context window.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InfiniteSessions {
    pub enabled: Option<bool>,
    /// Part of the context window at which compaction starts in the background.
    pub background_compaction_threshold: Option<f64>,
}

/// When to write the output of a tool to a file instead of passing it to the model.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LargeOutput {
    pub enabled: Option<bool>,
    pub max_size_bytes: Option<u64>,
    pub output_dir: Option<String>,
}

/// Parameters of `session.send`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SendParams {
    pub session_id: SessionId,
    pub prompt: String,
    #[serde(default)]
    pub display_prompt: Option<String>,
    #[serde(default)]
    pub attachments: Option<Vec<Attachment>>,
    #[serde(default)]
    pub mode: Option<SendMode>,
    #[serde(default)]
    pub agent_mode: Option<AgentMode>,
    #[serde(default)]
    pub request_headers: Option<BTreeMap<String, String>>,
    #[serde(default)]
    pub response_format: Option<Json>,
}

impl From<SendParams> for Prompt {
    fn from(params: SendParams) -> Self {
        Self {
            text: params.prompt,
            display: params.display_prompt,
            attachments: params.attachments.unwrap_or_default(),
            mode: params.mode.unwrap_or_default(),
            agent_mode: params.agent_mode,
            key: None,
            by: None,
            request_headers: params.request_headers.unwrap_or_default(),
        }
    }
}

/// Parameters of calls that need only a session id.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OnlySession {
    pub session_id: SessionId,
}

/// Properties of a session in lists.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionMetadata {
    pub session_id: SessionId,
    pub start_time: crate::Timestamp,
    pub modified_time: crate::Timestamp,
    pub is_remote: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<crate::event::WorkContext>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_type_error_names_the_field() {
        let params = Json::from_text(r#"{"sessionId":"a","tools":[{"name":7}]}"#).unwrap();
        let error = parse::<SessionParams>("session.create", &params).unwrap_err();
        assert_eq!(error.code, crate::rpc::code::INVALID_PARAMS);
        assert!(
            error.message.contains("session.create") && error.message.contains("tools[0].name"),
            "{error}"
        );
    }

    #[test]
    fn null_and_unknown_fields_are_accepted() {
        let params = Json::from_text(r#"{"sessionId":"a","model":null,"somethingNew":{"x":1}}"#).unwrap();
        let parsed: SessionParams = parse("session.create", &params).unwrap();
        assert_eq!((parsed.session_id.unwrap().as_str(), parsed.model), ("a", None));
    }
}

/// Tools of GitHub's MCP server that a session uses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GithubMcpToolConfig {
    /// Whether all tools are offered.
    pub enable_all_tools: Option<bool>,
    /// Sets of tools that are offered in addition.
    pub additional_toolsets: Option<Vec<String>>,
    /// Tools that are offered in addition.
    pub additional_tools: Option<Vec<String>>,
    /// Whether experimental tools are offered.
    pub enable_insiders_mode: Option<bool>,
}
