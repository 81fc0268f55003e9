//! What an SDK client is told of a session, and how it is asked.

use std::sync::Arc;

use baton_protocol::SessionId;
use bytes::Bytes;

use super::connection::Connection;
use super::dialect::Dialect;
use crate::session::{Batch, Calling, Follower, Published, Recipient, is_piece};
use crate::wire::{Closed, Outbox};

/// One client's end of one session.
pub(super) struct Attachment {
    connection: Arc<Connection>,
    dialect: Dialect,
    /// Whether it wants to see what sub-agents say while they say it.
    agents_live: bool,
}

impl Attachment {
    pub(super) fn new(connection: Arc<Connection>, agents_live: bool) -> Arc<Follower<Self>> {
        let (server, dialect) = (connection.server.clone(), connection.dialect());
        Follower::from_now(&server, Self { connection, dialect, agents_live })
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
        let is_live_speech = || is_piece(&event.kind) || event.kind == "assistant.message_start";
        self.agents_live || !event.of_agent || !is_live_speech()
    }

    fn words(&self, session: &SessionId, event: &Published) -> Option<Bytes> {
        self.dialect.frame(session, event)
    }

    fn common_words(&self, session: &SessionId, events: &Batch) -> Option<Bytes> {
        (self.dialect == Dialect::Current).then(|| events.frames(session))
    }

    fn call(&self, method: &'static str, params: serde_json::Value) -> Calling {
        self.connection.call(method, params)
    }
}
