//! What a session was told by the clients that made or resumed it, as far as it is not part of its history:
//! credentials, prompts, filters. Gone with the process, and told again on resume.

use std::collections::BTreeMap;
use std::path::PathBuf;

use baton_agent::agents::{self, AgentKind};
use baton_protocol::agent::{CustomAgent, SessionLimits};

use baton_protocol::params::{InfiniteSessions, LargeOutput, SessionParams, SystemMessageConfig};
use baton_protocol::provider::{ProviderConfig, ProviderModel};
use baton_protocol::{ClientId, Json};

use crate::github::Identity;

/// See the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct Settings {
    pub(crate) client_name: Option<String>,
    pub(crate) system_message: Option<SystemMessageConfig>,
    pub(crate) available_tools: Option<Vec<String>>,
    pub(crate) excluded_tools: Vec<String>,
    /// Tools kept from the default agent only; sub-agents may use them.
    pub(crate) default_agent_excludes: Vec<String>,
    /// Agents that the client brought.
    pub(crate) custom_agents: Vec<CustomAgent>,
    /// The one of them that was chosen for the conversation.
    pub(crate) chosen_agent: Option<String>,
    /// Built-in agents that tasks are not handed on to.
    pub(crate) excluded_agents: Vec<String>,
    /// Agents of any kind that somebody has turned off for the time being.
    pub(crate) disabled_agents: Vec<String>,
    /// The models that somebody has chosen for kinds of agents, in place of their own.
    pub(crate) agent_models: BTreeMap<String, String>,
    /// How much the session may use.
    pub(crate) limits: SessionLimits,
    /// The endpoint that the session's client brought, if it brought just one.
    pub(crate) provider: Option<ProviderConfig>,
    /// Endpoints with names, and their models.
    pub(crate) providers: Vec<ProviderConfig>,
    pub(crate) models: Vec<ProviderModel>,
    /// Who brought the endpoints, and knows their tokens.
    pub(crate) provider_owner: Option<ClientId>,
    pub(crate) citations: bool,
    /// Whether a model of our own endpoint may be asked over a WebSocket, where it offers that.
    pub(crate) sockets: Option<bool>,
    pub(crate) model_capabilities: Option<Json>,
    pub(crate) large_output: LargeOutput,
    /// From which part of the model's window on the conversation is summarised; none means never.
    pub(crate) compaction_threshold: CompactionThreshold,
    pub(crate) streaming: bool,
    pub(crate) config_dir: Option<PathBuf>,
    pub(crate) instruction_directories: Vec<PathBuf>,
    pub(crate) skip_custom_instructions: bool,
    pub(crate) github_token: Option<String>,
    /// Whom the session acts for, where that is known.
    pub(crate) identity: Option<Identity>,
    /// Whether the model may not ask questions, whoever could show them.
    pub(crate) ask_user_disabled: bool,
    /// Whether the model may ask, questions or for approval of a plan, although no client is there to show it: what it asks
    /// waits for whoever comes.
    pub(crate) questions: bool,
    /// Whether they are kept with the session, because nobody will tell them again.
    pub(crate) keep: bool,
    /// Whether the client speaks as SDKs did before `connect` existed; see [`crate::rpc::dialect`].
    pub(crate) legacy: bool,
}

/// From which part of a model's window on a conversation is summarised beside the turn that runs; none means never.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CompactionThreshold(pub(crate) Option<f64>);

impl Default for CompactionThreshold {
    fn default() -> Self {
        Self(Some(0.8))
    }
}

impl CompactionThreshold {
    fn of(wish: &InfiniteSessions) -> Self {
        let Self(usual) = Self::default();
        Self(wish.background_compaction_threshold.or(usual).filter(|_| wish.enabled.unwrap_or(true)))
    }

    pub(crate) fn is_reached(self, tokens: u64, window: u64) -> bool {
        self.0.is_some() && tokens >= self.of_window(window)
    }

