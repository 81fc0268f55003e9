//! Clients of this server in one session, with what they brought and changed: if the session moves, they join again.
//!
//! What belongs to a client (its tools, its registrations) is part of its own join. What a client changed about the session
//! and no event records (options, agents, MCP servers) is remembered for all clients of the server together, because it
//! stays when the client leaves.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use baton_ask::{AskMessage, ReplyMessage};
use baton_core::Session;
use baton_core::ask::{ListenForSwitch, RegisterRunner, StopListening};
use baton_protocol::event::Body;
use baton_protocol::{ClientId, Event, RequestId};
use baton_settings::{SettingsChange, SettingsChanges, SettingsEdit};
use baton_store::Seq;

use crate::hub::Port;
use crate::message::{JoinKind, JoinRequest, Returning};
use crate::published::Published;

/// A client, with what it brought and its port.
pub type AttachedClient = (JoinRequest, Arc<dyn Port>);

/// Clients by their ids, and the changes of settings since they joined.
#[derive(Clone, Default)]
pub struct Attached {
    clients: BTreeMap<ClientId, AttachedClient>,
    changes: SettingsChanges,
}

/// What an ask changes, if it is served, that the next server of the session has to know.
pub enum Lasting {
    /// It changes settings.
    Settings(Box<SettingsEdit>),
    /// It registers or unregisters a runner.
    Runner(RegisterRunner),
    /// It registers a client as a listener for offers of a fallback model.
    Listener(ClientId),
    /// It ends the registration of a listener.
    NoListener(String),
}

impl Lasting {
    /// Returns what an ask changes; none if it changes nothing, or an event records it.
    #[must_use]
    pub fn of(ask: &AskMessage) -> Option<Self> {
        match ask {
            AskMessage::Core(ask) => match &**ask {
                baton_core::Ask::RegisterRunner(ask) => Some(Self::Runner(ask.clone())),
                baton_core::Ask::ListenForSwitch(ListenForSwitch { client }) => Some(Self::Listener(*client)),
                baton_core::Ask::StopListening(StopListening { listener }) => {
                    Some(Self::NoListener(listener.clone()))
                }
                _ => None,
            },
            ask => ask.settings_edit().map(|edit| Self::Settings(Box::new(edit))),
        }
    }
}

/// An event that asks clients to run a command.
pub struct AskedCommand {
    request: RequestId,
    /// Name of the command, if clients that have it are asked; none if runners are.
    name: Option<String>,
}

impl AskedCommand {
    /// Reads an event; none if it asks for nothing like that.
    #[must_use]
    pub fn of(event: &Published) -> Option<Self> {
        if !matches!(event.kind.as_str(), "command.queued" | "command.execute") {
            return None;
        }
        match Event::parse(std::str::from_utf8(&event.json).ok()?).ok()?.body {
            Body::CommandQueued(asked) => Some(Self { request: asked.request_id, name: None }),
            Body::CommandExecute(asked) => {
                Some(Self { request: asked.request_id, name: Some(asked.command_name) })
            }
            _ => None,
        }
    }

    /// Notes it for a client that it is for.
    pub fn note(&self, joining: &mut JoinRequest) {
        let profile = &mut joining.profile;
        let is_for_it = match &self.name {
            Some(name) => profile.commands.iter().any(|command| command.name == *name),
            None => !profile.registered.runners.is_empty(),
        };
        if is_for_it {
            profile.registered.asked_command = Some(self.request.clone());
        }
    }
}

impl Attached {
    /// Whether no client is attached.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }

    /// Returns the number of clients.
    #[must_use]
    pub fn len(&self) -> usize {
        self.clients.len()
    }

    /// Adds a client that has joined.
    pub fn insert(&mut self, mut joining: JoinRequest, port: Arc<dyn Port>, joined_at: Seq) {
        joining.returning.get_or_insert_with(|| Box::new(Returning { joined_at, changes: Vec::new() }));
        self.clients.insert(joining.client, (joining, port));
    }

    /// Removes a client that has left.
    pub fn remove(&mut self, client: ClientId) {
        self.clients.remove(&client);
    }

