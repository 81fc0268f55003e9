//! Grants of stored sessions: listing those of all sessions, and revoking them where no server has the session open.

use std::sync::Arc;

use baton_core::ask::Amend;
use baton_core::policy::Grant;
use baton_core::{Ask, Change, Durable};
use baton_protocol::rules::{RuleListEdit, Rules, RulesEdit};
use baton_protocol::{Author, EventId, SessionId};
use baton_store::{Holder, Owner, Seq, Span, Store, StoreError};

use crate::repairs::parse;
use crate::stored::Held;

const PAGE: usize = 512;

/// Kinds of the events on which grants and rules depend. No other record is parsed.
const KINDS: [&str; 5] = [
    "session.start",
    "session.resume",
    "session.context_changed",
    "baton.approvals_changed",
    "baton.rules_changed",
];

/// Grants and rules of a stored session.
#[derive(Debug, Clone)]
pub struct SessionGrants {
    /// The session.
    pub session: SessionId,
    /// Its holder, if any.
    pub holder: Option<Holder>,
    /// Its grants, oldest first.
    pub grants: Vec<Grant>,
    /// Its rules.
    pub rules: Arc<Rules>,
}

/// Lists the grants and rules of all sessions that have some, open or not, or of one session.
///
/// # Errors
/// When the store cannot be read, or has no such session.
pub async fn list(store: &dyn Store, only: Option<&SessionId>) -> Result<Vec<SessionGrants>, StoreError> {
    let mut found = Vec::new();
    for summary in store.list().await? {
        if only.is_some_and(|only| *only != summary.session) {
            continue;
        }
        let (mut durable, mut after) = (Durable::default(), Seq::ZERO);
        loop {
            let page = store.read(&summary.session, Span::After { after, limit: PAGE }).await?;
            let Some(last) = page.last() else { break };
            after = last.seq;
            let relevant = page.iter().filter(|record| KINDS.contains(&record.kind.as_str()));
            relevant.filter_map(parse).for_each(|event| durable.apply(&event));
        }
        let Durable { grants, rules, .. } = durable;
        if !grants.is_empty() || *rules != Rules::default() {
            found.push(SessionGrants { session: summary.session, holder: summary.holder, grants, rules });
        }
    }
    Ok(found)
}

/// Revokes a grant of a session, or all grants and allow rules of it. Deny rules stay. Returns whether anything changed.
///
/// # Errors
/// [`StoreError::Held`] if a server has the session open: that server has to do it.
pub async fn revoke(
    store: &dyn Store,
    session: &SessionId,
    grant: Option<EventId>,
    us: &Owner,
) -> Result<bool, StoreError> {
    let by = Author::operator();
    let mut changes = vec![Change::Revoke { grant, by: by.clone() }];
    if grant.is_none() {
        let approved = RuleListEdit { remove_all: true, ..RuleListEdit::default() };
        let edit = RulesEdit { approved, location: Some(None), ..RulesEdit::default() };
        changes.push(Change::Rules { edit: Box::new(edit), by });
    }
    let asks: Vec<Ask> =
        changes.into_iter().map(|change| Amend::by(Author::operator(), change).into()).collect();
    let mut held = Held::acquire(store, session, us).await?;
    let changed = held.change(store, asks).await;
    held.release(store).await?;
    Ok(changed? > 0)
}

#[cfg(test)]
mod tests {
    use baton_protocol::Timestamp;
    use baton_store::memory::MemoryStore;
    use baton_store::{NewRecord, NewSession};
    use bytes::Bytes;

    use super::*;
    use crate::owner;

    fn event(n: u64, kind: &str, data: &str) -> NewRecord {
        let body = format!(
            r#"{{"type":"{kind}","data":{data},"id":"0190c2f0-0000-7000-8000-{n:012}","timestamp":"2026-11-15T20:30:54.223Z","parentId":null}}"#
        );
        NewRecord { kind: kind.into(), body: body.into() }
    }

    async fn with_grants(owner: Owner) -> (MemoryStore, SessionId) {
        let store = MemoryStore::default();
        let session: SessionId = "s".parse().unwrap();
        let grant = r#"{"approval":{"kind":"commands","commandIdentifiers":["echo"]},"by":"HTTP API"}"#;
        let records = vec![
            event(1, "baton.approvals_changed", grant),
            event(2, "baton.approvals_changed", r#"{"approval":{"kind":"read"}}"#),
        ];
        let new = NewSession {
            session: session.clone(),
            owner,
            created: Timestamp(1),
            records,
            meta: Bytes::new(),
            busy: false,
        };
        store.create(new).await.unwrap();
        (store, session)
    }

    #[tokio::test]
    async fn grants_of_a_closed_session_are_listed_and_revoked() {
        let dead = Owner { boot: "another".into(), ..owner::this_process() };
        let (store, session) = with_grants(dead).await;
        let us = owner::this_process();
        let listed = list(&store, None).await.unwrap();
        assert_eq!(listed[0].grants.len(), 2);
        assert_eq!(listed[0].grants[0].by, Some(Author::http()));
        assert!(revoke(&store, &session, listed[0].grants[0].id, &us).await.unwrap());
        assert!(!revoke(&store, &session, listed[0].grants[0].id, &us).await.unwrap(), "it is gone");
        let left = list(&store, Some(&session)).await.unwrap();
        assert_eq!(left[0].grants.len(), 1);
        assert!(revoke(&store, &session, None, &us).await.unwrap());
        assert!(list(&store, None).await.unwrap().is_empty());
        assert_eq!(store.summary(&session).await.unwrap().unwrap().holder, None, "it is released");
    }

    #[tokio::test]
    async fn grants_of_a_session_that_a_server_has_open_are_left_to_it() {
        let (store, session) = with_grants(owner::this_process()).await;
        let refused = revoke(&store, &session, None, &owner::this_process()).await;
        assert!(matches!(refused, Err(StoreError::Held { .. })), "{refused:?}");
        assert_eq!(list(&store, None).await.unwrap()[0].grants.len(), 2);
    }
}
