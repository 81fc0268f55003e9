//! The task of the notifier: posts, withdraws and delivers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use baton_protocol::event::{Body, Event, Outcome};
use baton_protocol::{RequestId, SessionId, Timestamp};
use baton_store::{Seq, Span};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::{Heard, Notifier};
use crate::decision::{UNKNOWN, decisions};
use crate::documents::NotifyError;
use crate::facts::SessionFacts;
use crate::notification::{Notification, NotificationId, Subject};
use crate::outbox::{Outbox, later};
use crate::schedule::{Schedule, chosen};
use crate::target::Target;

/// How often requests that were announced are compared with their sessions, and a shared outbox is read.
const CHECK: Duration = Duration::from_secs(5);
/// How often the sessions of dead servers are looked for on a shared store, and the progress is stored.
pub(super) const SCAN: Duration = Duration::from_secs(60);
/// Pause after a failure of the store.
const RETRY: Duration = Duration::from_secs(5);
/// Number of records that are searched for the end of a turn.
pub(super) const SEARCHED: usize = 100;

/// The task, with what it knows.
pub(super) struct Task {
    pub(super) notifier: Arc<Notifier>,
    pub(super) schedule: Schedule,
    jobs: JoinSet<()>,
}

impl Task {
    pub(super) fn new(notifier: Arc<Notifier>) -> Self {
        Self { notifier, schedule: Schedule::default(), jobs: JoinSet::new() }
    }

    /// Runs until the notifier is dropped.
    pub(super) async fn run(mut self, mut heard: mpsc::UnboundedReceiver<Heard>) {
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
                let facts = SessionFacts { session: session.clone(), title: None, waiting: Vec::new() };
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
    pub(super) async fn withdraw(
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
    pub(super) async fn post_turn(
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
}
