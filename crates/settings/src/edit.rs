//! Changes to the settings of a live session.

use std::collections::BTreeMap;

use baton_protocol::agent::CustomAgent;
use baton_protocol::environment::ClientEnvironment;
use baton_protocol::provider::{ProviderConfig, ProviderModel};
use baton_protocol::{ClientId, Json};
use baton_providers::github::GithubIdentity;
use serde::{Deserialize, Serialize};

use super::Settings;

/// A change of settings that are not part of the history.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SettingsEdit {
    /// Sets options of the session; those that are left out stay.
    Options(Box<OptionsEdit>),
    /// Adds model providers of a client, and their models.
    AddProviders {
        /// The client, which supplies their tokens.
        client: ClientId,
        /// The providers.
        providers: Option<Vec<ProviderConfig>>,
        /// Their models.
        models: Option<Vec<ProviderModel>>,
    },
    /// Sets the capabilities of the model, in place of the catalogue's.
    ModelCapabilities(Json),
    /// Selects a custom agent for the conversation; none selects the default one.
    SelectAgent(Option<String>),
    /// Uses a skill, or stops using it.
    Skill {
        /// Its name.
        name: String,
        /// Whether it is used.
        enabled: bool,
    },
    /// Sets the agents of plugins, the project and the user.
    FoundAgents(Vec<CustomAgent>),
    /// Sets the models of sub-agents, and the kinds that are turned off.
    SubAgents {
        /// Models by kind, in place of the kinds' own.
        models: BTreeMap<String, String>,
        /// Kinds that cannot be given tasks.
        disabled: Vec<String>,
    },
    /// Changes the use of an MCP server.
    McpServer {
        /// Its name.
        name: String,
        /// The change.
        switch: McpSwitch,
    },
    /// Notes that a client supplies tokens of MCP servers.
    SuppliesTokens(bool),
    /// Notes that a client supplies headers of MCP servers.
    SuppliesHeaders,
    /// Sets the context of MCP apps.
    AppContext(Json),
    /// Sets the user that the session acts for, and the user's token; none removes both.
    Credentials(Option<(GithubIdentity, Option<String>)>),
    /// Sets the user of a client that has just attached. Without a token, the session's token stays.
    Introduce {
        /// The user that the session acts for, and the user's token.
        identity: Option<(GithubIdentity, Option<String>)>,
        /// Whether the model may not ask the user questions.
        no_questions: bool,
    },
}

impl SettingsEdit {
    /// Returns the providers that the change sets or adds.
    pub fn providers(&self) -> impl Iterator<Item = &ProviderConfig> {
        let (single, several) = match self {
            Self::Options(options) => (options.provider.as_ref().map(|(_, provider)| provider), None),
            Self::AddProviders { providers, .. } => (None, providers.as_deref()),
            _ => (None, None),
        };
        single.into_iter().chain(several.unwrap_or_default())
    }

    /// Whether nothing is left of an earlier change after this one.
    #[must_use]
    pub fn replaces(&self, earlier: &Self) -> bool {
        match (self, earlier) {
            (Self::Options(new), Self::Options(old)) => new.replaces(old),
            (
                Self::AddProviders { providers, models, .. },
                Self::AddProviders { providers: old_providers, models: old_models, .. },
            ) => {
                let adds = |name: &Option<String>| providers.iter().flatten().any(|new| new.name == *name);
                let lists = |old: &ProviderModel| {
                    models.iter().flatten().any(|new| new.selection() == old.selection())
                };
                old_providers.iter().flatten().all(|old| adds(&old.name))
                    && old_models.iter().flatten().all(lists)
            }
            (Self::Skill { name, .. }, Self::Skill { name: old, .. }) => name == old,
            (Self::McpServer { name, switch }, Self::McpServer { name: old, switch: old_switch }) => {
                let keeps = |switch: &McpSwitch| matches!(switch, McpSwitch::Started(Some(_)));
                let is_other_axis =
                    |switch: &McpSwitch| matches!(switch, McpSwitch::Enabled | McpSwitch::Disabled);
                name == old
                    && is_other_axis(switch) == is_other_axis(old_switch)
                    && (keeps(switch) || !keeps(old_switch))
            }
            (
                Self::Introduce { identity, no_questions },
                Self::Introduce { identity: old, no_questions: was },
            ) => (old.is_none() || identity == old) && (*no_questions || !was),
            (Self::ModelCapabilities(_), Self::ModelCapabilities(_))
            | (Self::SelectAgent(_), Self::SelectAgent(_))
            | (Self::FoundAgents(_), Self::FoundAgents(_))
            | (Self::SubAgents { .. }, Self::SubAgents { .. })
            | (Self::SuppliesTokens(_), Self::SuppliesTokens(_))
            | (Self::SuppliesHeaders, Self::SuppliesHeaders)
            | (Self::AppContext(_), Self::AppContext(_))
            | (Self::Credentials(_), Self::Credentials(_)) => true,
            _ => false,
        }
    }
}

/// Change of the use of an MCP server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum McpSwitch {
    /// The session uses it, although the user may have disabled it for all sessions.
    Enabled,
    /// The session does not use it.
    Disabled,
    /// It is not running, until it is started.
    Stopped,
    /// It was started, with a configuration if it had none.
    Started(Option<Json>),
}

