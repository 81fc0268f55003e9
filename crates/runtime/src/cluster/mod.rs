//! This server among those that share a store: heartbeats, liveness of other servers, self-fencing.
//!
//! The store excludes writers by epochs, even if a server is wrong about another. This module decides when to *request* a
//! session of another server (when that server is dead, by the clock of the store), and when to stop tools and engines
//! because others may soon count this server as dead.
//!
//! Exists only for stores that know their servers ([`baton_store::Store::members`]).

mod changes;
mod counters;
mod drain;
mod news;
mod takeover;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use baton_protocol::{ClientId, SessionId};
use baton_store::members::{BEAT, Member, Members, NewMember};
use baton_store::pulse::Pulse;
use baton_store::{Owner, StoreError};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

use self::counters::ClusterCounters;
pub use self::counters::ClusterSnapshot;
use self::news::{Created, Newsroom, Readers};
pub use self::news::{ListReader, Watcher};

use baton_history::owner;

use crate::Runtime;
use crate::lifecycle::Observer;
use crate::session::{ActorMessage, Handle, Peers};

/// Time between two looks at one's own pulse.
const LOOK: Duration = Duration::from_millis(100);

/// Number of bits of a client id that count clients. The others are the number of its server.
const CLIENT_BITS: u32 = 32;

/// What becomes of work that a dead or stopped server left, in sessions without clients.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Recovery {
    /// It waits until a client resumes the session.
    #[default]
    Wait,
    /// It continues by itself.
    Continue,
}

/// How a server enters.
#[derive(Clone)]
pub struct Entry {
    /// Where other servers reach this one; empty if they cannot.
    pub address: String,
    /// Name of the machines that have the same working directories.
    pub place: String,
    /// What becomes of work that a dead server left.
    pub recovery: Recovery,
    /// Links to the other servers.
    pub peers: Option<Arc<dyn Peers>>,
}

/// What is known about another server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Liveness {
    /// It is alive.
    Alive(Box<Member>),
    /// It is dead: its sessions may be acquired. With its entry, unless it has left in good order.
    Dead(Option<Box<Member>>),
    /// It looks dead, and this server cannot judge yet: its own heartbeats have not held for long enough.
    Unknown,
}

/// Membership of this server.
pub struct Cluster {
    /// Start of the clock of the pulse.
    start: Instant,
    pulse: Mutex<Option<Pulse>>,
    entry: OnceLock<Entry>,
    pub(crate) counters: ClusterCounters,
    pub(crate) newsroom: Arc<Newsroom>,
    pub(crate) readers: Readers,
    pub(crate) created: Created,
    draining: AtomicBool,
    /// Cancelled when an operator has asked this server to drain.
    drain_requested: CancellationToken,
    /// Number of this server; zero before it has entered.
    number: AtomicU64,
}

impl Default for Cluster {
    fn default() -> Self {
        let (pulse, entry, counters, newsroom, readers, created, draining, drain_requested, number) =
            Default::default();
        Self {
            start: Instant::now(),
            pulse,
            entry,
            counters,
            newsroom,
            readers,
            created,
            draining,
            drain_requested,
            number,
        }
    }
}

impl Cluster {
    /// Returns the name of this server's place.
    pub(crate) fn place(&self) -> &str {
        self.entry.get().map_or("", |entry| &entry.place)
    }

    pub(crate) fn peers(&self) -> Option<&Arc<dyn Peers>> {
        self.entry.get().and_then(|entry| entry.peers.as_ref())
    }

    /// Whether this server may soon count as dead, and starts nothing new.
    pub(crate) fn is_fenced(&self) -> bool {
        self.lock().as_ref().is_some_and(|pulse| pulse.is_fenced(self.now()))
    }

    fn must_stop(&self) -> bool {
        self.lock().as_ref().is_some_and(|pulse| pulse.must_stop(self.now()))
    }

    fn may_judge(&self) -> bool {
        self.lock().as_ref().is_some_and(|pulse| pulse.may_judge(self.now()))
    }

