//! The notifier: watches live sessions, keeps the outbox in step with them, and delivers it.
//!
//! One task does all of it, in this order whenever something happens or is due: record what sessions report, post what is due, withdraw
//! what was answered, claim and deliver. Deliveries run beside it. On a store that several servers share, each server announces
//! the sessions that it holds; claims decide who sends.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baton_core::Session;
use baton_protocol::event::{Body, Event, Outcome};
use baton_protocol::{RequestId, SessionId, Timestamp};
use baton_runtime::lifecycle::Observer;
use baton_runtime::{Runtime, metadata};
use baton_store::{Seq, Span, Summary};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::answers;
use crate::courier::Courier;
use crate::decision::{UNKNOWN, decisions};
use crate::documents::NotifyError;
use crate::facts::{Facts, label};
use crate::notification::{Notification, NotificationId, Subject};
use crate::outbox::{Outbox, earlier, later};
use crate::schedule::{Schedule, chosen};
use crate::target::Target;

/// How often requests that were announced are compared with their sessions, and a shared outbox is read.
const CHECK: Duration = Duration::from_secs(5);
/// How often the sessions of dead servers are looked for on a shared store, and the progress is stored.
const SCAN: Duration = Duration::from_secs(60);
/// Time limit for a session to say what waits in it: a server elsewhere may not answer.
const LOOK: Duration = Duration::from_secs(5);
/// Pause after a failure of the store.
const RETRY: Duration = Duration::from_secs(5);
/// How far the stored progress stays behind: ends of turns that are being posted.
const SLACK: Duration = Duration::from_secs(120);
/// Age at which the end of a turn is no news any more.
const STALE: Duration = Duration::from_secs(12 * 3600);
/// Number of records that are searched for the end of a turn.
const SEARCHED: usize = 100;

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

/// What the task hears.
enum Heard {
    /// The pending requests of a session have changed, by the records after this one.
    Waiting { facts: Facts, after: Seq },
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
        let facts = Facts::of(session, self.courier.options.details);
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
        runtime.lifecycle.add_witness(Arc::downgrade(&observer));
        let stopping = runtime.stopping.clone();
        let task = Task { notifier: notifier.clone(), schedule: Schedule::default(), jobs: JoinSet::new() };
        runtime.tasks.spawn(stopping.clone().run_until_cancelled_owned(task.run(receiver)));
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
    async fn facts(&self, session: &SessionId) -> Option<Facts> {
        if self.runtime.registry.get(session).is_none() {
            self.runtime.store.summary(session).await.ok()??;
        }
        let handle = self.runtime.registry.open(&self.runtime, session);
        let view = tokio::time::timeout(LOOK, handle.inspect()).await.ok()?.ok()?;
        Some(Facts::of(&view.session, self.courier.options.details))
    }

    /// Whether a session exists, as far as the store can tell.
    async fn exists(&self, session: &SessionId) -> bool {
        !matches!(self.runtime.store.summary(session).await, Ok(None))
    }
}

/// The task, with what it knows.
struct Task {
    notifier: Arc<Notifier>,
    schedule: Schedule,
    jobs: JoinSet<()>,
}