/// Changes to options of a live session; none leaves an option as it is.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct OptionsEdit {
    /// Name of the client program.
    pub client_name: Option<String>,
    /// Filters of the tools that may be used.
    pub available_tools: Option<Vec<String>>,
    /// Filters of the tools that may not be used.
    pub excluded_tools: Option<Vec<String>>,
    /// Whether responses are streamed.
    pub streaming: Option<bool>,
    /// Whether instruction files are ignored.
    pub skip_custom_instructions: Option<bool>,
    /// A model provider, and the client that supplies its token.
    pub provider: Option<(ClientId, ProviderConfig)>,
    /// Whether the model may not ask the user questions.
    pub ask_user_disabled: Option<bool>,
    /// Variables of the client, for commands in place of the server's.
    pub environment: Option<ClientEnvironment>,
}

impl OptionsEdit {
    /// Whether every option that the other sets is set.
    fn replaces(&self, other: &Self) -> bool {
        fn is_set<T>(ours: &Option<T>, theirs: &Option<T>) -> bool {
            ours.is_some() || theirs.is_none()
        }
        is_set(&self.client_name, &other.client_name)
            && is_set(&self.available_tools, &other.available_tools)
            && is_set(&self.excluded_tools, &other.excluded_tools)
            && is_set(&self.streaming, &other.streaming)
            && is_set(&self.skip_custom_instructions, &other.skip_custom_instructions)
            && is_set(&self.provider, &other.provider)
            && is_set(&self.ask_user_disabled, &other.ask_user_disabled)
            && is_set(&self.environment, &other.environment)
    }
}

impl Settings {
    /// Applies a change.
    pub fn apply(&mut self, edit: SettingsEdit) {
        match edit {
            SettingsEdit::Options(options) => self.apply_options(*options),
            SettingsEdit::AddProviders { client, providers, models } => {
                self.add_providers(providers.as_deref(), models.as_deref());
                self.provider_owner = Some(client);
            }
            SettingsEdit::ModelCapabilities(capabilities) => self.model_capabilities = Some(capabilities),
            SettingsEdit::SelectAgent(agent) => self.chosen_agent = agent,
            SettingsEdit::Skill { name, enabled } => match enabled {
                true => relocate(name, &mut self.disabled_skills, &mut self.enabled_skills),
                false => relocate(name, &mut self.enabled_skills, &mut self.disabled_skills),
            },
            SettingsEdit::McpServer { name, switch } => self.switch_server(name, switch),
            SettingsEdit::SuppliesTokens(supplied) => self.supplies_tokens = supplied,
            SettingsEdit::SuppliesHeaders => self.supplies_headers = true,
            SettingsEdit::AppContext(context) => self.app_context = Some(context),
            SettingsEdit::FoundAgents(agents) => self.found_agents = agents,
            SettingsEdit::SubAgents { models, disabled } => {
                (self.agent_models, self.disabled_agents) = (models, disabled);
            }
            SettingsEdit::Credentials(credentials) => {
                let (identity, token) = credentials.unzip();
                (self.identity, self.github_token) = (identity, token.flatten());
            }
            SettingsEdit::Introduce { identity, no_questions } => {
                self.ask_user_disabled |= no_questions;
                if let Some((identity, token)) = identity {
                    self.identity = Some(identity);
                    self.github_token = token.or(self.github_token.take());
                }
            }
        }
    }

    fn switch_server(&mut self, name: String, switch: McpSwitch) {
        if switch != McpSwitch::Disabled {
            self.stopped_mcp_servers.retain(|known| *known != name);
        }
        match switch {
            McpSwitch::Enabled => {
                relocate(name, &mut self.disabled_mcp_servers, &mut self.enabled_mcp_servers);
            }
            McpSwitch::Disabled => {
                relocate(name, &mut self.enabled_mcp_servers, &mut self.disabled_mcp_servers);
            }
            McpSwitch::Stopped => self.stopped_mcp_servers.push(name),
            McpSwitch::Started(config) => {
                if let Some(config) = config {
                    self.mcp_servers.insert(name, config);
                }
            }
        }
    }

    fn apply_options(&mut self, options: OptionsEdit) {
        if let Some((client, provider)) = options.provider {
            (self.provider_owner, self.provider) = (Some(client), Some(provider));
            self.provider_lost = false;
        }
        self.environment = options.environment.or(self.environment.take());
        self.client_name = options.client_name.or(self.client_name.take());
        self.available_tools = options.available_tools.or(self.available_tools.take());
        if let Some(excluded) = options.excluded_tools {
            self.excluded_tools = excluded;
        }
        self.streaming = options.streaming.unwrap_or(self.streaming);
        self.skip_custom_instructions =
            options.skip_custom_instructions.unwrap_or(self.skip_custom_instructions);
        self.ask_user_disabled = options.ask_user_disabled.unwrap_or(self.ask_user_disabled);
    }
}

/// Removes a name from one list, and adds it to another unless it is there.
fn relocate(name: String, from: &mut Vec<String>, to: &mut Vec<String>) {
    from.retain(|known| *known != name);
    if !to.contains(&name) {
        to.push(name);
    }
}
