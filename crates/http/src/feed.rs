//! The feed: one stream of the changes of all sessions, for lists of sessions and of pending requests.
//!
//! It carries no cursor. A reader waits for `ready`, reads the lists, and applies the changes that follow. Each has the `head` of
//! its session, and so has the list of requests: a change with a smaller head is older than the list, and is skipped. A change
//! names the pending requests of its session; it leaves them out only if the previous change of the session listed the same
//! ones. Another `ready` says that changes may have been missed: the link to another server was lost.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use baton_core::Session;
use baton_history::metadata;
use baton_protocol::{SessionId, Timestamp};
use baton_providers::prices::Prices;
use baton_runtime::lifecycle::Observer;
use baton_service::Service;
use baton_store::{Seq, Summary};
use baton_wire::Outbox;
use bytes::Bytes;
use serde_json::json;

use crate::api::RequestView;
use crate::sse::READY;

/// All readers, and what they know.
#[derive(Default)]
pub(crate) struct Feed {
    state: Mutex<State>,
    prices: Prices,
}

#[derive(Default)]
struct State {
    readers: HashMap<u64, Arc<Outbox>>,
    last: u64,
    /// The pending requests that every reader was sent, by session. Sessions without any are not listed.
    sent: HashMap<SessionId, Vec<String>>,
}

/// A reader of the feed. Dropping it detaches.
pub(crate) struct Reader {
    feed: Weak<Feed>,
    id: u64,
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let Some(feed) = self.feed.upgrade() {
            feed.lock().readers.remove(&self.id);
        }
    }
}

impl Feed {
    /// Creates the feed of a server.
    pub(crate) fn of(service: &Service) -> Arc<Self> {
        let feed = Arc::new(Self { prices: service.prices().clone(), ..Self::default() });
        let observer: Arc<dyn Observer> = feed.clone();
        service.observe(Arc::downgrade(&observer));
        feed
    }

    /// Sends changes to a reader from now on.
    pub(crate) fn attach(self: &Arc<Self>, outbox: &Arc<Outbox>) -> Reader {
        let mut state = self.lock();
        state.last += 1;
        let id = state.last;
        state.readers.insert(id, outbox.clone());
        // This reader was sent nothing yet, and its lists may be newer than what others were sent.
        state.sent.clear();
        Reader { feed: Arc::downgrade(self), id }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// A reader that does not keep up is closed by its outbox, and starts again.
    fn send(&self, name: &str, data: &serde_json::Value) {
        let encoded = Bytes::from(format!("event: {name}\ndata: {data}\n\n"));
        for outbox in self.readers.values() {
            let _ = outbox.push(encoded.clone());
        }
    }

    /// Notes the pending requests of a session. Returns whether a change has to list them. An empty list is short, and always
    /// sent: readers may know of requests that no change listed, from the list of all requests.
    fn note(&mut self, session: &Session, requests: &[RequestView]) -> bool {
        if requests.is_empty() {
            self.sent.remove(&session.id);
            return true;
        }
        let ids: Vec<String> = requests.iter().map(|request| request.request_id.clone()).collect();
        let before = self.sent.insert(session.id.clone(), ids);
        before.as_ref() != self.sent.get(&session.id)
    }
}

impl Observer for Feed {
    fn recorded(&self, session: &Session, _after: Seq) {
        self.announce(session);
    }

    fn asked(&self, session: &Session) {
        self.announce(session);
    }

    fn heard(&self, session: &Session, _after: Seq) {
        self.announce(session);
    }

    fn missed(&self) {
        let mut state = self.lock();
        state.sent.clear();
        for outbox in state.readers.values() {
            // A reader that has disconnected needs no lists.
            let _ = outbox.push(READY);
        }
    }

    fn found(&self, session: &Summary) {
        let (shown, stored) = (metadata::of(session), metadata::decode(&session.meta));
        let data = json!({
            "id": session.session,
            "title": shown.summary,
            "cwd": shown.context.map(|context| context.cwd),
            "model": stored.model,
            "cost": self.prices.cost(&stored.usage),
            "busy": metadata::is_unfinished(session),
            "head": session.head.0,
            "updatedAt": session.modified,
        });
        self.lock().send("session", &data);
    }

    fn deleted(&self, session: &SessionId) {
        let mut state = self.lock();
        state.sent.remove(session);
        state.send("deleted", &json!({ "id": session }));
    }
}

impl Feed {
    /// Sends the state of a session to all readers.
    fn announce(&self, session: &Session) {
        let mut state = self.lock();
        if state.readers.is_empty() {
            return;
        }
        let requests = RequestView::all(session);
        let facts = &session.durable.facts;
        let mut data = json!({
            "id": session.id,
            "title": facts.name.as_ref().or(facts.title.as_ref()),
            "cwd": facts.context.cwd,
            "model": facts.model,
            "cost": self.prices.cost(metadata::usage_of(session)),
            "busy": session.is_busy(),
            "head": session.durable.seq,
            "updatedAt": Timestamp::now(),
        });
        if state.note(session, &requests) {
            data["requests"] = json!(requests);
        }
        state.send("session", &data);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_protocol::event::LoginRequested;
    use tokio::net::UnixStream;

    fn session(request: Option<&str>) -> Session {
        let mut session = Session::new("s".parse().unwrap());
        session.durable.logins.extend(request.map(|id| {
            LoginRequested {
                request_id: baton_protocol::RequestId(id.to_owned()),
                server_name: "m".to_owned(),
                server_url: "https://m.example/".to_owned(),
                reason: "initial".to_owned(),
            }
            .into()
        }));
        session
    }

    fn lists(feed: &Feed, request: Option<&str>) -> bool {
        let session = session(request);
        feed.lock().note(&session, &RequestView::all(&session))
    }

    #[tokio::test]
    async fn change_lists_requests_unless_every_reader_was_sent_them() {
        let feed = Arc::<Feed>::default();
        let outbox = || {
            let (ours, _theirs) = UnixStream::pair().unwrap();
            Outbox::new(ours.into_split().1, 1024)
        };
        let _first = feed.attach(&outbox());
        assert!(lists(&feed, None), "the reader's list may have a request that ended meanwhile");
        assert!(lists(&feed, Some("a")) && !lists(&feed, Some("a")));
        assert!(lists(&feed, Some("b")) && lists(&feed, None) && lists(&feed, None));
        assert!(lists(&feed, Some("b")));
        let _second = feed.attach(&outbox());
        assert!(lists(&feed, Some("b")), "the second reader's list may differ");
        assert!(!lists(&feed, Some("b")));
        feed.missed();
        assert!(lists(&feed, Some("b")), "changes of another server were missed");
    }
}
