//! Forks: new sessions that begin with a copy of another session's history, whole or up to an event.
//!
//! Records are copied one by one with their event ids, so that both histories are the same up to the fork. A running turn
//! and the queue belong to the source, and are cancelled in the fork.
//!
//! A whole fork keeps the grants and the permission mode of its source: its user has them there already, on the same
//! server. A fork up to an event does not: grants may have been revoked since, and those of an imported history are
//! revoked at its end.

use std::ops::ControlFlow;

use baton_core::ask::{Amend, HoldQueue, Suspend, Withdraw};
use baton_core::{Ask, Change, Durable, Session, Withdrawn};
use baton_protocol::event::PermissionMode;
use baton_protocol::rules::RulesEdit;
use baton_protocol::{Author, Body, Event, EventId, SessionId, Timestamp};
use baton_store::{Append, Lease, NewRecord, NewSession, Record, Seq, Span, Store, StoreError};
use bytes::Bytes;
use uuid::Uuid;

use crate::metadata::Metadata;
use crate::{deny, id_of, newest_first, owner, step_all};

const PAGE: usize = 1000;

/// Failures of a fork. Clients compare these texts.
#[derive(Debug, thiserror::Error)]
pub enum ForkError {
    /// The source does not exist, or its history is empty.
    #[error("Session {0} not found or has no persisted events")]
    Nothing(SessionId),
    /// The history of the source has no such event.
    #[error("Event {event} not found in session {session}")]
    NoSuchEvent {
        /// Id of the event.
        event: String,
        /// The source.
        session: SessionId,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A fork to create.
pub struct Fork {
    /// The session to copy.
    pub source: SessionId,
    /// First event that is not copied; none copies the whole history.
    pub until: Option<String>,
    /// Name of the fork; none derives one from the source.
    pub name: Option<String>,
}

/// Creates a fork. Returns its id and name.
///
/// # Errors
/// When the source or the event does not exist, or the store fails.
pub async fn fork(store: &dyn Store, wanted: Fork) -> Result<(SessionId, String), ForkError> {
    let end = match &wanted.until {
        None => None,
        Some(event) => Some(find(store, &wanted.source, event).await?),
    };
    let mut copy = Copy { id: SessionId::random(), durable: Durable::default(), lease: None };
    let copied = copy.copy_history(store, &wanted.source, end).await;
    let named = match copied {
        Ok(()) => copy.finish(store, &wanted).await,
        Err(error) => Err(error),
    };
    if named.is_err() && copy.lease.is_some() {
        // An incomplete fork is not left behind.
        drop(store.delete(&copy.id).await);
    }
    Ok((copy.id, named?))
}

/// Finds the sequence number of an event, newest first: most forks start near the end.
async fn find(store: &dyn Store, session: &SessionId, event: &str) -> Result<Seq, ForkError> {
    let unknown = || ForkError::NoSuchEvent { event: event.to_owned(), session: session.clone() };
    let summary = store.summary(session).await?.ok_or_else(|| ForkError::Nothing(session.clone()))?;
    let wanted: Uuid = event.parse().map_err(|_| unknown())?;
    let mut found = None;
    let take = |record: Record| {
        found = (id_of(&record) == Some(EventId(wanted))).then_some(record.seq);
        if found.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    newest_first(store, session, summary.head, take).await?;
    found.ok_or_else(unknown)
}

/// A fork that is being written.
struct Copy {
    id: SessionId,
    durable: Durable,
    lease: Option<Lease>,
}

impl Copy {
    /// Copies the records of the source, up to `end`.
    async fn copy_history(
        &mut self,
        store: &dyn Store,
        source: &SessionId,
        end: Option<Seq>,
    ) -> Result<(), ForkError> {
        let mut after = Seq::ZERO;
        loop {
            let mut page = match store.read(source, Span::After { after, limit: PAGE }).await {
                Err(StoreError::NotFound(_)) => break,
                read => read?,
            };
            let Some(last) = page.last() else { break };
            after = last.seq;
            page.retain(|record| end.is_none_or(|end| record.seq < end));
            let records = page.into_iter().map(|record| self.convert(record)).collect();
            self.write(store, records).await?;
            if end.is_some_and(|end| after >= end) {
                break;
            }
        }
        if self.lease.is_none() { Err(ForkError::Nothing(source.clone())) } else { Ok(()) }
    }

    /// Converts a record of the source. Only the session id and the author in its first event change.
    fn convert(&mut self, record: Record) -> NewRecord {
        let event = std::str::from_utf8(&record.body).ok().and_then(|text| Event::parse(text).ok());
        let Some(mut event) = event else {
            self.durable.skip();
            return NewRecord { kind: record.kind, body: record.body };
        };
        self.durable.apply(&event);
        let body = match &mut event.body {
            Body::SessionStart(start) => {
                (start.session_id, start.by) = (self.id.clone(), Some(Author::fork()));
                serde_json::to_vec(&event).map_or(record.body, Bytes::from)
            }
            _ => record.body,
        };
        NewRecord { kind: record.kind, body }
    }

    /// Cancels the turn and the queue, sets the name, and releases the fork.
    async fn finish(&mut self, store: &dyn Store, wanted: &Fork) -> Result<String, ForkError> {
        let expected = Seq(self.durable.seq);
        let facts = &self.durable.facts;
        let known = facts.name.clone().or_else(|| facts.title.clone());
        let known = known.unwrap_or_else(|| format!("Session {:.8}", wanted.source.as_str()));
        let name = wanted.name.clone().unwrap_or_else(|| format!("{known} (fork)"));
        let walls = self.durable.walls.clone();
        let has_chosen_sandbox = facts.sandbox.as_ref().is_some_and(|choice| choice.chosen);
        let mut session = Session::recovered(self.id.clone(), std::mem::take(&mut self.durable));
        let change = Change::Name { name: name.clone(), by_user: wanted.name.is_some() };
        let mut asks: Vec<Ask> = vec![
            Withdraw { which: Withdrawn::All }.into(),
            Suspend {}.into(),
            // The client that paused the source's queue does not know of this one, and would not resume it.
            HoldQueue { hold: false }.into(),
            Amend::by(Author::fork(), change).into(),
        ];
        // The programs that asked, and the files that they created, are the source's.
        asks.extend(walls.iter().map(|wall| deny(&wall.request, Author::fork())));
        if wanted.until.is_some() {
            let by = Author::fork();
            let rules = Change::Rules { edit: Box::new(RulesEdit::disarming()), by: by.clone() };
            let mode = Change::Permissions(PermissionMode::default());
            let sandbox = has_chosen_sandbox.then_some(Change::Sandbox(None));
            let changes = [Change::Revoke { grant: None, by }, rules, mode].into_iter().chain(sandbox);
            asks.extend(changes.map(|change| Amend::by(Author::fork(), change).into()));
        }
        let records = step_all(&mut session, asks);
        self.durable = session.durable;
        self.append(store, expected, records).await?;
        if let Some(lease) = self.lease.take() {
            store.release(lease).await?;
        }
        Ok(name)
    }

    async fn write(&mut self, store: &dyn Store, records: Vec<NewRecord>) -> Result<(), ForkError> {
        if records.is_empty() {
            return Ok(());
        }
        let expected = Seq(self.durable.seq.saturating_sub(records.len() as u64));
        if self.lease.is_some() {
            return self.append(store, expected, records).await;
        }
        let new = NewSession {
            session: self.id.clone(),
            owner: owner::this_process(),
            created: Timestamp::now(),
            records,
            meta: self.meta(),
            busy: false,
        };
        self.lease = Some(store.create(new).await?);
        Ok(())
    }

    async fn append(
        &self,
        store: &dyn Store,
        expected: Seq,
        records: Vec<NewRecord>,
    ) -> Result<(), ForkError> {
        let Some(lease) = self.lease.clone() else { return Ok(()) };
        let append = Append {
            lease,
            expected,
            records,
            modified: Timestamp::now(),
            meta: Some(self.meta()),
            snapshot: serde_json::to_vec(&self.durable).ok().map(Bytes::from),
            busy: false,
        };
        store.append(append).await?;
        Ok(())
    }

    fn meta(&self) -> Bytes {
        let folded = Session { durable: self.durable.clone(), ..Session::new(self.id.clone()) };
        Metadata::of(&folded).encode()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use baton_store::memory::MemoryStore;

    use super::*;
    use crate::transfer;

    fn line(number: u8, kind: &str, data: &str) -> String {
        let id = format!("0190c2f0-0000-7000-8000-0000000000{number:02}");
        format!(
            r#"{{"type":"{kind}","data":{data},"id":"{id}","timestamp":"2026-11-15T20:31:00.000Z","parentId":null}}"#
        )
    }

    #[tokio::test]
    async fn fork_up_to_an_event_does_not_restore_grants_that_an_import_revoked() {
        let start = r#"{"sessionId":"s","version":1,"producer":"x","copilotVersion":"1","startTime":"2026-11-15T20:30:53.223Z"}"#;
        let lines = [
            line(1, "session.start", start),
            line(2, "baton.approvals_changed", r#"{"approval":{"kind":"write"}}"#),
            line(3, "session.permissions_changed", r#"{"previousMode":"manual","mode":"allow-all"}"#),
            line(4, "user.message", r#"{"content":"hello"}"#),
            line(5, "user.message", r#"{"content":"again"}"#),
        ];
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let lines = lines.join("\n");
        let imported = transfer::import(&*store, &mut lines.as_bytes(), None, || {}).await.unwrap().session;
        let until = "0190c2f0-0000-7000-8000-000000000005".to_owned();
        for until in [Some(until), None] {
            let wanted = Fork { source: imported.clone(), until, name: None };
            let (copy, _) = fork(&*store, wanted).await.unwrap();
            let records = store.read(&copy, Span::After { after: Seq::ZERO, limit: 100 }).await.unwrap();
            let events =
                records.iter().map(|record| Event::parse(std::str::from_utf8(&record.body).unwrap()));
            let state = Durable::of(&events.collect::<Result<Vec<_>, _>>().unwrap());
            assert!(state.grants.is_empty());
            assert_eq!(state.facts.permissions, PermissionMode::Manual);
        }
    }
}
