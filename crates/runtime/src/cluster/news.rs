//! Changes of sessions that other servers hold: for lists of all sessions that are shown live, and for clients that are
//! notified of all sessions.
//!
//! A server with such readers or clients watches every other server, over the peer link. For readers of lists, a watched
//! server sends the states of the sessions that it holds when they change, each at most a few times a second. For clients
//! alone it sends once a second which sessions have changed. Without either nothing is sent, and nothing is written to the
//! store.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use baton_core::Session;
use baton_handle::remote::{Detail, NewsBatch, SessionBrief, SessionNews};
use baton_protocol::SessionId;
use baton_store::Seq;
use baton_store::members::Member;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::Runtime;
use crate::lifecycle::{self, LifecycleChange, Observer};

/// Time for which states are gathered before they are sent.
const GATHER: Duration = Duration::from_millis(250);

/// Time for which changes are gathered, where states are not wanted.
const GATHER_BRIEFS: Duration = Duration::from_secs(1);

/// Time between two looks for servers that are not watched yet.
const LOOK: Duration = Duration::from_secs(2);

/// Number of created sessions that are remembered: more than are created in the seconds until both have told of it.
const MOST_CREATED: usize = 256;

/// Time limit for a server to be watched.
const REACH: Duration = Duration::from_secs(2);

/// The servers that watch this one.
#[derive(Default)]
pub(crate) struct Newsroom {
    watchers: Mutex<Vec<Weak<Watcher>>>,
}

/// Another server that watches this one: the sessions that have changed since it was sent the last news.
pub struct Watcher {
    detail: Detail,
    changed: Mutex<BTreeMap<SessionId, Changed>>,
    wake: Notify,
}

/// A session that has changed.
struct Changed {
    /// How its history has grown; none if only its pending requests changed.
    brief: Option<SessionBrief>,
    /// Its state, if the watcher wants it.
    state: Option<Box<Session>>,
}

impl Watcher {
    fn new(detail: Detail) -> Self {
        Self { detail, changed: Mutex::default(), wake: Notify::new() }
    }

    /// Waits for the next changes. States come one by one, because they can be large.
    pub async fn next(&self) -> Vec<NewsBatch> {
        self.wake.notified().await;
        sleep(if self.detail == Detail::Full { GATHER } else { GATHER_BRIEFS }).await;
        let changed = std::mem::take(&mut *self.lock()).into_values();
        if self.detail == Detail::Brief {
            let briefs = changed.filter_map(|changed| changed.brief).collect();
            return vec![NewsBatch { sessions: Vec::new(), briefs }];
        }
        let batch = |Changed { brief, state }| NewsBatch {
            sessions: state.map(SessionNews).into_iter().collect(),
            briefs: brief.into_iter().collect(),
        };
        changed.map(batch).collect()
    }

