//! Metadata of sessions, stored beside the history so that a list of sessions reads no history.

use std::collections::BTreeMap;

use baton_core::Session;
use baton_core::state::Facts;
use baton_protocol::event::{TokenCounts, WorkContext};
use baton_protocol::params::SessionMetadata;
use baton_store::Summary;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// Metadata of a session, as stored.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Metadata {
    /// Title, derived from the first prompt.
    pub title: Option<String>,
    /// Name that a user or client gave.
    pub name: Option<String>,
    /// Model that the session chose, else one that answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Name of the client program.
    pub client_name: Option<String>,
    /// Working directory and repository.
    pub context: WorkContext,
    /// Tokens by model.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub usage: BTreeMap<String, TokenCounts>,
    /// Whether a login at an MCP server is pending.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub logins: bool,
    /// Whether a turn runs or the queue holds an item. Stays true when the server stops, when another one acquires the session,
    /// and in a backup; the store's `busy` belongs to the holder of the moment.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unfinished: bool,
    /// Whether the turn waits for a person. Like `unfinished`, it stays true when the server stops.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub waiting: bool,
    /// Whether a client has brought a provider of its own. Its credentials are never stored.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub own_provider: bool,
    /// Whether a client carries the session's model requests.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub carried: bool,
    /// Whether this is an incomplete import.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub importing: bool,
    /// Settings that the session is opened with again; none if its clients send them with each resume.
    #[serde(rename = "kept", skip_serializing_if = "Option::is_none")]
    pub settings: Option<StoredSettings>,
}

/// Settings that a session is opened with again. Sessions of SDKs have none: an SDK sends its settings with each resume.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StoredSettings {
    /// Text appended to the system prompt.
    pub instructions: Option<String>,
    /// Filters of the tools that may be used; none means all.
    pub available_tools: Option<Vec<String>>,
    /// Filters of the tools that may not be used.
    pub excluded_tools: Vec<String>,
    /// Whether the model may ask questions although no client can show them.
    pub questions: bool,
    /// Whether the session has a provider of its own. The provider itself is not stored: it contains credentials.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub own_provider: bool,
}

impl Metadata {
    /// Returns the metadata of a session's current state, without settings of its clients.
    #[must_use]
    pub fn of(session: &Session) -> Self {
        let facts = &session.durable.facts;
        Self {
            title: facts.title.clone(),
            name: facts.name.clone(),
            model: model_of(session).map(str::to_owned),
            context: facts.context.clone(),
            usage: usage_of(session).map(|(model, tokens)| (model.clone(), *tokens)).collect(),
            logins: session.durable.has_requests_beside_turns(),
            unfinished: session.is_busy(),
            waiting: session.durable.awaits_person(),
            ..Self::default()
        }
    }

    /// Returns the metadata of an incomplete import.
    #[must_use]
    pub fn of_import(session: &Session) -> Self {
        Self { importing: true, ..Self::of(session) }
    }

    /// Whether [`Self::of`] would return the same, except for settings of clients. Called for every append, so nothing is
    /// copied or encoded.
    #[must_use]
    pub fn describes(&self, session: &Session) -> bool {
        let facts = &session.durable.facts;
        !self.importing
            && self.title == facts.title
            && self.name == facts.name
            && self.model.as_deref() == model_of(session)
            && self.context == facts.context
            && self.usage.iter().eq(usage_of(session))
            && self.logins == session.durable.has_requests_beside_turns()
            && self.unfinished == session.is_busy()
            && self.waiting == session.durable.awaits_person()
    }

    /// Encodes the metadata for the store.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        serde_json::to_vec(self).unwrap_or_default().into()
    }
}

/// Returns the model that a session chose, else one that answered.
fn model_of(session: &Session) -> Option<&str> {
    let answered = || session.durable.totals.models.keys().next().map(String::as_str);
    session.durable.facts.model.as_deref().or_else(answered)
}

