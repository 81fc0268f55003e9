//! The tools that a model may call: in the main conversation, and in those of sub-agents.

use baton_agent::agents::AgentKind;
use baton_agent::tools::{agents, ask_user, exit_plan_mode, report_intent, skill};
use baton_core::{Profile, Session};
use baton_mcp::OfferedTool;
use baton_protocol::Json;
use baton_protocol::event::AgentMode;
use baton_protocol::tool::ToolSpec;
use baton_settings::{Settings, ToolKind};

use super::{SessionTools, WorkScope};

/// Returns the tools of the main conversation in its current mode.
pub(super) fn main_tools(session: &Session, settings: &Settings, tools: &SessionTools) -> Vec<ToolSpec> {
    tools_in_mode(session.durable.mode(), session, settings, tools)
}

/// Returns the tools of the main conversation in a mode. Their order is the same in each call, for the providers' caches.
fn tools_in_mode(
    mode: AgentMode,
    session: &Session,
    settings: &Settings,
    tools: &SessionTools,
) -> Vec<ToolSpec> {
    let mut built_in: Vec<ToolSpec> = tools.toolbox().specs().cloned().collect();
    built_in.extend(agents::specs(&settings.agent_kinds()));
    let has_client = |can: fn(&Profile) -> bool| {
        settings.questions || session.live.clients.values().any(|client| can(client))
    };
    if has_client(|client| client.user_input) && !settings.ask_user_disabled {
        built_in.push(ask_user::ask_user_spec());
    }
    if mode == AgentMode::Plan && has_client(|client| client.plan_approval) {
        built_in.push(exit_plan_mode::exit_plan_mode_spec());
    }
    let skills = tools.skills().available(settings);
    if !skills.is_empty() {
        built_in.push(skill::skill_spec(&skills));
    }
    if settings.legacy && settings.available_tools.is_none() {
        built_in.push(report_intent::report_intent_spec());
    }
    with_other_tools(built_in, session, tools, None, |name, kind| settings.offers(name, kind))
}

/// Returns the tools of a sub-agent. It cannot start sub-agents, and cannot ask the user.
fn sub_agent_tools(
    agent: &AgentKind,
    session: &Session,
    settings: &Settings,
    tools: &SessionTools,
) -> Vec<ToolSpec> {
    let built_in = tools.toolbox().specs().cloned().collect();
    with_other_tools(built_in, session, tools, Some(&agent.name), |name, kind| {
        settings.allows(name, kind) && Settings::is_for(agent, name, kind)
    })
}

/// Returns the built-in tools, the client tools and those of MCP servers that pass the filter. A client tool replaces a
/// built-in one of the same name; a tool of an MCP server replaces none.
fn with_other_tools(
    mut tools: Vec<ToolSpec>,
    session: &Session,
    services: &SessionTools,
    agent: Option<&str>,
    is_enabled: impl Fn(&str, ToolKind<'_>) -> bool,
) -> Vec<ToolSpec> {
    let client_tools: Vec<&ToolSpec> =
        session.live.clients.values().flat_map(|client| &client.tools).collect();
    let overridden = |name: &str| client_tools.iter().any(|tool| tool.name == name);
    tools.retain(|tool| is_enabled(&tool.name, ToolKind::BuiltIn) && !overridden(&tool.name));
    for tool in client_tools {
        if is_enabled(&tool.name, ToolKind::Client) && !tools.iter().any(|t| t.name == tool.name) {
            tools.push(tool.clone());
        }
    }
    for offered in services.mcp().offered_to(agent) {
        let kind = ToolKind::Mcp { server: offered.server.name(), tool: &offered.tool.name };
        if is_enabled(&offered.name, kind) && !tools.iter().any(|tool| tool.name == offered.name) {
            tools.push(mcp_spec(&offered));
        }
    }
    tools
}

fn mcp_spec(offered: &OfferedTool) -> ToolSpec {
    ToolSpec {
        name: offered.name.clone(),
        description: offered.tool.description.clone(),
        parameters: Some(Json::from(offered.tool.schema.clone())),
        overrides_built_in_tool: false,
        skip_permission: false,
        is_terminal: false,
    }
}

impl WorkScope {
    /// Finds a tool of an MCP server that the conversation may call.
    pub(super) fn mcp_tool(&self, name: &str) -> Option<OfferedTool> {
        self.tools.mcp().find_for(self.delegate().map(|agent| agent.kind.as_str()), name)
    }

    /// Returns the tools of the conversation that the work belongs to.
    pub(super) fn tools_for_model(&self) -> Vec<ToolSpec> {
        self.tools_in_mode(self.session.durable.mode())
    }

    /// Returns the tools of the conversation that the work belongs to, in a mode.
    pub(super) fn tools_in_mode(&self, mode: AgentMode) -> Vec<ToolSpec> {
        match &self.agent {
            None => tools_in_mode(mode, &self.session, &self.settings, &self.tools),
            Some(_) => self.agent_kind().map_or_else(Vec::new, |kind| self.sub_agent_tools(&kind)),
        }
    }

    /// Returns the tools of sub-agents of a kind.
    pub(super) fn sub_agent_tools(&self, kind: &AgentKind) -> Vec<ToolSpec> {
        sub_agent_tools(kind, &self.session, &self.settings, &self.tools)
    }
}