    /// Notes a change. `after` is the head before events that were appended; none if there are none.
    fn note(&self, session: &Session, after: Option<Seq>) {
        let mut changed = self.lock();
        let earlier = changed.remove(&session.id).and_then(|changed| changed.brief);
        // Readers have not heard of the events since the first of these changes.
        let after = earlier.map(|brief| brief.after).into_iter().chain(after).min();
        let brief = after.map(|after| SessionBrief {
            session: session.id.clone(),
            after,
            metadata: lifecycle::metadata(session),
        });
        let state = (self.detail == Detail::Full).then(|| Box::new(session.clone()));
        changed.insert(session.id.clone(), Changed { brief, state });
        self.wake.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<SessionId, Changed>> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Newsroom {
    fn each(&self, notify: impl Fn(&Watcher)) {
        let mut watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        watchers.retain(|watcher| watcher.upgrade().inspect(|watcher| notify(watcher)).is_some());
    }

    fn add(&self, detail: Detail) -> Arc<Watcher> {
        let watcher = Arc::new(Watcher::new(detail));
        let mut watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        watchers.push(Arc::downgrade(&watcher));
        watcher
    }
}

impl Observer for Newsroom {
    fn recorded(&self, session: &Session, after: Seq) {
        self.each(|watcher| watcher.note(session, Some(after)));
    }

    fn asked(&self, session: &Session) {
        self.each(|watcher| {
            if watcher.detail == Detail::Full {
                watcher.note(session, None);
            }
        });
    }

    fn deleted(&self, session: &SessionId) {
        self.each(|watcher| drop(watcher.lock().remove(session)));
    }
}

/// Readers of the lists of this server, and whether the other servers are watched for them.
#[derive(Default)]
pub(crate) struct Readers {
    count: watch::Sender<usize>,
    are_served: watch::Sender<bool>,
}

/// A reader of the lists of this server. Other servers are watched while there is one.
pub struct ListReader(Arc<Runtime>);

impl Drop for ListReader {
    fn drop(&mut self) {
        if let Some(cluster) = &self.0.cluster {
            cluster.readers.count.send_modify(|count| *count = count.saturating_sub(1));
        }
    }
}

impl Runtime {
    /// Adds a server that watches this one; none if this server shares no sessions.
    #[must_use]
    pub fn watcher(&self, detail: Detail) -> Option<Arc<Watcher>> {
        Some(self.cluster.as_ref()?.newsroom.add(detail))
    }

    /// Adds a reader of lists. Returns when the other servers are watched, as far as they can be reached.
    pub async fn add_list_reader(self: &Arc<Self>) -> ListReader {
        let reader = ListReader(self.clone());
        if let Some(cluster) = &self.cluster {
            cluster.readers.count.send_modify(|count| *count += 1);
            let mut served = cluster.readers.are_served.subscribe();
            drop(timeout(REACH * 2, served.wait_for(|served| *served)).await);
        }
        reader
    }

    /// Watches the other servers while anyone here wants to know of their sessions, until the server stops.
    pub(super) async fn watch_servers(self: &Arc<Self>) {
        let Some(cluster) = &self.cluster else { return };
        let wanted = &mut Wanted {
            readers: cluster.readers.count.subscribe(),
            listeners: self.lifecycle.listener_count(),
        };
        loop {
            let watching = async {
                match wanted.detail() {
                    None => wanted.changed().await,
                    Some(detail) => self.watch_for(detail, wanted).await,
                }
            };
            tokio::select! {
                () = watching => drop(cluster.readers.are_served.send_replace(false)),
                () = self.stopping.cancelled() => return,
            }
        }
    }

    /// Watches the other servers until more or less is wanted.
    async fn watch_for(self: &Arc<Self>, detail: Detail, wanted: &mut Wanted) {
        let Some(cluster) = &self.cluster else { return };
        let mut watched = Watched::default();
        loop {
            let found = self.watch_more(&mut watched, detail).await;
            if detail == Detail::Full {
                let is_first = !cluster.readers.are_served.send_replace(true);
                if found && !is_first {
                    // What has changed there before is not known.
                    self.lifecycle.announce_gap();
                }
            }
            tokio::select! {
                () = sleep(LOOK) => {}
                Some(_) = watched.tasks.join_next() => {}
                () = wanted.changed() => {
                    if wanted.detail() != Some(detail) {
                        return;
                    }
                }
            }
        }
    }

    /// Watches the servers that are alive and not watched yet. Returns whether there are any.
    async fn watch_more(self: &Arc<Self>, watched: &mut Watched, detail: Detail) -> bool {
        let Some(members) = self.store.members() else { return false };
        let Ok(all) = members.list().await else { return false };
        watched.by_server.retain(|_, task| !task.is_finished());
        let is_wanted = |member: &&Member| {
            let server = &member.owner.server;
            member.is_alive()
                && !member.address.is_empty()
                && *server != self.owner.server
                && !watched.by_server.contains_key(server)
        };
        let wanted = all.iter().filter(is_wanted).map(|member| async move {
            let peers = self.cluster.as_ref()?.peers()?;
            let news = timeout(REACH, peers.watch(member, detail)).await.ok()?;
            match news {
                Ok(news) => Some((member.owner.server.clone(), news)),
                Err(error) => {
                    tracing::debug!(server = member.owner.server, error, "cannot watch another server");
                    None
                }
            }
        });
        let reached: Vec<_> = futures_util::future::join_all(wanted).await.into_iter().flatten().collect();
        let found = !reached.is_empty();
        for (server, news) in reached {
            let runtime = self.clone();
            let task = watched.tasks.spawn(async move { runtime.hear(news).await });
            watched.by_server.insert(server, task);
        }
        found
    }

    async fn hear(&self, mut news: mpsc::UnboundedReceiver<NewsBatch>) {
        while let Some(NewsBatch { sessions, briefs }) = news.recv().await {
            // News of a session that has moved here since are old.
            let is_here = |id| self.registry.get(id).is_some_and(|handle| handle.hub.is_here());
            for SessionNews(session) in sessions.iter().filter(|news| !is_here(&news.0.id)) {
                let brief = briefs.iter().find(|brief| brief.session == session.id);
                let after = brief.map_or(Seq(session.durable.seq), |brief| brief.after);
                self.lifecycle.announce_state(session, after);
            }
            for brief in briefs.iter().filter(|brief| !is_here(&brief.session)) {
                self.announce_elsewhere(brief);
            }
        }
    }

    /// Notifies clients of a session of another server that was created or has changed.
    fn announce_elsewhere(&self, brief: &SessionBrief) {
        let is_new = brief.after == Seq::ZERO
            && self.cluster.as_ref().is_some_and(|cluster| cluster.created.insert(&brief.session));
        let change = if is_new { LifecycleChange::Created } else { LifecycleChange::Updated };
        self.lifecycle.announce(change, &brief.session, Some(brief.metadata.clone()));
    }
}

/// The interest of this server in the sessions of others.
struct Wanted {
    /// Number of readers of lists.
    readers: watch::Receiver<usize>,
    /// Number of clients that are notified of all sessions.
    listeners: watch::Receiver<usize>,
}

impl Wanted {
    fn detail(&mut self) -> Option<Detail> {
        let (readers, listeners) = (*self.readers.borrow_and_update(), *self.listeners.borrow_and_update());
        match (readers, listeners) {
            (0, 0) => None,
            (0, _) => Some(Detail::Brief),
            _ => Some(Detail::Full),
        }
    }

    /// Waits until the number of readers or clients changes.
    async fn changed(&mut self) {
        tokio::select! {
            // Both live as long as the runtime.
            _ = self.readers.changed() => {}
            _ = self.listeners.changed() => {}
        }
    }
}

/// Sessions of other servers whose creation was announced. The store reports it, too, and either report may come first.
#[derive(Default)]
pub(crate) struct Created(Mutex<VecDeque<SessionId>>);

impl Created {
    /// Adds a session. Returns whether it is new.
    pub(crate) fn insert(&self, session: &SessionId) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.contains(session) {
            return false;
        }
        known.push_back(session.clone());
        if known.len() > MOST_CREATED {
            known.pop_front();
        }
        true
    }

    /// Forgets a session that was deleted: another one may get its id.
    pub(crate) fn remove(&self, session: &SessionId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|known| known != session);
    }
}