/// Returns the tokens that a session used, by model.
pub fn usage_of(session: &Session) -> impl Iterator<Item = (&String, &TokenCounts)> {
    session.durable.totals.models.iter().map(|(model, (_, tokens))| (model, tokens))
}

/// Whether a turn of a session has not ended or its queue holds an item, as far as the store tells.
#[must_use]
pub fn is_unfinished(summary: &Summary) -> bool {
    decode(&summary.meta).unfinished || summary.holder.as_ref().is_some_and(|holder| holder.busy)
}

/// Whether requests may be pending in a session that is not in memory.
#[must_use]
pub fn may_have_requests(summary: &Summary) -> bool {
    is_unfinished(summary) || decode(&summary.meta).logins
}

/// Decodes stored metadata; the default if it is malformed, so that the session can still be listed and opened.
#[must_use]
pub fn decode(bytes: &[u8]) -> Metadata {
    serde_json::from_slice(bytes).unwrap_or_default()
}

/// Returns the metadata of a stored session in the form of the protocol.
#[must_use]
pub fn of(summary: &Summary) -> SessionMetadata {
    let metadata = decode(&summary.meta);
    SessionMetadata {
        session_id: summary.session.clone(),
        start_time: summary.created,
        modified_time: summary.modified,
        is_remote: false,
        summary: metadata.name.clone().or(metadata.title).or_else(|| summary.damage.clone()),
        name: metadata.name,
        context: Some(metadata.context).filter(|context| !context.cwd.is_empty()),
    }
}

/// Returns the repository and the name of a session, under the keys of `workspace.yaml`.
#[must_use]
pub fn labels(facts: &Facts) -> [(&'static str, &Option<String>); 5] {
    let context = &facts.context;
    [
        ("git_root", &context.git_root),
        ("repository", &context.repository),
        ("host_type", &context.host_type),
        ("branch", &context.branch),
        ("name", &facts.name),
    ]
}

#[cfg(test)]
mod tests {
    use baton_core::state::Accepted;
    use baton_protocol::Timestamp;
    use baton_protocol::event::Prompt;
    use baton_store::Seq;

    use super::*;

    #[test]
    fn session_without_a_holder_is_unfinished_if_it_was_busy() {
        let mut session = Session::new("s".parse().unwrap());
        let stored = |session: &Session| Summary {
            session: session.id.clone(),
            head: Seq(1),
            created: Timestamp(1),
            modified: Timestamp(1),
            size: 1,
            meta: Metadata::of(session).encode(),
            holder: None,
            damage: None,
        };
        assert!(!is_unfinished(&stored(&session)) && !may_have_requests(&stored(&session)));
        let idle = Metadata::of(&session);
        let id = baton_json::from_str(r#""0190c2f0-0000-7000-8000-00000000000a""#).unwrap();
        session.durable.inbox.enqueue_mut(Accepted { id, prompt: Prompt::default().into(), held: false });
        assert!(is_unfinished(&stored(&session)) && may_have_requests(&stored(&session)));
        assert!(!idle.describes(&session), "the change is written");
    }

    #[test]
    fn metadata_says_whether_a_turn_waits_for_a_person() {
        let mut session = Session::new("s".parse().unwrap());
        let event = |kind: &str, data: &str| {
            let text = format!(
                r#"{{"type":"{kind}","data":{data},"id":"0190c2f0-0000-7000-8000-000000000001","timestamp":"2026-11-15T20:30:54.223Z","parentId":null}}"#
            );
            baton_protocol::Event::parse(&text).unwrap()
        };
        session.durable.apply(&event("baton.turn_opened", r#"{"interactionId":"i"}"#));
        let running = Metadata::of(&session);
        assert!(!running.waiting);
        let offer = r#"{"requestId":"r","model":"m","error":{"errorType":"e","message":"m"}}"#;
        session.durable.apply(&event("baton.switch_offered", offer));
        assert!(!running.describes(&session), "the change is written");
        assert!(decode(&Metadata::of(&session).encode()).waiting);
    }
}
