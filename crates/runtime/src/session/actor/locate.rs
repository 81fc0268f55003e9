//! Finds a session: acquires its lease, or opens a link to the server that holds it.

use std::time::Duration;

use baton_history::owner;
use baton_store::members::{Member, Members};
use baton_store::{Opened, Seq, StoreError, Take};

use super::Loading;
use crate::cluster::{Cluster, Liveness};
use crate::session::remote::{FromOwner, Link};

/// How long a session is looked for on behalf of a client that has just come.
const SEARCH: Duration = Duration::from_secs(10);
/// Pause between two looks.
const SEARCH_PAUSE: Duration = Duration::from_millis(150);

/// The place where a session was found.
pub(super) enum Located {
    /// It was acquired.
    Here(Box<Opened>),
    /// Another server holds it, at this head.
    There(Link, Seq),
}

fn here(opened: Opened) -> Located {
    Located::Here(Box::new(opened))
}

/// Converts the result of an acquisition: one that another server has won is a reason to look again.
fn again_if_held(taken: Result<Opened, StoreError>) -> Result<Result<Located, StoreError>, StoreError> {
    match taken {
        Ok(opened) => Ok(Ok(here(opened))),
        Err(held @ StoreError::Held { .. }) => Ok(Err(held)),
        Err(error) => Err(error),
    }
}

impl Loading {
    /// Finds the session: acquires it, or opens a link to the server that holds it. `patiently`: for clients that were
    /// attached before, for as long as it takes.
    pub(super) async fn locate(&self, patiently: bool) -> Result<Located, StoreError> {
        let Some(cluster) = &self.runtime.cluster else {
            return self.acquire().await.map(|opened| Located::Here(Box::new(opened)));
        };
        let until = tokio::time::Instant::now() + SEARCH;
        loop {
            let found = self.look(cluster).await;
            let is_late = !patiently && tokio::time::Instant::now() >= until;
            match found {
                Ok(Ok(located)) => return Ok(located),
                Ok(Err(wait)) if is_late => return Err(wait),
                Err(error @ StoreError::Medium { .. }) if patiently => {
                    tracing::warn!(%error, "cannot look for the session; trying again");
                }
                // A server of its place may be about to start.
                Err(StoreError::Elsewhere { .. }) if patiently && tokio::time::Instant::now() < until => {}
                Err(error) => return Err(error),
                Ok(Err(_)) => {}
            }
            tokio::select! {
                () = tokio::time::sleep(SEARCH_PAUSE) => {}
                () = self.runtime.stopping.cancelled() => return Err(StoreError::NotFound(self.id.clone())),
            }
        }
    }

    /// Looks for the session once. The inner error is a reason to look again.
    async fn look(&self, cluster: &Cluster) -> Result<Result<Located, StoreError>, StoreError> {
        let (store, us) = (&self.runtime.store, self.runtime.owner.clone());
        let Some(members) = store.members() else {
            return self.acquire().await.map(|opened| Ok(here(opened)));
        };
        if cluster.is_fenced() {
            return Ok(Err(StoreError::Medium {
                doing: "open".into(),
                path: self.id.to_string(),
                cause: "this server has no contact with the store".into(),
            }));
        }
        let held = match store.acquire(&self.id, us.clone(), Take::IfFree).await {
            Ok(opened) => return Ok(Ok(here(opened))),
            Err(StoreError::Held { holder, session }) => (holder, session),
            Err(StoreError::Elsewhere { place, .. }) => return self.look_in(cluster, members, place).await,
            Err(error) => return Err(error),
        };
        let (holder, session) = held;
        if self.runtime.is_us(&holder.owner) {
            let taken = store.acquire(&self.id, us, Take::From(holder.epoch)).await;
            return again_if_held(taken);
        }
        match cluster.judge(members, &holder.owner.server).await? {
            Liveness::Alive(member) if member.address.is_empty() => Err(StoreError::Held { holder, session }),
            Liveness::Alive(member) => {
                Ok(self.link(cluster, &member).await.ok_or(StoreError::Held { holder, session }))
            }
            Liveness::Dead(member) => {
                if let Some(member) = member {
                    self.runtime.reap_member(&member).await;
                }
                let taken = store.acquire(&self.id, us, Take::From(holder.epoch)).await;
                match taken {
                    // Only a server of its place can take it over.
                    Err(StoreError::Elsewhere { place, .. }) => self.look_in(cluster, members, place).await,
                    taken => {
                        if taken.is_ok() {
                            tracing::info!(server = %holder.owner.server, "took over from a dead server");
                            cluster.counters.takeover();
                        }
                        again_if_held(taken)
                    }
                }
            }
            Liveness::Unknown => Ok(Err(StoreError::Held { holder, session })),
        }
    }

    /// Opens a link to a living server of the session's place, which acquires the session if nobody holds it.
    async fn look_in(
        &self,
        cluster: &Cluster,
        members: &dyn Members,
        place: String,
    ) -> Result<Result<Located, StoreError>, StoreError> {
        let is_there = |member: &Member| {
            member.place == place && member.is_alive() && !member.draining && !member.address.is_empty()
        };
        let member = members.list().await?.into_iter().find(is_there);
        let elsewhere = StoreError::Elsewhere { place, session: self.id.clone() };
        match member {
            Some(member) => Ok(self.link(cluster, &member).await.ok_or(elsewhere)),
            None => Err(elsewhere),
        }
    }

    /// Opens a link to the server that holds the session; none if it does not work, or that server does not hold it.
    async fn link(&self, cluster: &Cluster, owner: &Member) -> Option<Located> {
        let peers = cluster.peers()?;
        let mut link = match peers.open(owner, &self.id).await {
            Ok(link) => link,
            Err(error) => {
                tracing::debug!(server = %owner.owner.server, address = %owner.address, error, "no link to a server");
                return None;
            }
        };
        match link.from_owner.recv().await? {
            FromOwner::Opened { head, last_public } => {
                if self.hub.head() == Seq::ZERO {
                    self.hub.start_after(last_public, head);
                }
                Some(Located::There(link, head))
            }
            FromOwner::Refused { failure } => {
                tracing::debug!(server = %owner.owner.server, ?failure, "the server does not have the session");
                None
            }
            _ => None,
        }
    }

    /// Acquires the lease. A holder that is dead or idle is replaced; a busy one is not.
    async fn acquire(&self) -> Result<Opened, StoreError> {
        let (store, us) = (&self.runtime.store, self.runtime.owner.clone());
        match store.acquire(&self.id, us.clone(), Take::IfFree).await {
            Err(StoreError::Held { holder, .. }) => {
                let take = owner::take_from(&**store, &holder, Some(&us)).await?;
                store.acquire(&self.id, us, take).await
            }
            other => other,
        }
    }
}
