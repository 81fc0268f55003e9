//! Which tools a model is offered: that of the main conversation, and those of sub-agents.

use baton_agent::agents::AgentKind;
use baton_agent::tools::{agents, ask_user, exit_plan_mode};
use baton_core::{Profile, Session};
use baton_protocol::event::AgentMode;
use baton_protocol::tool::ToolSpec;

use super::{Bench, ToolRoom};
use crate::rpc::dialect;
use crate::session::{Settings, ToolKind};

/// The tools that the model of the main conversation is offered right now.
pub(crate) fn offered(session: &Session, settings: &Settings, room: &ToolRoom) -> Vec<ToolSpec> {
    offered_in(session.durable.mode(), session, settings, room)
}

/// The tools that it is offered in a mode, in an order that does not change from call to call: providers cache it.
fn offered_in(mode: AgentMode, session: &Session, settings: &Settings, room: &ToolRoom) -> Vec<ToolSpec> {
    let mut own: Vec<ToolSpec> = room.toolbox().specs().cloned().collect();
    own.extend(agents::specs(&settings.agent_kinds()));
    let somebody = |can: fn(&Profile) -> bool| {
        settings.questions || session.live.clients.values().any(|client| can(client))
    };
    if somebody(|client| client.user_input) && !settings.ask_user_disabled {
        own.push(ask_user::ask_user_spec());
    }
    if mode == AgentMode::Plan && somebody(|client| client.plan_approval) {
        own.push(exit_plan_mode::exit_plan_mode_spec());
    }
    if settings.legacy && settings.available_tools.is_none() {
        own.push(dialect::report_intent());
    }
    with_clients(own, session, |name, kind| settings.offers(name, kind))
}

/// The tools that a sub-agent is offered. It cannot hand tasks on, and nobody answers its questions.
fn offered_to(agent: &AgentKind, session: &Session, settings: &Settings, room: &ToolRoom) -> Vec<ToolSpec> {
    let own = room.toolbox().specs().cloned().collect();
    with_clients(own, session, |name, kind| {
        settings.allows(name, kind) && Settings::is_for(agent, name, kind)
    })
}

/// Our own tools and those of clients, as far as they are wanted. A client's tool takes the place of ours of that name.
fn with_clients(
    mut tools: Vec<ToolSpec>,
    session: &Session,
    wanted: impl Fn(&str, ToolKind) -> bool,
) -> Vec<ToolSpec> {
    let of_clients: Vec<&ToolSpec> = session.live.clients.values().flat_map(|client| &client.tools).collect();
    let overridden = |name: &str| of_clients.iter().any(|tool| tool.name == name);
    tools.retain(|tool| wanted(&tool.name, ToolKind::BuiltIn) && !overridden(&tool.name));
    for tool in of_clients {
        if wanted(&tool.name, ToolKind::Client) && !tools.iter().any(|t| t.name == tool.name) {
            tools.push(tool.clone());
        }
    }
    tools
}

impl Bench {
    /// The tools that are offered in the conversation that the work is for.
    pub(super) fn offered(&self) -> Vec<ToolSpec> {
        self.offered_in(self.session.durable.mode())
    }

    /// The tools that are offered there in a mode.
    pub(super) fn offered_in(&self, mode: AgentMode) -> Vec<ToolSpec> {
        match &self.agent {
            None => offered_in(mode, &self.session, &self.settings, &self.tools),
            Some(_) => self.agent_kind().map_or_else(Vec::new, |kind| self.offered_to(&kind)),
        }
    }

    /// The tools that a sub-agent of this kind is offered.
    pub(super) fn offered_to(&self, kind: &AgentKind) -> Vec<ToolSpec> {
        offered_to(kind, &self.session, &self.settings, &self.tools)
    }
}
