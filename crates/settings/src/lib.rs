//! Settings of a session that are not part of its history: credentials, system prompt, tool filters. They are lost with the
//! process, and set again by the client that resumes the session. Where servers share sessions, they are brought back by the
//! servers of the clients that stayed ([`Layers`]).

mod edit;
mod filters;
mod layers;

use std::collections::BTreeMap;
use std::path::PathBuf;

use baton_agent::agents::{self, AgentKind};
use baton_protocol::agent::{CustomAgent, SessionLimits};
use baton_protocol::environment::ClientEnvironment;
use baton_protocol::params::{
    GithubMcpToolConfig, InfiniteSessions, LargeOutput, SessionParams, SystemMessageConfig,
};
use baton_protocol::provider::{ProviderConfig, ProviderModel};
use baton_protocol::{ClientId, Json};
use baton_providers::SessionProviders;
use baton_providers::github::GithubIdentity;
use serde::{Deserialize, Serialize};

pub use self::edit::{McpSwitch, OptionsEdit, SettingsEdit};
pub use self::filters::ToolKind;
use self::filters::filter_matches;
pub use self::layers::{Layers, SettingsChange, SettingsChanges};

/// Settings of a session that are not part of its history.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Name of the client program.
    pub client_name: Option<String>,
    /// Changes to the system prompt.
    pub system_message: Option<SystemMessageConfig>,
    /// Filters of the tools that may be used; none means all.
    pub available_tools: Option<Vec<String>>,
    /// Filters of the tools that may not be used.
    pub excluded_tools: Vec<String>,
    /// Filters of the tools that only sub-agents may use.
    pub default_agent_excludes: Vec<String>,
    /// Agents that the client defined.
    pub custom_agents: Vec<CustomAgent>,
    /// Agents of plugins, the project and the user. Found again when the session is opened.
    pub found_agents: Vec<CustomAgent>,
    /// MCP servers of the clients, by name. Not stored: they contain credentials.
    #[serde(skip)]
    pub mcp_servers: BTreeMap<String, Json>,
    /// MCP servers that the session does not use.
    pub disabled_mcp_servers: Vec<String>,
    /// MCP servers that the session uses although the user has disabled them for all sessions.
    pub enabled_mcp_servers: Vec<String>,
    /// MCP servers that a client has stopped.
    pub stopped_mcp_servers: Vec<String>,
    /// Whether a client supplies tokens of MCP servers.
    pub supplies_tokens: bool,
    /// Whether a client supplies headers of MCP servers.
    pub supplies_headers: bool,
    /// Context of MCP apps, as a client set it.
    pub app_context: Option<Json>,
    /// Whether what the project and the user have in files counts: MCP servers, skills, agents, plugins; none means the
    /// default.
    pub config_discovery: Option<bool>,
    /// Whether a client of the session shows forms.
    pub elicitation: bool,
    /// Tools of GitHub's MCP server; none if the session does not use it.
    pub github_mcp: Option<GithubMcpToolConfig>,
    /// Whether a client of the session shows MCP apps.
    pub mcp_apps: bool,
    /// Directories whose subdirectories are skills.
    pub skill_directories: Vec<PathBuf>,
    /// Directories of plugins.
    pub plugin_directories: Vec<PathBuf>,
    /// Skills that the session does not use.
    pub disabled_skills: Vec<String>,
    /// Skills that the session uses although the user has disabled them for all sessions.
    pub enabled_skills: Vec<String>,
    /// Whether the session has no skills.
    pub skills_disabled: bool,
    /// The client that supplies skills itself.
    #[serde(skip)]
    pub skill_provider: Option<ClientId>,
    /// Name of the custom agent that was selected for the conversation.
    pub chosen_agent: Option<String>,
    /// Built-in agents that cannot be given tasks.
    pub excluded_agents: Vec<String>,
    /// Agents of any kind that are turned off for now.
    pub disabled_agents: Vec<String>,
    /// Models of agents, by kind, in place of their own.
    pub agent_models: BTreeMap<String, String>,
    /// Limits of usage.
    pub limits: SessionLimits,
    /// The client's model provider, if it set only one.
    #[serde(skip)]
    pub provider: Option<ProviderConfig>,
    /// Whether the session had a provider whose credentials a restart of the server lost. Its model calls fail until a
    /// client sets a provider again: the server's own endpoint is not a substitute.
    #[serde(skip)]
    pub provider_lost: bool,
    /// Who sends the model requests of the session.
    #[serde(skip)]
    pub sender: ModelSender,
    /// The client's model providers, by name.
    #[serde(skip)]
    pub providers: Vec<ProviderConfig>,
    /// Models of the client's providers.
    pub models: Vec<ProviderModel>,
    /// The client that set the providers, and supplies their tokens.
    pub provider_owner: Option<ClientId>,
    /// Whether responses have citations.
    pub citations: bool,
    /// Whether models of the server's endpoint may be called over a WebSocket, where the endpoint supports that.
    pub sockets: Option<bool>,
    /// Capabilities of the model, in place of the catalogue's.
    pub model_capabilities: Option<Json>,
    /// What happens to tool results that are too large.
    pub large_output: LargeOutput,
    /// When the conversation is compacted automatically.
    pub compaction_threshold: CompactionThreshold,
    /// Whether responses are streamed.
    pub streaming: bool,
    /// Directory in place of the home, for the session's files.
    pub config_dir: Option<PathBuf>,
    /// Directories with instruction files.
    pub instruction_directories: Vec<PathBuf>,
    /// Whether instruction files are ignored.
    pub skip_custom_instructions: bool,
    /// Variables of the client, for commands in place of the server's. Not stored: they may be secret.
    #[serde(skip)]
    pub environment: Option<ClientEnvironment>,
    /// Token for GitHub.
    #[serde(skip)]
    pub github_token: Option<String>,
    /// The user that the session acts for, if known.
    pub identity: Option<GithubIdentity>,
    /// Whether the model may not ask the user questions, even if a client could show them.
    pub ask_user_disabled: bool,
    /// Whether the model may ask questions, or for approval of a plan, although no client can show them: the requests wait
    /// for a client that can.
    pub questions: bool,
    /// Whether settings are stored with the session, because no client will set them again.
    pub keep: bool,
    /// Whether the client is an SDK from before the method `connect`.
    pub legacy: bool,
}