impl Task {
    async fn run(mut self, mut heard: mpsc::UnboundedReceiver<Heard>) {
        let is_shared = self.notifier.runtime.store.members().is_some();
        let mut scanned = self.scan(true).await;
        let mut next_scan = Timestamp::now();
        let mut next_check = next_scan;
        loop {
            let now = Timestamp::now();
            if now >= next_scan {
                next_scan = later(now, if scanned.is_ok() { SCAN } else { RETRY });
                match &scanned {
                    Ok(()) if is_shared => scanned = self.scan(false).await,
                    Ok(()) => drop(self.store_progress().await),
                    Err(error) => {
                        tracing::warn!(%error, "cannot look for requests to notify about; trying again");
                        scanned = self.scan(true).await;
                    }
                }
            }
            if now >= next_check {
                next_check = later(now, CHECK);
                self.reconcile().await;
            }
            self.post_due().await;
            let due = self.deliver().await;
            let wake = [Some(next_scan), Some(next_check), self.schedule.next(), due];
            let wake = wake.into_iter().flatten().min().unwrap_or(next_check);
            let pause = u64::try_from(wake.0.saturating_sub(Timestamp::now().0)).unwrap_or(0);
            tokio::select! {
                heard = heard.recv() => match heard {
                    Some(heard) => self.hear(heard).await,
                    None => return,
                },
                Some(_) = self.jobs.join_next() => {}
                // At least a moment, so that a failing store is not asked without a pause.
                () = tokio::time::sleep(Duration::from_millis(pause.max(50))) => {}
            }
        }
    }

    async fn hear(&mut self, heard: Heard) {
        let done = match heard {
            Heard::Waiting { facts, after } => {
                let (delay, now) = (self.notifier.courier.options.delay, Timestamp::now());
                let gone = self.schedule.note(&facts, delay, now);
                self.withdraw(&facts.session, &gone, Some(after)).await
            }
            Heard::Idle { session, title, after } => {
                self.post_turn(&session, title, Span::After { after, limit: SEARCHED }, Timestamp(0)).await
            }
            Heard::Deleted(session) => {
                let facts = Facts { session: session.clone(), title: None, waiting: Vec::new() };
                let gone = self.schedule.note(&facts, Duration::ZERO, Timestamp::now());
                self.withdraw(&session, &gone, None).await
            }
        };
        // What was missed is found by the next comparison or scan.
        if let Err(error) = done {
            tracing::warn!(%error, "cannot store a notification; trying again");
        }
    }

    /// Withdraws the notifications of requests that have ended. How they ended is in the records after `after`, or among the
    /// last ones.
    async fn withdraw(
        &self,
        session: &SessionId,
        requests: &[RequestId],
        after: Option<Seq>,
    ) -> Result<(), NotifyError> {
        let announced = self.notifier.courier.outbox().await?;
        let id_of = |request| NotificationId::of_request(session, request);
        if !requests.iter().any(|request| announced.standing(&id_of(request)).is_some()) {
            return Ok(());
        }
        let decisions = self.decisions(session, requests, after).await;
        let now = Timestamp::now();
        let (_, outbox) = self
            .notifier
            .courier
            .edit(|outbox| {
                for request in requests {
                    let reason = decisions.get(&request.to_string()).map_or(UNKNOWN, String::as_str);
                    outbox.withdraw(&id_of(request), reason, now);
                }
            })
            .await?;
        self.notifier.keep(&outbox);
        Ok(())
    }

    /// Reads how requests ended. A session that cannot be read explains nothing.
    async fn decisions(
        &self,
        session: &SessionId,
        requests: &[RequestId],
        after: Option<Seq>,
    ) -> BTreeMap<String, String> {
        let store = &self.notifier.runtime.store;
        let span = match after {
            Some(after) => Span::After { after, limit: SEARCHED },
            None => match store.summary(session).await {
                Ok(Some(summary)) => Span::Before { before: summary.head.plus(1), limit: SEARCHED },
                _ => return BTreeMap::new(),
            },
        };
        let records = store.read(session, span).await.unwrap_or_default();
        decisions(&records, requests)
    }

    /// Posts the requests that have waited for long enough, and still do.
    async fn post_due(&mut self) {
        for (session, requests) in self.schedule.take_due(Timestamp::now()) {
            let Some(facts) = self.notifier.facts(&session).await else {
                if self.notifier.exists(&session).await {
                    self.schedule.postpone(&session, &requests, later(Timestamp::now(), RETRY));
                }
                continue;
            };
            let subjects = chosen(&facts, &requests);
            if let Err(error) = self.post(&session, facts.title, subjects).await {
                tracing::warn!(%error, %session, "cannot store a notification; trying again");
                self.schedule.postpone(&session, &requests, later(Timestamp::now(), RETRY));
            }
        }
    }

