//! Sessions whose actor is in another server.
//!
//! A [`Handle`](super::Handle) is the same for every session. Behind it is either the session's actor, or an *edge*: a task
//! of the runtime that sends the asks on to the server that holds the session (its *owner*), and delivers that server's
//! events to its own clients. At the owner, [`serve`] gives an edge what it would have if it were there.
//!
//! The messages are values, which links carry. [`Peers`] hides what a link looks like on the wire.

mod owner;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use baton_core::Session;
use baton_protocol::rpc::RpcError;
use baton_protocol::{ClientId, EventId, Json, SessionId};
use baton_providers::{CallFailed, RelayedPart};
use baton_store::Seq;
use baton_store::members::Member;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

pub use self::owner::{Service, serve};
use super::failure::Failure;
use super::message::{JoinReply, JoinRequest};
use super::published::{Batch, Published};
use baton_ask::{AskMessage, ReplyMessage};

/// Message of an edge to the owner of a session.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToOwner {
    /// Asks something of the session.
    Ask {
        /// Number of the ask, for its reply.
        id: u64,
        /// The ask.
        ask: Box<AskMessage>,
    },
    /// Attaches a client of the edge.
    Join {
        /// Number of the join, for its reply.
        id: u64,
        /// The client.
        joining: Box<JoinRequest>,
    },
    /// Detaches a client of the edge.
    Leave {
        /// The client.
        client: ClientId,
    },
    /// Result of a call to a client of the edge.
    Called {
        /// Number of the call.
        id: u64,
        /// What the client answered.
        result: Result<Json, CallRefused>,
    },
    /// Offers to carry the session's model requests, through a client of the edge.
    Carry {},
    /// Part of the response to a model request that the edge carries.
    Carried {
        /// Id of the request.
        request: String,
        /// The part.
        part: RelayedPart,
    },
    /// Stops the session, because it is about to be deleted.
    Vanish {
        /// Number, for the reply.
        id: u64,
    },
}

/// Message of the owner of a session to an edge.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromOwner {
    /// The session is here. Live events follow from this head on.
    Opened {
        /// Sequence number of the last durable event.
        head: Seq,
        /// The last event that SDK clients see.
        last_public: Option<EventId>,
    },
    /// The session is not here, or cannot be opened.
    Refused {
        /// The reason; none if another server holds it.
        failure: Option<Failure>,
    },
    /// Events that are published together.
    Events(Vec<RemoteEvent>),
    /// A client was attached before these events, which it receives.
    Attached {
        /// The client.
        client: ClientId,
        /// The first events for it.
        events: Vec<RemoteEvent>,
    },
    /// Reply to an ask.
    Reply {
        /// Number of the ask.
        id: u64,
        /// The reply.
        result: Result<Box<ReplyMessage>, Failure>,
    },
    /// Reply to a join.
    Joined {
        /// Number of the join.
        id: u64,
        /// The result.
        result: Result<JoinReply, Failure>,
    },
    /// Calls a client of the edge.
    Call {
        /// Number of the call.
        id: u64,
        /// The client.
        client: ClientId,
        /// Name of the method.
        method: String,
        /// Its parameters.
        params: serde_json::Value,
    },
    /// Calls the client of the edge that carries model requests. The result is a [`ToOwner::Called`].
    CallCarrier {
        /// Number of the call.
        id: u64,
        /// Name of the method.
        method: String,
        /// Its parameters.
        params: serde_json::Value,
    },
    /// The session has stopped, for [`ToOwner::Vanish`].
    Vanished {
        /// Number of the request.
        id: u64,
    },
    /// The session is not here any more.
    Ended {
        /// Whether it was closed for all clients. Otherwise it continues elsewhere.
        closed: bool,
    },
}

/// An event on its way to an edge.
#[derive(Debug, Serialize, Deserialize)]
pub struct RemoteEvent {
    seq: Option<Seq>,
    kind: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    of_agent: bool,
    json: Box<serde_json::value::RawValue>,
}

/// Why a call to a client failed, in a form that can be sent.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallRefused {
    /// The client has disconnected.
    Gone,
    /// It answered with an error.
    Refused(RpcError),
}

