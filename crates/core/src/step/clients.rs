//! Attaching and detaching clients. The session offers the tools and commands of all attached clients together.

use std::collections::BTreeSet;

use baton_protocol::event::{
    CapabilitiesChanged, CommandsChanged, ModelChange, SessionResume, ToolsUpdated, UiCapabilities,
};
use baton_protocol::tool::SlashCommand;
use baton_protocol::{Author, ClientId};

use super::Step;
use crate::input::{Arrival, Profile};
use crate::output::Work;
use crate::state::Live;

impl Step<'_> {
    /// Attaches a client, or replaces the profile of an attached one.
    pub(super) fn attach(&mut self, client: ClientId, profile: Profile, arrival: Arrival) {
        let before = Capabilities::of(&self.session.live);
        let others = self.session.live.clients.keys().any(|id| *id != client);
        let pending = match &arrival {
            Arrival::Resumed { continue_pending_work, .. } => {
                Some(self.assess_pending_work(others, *continue_pending_work, &profile))
            }
            Arrival::Made | Arrival::Watching => None,
        };
        let user = profile.user.clone();
        let live = &mut self.session.live;
        let again = |name: &String| (name.clone(), client);
        live.runners.extend(profile.registered.runners.iter().map(again));
        live.listeners.extend(profile.registered.listeners.iter().map(again));
        live.clients.insert(client, profile.into());
        if let (
            Arrival::Resumed { continue_pending_work, record, context, model, reasoning_effort },
            Some(pending),
        ) = (arrival, pending)
        {
            if record {
                let durable = &self.session.durable;
                self.record(SessionResume {
                    resume_time: self.stamp.now,
                    event_count: durable.seq,
                    selected_model: model.clone().or_else(|| durable.facts.model.clone()),
                    reasoning_effort: reasoning_effort
                        .clone()
                        .or_else(|| durable.facts.reasoning_effort.clone()),
                    context: Some(*context),
                    already_in_use: Some(false),
                    session_was_active: Some(pending.was_active()),
                    continue_pending_work: Some(continue_pending_work.unwrap_or(false)),
                });
            }
            self.choose_model(model, reasoning_effort, user);
            self.resolve_pending_work(pending);
        }
        self.show_changes(&before);
        self.deliver_questions();
        self.show_command();
    }

    /// Changes the model, if the client names one that differs.
    fn choose_model(&mut self, model: Option<String>, reasoning_effort: Option<String>, by: Option<Author>) {
        let facts = &self.session.durable.facts;
        let Some(new_model) = model.filter(|m| facts.model.as_ref() != Some(m)) else { return };
        self.record(ModelChange {
            previous_model: facts.model.clone(),
            new_model,
            previous_reasoning_effort: facts.reasoning_effort.clone(),
            reasoning_effort,
            reasoning_summary: None,
            source: Some("sdk".into()),
            cause: None,
            by,
        });
    }

    /// Detaches a client. Pending requests stay pending, even if it was the last client: any later one can answer them.
    /// Questions that it was showing are delivered to another client, and the next prompt tells the model which tools are
    /// missing. Forms and commands that one client put to others are closed if no remaining client can answer them.
    pub(super) fn detach(&mut self, client: ClientId) {
        let before = Capabilities::of(&self.session.live);
        let Some(profile) = self.session.live.clients.remove(&client) else { return };
        self.session.live.runners.retain(|_, runner| *runner != client);
        let names = profile.tools.iter().map(|tool| tool.name.clone());
        let still: BTreeSet<&str> = self
            .session
            .live
            .clients
            .values()
            .flat_map(|p| &p.tools)
            .map(|tool| tool.name.as_str())
            .collect();
        let gone: Vec<String> = names.filter(|name| !still.contains(name.as_str())).collect();
        self.session.live.tools_gone.extend(gone);
        self.session.live.listeners.retain(|_, listener| *listener != client);
        self.stop_where(|work| matches!(work, Work::DeliverQuestion { client: c, .. } if *c == client));
        self.show_changes(&before);
        self.deliver_questions();
        self.drop_unanswerable_asks();
    }

    /// Shows changes of the tools, commands and capabilities that the clients offer together.
    fn show_changes(&mut self, before: &Capabilities) {
        let now = Capabilities::of(&self.session.live);
        self.session.live.tools_gone.retain(|name| !now.tools.contains(name));
        if before.has_clients && now.tools != before.tools {
            let model = self.session.durable.facts.model.clone().unwrap_or_default();
            self.show(ToolsUpdated { model });
        }
        if now.commands != before.commands {
            self.show(CommandsChanged { commands: now.commands });
        }
        if now.elicitation != before.elicitation {
            let ui = UiCapabilities { elicitation: Some(now.elicitation), ..UiCapabilities::default() };
            self.show(CapabilitiesChanged { ui: Some(ui) });
        }
    }
}

/// Tools, commands and capabilities of all attached clients together.
struct Capabilities {
    /// Whether any client is attached.
    has_clients: bool,
    tools: BTreeSet<String>,
    commands: Vec<SlashCommand>,
    elicitation: bool,
}

impl Capabilities {
    fn of(live: &Live) -> Self {
        let clients = || live.clients.values();
        Self {
            has_clients: !live.clients.is_empty(),
            tools: clients().flat_map(|p| &p.tools).map(|tool| tool.name.clone()).collect(),
            commands: clients().flat_map(|p| p.commands.clone()).collect(),
            elicitation: clients().any(|p| p.elicitation),
        }
    }
}
