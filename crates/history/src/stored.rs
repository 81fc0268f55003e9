//! The state of sessions that no server has open: reading it under a lease of one's own, and changing it.

use baton_core::{Ask, Durable, Session};
use baton_protocol::{SessionId, Timestamp};
use baton_store::{Append, Lease, Opened, Owner, Seq, Span, Store, StoreError, Take};

use crate::repairs::Damage;
use crate::{owner, step_all};

const PAGE: usize = 512;

/// A session that this process holds to look at it or to change it, without making it live.
pub struct Held {
    /// The right to write.
    pub lease: Lease,
    /// Its state.
    pub session: Session,
}

impl Held {
    /// Acquires a session that nobody holds, or whose holder is dead.
    ///
    /// # Errors
    /// [`StoreError::Held`] if another server has it open, even if it is idle there: its clients would lose it.
    pub async fn acquire(store: &dyn Store, id: &SessionId, us: &Owner) -> Result<Self, StoreError> {
        let opened = match store.acquire(id, us.clone(), Take::IfFree).await {
            Err(StoreError::Held { holder, .. }) if !owner::lives(store, &holder.owner).await? => {
                store.acquire(id, us.clone(), Take::From(holder.epoch)).await?
            }
            other => other?,
        };
        let durable = fold(store, id, &opened).await?;
        Ok(Self { session: Session::recovered(id.clone(), durable), lease: opened.lease })
    }

    /// Records what the session does with some asks. Returns the number of events.
    pub(crate) async fn change(&mut self, store: &dyn Store, asks: Vec<Ask>) -> Result<usize, StoreError> {
        let expected = Seq(self.session.durable.seq);
        let records = step_all(&mut self.session, asks);
        let count = records.len();
        if count > 0 {
            let append = Append {
                lease: self.lease.clone(),
                expected,
                records,
                modified: Timestamp::now(),
                meta: None,
                snapshot: None,
                busy: false,
            };
            store.append(append).await?;
        }
        Ok(count)
    }

    /// Releases the session.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn release(self, store: &dyn Store) -> Result<(), StoreError> {
        store.release(self.lease).await
    }
}

/// Folds the state of an acquired session. A snapshot that this version cannot read is ignored: it only saves time.
async fn fold(store: &dyn Store, id: &SessionId, opened: &Opened) -> Result<Durable, StoreError> {
    let mut damage = Damage::default();
    let snapshot = opened.snapshot.as_ref().map(|(_, bytes)| serde_json::from_slice(bytes));
    let mut durable = match snapshot {
        Some(Ok(durable)) => {
            let mut durable = durable;
            damage.fold(&mut durable, &opened.tail);
            durable
        }
        None => {
            let mut durable = Durable::default();
            damage.fold(&mut durable, &opened.tail);
            durable
        }
        Some(Err(_)) => {
            let mut durable = Durable::default();
            loop {
                let span = Span::After { after: Seq(durable.seq), limit: PAGE };
                let page = store.read(id, span).await?;
                if page.is_empty() {
                    break durable;
                }
                damage.fold(&mut durable, &page);
            }
        }
    };
    damage.fold_to(&mut durable, opened.head);
    Ok(durable)
}
