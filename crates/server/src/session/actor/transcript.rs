//! The conversation of a live session: loaded when the model is first asked, kept up to date from then on.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use baton_agent::transcript::Transcript;
use baton_core::Session;
use baton_protocol::{AgentId, Body, Event, PromptId, SessionId};
use baton_store::{Record, Seq, Store};

use crate::Server;
use crate::history::newest_first;

/// How much of the history is read back at most. No model reads more, so a longer history costs no more to go on with.
const MAX_BYTES: usize = 8 << 20;

/// See the module.
#[derive(Clone, Default)]
pub(crate) struct Conversation {
    transcript: Option<Arc<Transcript>>,
    /// The system text that was last recorded.
    pub(crate) system: Option<Arc<str>>,
    /// The conversations of sub-agents: those that work.
    agents: BTreeMap<AgentId, Aside>,
    /// HTTP headers that the client wants on the model calls of the running turn.
    pub(crate) headers: BTreeMap<String, String>,
}

/// The conversation of a sub-agent.
#[derive(Clone, Default)]
struct Aside {
    transcript: Arc<Transcript>,
    system: Option<Arc<str>>,
}

impl Conversation {
    /// A conversation that has just begun: there is nothing to load.
    pub(crate) fn new() -> Self {
        Self { transcript: Some(Arc::default()), ..Self::default() }
    }

    pub(crate) fn transcript(&self) -> Arc<Transcript> {
        self.transcript.clone().unwrap_or_default()
    }

    /// The conversation of a sub-agent, or the main one.
    pub(crate) fn transcript_of(&self, agent: Option<&AgentId>) -> Arc<Transcript> {
        match agent {
            None => self.transcript(),
            Some(agent) => self.agents.get(agent).map(|aside| aside.transcript.clone()).unwrap_or_default(),
        }
    }

    /// The system text of a sub-agent, or the main one, as it was last recorded.
    pub(crate) fn system_of(&self, agent: Option<&AgentId>) -> Option<Arc<str>> {
        match agent {
            None => self.system.clone(),
            Some(agent) => self.agents.get(agent)?.system.clone(),
        }
    }

    /// Takes an event that was just recorded.
    pub(super) fn apply(&mut self, event: &Event) {
        if let Some(agent) = &event.agent_id {
            return self.apply_to_agent(agent, &event.body);
        }
        match &event.body {
            Body::SystemMessage(message) => self.system = Some(Arc::from(message.content.as_str())),
            // What is left of it is read back when it is needed.
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
        let aside = self.agents.entry(agent.clone()).or_default();
        if let Body::SystemMessage(message) = body {
            aside.system = Some(Arc::from(message.content.as_str()));
        }
        Arc::make_mut(&mut aside.transcript).add(body);
    }

    pub(super) fn take_headers(&mut self, session: &Session, prompt: PromptId) {
        if let Some(accepted) = session.durable.inbox.iter().find(|p| p.id == prompt) {
            self.headers.clone_from(&accepted.prompt.request_headers);
        }
    }

    /// Reads the recent part of the history back, if that has not been done.
    pub(crate) async fn load(
        &mut self,
        server: &Server,
        session: &SessionId,
        head: Seq,
    ) -> Result<(), baton_store::StoreError> {
        if self.transcript.is_none() {
            let events = read_back(&*server.store, session, head).await?;
            self.transcript = Some(Arc::new(Transcript::of(&events)));
        }
        Ok(())
    }
}

/// The newest events up to `head`, in order.
async fn read_back(
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
            .inspect_err(|error| tracing::warn!(%session, seq = %record.seq, %error, "skipped"))
            .ok()
    };
    Ok(records.into_iter().rev().filter_map(parse).collect())
}