    async fn post(
        &self,
        session: &SessionId,
        title: Option<String>,
        subjects: Vec<Subject>,
    ) -> Result<(), NotifyError> {
        let made = |subject: Subject| {
            let request = crate::facts::request_of(&subject)?;
            let id = NotificationId::of_request(session, request);
            Some(self.notification(id, session, title.clone(), subject))
        };
        self.post_all(subjects.into_iter().filter_map(made).collect()).await
    }

    fn notification(
        &self,
        id: NotificationId,
        session: &SessionId,
        title: Option<String>,
        subject: Subject,
    ) -> Notification {
        Notification { id, session: Some(session.clone()), title, created: Timestamp::now(), subject }
    }

    async fn post_all(&self, notifications: Vec<Notification>) -> Result<(), NotifyError> {
        let targets = self.notifier.courier.targets().await?;
        if targets.is_empty() || notifications.is_empty() {
            return Ok(());
        }
        let now = Timestamp::now();
        let (_, outbox) = self
            .notifier
            .courier
            .edit(|outbox| {
                for notification in &notifications {
                    outbox.post(notification.clone(), targets.iter().cloned(), now);
                }
            })
            .await?;
        self.notifier.keep(&outbox);
        Ok(())
    }

    /// Posts the last end of a turn among these records, if it is newer than `since`.
    async fn post_turn(
        &self,
        session: &SessionId,
        title: Option<String>,
        span: Span,
        since: Timestamp,
    ) -> Result<(), NotifyError> {
        let records = self.notifier.runtime.store.read(session, span).await?;
        let ends = records.iter().rev().filter(|record| record.kind == "baton.turn_settled");
        let mut ends = ends.filter_map(|record| Event::parse(&String::from_utf8_lossy(&record.body)).ok());
        let Some(event) = ends.next().filter(|event| event.timestamp > since) else { return Ok(()) };
        let Body::TurnSettled(settled) = &event.body else { return Ok(()) };
        let outcome = match settled.outcome {
            Outcome::Completed => "completed",
            Outcome::Failed => "failed",
            Outcome::Interrupted => "interrupted",
            // Somebody was there to cancel it.
            Outcome::Cancelled => return Ok(()),
        };
        let id = NotificationId::of_turn(session, &event.id.to_string());
        let subject = Subject::Turn { outcome: outcome.to_owned() };
        self.post_all(vec![self.notification(id, session, title, subject)]).await
    }

    /// Claims what is due, and starts to deliver it. Returns when more will be due.
    async fn deliver(&mut self) -> Option<Timestamp> {
        let courier = &self.notifier.courier;
        let serves = |target: &Target| courier.serves(target);
        let now = Timestamp::now();
        let outbox = match courier.outbox().await {
            Ok(outbox) => outbox,
            Err(error) => {
                tracing::warn!(%error, "cannot read the notifications");
                return Some(later(now, RETRY));
            }
        };
        self.notifier.keep(&outbox);
        let due = outbox.next(serves)?;
        if due > now {
            return Some(due);
        }
        let (jobs, outbox) = match courier.edit(|outbox| outbox.claim(serves, now)).await {
            Ok(claimed) => claimed,
            Err(error) => {
                tracing::warn!(%error, "cannot claim a notification");
                return Some(later(now, RETRY));
            }
        };
        for job in jobs {
            let notifier = self.notifier.clone();
            self.jobs.spawn(async move {
                let attempt = notifier.courier.attempt(&job).await;
                let settle = |outbox: &mut Outbox| outbox.settle(&job, &attempt.settlement, Timestamp::now());
                match notifier.courier.edit(settle).await {
                    Ok(((), outbox)) => notifier.keep(&outbox),
                    // It is sent again under the same id when its reservation ends.
                    Err(error) => tracing::warn!(%error, "cannot store that a notification was delivered"),
                }
            });
        }
        outbox.next(serves)
    }

