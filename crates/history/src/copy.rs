//! Copies of sessions from one store to another, which can be repeated.
//!
//! Histories only grow, so a session that was copied before is a prefix of its original: the rest is appended. A session
//! that continued in the target is reported, and not overwritten.

use baton_protocol::SessionId;
use baton_store::{
    Append, Lease, NewRecord, NewSession, Owner, Record, Seq, Span, Store, StoreError, Summary, Take,
};

/// Number of records that are copied at once.
const PAGE: usize = 256;

/// What became of one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Copied {
    /// All its records, or those that were missing, were copied.
    Records(u64),
    /// The target had all of it.
    Nothing,
    /// It was not copied.
    Skipped(Skipped),
}

/// Why a session was not copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Skipped {
    /// It has continued in the target, or another session has its id there.
    Diverged,
    /// A server of the target has it open.
    Open,
    /// Its entry in the source is damaged.
    Damaged(String),
    /// It was deleted meanwhile.
    Deleted,
}

/// Copies one session. Its files are not copied.
///
/// # Errors
/// When a store fails.
pub async fn copy(
    from: &dyn Store,
    to: &dyn Store,
    summary: &Summary,
    us: &Owner,
) -> Result<Copied, StoreError> {
    if let Some(damage) = &summary.damage {
        return Ok(Copied::Skipped(Skipped::Damaged(damage.clone())));
    }
    match copy_records(from, to, summary, us).await {
        Err(StoreError::NotFound(_)) => Ok(Copied::Skipped(Skipped::Deleted)),
        Err(StoreError::Held { .. } | StoreError::Fenced(_)) => Ok(Copied::Skipped(Skipped::Open)),
        result => result,
    }
}

async fn copy_records(
    from: &dyn Store,
    to: &dyn Store,
    summary: &Summary,
    us: &Owner,
) -> Result<Copied, StoreError> {
    let id = &summary.session;
    let (lease, had) = match to.summary(id).await? {
        None => (create(from, to, summary, us).await?, Seq::ZERO),
        Some(found) if found.head > summary.head || !is_prefix(from, to, id, found.head).await? => {
            return Ok(Copied::Skipped(Skipped::Diverged));
        }
        Some(found) if found.head == summary.head => return Ok(Copied::Nothing),
        Some(found) => (to.acquire(id, us.clone(), Take::IfFree).await?.lease, found.head),
    };
    let mut head = if had == Seq::ZERO { first_page(summary) } else { had };
    let copied = append_rest(from, to, summary, &lease, &mut head).await;
    to.release(lease).await?;
    copied.map(|()| Copied::Records(head.0 - had.0))
}

fn first_page(summary: &Summary) -> Seq {
    Seq(summary.head.0.min(PAGE as u64))
}

async fn create(
    from: &dyn Store,
    to: &dyn Store,
    summary: &Summary,
    us: &Owner,
) -> Result<Lease, StoreError> {
    let limit = usize::try_from(first_page(summary).0).unwrap_or(PAGE);
    let page = from.read(&summary.session, Span::After { after: Seq::ZERO, limit }).await?;
    let new = NewSession {
        session: summary.session.clone(),
        owner: us.clone(),
        created: summary.created,
        records: page.into_iter().map(new_record).collect(),
        meta: summary.meta.clone(),
        busy: false,
    };
    to.create(new).await
}

/// Appends the records up to the head that the summary names: what is appended meanwhile is for the next copy.
async fn append_rest(
    from: &dyn Store,
    to: &dyn Store,
    summary: &Summary,
    lease: &Lease,
    head: &mut Seq,
) -> Result<(), StoreError> {
    loop {
        let left = usize::try_from(summary.head.0 - head.0).unwrap_or(PAGE).min(PAGE);
        let page = match left {
            0 => Vec::new(),
            limit => from.read(&summary.session, Span::After { after: *head, limit }).await?,
        };
        let is_last = page.is_empty() || left == 0;
        let append = Append {
            lease: lease.clone(),
            expected: *head,
            records: page.into_iter().map(new_record).collect(),
            modified: summary.modified,
            meta: is_last.then(|| summary.meta.clone()),
            snapshot: None,
            busy: false,
        };
        *head = to.append(append).await?;
        if is_last {
            return Ok(());
        }
    }
}

