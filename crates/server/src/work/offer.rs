//! Which tools a model is offered: that of the main conversation, and those of sub-agents.

use baton_agent::agents::AgentKind;
use baton_agent::tools::{agents, ask_user};
use baton_core::Session;
use baton_protocol::tool::ToolSpec;

use super::{Bench, ToolRoom};
use crate::rpc::dialect;
use crate::session::{Settings, ToolKind};

/// The tools that the model of the main conversation is offered, in an order that does not change from call to call:
/// providers cache it.
pub(crate) fn offered(session: &Session, settings: &Settings, room: &ToolRoom) -> Vec<ToolSpec> {
    let mut own: Vec<ToolSpec> = room.toolbox().specs().cloned().collect();
    own.extend(agents::specs(&settings.agent_kinds()));
    let can_ask = settings.questions || session.live.clients.values().any(|client| client.user_input);
    if can_ask && !settings.ask_user_disabled {
        own.push(ask_user::ask_user_spec());
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
        match &self.agent {
            None => offered(&self.session, &self.settings, &self.tools),
            Some(_) => self.agent_kind().map_or_else(Vec::new, |kind| self.offered_to(&kind)),
        }
    }

    /// The tools that a sub-agent of this kind is offered.
    pub(super) fn offered_to(&self, kind: &AgentKind) -> Vec<ToolSpec> {
        offered_to(kind, &self.session, &self.settings, &self.tools)
    }
}