    /// In tokens of a window; all of it, where nothing is summarised.
    pub(crate) fn of_window(self, window: u64) -> u64 {
        (self.0.unwrap_or(1.0).clamp(0.0, 1.0) * window as f64) as u64
    }
}

impl Settings {
    /// Takes over what a client says. What it does not mention stays as it was: a second client that joins must not
    /// undo what the first one set up. `streaming` is the exception: it is always said, by being absent if false.
    pub(crate) fn merge(&mut self, client: ClientId, params: &SessionParams, legacy: bool) {
        fn set<T: Clone>(slot: &mut Option<T>, value: &Option<T>) {
            if value.is_some() {
                slot.clone_from(value);
            }
        }
        set(&mut self.client_name, &params.client_name);
        set(&mut self.system_message, &params.system_message);
        set(&mut self.available_tools, &params.available_tools);
        set(&mut self.provider, &params.provider);
        self.add_providers(params.providers.as_deref(), params.models.as_deref());
        if params.provider.is_some() || params.providers.is_some() {
            self.provider_owner = Some(client);
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
        set(&mut self.chosen_agent, &params.agent);
        if let Some(excluded) = &params.excluded_builtin_agents {
            self.excluded_agents.clone_from(excluded);
        }
        self.limits = params.session_limits.unwrap_or(self.limits);
        if let Some(large_output) = &params.large_output {
            self.large_output.clone_from(large_output);
        }
        if let Some(wish) = &params.infinite_sessions {
            self.compaction_threshold = CompactionThreshold::of(wish);
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

    /// Adds endpoints and models to those that are there. One of the same name takes the place of the older one.
    pub(crate) fn add_providers(
        &mut self,
        providers: Option<&[ProviderConfig]>,
        models: Option<&[ProviderModel]>,
    ) {
        for provider in providers.unwrap_or_default() {
            self.providers.retain(|other| other.name != provider.name);
            self.providers.push(provider.clone());
        }
        for model in models.unwrap_or_default() {
            self.models.retain(|other| other.selection() != model.selection());
            self.models.push(model.clone());
        }
    }

    /// Whether the model is offered a tool. A filter names a tool, or all of a kind (`builtin:*`), or everything (`*`);
    /// what is excluded is excluded whatever else is said.
    pub(crate) fn offers(&self, name: &str, kind: ToolKind) -> bool {
        let for_agent = match self.agent_in_charge() {
            Some(agent) => Self::is_for(&AgentKind::from(agent), name, kind),
            None => !self.default_agent_excludes.iter().any(|filter| filter_matches(filter, name, kind)),
        };
        for_agent && self.allows(name, kind)
    }

    /// Whether a tool may be used in this session, by whichever agent.
    pub(crate) fn allows(&self, name: &str, kind: ToolKind) -> bool {
        let named = |filter: &String| filter_matches(filter, name, kind);
        let excluded = self.excluded_tools.iter().any(named);
        let available = self.available_tools.as_ref().is_none_or(|filters| filters.iter().any(named));
        available && !excluded
    }

    /// Whether a tool is one of those that an agent was made for.
    pub(crate) fn is_for(agent: &AgentKind, name: &str, kind: ToolKind) -> bool {
        agent.tools.as_ref().is_none_or(|tools| tools.iter().any(|filter| filter_matches(filter, name, kind)))
    }

    /// The custom agent that was chosen for the conversation; none means the default one.
    pub(crate) fn agent_in_charge(&self) -> Option<&CustomAgent> {
        let chosen = self.chosen_agent.as_deref()?;
        self.custom_agents.iter().find(|agent| agent.name == chosen)
    }

    /// The agents that tasks can be handed on to: the built-in ones, and those of the client that it does not keep for
    /// people to choose. One of the client's takes the place of a built-in one of its name.
    pub(crate) fn agent_kinds(&self) -> Vec<AgentKind> {
        let mut kinds = self.all_agent_kinds();
        kinds.retain(|kind| !self.disabled_agents.contains(&kind.name));
        kinds
    }

    /// The same, with those that were turned off: one that is at work goes on.
    pub(crate) fn all_agent_kinds(&self) -> Vec<AgentKind> {
        let own = self.custom_agents.iter().filter(|agent| agent.infer != Some(false)).map(AgentKind::from);
        let own: Vec<AgentKind> = own.collect();
        let mut kinds = agents::built_in();
        kinds.retain(|kind| {
            !self.excluded_agents.contains(&kind.name) && own.iter().all(|other| other.name != kind.name)
        });
        kinds.extend(own);
        for kind in &mut kinds {
            kind.model = self.agent_models.get(&kind.name).cloned().or(kind.model.take());
        }
        kinds
    }
}

/// Where a tool comes from, as filters call it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToolKind {
    BuiltIn,
    Client,
}

fn filter_matches(filter: &str, name: &str, kind: ToolKind) -> bool {
    let (wanted, pattern) = match filter.split_once(':') {
        Some(("builtin", pattern)) => (Some(ToolKind::BuiltIn), pattern),
        Some(("custom", pattern)) => (Some(ToolKind::Client), pattern),
        Some(("mcp", _)) => return false,
        _ => (None, filter),
    };
    wanted.is_none_or(|wanted| wanted == kind) && (pattern == "*" || pattern == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(available: Option<&[&str]>, excluded: &[&str]) -> Settings {
        let own = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        Settings { available_tools: available.map(own), excluded_tools: own(excluded), ..Settings::default() }
    }

    #[test]
    fn filters_name_tools_or_kinds_and_exclusion_wins() {
        use ToolKind::{BuiltIn, Client};
        let all = settings(None, &[]);
        assert!(all.offers("view", BuiltIn) && all.offers("mine", Client));
        let two = settings(Some(&["view", "custom:*"]), &["custom:secret"]);
        assert!(two.offers("view", BuiltIn) && two.offers("mine", Client));
        assert!(!two.offers("bash", BuiltIn) && !two.offers("secret", Client));
        assert!(!settings(Some(&["*"]), &["view"]).offers("view", BuiltIn));
        assert!(!settings(Some(&[]), &[]).offers("view", BuiltIn), "an empty list offers nothing");
        assert!(!settings(Some(&["mcp:*"]), &[]).offers("view", BuiltIn));
    }

    #[test]
    fn agents_are_the_built_in_ones_and_the_clients_own() {
        let agent = |name: &str| CustomAgent { name: name.into(), ..CustomAgent::default() };
        let mut settings = Settings {
            custom_agents: vec![
                agent("mine"),
                CustomAgent { infer: Some(false), ..agent("people") },
                agent("task"),
            ],
            excluded_agents: vec!["explore".into(), "mine".into()],
            ..Settings::default()
        };
        let names = |settings: &Settings| -> Vec<String> {
            settings.agent_kinds().into_iter().map(|kind| kind.name).collect()
        };
        let kinds = names(&settings);
        assert!(kinds.contains(&"mine".to_owned()), "only built-in agents are excluded");
        assert!(!kinds.contains(&"explore".to_owned()) && !kinds.contains(&"people".to_owned()));
        assert_eq!(kinds.iter().filter(|name| *name == "task").count(), 1);
        settings.excluded_agents.clear();
        assert!(names(&settings).contains(&"explore".to_owned()));
    }

    #[test]
    fn the_agent_in_charge_decides_which_tools_there_are() {
        use ToolKind::BuiltIn;
        let tools = Some(vec!["view".into()]);
        let reader = CustomAgent { name: "reader".into(), tools, ..CustomAgent::default() };
        let mut settings = Settings {
            custom_agents: vec![reader],
            default_agent_excludes: vec!["view".into()],
            ..Settings::default()
        };
        assert!(settings.offers("bash", BuiltIn) && !settings.offers("view", BuiltIn));
        settings.chosen_agent = Some("reader".into());
        assert!(!settings.offers("bash", BuiltIn) && settings.offers("view", BuiltIn));
    }
}
