//! States of sessions that other servers hold, for lists of all sessions that are shown live.
//!
//! A server whose lists have readers watches every other server, over the peer link. A watched server sends the states of the
//! sessions that it holds when they change, each at most a few times a second. Without readers nothing is sent, and nothing
//! is written to the store.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use baton_core::Session;
use baton_handle::remote::SessionNews;
use baton_protocol::SessionId;
use baton_store::Seq;
use baton_store::members::Member;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::Runtime;
use crate::lifecycle::Observer;

/// Time for which changes are gathered before they are sent.
const GATHER: Duration = Duration::from_millis(250);

/// Time between two looks for servers that are not watched yet.
const LOOK: Duration = Duration::from_secs(2);

/// Time limit for a server to be watched.
const REACH: Duration = Duration::from_secs(2);

/// The servers that watch this one.
#[derive(Default)]
pub(crate) struct Newsroom {
    watchers: Mutex<Vec<Weak<Watcher>>>,
}

/// Another server that watches this one: the sessions that have changed since it was sent the last news.
#[derive(Default)]
pub struct Watcher {
    changed: Mutex<BTreeMap<SessionId, Session>>,
    wake: Notify,
}

impl Watcher {
    /// Waits for the next changes.
    pub async fn next(&self) -> Vec<SessionNews> {
        self.wake.notified().await;
        sleep(GATHER).await;
        std::mem::take(&mut *self.lock())
            .into_values()
            .map(|session| SessionNews(Box::new(session)))
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<SessionId, Session>> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Newsroom {
    fn each(&self, notify: impl Fn(&Watcher)) {
        let mut watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        watchers.retain(|watcher| watcher.upgrade().inspect(|watcher| notify(watcher)).is_some());
    }

    fn note(&self, session: &Session) {
        self.each(|watcher| {
            watcher.lock().insert(session.id.clone(), session.clone());
            watcher.wake.notify_one();
        });
    }
}

impl Observer for Newsroom {
    fn recorded(&self, session: &Session, _after: Seq) {
        self.note(session);
    }

    fn asked(&self, session: &Session) {
        self.note(session);
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
    pub fn watcher(&self) -> Option<Arc<Watcher>> {
        let newsroom = &self.cluster.as_ref()?.newsroom;
        let watcher = Arc::<Watcher>::default();
        newsroom.watchers.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&watcher));
        Some(watcher)
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

    /// Watches the other servers while lists have readers, until the server stops.
    pub(super) async fn watch_servers(self: &Arc<Self>) {
        let Some(cluster) = &self.cluster else { return };
        let mut count = cluster.readers.count.subscribe();
        loop {
            let served = async {
                if count.wait_for(|count| *count > 0).await.is_ok() {
                    self.serve_readers(&mut count).await;
                }
            };
            tokio::select! {
                () = served => drop(cluster.readers.are_served.send_replace(false)),
                () = self.stopping.cancelled() => return,
            }
        }
    }

    /// Watches the other servers until no list has a reader any more.
    async fn serve_readers(self: &Arc<Self>, count: &mut watch::Receiver<usize>) {
        let Some(cluster) = &self.cluster else { return };
        let mut watched = Watched::default();
        loop {
            let found = self.watch_more(&mut watched).await;
            let is_first = !cluster.readers.are_served.send_replace(true);
            if found && !is_first {
                // What has changed there before is not known.
                self.lifecycle.announce_gap();
            }
            tokio::select! {
                () = sleep(LOOK) => {}
                Some(_) = watched.tasks.join_next() => {}
                _ = count.wait_for(|count| *count == 0) => return,
            }
        }
    }

    /// Watches the servers that are alive and not watched yet. Returns whether there are any.
    async fn watch_more(self: &Arc<Self>, watched: &mut Watched) -> bool {
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
            let news = timeout(REACH, peers.watch(member)).await.ok()?;
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

    async fn hear(&self, mut news: mpsc::UnboundedReceiver<Vec<SessionNews>>) {
        while let Some(sessions) = news.recv().await {
            for SessionNews(session) in &sessions {
                // News of a session that has moved here since are old.
                let is_here = self.registry.get(&session.id).is_some_and(|handle| handle.hub.is_here());
                if !is_here {
                    self.lifecycle.announce_state(session);
                }
            }
        }
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

    #[tokio::test(start_paused = true)]
    async fn watcher_receives_the_last_state_of_each_session() {
        let newsroom = Newsroom::default();
        let watcher = Arc::<Watcher>::default();
        newsroom.watchers.lock().unwrap().push(Arc::downgrade(&watcher));
        let mut session = Session::new("a".parse().unwrap());
        newsroom.recorded(&session, Seq(0));
        session.durable.seq = 7;
        newsroom.asked(&session);
        newsroom.recorded(&Session::new("b".parse().unwrap()), Seq(0));
        newsroom.recorded(&Session::new("c".parse().unwrap()), Seq(0));
        newsroom.deleted(&"c".parse().unwrap());
        let heard = watcher.next().await;
        let heard: Vec<(&str, u64)> =
            heard.iter().map(|SessionNews(session)| (session.id.as_str(), session.durable.seq)).collect();
        assert_eq!(heard, [("a", 7), ("b", 0)]);
        drop(watcher);
        newsroom.note(&session);
        assert!(newsroom.watchers.lock().unwrap().is_empty(), "a server that watches no more costs nothing");
    }
}