/// Who sends the model requests of a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ModelSender {
    /// The server that holds the session, unless a client carries all requests of that server.
    #[default]
    Server,
    /// A client. Without one, requests fail: the server is not a substitute.
    Client,
    /// A client that was lost with the server that held the session. Until one carries the requests again, they wait.
    LostClient,
}

/// Part of the model's context window from which on the conversation is compacted automatically; none means never.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CompactionThreshold(pub Option<f64>);

impl Default for CompactionThreshold {
    fn default() -> Self {
        Self(Some(0.8))
    }
}

impl CompactionThreshold {
    fn of(config: &InfiniteSessions) -> Self {
        let Self(default) = Self::default();
        Self(config.background_compaction_threshold.or(default).filter(|_| config.enabled.unwrap_or(true)))
    }

    /// Whether a conversation of this many tokens is to be compacted.
    pub fn is_reached(self, tokens: u64, window: u64) -> bool {
        self.0.is_some() && tokens >= self.of_window(window)
    }

    /// Returns the threshold in tokens; the whole window if there is no automatic compaction.
    pub fn of_window(self, window: u64) -> u64 {
        (self.0.unwrap_or(1.0).clamp(0.0, 1.0) * window as f64) as u64
    }
}

impl Settings {
    /// Applies the parameters of a client that creates or resumes the session. Settings that it leaves out stay: a second
    /// client must not undo what the first one set. The exception is `streaming`, which SDKs leave out if it is false.
    pub fn merge(&mut self, client: ClientId, params: &SessionParams, legacy: bool) {
        fn set<T: Clone>(slot: &mut Option<T>, value: &Option<T>) {
            if value.is_some() {
                slot.clone_from(value);
            }
        }
        set(&mut self.client_name, &params.client_name);
        set(&mut self.system_message, &params.system_message);
        set(&mut self.available_tools, &params.available_tools);
        set(&mut self.provider, &params.provider);
        set(&mut self.environment, &params.environment);
        self.add_providers(params.providers.as_deref(), params.models.as_deref());
        if params.provider.is_some() || params.providers.is_some() {
            self.provider_owner = Some(client);
            self.provider_lost = false;
        }
        self.citations = params.enable_citations.unwrap_or(self.citations);
        set(&mut self.sockets, &params.capi.and_then(|capi| capi.enable_web_socket_responses));
        set(&mut self.model_capabilities, &params.model_capabilities);
        set(&mut self.github_token, &params.git_hub_token);
        if let Some(excluded) = &params.excluded_tools {
            self.excluded_tools.clone_from(excluded);
        }
        if let Some(agent) = &params.default_agent {
            self.default_agent_excludes.clone_from(&agent.excluded_tools);
        }
        if let Some(agents) = &params.custom_agents {
            self.custom_agents.clone_from(agents);
        }
        if let Some(servers) = &params.mcp_servers {
            self.mcp_servers.extend(servers.clone());
        }
        if let Some(disabled) = &params.disabled_mcp_servers {
            self.disabled_mcp_servers.clone_from(disabled);
            self.enabled_mcp_servers.clear();
        }
        self.merge_skills(client, params);
        set(&mut self.config_discovery, &params.enable_config_discovery);
        self.elicitation |= params.request_elicitation.unwrap_or(false);
        self.mcp_apps |= params.request_mcp_apps.unwrap_or(false);
        set(&mut self.github_mcp, &params.github_mcp_tool_config);
        set(&mut self.chosen_agent, &params.agent);
        if let Some(excluded) = &params.excluded_builtin_agents {
            self.excluded_agents.clone_from(excluded);
        }
        self.limits = params.session_limits.unwrap_or(self.limits);
        if let Some(large_output) = &params.large_output {
            self.large_output.clone_from(large_output);
        }
        if let Some(config) = &params.infinite_sessions {
            self.compaction_threshold = CompactionThreshold::of(config);
        }
        if let Some(directory) = &params.config_dir {
            self.config_dir = Some(directory.into());
        }
        if let Some(directories) = &params.instruction_directories {
            self.instruction_directories = directories.iter().map(PathBuf::from).collect();
        }
        if params.keep {
            self.keep = true;
            self.questions = params.request_user_input.unwrap_or(false);
        }
        self.streaming = params.streaming.unwrap_or(false);
        self.legacy = legacy;
    }