/// Whether the target has the same records up to its head. The last ones are compared: each has an id that no other has.
async fn is_prefix(from: &dyn Store, to: &dyn Store, id: &SessionId, head: Seq) -> Result<bool, StoreError> {
    let span = Span::Before { before: head.plus(1), limit: 2 };
    Ok(from.read(id, span).await? == to.read(id, span).await?)
}

fn new_record(Record { kind, body, .. }: Record) -> NewRecord {
    NewRecord { kind, body }
}

#[cfg(test)]
mod tests {
    use baton_protocol::Timestamp;
    use baton_store::memory::MemoryStore;

    use super::*;
    use crate::owner::this_process;

    fn append(lease: &Lease, head: u64, count: u64) -> Append {
        let body = |place: u64| NewRecord { kind: "k".into(), body: format!("{place}").into() };
        Append {
            lease: lease.clone(),
            expected: Seq(head),
            records: (head + 1..=head + count).map(body).collect(),
            modified: Timestamp(9),
            meta: None,
            snapshot: None,
            busy: false,
        }
    }

    async fn source(count: u64) -> (MemoryStore, Lease) {
        let store = MemoryStore::default();
        let new = NewSession {
            session: "s".parse().unwrap(),
            owner: this_process(),
            created: Timestamp(1),
            records: Vec::new(),
            meta: "meta".into(),
            busy: false,
        };
        let lease = store.create(new).await.unwrap();
        store.append(append(&lease, 0, count)).await.unwrap();
        (store, lease)
    }

    async fn copied(from: &MemoryStore, to: &MemoryStore) -> Copied {
        let summary = from.summary(&"s".parse().unwrap()).await.unwrap().unwrap();
        copy(from, to, &summary, &this_process()).await.unwrap()
    }

    #[tokio::test]
    async fn repeated_copy_appends_what_is_missing() {
        for count in [1, 255, 256, 257, 1000] {
            let ((from, lease), to) = (source(count).await, MemoryStore::default());
            assert_eq!(copied(&from, &to).await, Copied::Records(count));
            assert_eq!(copied(&from, &to).await, Copied::Nothing);
            from.append(append(&lease, count, 300)).await.unwrap();
            assert_eq!(copied(&from, &to).await, Copied::Records(300));
            let all = Span::After { after: Seq::ZERO, limit: usize::MAX };
            let id = "s".parse().unwrap();
            assert_eq!(from.read(&id, all).await.unwrap(), to.read(&id, all).await.unwrap());
            let (old, new) =
                (from.summary(&id).await.unwrap().unwrap(), to.summary(&id).await.unwrap().unwrap());
            assert_eq!(
                (old.created, old.modified, old.meta, old.size),
                (new.created, new.modified, new.meta, new.size)
            );
            assert_eq!(new.holder, None);
        }
    }

    #[tokio::test]
    async fn session_that_continued_or_is_open_in_the_target_is_left_alone() {
        let ((from, lease), to) = (source(3).await, MemoryStore::default());
        copied(&from, &to).await;
        let id = "s".parse().unwrap();
        let theirs = to.acquire(&id, this_process(), Take::IfFree).await.unwrap().lease;
        from.append(append(&lease, 3, 1)).await.unwrap();
        assert_eq!(copied(&from, &to).await, Copied::Skipped(Skipped::Open));
        let mut other = append(&theirs, 3, 1);
        other.records[0].body = "other".into();
        to.append(other).await.unwrap();
        assert_eq!(copied(&from, &to).await, Copied::Skipped(Skipped::Diverged));
    }
}
