//! The notifier: watches live sessions, keeps the outbox in step with them, and delivers it.
//!
//! [`task`] does all of it, in this order whenever something happens or is due: record what sessions report, post what is due,
//! withdraw what was answered, claim and deliver. Deliveries run beside it. [`scan`] finds what no session has reported. On a
//! store that several servers share, each server announces the sessions that it holds; claims decide who sends.

mod scan;
mod task;

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baton_core::Session;
use baton_protocol::{RequestId, SessionId, Timestamp};
use baton_runtime::Runtime;
use baton_runtime::lifecycle::Observer;
use baton_store::Seq;
use tokio::sync::{mpsc, watch};

use self::task::Task;
use crate::answers;
use crate::courier::Courier;
use crate::facts::SessionFacts;
use crate::outbox::Outbox;
use crate::target::Target;

/// Time limit for a session to list its pending requests: another server may not answer.
const LOOK: Duration = Duration::from_secs(5);

/// Connects sessions with the courier.
pub struct Notifier {
    runtime: Arc<Runtime>,
    courier: Arc<Courier>,
    heard: mpsc::UnboundedSender<Heard>,
    /// What the observer has reported of each session: pending requests, and whether a turn is open.
    reported: Mutex<HashMap<SessionId, Reported>>,
    /// Whether a message with buttons waits for an answer.
    awaits: watch::Sender<bool>,
    backlog: Mutex<(usize, Option<Timestamp>)>,
}

#[derive(Default, PartialEq)]
struct Reported {
    requests: Vec<RequestId>,
    is_idle: bool,
}

/// A message to the task.
enum Heard {
    /// The pending requests of a session have changed, by the records after this one.
    Waiting { facts: SessionFacts, after: Seq },
    /// A turn may have ended among the records after this one.
    Idle { session: SessionId, title: Option<String>, after: Seq },
    /// A session was deleted.
    Deleted(SessionId),
}

/// Values of all counters at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statistics {
    /// Attempts by their result.
    pub deliveries: [(&'static str, u64); 4],
    /// Deliveries that are not finished, and the age of the oldest.
    pub pending: usize,
    /// Age of the oldest unfinished notification.
    pub oldest: Duration,
}

impl std::fmt::Debug for Notifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Notifier")
    }
}

impl Observer for Notifier {
    fn recorded(&self, session: &Session, after: Seq) {
        let facts = SessionFacts::of(session, self.courier.options.details);
        let now = Reported { requests: facts.ids(), is_idle: !session.is_busy() };
        let mut reported = self.lock();
        let before = reported.remove(&session.id).unwrap_or_default();
        let has_changed = before.requests != now.requests;
        let became_idle = now.is_idle && !before.is_idle;
        let title = facts.title.clone();
        // The task may have ended with the server.
        if has_changed {
            let _ = self.heard.send(Heard::Waiting { facts, after });
        }
        if became_idle && self.courier.options.turns {
            let _ = self.heard.send(Heard::Idle { session: session.id.clone(), title, after });
        }
        // An unknown session counts as busy: the cost is one read when something is recorded in an idle one.
        if !now.is_idle || !now.requests.is_empty() {
            reported.insert(session.id.clone(), now);
        }
    }

    fn deleted(&self, session: &SessionId) {
        self.lock().remove(session);
        let _ = self.heard.send(Heard::Deleted(session.clone()));
    }
}

impl Notifier {
    /// Starts to notify, until the runtime stops.
    #[must_use]
    pub fn start(runtime: &Arc<Runtime>, courier: Arc<Courier>) -> Arc<Self> {
        let (heard, receiver) = mpsc::unbounded_channel();
        let notifier = Arc::new(Self {
            runtime: runtime.clone(),
            courier,
            heard,
            reported: Mutex::default(),
            awaits: watch::Sender::new(false),
            backlog: Mutex::default(),
        });
        let observer: Arc<dyn Observer> = notifier.clone();
        runtime.lifecycle.add_observer(Arc::downgrade(&observer));
        let stopping = runtime.stopping.clone();
        let task = Task::new(notifier.clone()).run(receiver);
        runtime.tasks.spawn(stopping.clone().run_until_cancelled_owned(task));
        if notifier.courier.options.telegram.is_some() {
            let polling = answers::poll(notifier.clone(), notifier.awaits.subscribe());
            runtime.tasks.spawn(stopping.run_until_cancelled_owned(polling));
        }
        notifier
    }

    /// Returns the courier.
    #[must_use]
    pub fn courier(&self) -> &Arc<Courier> {
        &self.courier
    }

    pub(crate) fn runtime(&self) -> &Arc<Runtime> {
        &self.runtime
    }

    /// Reads all counters.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let counters = &self.courier.counters;
        let read = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let (pending, oldest) = *self.backlog.lock().unwrap_or_else(PoisonError::into_inner);
        let age = oldest.map_or(0, |oldest| Timestamp::now().0.saturating_sub(oldest.0));
        Statistics {
            deliveries: [
                ("sent", read(&counters.sent)),
                ("retried", read(&counters.retried)),
                ("refused", read(&counters.refused)),
                ("withdrawn", read(&counters.withdrawn)),
            ],
            pending,
            oldest: Duration::from_millis(u64::try_from(age).unwrap_or(0)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Reported>> {
        self.reported.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what the outbox says.
    fn keep(&self, outbox: &Outbox) {
        *self.backlog.lock().unwrap_or_else(PoisonError::into_inner) = outbox.backlog();
        let serves = |target: &Target| matches!(target, Target::Telegram(_)) && self.courier.serves(target);
        self.awaits.send_replace(outbox.awaits_answer(serves));
    }

    /// Reads a session as it is now; none if it does not exist, or a server elsewhere holds it.
    async fn facts(&self, session: &SessionId) -> Option<SessionFacts> {
        if self.runtime.registry.get(session).is_none() {
            self.runtime.store.summary(session).await.ok()??;
        }
        let handle = self.runtime.registry.open(&self.runtime, session);
        let view = tokio::time::timeout(LOOK, handle.inspect()).await.ok()?.ok()?;
        Some(SessionFacts::of(&view.session, self.courier.options.details))
    }

    /// Whether a session exists, as far as the store can tell.
    async fn exists(&self, session: &SessionId) -> bool {
        !matches!(self.runtime.store.summary(session).await, Ok(None))
    }
}
