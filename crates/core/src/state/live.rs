//! The live half: state that ends with the process.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use baton_protocol::sandbox::SandboxChoice;
use baton_protocol::{AgentId, ClientId, PromptId, RequestId, ToolCallId};
use serde::{Deserialize, Serialize};

use super::CallKey;
use crate::ask::{AnswerRequest, Consent, Elicit, InvokeCommand, ReplyTo, RequestHost, RunAgent, Sample};
use crate::input::Profile;
use crate::output::{Work, WorkId};

/// Live state of a session.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Live {
    /// Attached clients, with what they offer.
    pub clients: BTreeMap<ClientId, Arc<Profile>>,
    /// Running work. Results of work that is not listed here are ignored.
    pub work: BTreeMap<WorkId, Work>,
    /// Runners of queued commands, by the names of their registrations.
    pub runners: BTreeMap<String, ClientId>,
    /// The command of the inbox that clients were asked to run.
    pub client_command: Option<PromptId>,
    /// The clients that were asked to run it.
    pub asked_runners: BTreeSet<ClientId>,
    /// Requests whose answer is being processed, with the ask that gave the answer.
    pub claimed: BTreeMap<RequestId, ReplyTo<AnswerRequest>>,
    /// Pending requests of one client to the others.
    pub asks: BTreeMap<RequestId, ClientRequest>,
    /// Listeners for offers of a fallback model, by the names of their registrations.
    pub listeners: BTreeMap<String, ClientId>,
    /// Requests that were closed recently: an answer to one of them is late, an answer to an unknown request is wrong.
    pub closed_requests: BTreeSet<RequestId>,
    /// Requests of the running engine, with the engine's ids for them.
    pub engine_references: BTreeMap<RequestId, String>,
    /// Calls that were recorded only to carry a request of the engine.
    pub placeholder_calls: BTreeSet<ToolCallId>,
    /// Calls of tools of the session that the engine made, and that have not ended.
    pub engine_calls: BTreeSet<ToolCallId>,
    /// Calls that wait for a sub-agent to end.
    #[serde(with = "pairs")]
    pub awaiting_agents: BTreeMap<CallKey, AgentId>,
    /// Sub-agents that code of clients waits for, with the names by which they are stopped.
    pub awaited_agents: BTreeMap<AgentId, (ReplyTo<RunAgent>, String)>,
    /// Client tools that were removed, and that the model has not been informed of.
    pub tools_gone: BTreeSet<String>,
    /// Whether the session was recovered with pending work that has been neither continued nor closed.
    pub is_recovered: bool,
    /// The last work id given out.
    pub last_work: u64,
    /// Whether the server runs in allow-all mode. Deny rules still hold.
    pub allow_all: bool,
    /// Baton's home, which no grant covers.
    pub home: Option<Arc<Path>>,
    /// The session's own directory in Baton's home, which grants do cover.
    pub workspace: Option<Arc<Path>>,
    /// Files that engines act on when they are started, which no write grant covers.
    #[serde(default)]
    pub engine_files: Arc<[String]>,
    /// The sandbox of a session that has none of its own, and whether there is one.
    #[serde(default)]
    pub sandbox: SandboxBase,
    /// Programs that wait to reach a host, by the request.
    #[serde(default)]
    pub waiting_for_hosts: BTreeMap<RequestId, Vec<ReplyTo<RequestHost>>>,
}

/// What a server contributes to the sandbox of its sessions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SandboxBase {
    /// Sandbox of a session that has none of its own.
    pub default: Arc<SandboxChoice>,
    /// Why the system cannot enforce a policy, and what to do; none if it can.
    pub missing: Option<String>,
}

impl Default for SandboxBase {
    fn default() -> Self {
        Self { default: Arc::default(), missing: Some("this server has no sandbox".into()) }
    }
}

impl Live {
    /// Whether a client can agree to a fallback model: it can be asked, or it listens for offers.
    #[must_use]
    pub fn can_agree_to_switch(&self) -> bool {
        !self.listeners.is_empty() || self.clients.values().any(|client| client.model_switch)
    }

    /// Returns the newest client that offers a tool at this moment.
    #[must_use]
    pub fn owner_of(&self, tool: &str) -> Option<ClientId> {
        self.clients.iter().rev().find(|(_, p)| p.tools.iter().any(|t| t.name == tool)).map(|(id, _)| *id)
    }
}

impl ClientRequest {
    /// Returns the name by which the asker withdraws it.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::Elicit(_, ask) => ask.key.as_deref(),
            Self::Sample(_, ask) => Some(&ask.key),
            Self::Consent(_, ask, _) => Some(&ask.key),
            Self::InvokeCommand(..) => None,
        }
    }
}

/// A request of one client or MCP server to the others, which waits for its answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientRequest {
    /// To fill in a form.
    Elicit(ReplyTo<Elicit>, Arc<Elicit>),
    /// To let the session's model answer an MCP server.
    Sample(ReplyTo<Sample>, Arc<Sample>),
    /// To consent to an action outside of turns.
    Consent(ReplyTo<Consent>, Arc<Consent>, ShownAs),
    /// To run the slash command of this name.
    InvokeCommand(ReplyTo<InvokeCommand>, String),
}

/// How clients see a request for consent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShownAs {
    /// As a form.
    Form,
    /// As a permission request.
    Permission,
}

/// Serialises a map as a list of pairs, because keys of a JSON object must be strings.
mod pairs {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<K, V, S>(map: &BTreeMap<K, V>, serializer: S) -> Result<S::Ok, S::Error>
    where
        K: Serialize,
        V: Serialize,
        S: Serializer,
    {
        serializer.collect_seq(map)
    }

    pub(super) fn deserialize<'de, K, V, D>(deserializer: D) -> Result<BTreeMap<K, V>, D::Error>
    where
        K: Deserialize<'de> + Ord,
        V: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        Vec::<(K, V)>::deserialize(deserializer).map(BTreeMap::from_iter)
    }
}