    /// Returns what the session says about its models.
    pub fn providers(&self) -> SessionProviders<'_> {
        SessionProviders {
            provider: self.provider.as_ref(),
            provider_lost: self.provider_lost,
            carried: self.sender != ModelSender::Server,
            providers: &self.providers,
            models: &self.models,
            owner: self.provider_owner,
            github_token: self.github_token.as_deref(),
            client_name: self.client_name.as_deref(),
            sockets: self.sockets,
            model_capabilities: self.model_capabilities.as_ref(),
        }
    }

    fn merge_skills(&mut self, client: ClientId, params: &SessionParams) {
        if let Some(directories) = &params.skill_directories {
            self.skill_directories = directories.iter().map(PathBuf::from).collect();
        }
        if let Some(directories) = &params.plugin_directories {
            self.plugin_directories = directories.iter().map(PathBuf::from).collect();
        }
        if let Some(disabled) = &params.disabled_skills {
            self.disabled_skills.clone_from(disabled);
            self.enabled_skills.clear();
        }
        if let Some(enabled) = params.enable_skills {
            self.skills_disabled = !enabled;
        }
        if params.has_skill_provider == Some(true) {
            self.skill_provider = Some(client);
        }
    }

    /// Whether files of the project and the user count: MCP servers, skills, agents, plugins, instructions. SDK applications
    /// have to ask for it; people who use Baton's own doors expect it.
    #[must_use]
    pub fn discovers(&self) -> bool {
        let is_own = self.keep || self.client_name.as_deref() == Some("baton-run");
        self.config_discovery.unwrap_or(is_own)
    }

    /// Adds model providers and models. One with the name of an earlier one replaces it.
    fn add_providers(&mut self, providers: Option<&[ProviderConfig]>, models: Option<&[ProviderModel]>) {
        for provider in providers.unwrap_or_default() {
            self.providers.retain(|other| other.name != provider.name);
            self.providers.push(provider.clone());
        }
        for model in models.unwrap_or_default() {
            self.models.retain(|other| other.selection() != model.selection());
            self.models.push(model.clone());
        }
    }

    /// Whether the model of the main conversation is offered a tool. A filter names a tool, all of a kind (`builtin:*`), or
    /// everything (`*`); exclusion takes precedence.
    pub fn offers(&self, name: &str, kind: ToolKind<'_>) -> bool {
        let for_agent = match self.agent_in_charge() {
            Some(agent) => Self::is_for(&AgentKind::from(agent), name, kind),
            None => !self.default_agent_excludes.iter().any(|filter| filter_matches(filter, name, kind)),
        };
        for_agent && self.allows(name, kind)
    }

    /// Whether any agent of the session may use a tool.
    pub fn allows(&self, name: &str, kind: ToolKind<'_>) -> bool {
        let named = |filter: &String| filter_matches(filter, name, kind);
        let excluded = self.excluded_tools.iter().any(named);
        let available = self.available_tools.as_ref().is_none_or(|filters| filters.iter().any(named));
        available && !excluded
    }

    /// Whether an agent's definition includes a tool.
    pub fn is_for(agent: &AgentKind, name: &str, kind: ToolKind<'_>) -> bool {
        agent.tools.as_ref().is_none_or(|tools| tools.iter().any(|filter| filter_matches(filter, name, kind)))
    }

    /// Returns the custom agent that was selected for the conversation; none means the default agent.
    #[must_use]
    pub fn agent_in_charge(&self) -> Option<&CustomAgent> {
        let chosen = self.chosen_agent.as_deref()?;
        self.agents().find(|agent| agent.name == chosen)
    }

    /// Returns the custom agents: those of the clients, and those that were found. A client's agent hides one of its name.
    pub fn agents(&self) -> impl Iterator<Item = &CustomAgent> {
        let is_hidden = |found: &&CustomAgent| self.custom_agents.iter().any(|own| own.name == found.name);
        self.custom_agents.iter().chain(self.found_agents.iter().filter(move |found| !is_hidden(found)))
    }

    /// Whether agents and plugins are looked for on disk.
    #[must_use]
    pub fn finds_agents(&self) -> bool {
        self.discovers() || !self.plugin_directories.is_empty()
    }

    /// Returns the kinds of sub-agents that tasks can be given to: the built-in ones, and those of the client, except those
    /// that only users may select. A client's kind replaces a built-in one of the same name.
    pub fn agent_kinds(&self) -> Vec<AgentKind> {
        let mut kinds = self.all_agent_kinds();
        kinds.retain(|kind| !self.disabled_agents.contains(&kind.name));
        kinds
    }

    /// Returns all kinds of sub-agents, including those that are turned off: running ones continue.
    pub fn all_agent_kinds(&self) -> Vec<AgentKind> {
        let custom = self.agents().filter(|agent| agent.infer != Some(false));
        let custom: Vec<AgentKind> = custom.map(AgentKind::from).collect();
        let mut kinds = agents::built_in();
        kinds.retain(|kind| {
            !self.excluded_agents.contains(&kind.name) && custom.iter().all(|other| other.name != kind.name)
        });
        kinds.extend(custom);
        for kind in &mut kinds {
            kind.model = self.agent_models.get(&kind.name).cloned().or(kind.model.take());
        }
        kinds
    }
}

#[cfg(test)]
mod tests;