    /// Removes the clients that are extensions, and returns their ids.
    pub fn remove_extensions(&mut self) -> Vec<ClientId> {
        let is_extension = |_: &ClientId, (joining, _): &mut AttachedClient| joining.profile.is_extension;
        self.clients.extract_if(.., is_extension).map(|(client, _)| client).collect()
    }

    /// Returns the changes of settings that are in effect.
    #[must_use]
    pub fn changes(&self) -> Vec<SettingsChange> {
        self.changes.to_vec()
    }

    /// Sets the changes of settings that are in effect.
    pub fn set_changes(&mut self, changes: SettingsChanges) {
        self.changes = changes;
    }

    /// Starts again without clients, with the changes that are in effect. Returns the requests that join the clients again,
    /// with their ports.
    #[must_use]
    pub fn rejoin(self) -> (Self, Vec<AttachedClient>) {
        let changes = self.changes.to_vec();
        let requests = self.clients.into_values();
        let requests = requests.map(|(joining, port)| (rejoining(joining, &changes), port)).collect();
        (Self { clients: BTreeMap::new(), changes: self.changes }, requests)
    }

    /// Notes a change that was served. `head` is that of the session.
    pub fn note(&mut self, lasting: Lasting, reply: &ReplyMessage, head: Seq) {
        match lasting {
            Lasting::Settings(edit) => self.changes.add(SettingsChange { at: head.0, edit: *edit }),
            Lasting::Runner(RegisterRunner { client, handle, registered: true }) => {
                if let Some((joining, _)) = self.clients.get_mut(&client) {
                    joining.profile.registered.runners.insert(handle);
                }
            }
            // Whoever knows its name may end a registration.
            Lasting::Runner(RegisterRunner { handle, .. }) => {
                self.each(|joining| joining.profile.registered.runners.retain(|name| *name != handle));
            }
            Lasting::Listener(client) => {
                if let ReplyMessage::Core(reply) = reply
                    && let baton_core::Reply::ListenForSwitch(listener) = &**reply
                    && let Some((joining, _)) = self.clients.get_mut(&client)
                {
                    joining.profile.registered.listeners.insert(listener.clone());
                }
            }
            Lasting::NoListener(listener) => {
                self.each(|joining| joining.profile.registered.listeners.retain(|name| *name != listener));
            }
        }
    }

    /// Notes which clients were asked to run a command.
    pub fn note_asked(&mut self, asked: &AskedCommand) {
        self.each(|joining| asked.note(joining));
    }

    /// Notes the registrations of the clients, from the state of the session.
    pub fn note_registrations(&mut self, session: &Session) {
        let live = &session.live;
        let of = |registrations: &BTreeMap<String, ClientId>, client: ClientId| -> BTreeSet<String> {
            let own = registrations.iter().filter(|(_, owner)| **owner == client);
            own.map(|(name, _)| name.clone()).collect()
        };
        self.each(|joining| {
            let (client, registered) = (joining.client, &mut joining.profile.registered);
            registered.runners = of(&live.runners, client);
            registered.listeners = of(&live.listeners, client);
            let asked = live.client_command.filter(|_| live.asked_runners.contains(&client));
            registered.asked_command = asked.map(|command| RequestId(command.to_string()));
        });
    }

    fn each(&mut self, mut change: impl FnMut(&mut JoinRequest)) {
        self.clients.values_mut().for_each(|(joining, _)| change(joining));
    }
}

/// Returns what joins a client again: its work continues, and the history does not grow. What events record is not brought
/// back: another client may have changed it since.
fn rejoining(mut joining: JoinRequest, changes: &[SettingsChange]) -> JoinRequest {
    let params = &mut joining.params;
    params.continue_pending_work = Some(true);
    params.disable_resume = Some(true);
    (params.model, params.reasoning_effort, params.working_directory) = (None, None, None);
    joining.kind = JoinKind::Resume;
    if let Some(returning) = &mut joining.returning {
        returning.changes = changes.to_vec();
    }
    joining
}