/// The servers that are watched. Dropping it ends the tasks.
#[derive(Default)]
struct Watched {
    by_server: HashMap<String, tokio::task::AbortHandle>,
    tasks: JoinSet<()>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(id: &str, seq: u64) -> Session {
        let mut session = Session::new(id.parse().unwrap());
        session.durable.seq = seq;
        session
    }

    fn briefs(batches: &[NewsBatch]) -> Vec<(&str, u64)> {
        let briefs = batches.iter().flat_map(|batch| &batch.briefs);
        briefs.map(|brief| (brief.session.as_str(), brief.after.0)).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn watcher_receives_the_last_state_of_each_session() {
        let newsroom = Newsroom::default();
        let watcher = newsroom.add(Detail::Full);
        newsroom.recorded(&session("a", 3), Seq(0));
        newsroom.recorded(&session("a", 5), Seq(3));
        newsroom.asked(&session("a", 7));
        newsroom.asked(&session("b", 9));
        newsroom.recorded(&session("c", 1), Seq(0));
        newsroom.deleted(&"c".parse().unwrap());
        let heard = watcher.next().await;
        let states: Vec<(&str, u64)> = heard
            .iter()
            .flat_map(|batch| &batch.sessions)
            .map(|SessionNews(session)| (session.id.as_str(), session.durable.seq))
            .collect();
        assert_eq!(states, [("a", 7), ("b", 9)]);
        assert_eq!(briefs(&heard), [("a", 0)], "with the head before the first change");
        drop(watcher);
        newsroom.recorded(&session("a", 8), Seq(7));
        assert!(newsroom.watchers.lock().unwrap().is_empty(), "a server that watches no more costs nothing");
    }

    #[tokio::test(start_paused = true)]
    async fn changes_without_states_are_sent_together_once_a_second() {
        let newsroom = Newsroom::default();
        let watcher = newsroom.add(Detail::Brief);
        newsroom.asked(&session("z", 1));
        newsroom.recorded(&session("a", 3), Seq(2));
        let start = tokio::time::Instant::now();
        let (heard, ()) = tokio::join!(watcher.next(), async {
            sleep(GATHER_BRIEFS / 2).await;
            newsroom.recorded(&session("b", 1), Seq(0));
        });
        assert_eq!(start.elapsed(), GATHER_BRIEFS);
        assert_eq!(heard.len(), 1);
        assert!(heard[0].sessions.is_empty());
        assert_eq!(briefs(&heard), [("a", 2), ("b", 0)]);
    }

    #[test]
    fn creation_is_announced_once() {
        let created = Created::default();
        let id: SessionId = "a".parse().unwrap();
        assert!(created.insert(&id) && !created.insert(&id));
        created.remove(&id);
        assert!(created.insert(&id), "the id was used again");
        (0..1000).for_each(|number| assert!(created.insert(&number.to_string().parse().unwrap())));
        assert_eq!(created.0.lock().unwrap().len(), MOST_CREATED);
    }
}
