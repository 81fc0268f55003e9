//! Transcripts of a live session, for the model: loaded before its first call, and updated with each event from then on.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use baton_agent::transcript::Transcript;
use baton_core::Session;
use baton_history::newest_first;
use baton_protocol::{AgentId, Body, Event, PromptId, SessionId};
use baton_store::{Record, Seq, Store};

use crate::Runtime;

/// Maximum size of the history that is loaded. No model reads more, so continuing a longer session costs no more.
const MAX_BYTES: usize = 8 << 20;

/// Transcripts of the main conversation and of running sub-agents.
#[derive(Clone, Default)]
pub(crate) struct Transcripts {
    /// Transcript of the main conversation; none if it is not loaded.
    transcript: Option<Arc<Transcript>>,
    /// The last recorded system message.
    pub(crate) system: Option<Arc<str>>,
    /// Conversations of running sub-agents.
    agents: BTreeMap<AgentId, SubConversation>,
    /// HTTP headers for the model calls of the running turn, set by its client.
    pub(crate) headers: BTreeMap<String, String>,
}

/// Conversation of a sub-agent.
#[derive(Clone, Default)]
struct SubConversation {
    transcript: Arc<Transcript>,
    system: Option<Arc<str>>,
}

impl Transcripts {
    /// Creates the conversation of a new session: there is nothing to load.
    pub(crate) fn new() -> Self {
        Self { transcript: Some(Arc::default()), ..Self::default() }
    }

    /// Returns the transcript of the main conversation; empty if it is not loaded.
    pub(crate) fn transcript(&self) -> Arc<Transcript> {
        self.transcript.clone().unwrap_or_default()
    }

    /// Returns the transcript of a sub-agent, or of the main conversation.
    pub(crate) fn transcript_of(&self, agent: Option<&AgentId>) -> Arc<Transcript> {
        match agent {
            None => self.transcript(),
            Some(agent) => self.agents.get(agent).map(|own| own.transcript.clone()).unwrap_or_default(),
        }
    }

    /// Returns the last recorded system message of a sub-agent, or of the main conversation.
    pub(crate) fn system_of(&self, agent: Option<&AgentId>) -> Option<Arc<str>> {
        match agent {
            None => self.system.clone(),
            Some(agent) => self.agents.get(agent)?.system.clone(),
        }
    }

    /// Applies a recorded event.
    pub(super) fn apply(&mut self, event: &Event) {
        if let Some(agent) = &event.agent_id {
            return self.apply_to_agent(agent, &event.body);
        }
        match &event.body {
            Body::SystemMessage(message) => self.system = Some(Arc::from(message.content.as_str())),
            // Loaded again when it is next needed.
            Body::HistoryTruncated(_) => (self.transcript, self.system) = (None, None),
            _ => {}
        }
        if let Some(transcript) = &mut self.transcript {
            Arc::make_mut(transcript).apply(event);
        }
    }

    fn apply_to_agent(&mut self, agent: &AgentId, body: &Body) {
        if matches!(body, Body::SubagentCompleted(_) | Body::SubagentFailed(_)) {
            self.agents.remove(agent);
            return;
        }
        let own = self.agents.entry(agent.clone()).or_default();
        if let Body::SystemMessage(message) = body {
            own.system = Some(Arc::from(message.content.as_str()));
        }
        Arc::make_mut(&mut own.transcript).add(body);
    }

    /// Takes the HTTP headers of a prompt that is about to open a turn.
    pub(super) fn take_headers(&mut self, session: &Session, prompt: PromptId) {
        if let Some(accepted) = session.durable.inbox.iter().find(|p| p.id == prompt) {
            self.headers.clone_from(&accepted.prompt.request_headers);
        }
    }

    /// Loads the recent part of the history, unless it is loaded.
    pub(crate) async fn load(
        &mut self,
        runtime: &Runtime,
        session: &SessionId,
        head: Seq,
    ) -> Result<(), baton_store::StoreError> {
        if self.transcript.is_none() {
            let events = recent_events(&*runtime.store, session, head).await?;
            self.transcript = Some(Arc::new(Transcript::of(&events)));
        }
        Ok(())
    }
}

/// Reads the newest events up to `head`, in order, up to [`MAX_BYTES`].
async fn recent_events(
    store: &dyn Store,
    session: &SessionId,
    head: Seq,
) -> Result<Vec<Event>, baton_store::StoreError> {
    let (mut records, mut bytes) = (Vec::new(), 0);
    let take = |record: Record| {
        bytes += record.body.len();
        records.push(record);
        if bytes < MAX_BYTES { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    newest_first(store, session, head, take).await?;
    let parse = |record: Record| {
        let text = std::str::from_utf8(&record.body).ok()?;
        Event::parse(text)
            .inspect_err(
                |error| tracing::warn!(%session, seq = %record.seq, %error, "skipped an unreadable event"),
            )
            .ok()
    };
    Ok(records.into_iter().rev().filter_map(parse).collect())
}
