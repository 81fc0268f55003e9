//! The subscription of an SDK client to a session.

use std::sync::Arc;

use baton_protocol::SessionId;
use baton_protocol::params::SessionParams;
use bytes::Bytes;

use super::connection::Connection;
use super::dialect::Dialect;
use super::frames;
use baton_runtime::session::{Batch, Calling, Published};
use baton_wire::{Closed, Outbox, Recipient, Subscriber, is_delta};

/// Receives the events and calls of one session for one client.
pub(super) struct Attachment {
    connection: Arc<Connection>,
    dialect: Dialect,
    /// Whether the client wants streamed output of sub-agents.
    sub_agent_streaming: bool,
}

impl Attachment {
    /// Creates the subscription of a client that joins a session with these parameters.
    pub(super) fn new(connection: &Arc<Connection>, params: &SessionParams) -> Arc<Subscriber<Self>> {
        let (source, dialect) = (connection.service.events(), connection.dialect());
        let sub_agent_streaming = params.include_sub_agent_streaming_events.unwrap_or(true);
        let connection = connection.clone();
        Subscriber::from_now(source, Self { connection, dialect, sub_agent_streaming })
    }
}

impl Recipient for Attachment {
    fn outbox(&self) -> &Outbox {
        self.connection.outbox()
    }

    fn push(&self, bytes: Bytes) -> Result<(), Closed> {
        self.connection.push(bytes)
    }

    fn wants(&self, event: &Published) -> bool {
        let is_streamed = || is_delta(&event.kind) || event.kind == "assistant.message_start";
        self.sub_agent_streaming || !event.of_agent || !is_streamed()
    }

    fn encode(&self, session: &SessionId, event: &Published) -> Option<Bytes> {
        self.dialect.frame(session, event)
    }

    fn encode_shared(&self, session: &SessionId, events: &Batch) -> Option<Bytes> {
        (self.dialect == Dialect::Current).then(|| frames::batch(session, events))
    }

    fn call(&self, method: &'static str, params: serde_json::Value) -> Calling {
        self.connection.call(method, params)
    }
}