    /// Whether this server hands its sessions on.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Judges a server. One that never entered, or has left, is dead.
    pub(crate) async fn judge(&self, members: &dyn Members, server: &str) -> Result<Liveness, StoreError> {
        // Before the question: if the answer took long, the pulse has become worse, never better.
        let member = members.member(server).await?;
        Ok(match member {
            Some(member) if member.is_alive() => Liveness::Alive(Box::new(member)),
            // A server that has left says so by leaving; only silence needs a judge in good health.
            None if !self.is_fenced() => Liveness::Dead(None),
            Some(member) if self.may_judge() => Liveness::Dead(Some(Box::new(member))),
            Some(_) | None => Liveness::Unknown,
        })
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Pulse>> {
        self.pulse.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Runtime {
    /// Enters the servers of the store, and stays one of them until the runtime stops. Must precede the first session.
    /// Does nothing for a store that does not know its servers.
    ///
    /// # Errors
    /// When the store cannot be used; the message says why.
    pub async fn enter(self: &Arc<Self>, entry: Entry) -> Result<(), StoreError> {
        let (Some(cluster), Some(members)) = (&self.cluster, self.store.members()) else { return Ok(()) };
        let sent = cluster.now();
        let number = members.enter(self.new_member(&entry)).await?;
        cluster.number.store(number, Ordering::Relaxed);
        self.last_client.store(number << CLIENT_BITS, Ordering::Relaxed);
        *cluster.lock() = Some(Pulse::entered(sent));
        let known = self.known_changes(members).await?;
        let recovery = entry.recovery;
        drop(cluster.entry.set(entry));
        let (beating, looking) = (self.clone(), self.clone());
        self.tasks.spawn(async move { beating.beat().await });
        self.tasks.spawn(async move { looking.look_at_pulse().await });
        let reaping = self.clone();
        self.tasks.spawn(async move { reaping.reap_host().await });
        let following = self.clone();
        self.tasks.spawn(async move { following.follow_changes(known).await });
        let newsroom: Arc<dyn Observer> = cluster.newsroom.clone();
        self.lifecycle.add_observer(Arc::downgrade(&newsroom));
        let watching = self.clone();
        self.tasks.spawn(async move { watching.watch_servers().await });
        if recovery == Recovery::Continue {
            let taking = self.clone();
            self.tasks.spawn(async move { taking.take_over().await });
        }
        Ok(())
    }

    /// Returns the id under which this server receives events of sessions of others. It precedes those of all its clients.
    #[must_use]
    pub fn tap(&self) -> ClientId {
        ClientId(
            self.cluster.as_ref().map_or(0, |cluster| cluster.number.load(Ordering::Relaxed)) << CLIENT_BITS,
        )
    }

    /// Whether a client is connected to this server, rather than to one that relays it.
    pub(crate) fn is_own(&self, client: ClientId) -> bool {
        client.0 >> CLIENT_BITS == self.tap().0 >> CLIENT_BITS
    }

    fn new_member(&self, entry: &Entry) -> NewMember {
        NewMember {
            owner: self.owner.clone(),
            address: entry.address.clone(),
            place: entry.place.clone(),
            version: self.options.version.clone(),
            home: self.options.home.display().to_string(),
        }
    }

    /// Sends a heartbeat every second.
    async fn beat(&self) {
        let (Some(cluster), Some(members)) = (&self.cluster, self.store.members()) else { return };
        let mut ticks = interval(BEAT);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = self.stopping.cancelled() => break,
            }
            let sent = cluster.now();
            match timeout(BEAT, members.beat(&self.owner.server, cluster.is_draining())).await {
                Ok(Ok(Some(drains))) => {
                    if drains {
                        cluster.drain_requested.cancel();
                    }
                    if let Some(pulse) = &mut *cluster.lock() {
                        pulse.acknowledged(sent, cluster.start.elapsed());
                    }
                }
                Ok(Ok(None)) => self.enter_again(cluster, members).await,
                Ok(Err(error)) => {
                    cluster.counters.missed_heartbeat();
                    tracing::warn!(%error, "heartbeat failed");
                }
                Err(_) => {
                    cluster.counters.missed_heartbeat();
                    tracing::warn!("heartbeat was not acknowledged within {BEAT:?}");
                }
            }
        }
        drop(timeout(BEAT, members.leave(&self.owner.server)).await);
    }

    /// Enters again, after the entry was removed: an operator did so, or the database was restored.
    async fn enter_again(&self, cluster: &Cluster, members: &dyn Members) {
        let Some(entry) = cluster.entry.get() else { return };
        if let Err(error) = members.enter(self.new_member(entry)).await {
            tracing::warn!(%error, "cannot register this server with the store again; trying again");
        }
    }

    /// Ends tools and engines before others may take their sessions over.
    async fn look_at_pulse(&self) {
        let Some(cluster) = &self.cluster else { return };
        let mut ticks = interval(LOOK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut was_stopped = false;
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = self.stopping.cancelled() => return,
            }
            let stop = cluster.must_stop();
            if stop && !was_stopped {
                tracing::error!("no contact with the store; stopping all work until there is");
                self.registry.all().iter().for_each(|handle| drop(handle.send(ActorMessage::StepDown)));
            }
            if was_stopped && !stop {
                tracing::info!("in contact with the store again");
            }
            was_stopped = stop;
        }
    }

    /// Ends the processes of a dead server, if they are on this host: before its sessions are taken over, so that nothing
    /// that they started runs beside what continues it. Those of another host are ended by its next server.
    pub(crate) async fn reap_member(&self, member: &Member) {
        let (ours, theirs) = (&self.owner, &member.owner);
        if (&ours.host, &ours.boot) != (&theirs.host, &theirs.boot) {
            return;
        }
        let (home, server) = (PathBuf::from(&member.home), theirs.server.clone());
        let reaping = tokio::task::spawn_blocking(move || baton_process::reap_server(&home, &server));
        if let Ok(processes @ 1..) = reaping.await {
            tracing::info!(processes, server = theirs.server, "ended processes of a dead server");
        }
    }

    /// Ends the processes that dead servers have left on this host.
    async fn reap_host(&self) {
        let Some(members) = self.store.members() else { return };
        let Ok(all) = members.list().await else { return };
        for member in all.iter().filter(|member| !member.is_alive() && !owner::is_alive(&member.owner)) {
            self.reap_member(member).await;
        }
    }

    /// Opens a session that another living server holds, so that its events are relayed here; none if there is no such
    /// server. Does not acquire the session.
    pub async fn relay(self: &Arc<Self>, session: &SessionId) -> Option<Handle> {
        let (cluster, members) = (self.cluster.as_ref()?, self.store.members()?);
        let holder = self.store.summary(session).await.ok()??.holder?;
        if self.is_us(&holder.owner) {
            return None;
        }
        match cluster.judge(members, &holder.owner.server).await {
            Ok(Liveness::Alive(member)) if !member.address.is_empty() => {
                Some(self.registry.open(self, session))
            }
            _ => None,
        }
    }

    /// Whether a process holds sessions through this runtime.
    pub(crate) fn is_us(&self, owner: &Owner) -> bool {
        owner.server == self.owner.server
    }
}
