//! Messages to the actor of a session.

use std::path::PathBuf;
use std::sync::Arc;

use baton_ask::AskMessage;
use baton_core::{EngineReport, Profile, WorkId, WorkResult};
use baton_protocol::event::{CompactionComplete, CompactionStart};
use baton_protocol::params::SessionParams;
use baton_protocol::{AgentId, Body, ClientId};
use baton_settings::SettingsChange;
use baton_store::Seq;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::failure::Failure;
use super::hub::Port;
use super::respond::Responder;

/// Request of a client to create or resume a session.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct JoinRequest {
    /// The client.
    pub client: ClientId,
    /// What the client offers to the session.
    pub profile: Profile,
    /// Parameters of the create or resume call.
    #[serde(serialize_with = "write_params", deserialize_with = "read_params")]
    pub params: Box<SessionParams>,
    /// Whether the client is an SDK from before May 2026.
    pub legacy: bool,
    /// Whether it creates or resumes the session.
    pub kind: JoinKind,
    /// What a client brings back that was attached before, when its session has moved; none for every other client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returning: Option<Box<Returning>>,
}

/// What the server of a client that was attached before knows of the session's settings.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Returning {
    /// Head of the session when the client joined.
    pub joined_at: Seq,
    /// Changes of settings that clients of the server made since, in their order.
    #[serde(default, deserialize_with = "known_changes")]
    pub changes: Vec<SettingsChange>,
}

/// Reads changes. One of a kind that this version does not know is left out: a newer server may send it.
fn known_changes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<SettingsChange>, D::Error> {
    let changes = Vec::<Box<RawValue>>::deserialize(deserializer)?;
    Ok(changes.iter().filter_map(|change| serde_json::from_str(change.get()).ok()).collect())
}

/// Whether a client creates a session or resumes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JoinKind {
    /// It creates the session.
    Create,
    /// It resumes the session.
    Resume,
}

/// Reply to a client that has joined a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinReply {
    /// Whether an attached client can show forms.
    pub elicitation: bool,
    /// Directory of the session's files, at the server that holds it.
    #[serde(default)]
    pub files: PathBuf,
    /// Head of the session when the client joined.
    #[serde(default)]
    pub at: Seq,
}

/// Serialises parameters with [`SessionParams::keep`], which is not part of the clients' protocol.
fn write_params<S: Serializer>(params: &SessionParams, serializer: S) -> Result<S::Ok, S::Error> {
    (params.keep, params).serialize(serializer)
}

fn read_params<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Box<SessionParams>, D::Error> {
    let (keep, params) = <(bool, SessionParams)>::deserialize(deserializer)?;
    Ok(Box::new(SessionParams { keep, ..params }))
}

/// Starts a compaction.
pub struct Compact {
    /// Event that records the start.
    pub start: CompactionStart,
    /// Instructions of the user for the summary.
    pub instructions: Option<String>,
    /// Receives the result.
    pub done: oneshot::Sender<Result<CompactionComplete, Failure>>,
}

/// Message to an actor.
pub enum ActorMessage {
    /// Asks something of the session.
    Ask(AskMessage, Responder),
    /// Attaches a client, with the port that receives its events.
    Join(Box<JoinRequest>, Arc<dyn Port>, oneshot::Sender<Result<JoinReply, Failure>>),
    /// Detaches a client whose connection ended.
    Leave(ClientId),
    /// A message of another server, for one of its clients. Only the actor serves it: when the session is lost, that server
    /// asks the next owner itself.
    Relayed(Box<ActorMessage>),
    /// Detaches a client of another server whose link was lost, unless it has joined through another link since.
    Unlink(ClientId, Arc<dyn Port>),
    /// Reports from work.
    Work(FromWork),
    /// Starts a compaction.
    Compact(Box<Compact>),
    /// Reports the end of a compaction.
    Compacted(Box<CompactionComplete>),
    /// Stops the actor without further writes, because the session is about to be deleted.
    Vanish(oneshot::Sender<()>),
    /// Stops the actor without a write, because this server may have lost the session; its clients stay.
    StepDown,
    /// Stops the actor because the server stops. Pending work stays pending.
    Stop(oneshot::Sender<()>),
}

/// Message of work to its session.
pub enum FromWork {
    /// Records an event of the main conversation, or of a sub-agent.
    Note(Option<AgentId>, Box<Body>),
    /// Reports progress of an engine. The slot is free for another report when this one is taken.
    Report(WorkId, Box<EngineReport>, OwnedSemaphorePermit),
    /// Reports the result of work.
    Finished(WorkId, Box<WorkResult>),
}

impl ActorMessage {
    /// Replies with a failure, where the sender waits for a reply.
    pub fn refuse(self, failure: Failure) {
        match self {
            Self::Ask(_, responder) => responder.reply(Err(failure)),
            Self::Join(_, _, reply) => drop(reply.send(Err(failure))),
            Self::Compact(compact) => drop(compact.done.send(Err(failure))),
            Self::Stop(done) | Self::Vanish(done) => drop(done.send(())),
            Self::Relayed(message) => message.refuse(failure),
            Self::Leave(_) | Self::Unlink(..) | Self::Work(_) | Self::Compacted(_) | Self::StepDown => {}
        }
    }
}