/// An edge's end of a link.
pub struct Link {
    /// Messages to the owner. Never blocks; a link that cannot keep up is closed.
    pub to_owner: mpsc::UnboundedSender<ToOwner>,
    /// Messages from the owner; none when the link is lost.
    pub from_owner: mpsc::UnboundedReceiver<FromOwner>,
}

/// The owner's end of a link.
pub struct EdgeLink {
    /// Messages to the edge. Never blocks; a link that cannot keep up is closed.
    pub to_edge: mpsc::UnboundedSender<FromOwner>,
    /// Messages from the edge; none when the link is lost.
    pub from_edge: mpsc::UnboundedReceiver<ToOwner>,
}

/// A link that is being opened.
pub type Opening<'a> = Pin<Box<dyn Future<Output = Result<Link, String>> + Send + 'a>>;

/// State of a session that has changed, from the server that holds it.
#[derive(Debug, Serialize, Deserialize)]
pub struct SessionNews(pub Box<Session>);

/// A session whose history has grown, in short.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionBrief {
    /// The session.
    pub session: SessionId,
    /// Its head before the events that are new; zero if it was created.
    pub after: Seq,
    /// Metadata as in lists of sessions.
    pub metadata: serde_json::Value,
}

/// Changes of sessions, from the server that holds them.
#[derive(Debug, Default)]
pub struct NewsBatch {
    /// Their states, for a server that watches them in full.
    pub sessions: Vec<SessionNews>,
    /// What changed, in short.
    pub briefs: Vec<SessionBrief>,
}

/// How much a server that watches another one wants to know.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Detail {
    /// Which sessions change.
    Brief,
    /// Also their states.
    #[default]
    Full,
}

/// A watch that is being started. Its channel ends when the link is lost.
pub type Watching<'a> =
    Pin<Box<dyn Future<Output = Result<mpsc::UnboundedReceiver<NewsBatch>, String>> + Send + 'a>>;

/// Links to the other servers of the store.
pub trait Peers: Send + Sync + 'static {
    /// Opens a link to a session of another server. Fails with a reason for the log.
    fn open<'a>(&'a self, owner: &'a Member, session: &'a SessionId) -> Opening<'a>;

    /// Watches the sessions of another server, until the channel is dropped. Fails with a reason for the log.
    fn watch<'a>(&'a self, server: &'a Member, detail: Detail) -> Watching<'a>;
}

/// Methods that a session calls on its clients.
const METHODS: &[&str] = &[
    "hooks.invoke",
    "systemMessage.transform",
    "providerToken.getToken",
    "userInput.request",
    "skillProvider.list",
    "skillProvider.read",
    "exitPlanMode.request",
    "autoModeSwitch.request",
    "factory.execute",
    "factory.abort",
    "workflow.execute",
    "workflow.abort",
];

/// Returns the name of a method; none if no session calls it.
#[must_use]
pub fn method(name: &str) -> Option<&'static str> {
    METHODS.iter().find(|known| **known == name).copied()
}

impl RemoteEvent {
    /// Converts events for the wire. Events are JSON; one that is not could not be sent, and is left out.
    #[must_use]
    pub fn all(batch: &Batch) -> Vec<Self> {
        batch.events().iter().filter_map(|event| Self::of(event)).collect()
    }

    fn of(event: &Published) -> Option<Self> {
        let text = std::str::from_utf8(&event.json).ok()?.to_owned();
        let json = serde_json::value::RawValue::from_string(text).ok()?;
        Some(Self { seq: event.seq, kind: event.kind.clone(), of_agent: event.of_agent, json })
    }

    /// Converts an event that was received.
    #[must_use]
    pub fn into_published(self) -> Arc<Published> {
        let json: Box<str> = self.json.into();
        Published::received(self.seq, &self.kind, self.of_agent, String::from(json).into())
    }
}

impl From<CallFailed> for CallRefused {
    fn from(failed: CallFailed) -> Self {
        match failed {
            CallFailed::Gone => Self::Gone,
            CallFailed::Refused(error) => Self::Refused(error),
        }
    }
}

impl From<CallRefused> for CallFailed {
    fn from(refused: CallRefused) -> Self {
        match refused {
            CallRefused::Gone => Self::Gone,
            CallRefused::Refused(error) => Self::Refused(error),
        }
    }
}