    /// Withdraws notifications whose requests do not wait any more: answered by another server, while no server ran, or without
    /// a record.
    async fn reconcile(&self) {
        let Ok(outbox) = self.notifier.courier.outbox().await else { return };
        let mut sessions: BTreeMap<SessionId, BTreeSet<String>> = BTreeMap::new();
        for (session, request) in outbox.requests() {
            sessions.entry(session).or_default().insert(request.to_string());
        }
        for (session, announced) in sessions {
            let waiting = match self.notifier.facts(&session).await {
                Some(facts) => facts.ids(),
                // It cannot be read now: another server holds it, and compares itself.
                None if self.notifier.exists(&session).await => continue,
                None => Vec::new(),
            };
            let waiting: BTreeSet<String> = waiting.iter().map(ToString::to_string).collect();
            let gone: Vec<RequestId> = announced.difference(&waiting).cloned().map(RequestId).collect();
            if let Err(error) = self.withdraw(&session, &gone, None).await {
                tracing::warn!(%error, %session, "cannot withdraw a notification; trying again");
            }
        }
    }

    /// Looks for what no server has noticed: requests that wait in sessions that nobody has opened, and, after a start, turns
    /// that ended just before a server was killed.
    async fn scan(&mut self, with_turns: bool) -> Result<(), NotifyError> {
        let targets = self.notifier.courier.targets().await?;
        if targets.is_empty() {
            return Ok(());
        }
        let noticed = self.notifier.courier.outbox().await?.noticed();
        let is_first = noticed == Timestamp(0);
        let since = noticed.max(earlier(Timestamp::now(), STALE));
        for summary in self.notifier.runtime.store.list().await? {
            if may_wait(&self.notifier.runtime, &summary)
                && let Some(facts) = self.notifier.facts(&summary.session).await
            {
                let (delay, now) = (self.notifier.courier.options.delay, Timestamp::now());
                let gone = self.schedule.note(&facts, delay, now);
                self.withdraw(&summary.session, &gone, None).await?;
            }
            let is_idle = !summary.holder.as_ref().is_some_and(|holder| holder.busy);
            let looks = with_turns && !is_first && self.notifier.courier.options.turns;
            if looks && is_idle && summary.modified > since {
                let span = Span::Before { before: summary.head.plus(1), limit: SEARCHED };
                let known = metadata::decode(&summary.meta);
                let (name, title) = (known.name.as_ref(), known.title.as_ref());
                // The metadata does not say who chose a name.
                let title = label(self.notifier.courier.options.details, false, name, title, &known.context);
                self.post_turn(&summary.session, title, span, since).await?;
            }
        }
        self.store_progress().await
    }

    /// Stores how far ends of turns have been noticed.
    async fn store_progress(&self) -> Result<(), NotifyError> {
        if self.notifier.courier.targets().await?.is_empty() {
            return Ok(());
        }
        let now = Timestamp::now();
        let stored = self.notifier.courier.outbox().await?.noticed();
        // The first start notices nothing of the past; later ones write only now and then.
        let until = if stored == Timestamp(0) { now } else { earlier(now, SLACK) };
        if stored == Timestamp(0) || earlier(until, 10 * SCAN) > stored {
            self.notifier.courier.edit(|outbox| outbox.notice_until(until)).await?;
        }
        Ok(())
    }
}

/// Whether requests may wait in a session. A session that was opened after a crash counts as idle in the store until its first
/// write, whatever is pending in it.
fn may_wait(runtime: &Runtime, summary: &Summary) -> bool {
    summary.holder.as_ref().is_some_and(|holder| holder.busy)
        || metadata::decode(&summary.meta).logins
        || runtime.registry.get(&summary.session).is_some()
}
