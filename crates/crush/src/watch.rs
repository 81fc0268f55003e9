//! Watches a session for a workspace: folds its events and reports the changes to the workspace's streams.
//!
//! Missed durable events are read from the store, so that each change is reported once and in order. Deltas are collected
//! for a moment: the client's events contain whole messages, and sending one for each delta would be wasteful.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton_protocol::{Body, ClientId, Event, SessionId};
use baton_store::{Record, Seq, Span, StoreError};
use tokio::time::Instant;
use tracing::Instrument as _;

use super::error::CrushResult;
use super::fold::{Fold, Partial};
use super::wire::Session as Row;
use super::workspace::Workspace;
use super::{lock, mcp};
use baton_runtime::session::Failure;
use baton_runtime::session::subscription::{Received, Subscription, subscribe};
use baton_service::sessions::{ReadEvents, ShowSession};
use baton_service::{Caller, LiveSession, OperationError, Service};

/// Capacity of the subscription, in events. When it is exceeded, the store is read instead.
const QUEUE: usize = 1024;
const PAGE: usize = 500;
/// How long deltas are collected.
const DELTA_INTERVAL: Duration = Duration::from_millis(33);

/// A session that a workspace watches.
pub(crate) struct Watch {
    client: ClientId,
    busy: AtomicBool,
    fold: Mutex<Fold>,
}

impl Watch {
    pub(crate) fn client(&self) -> ClientId {
        self.client
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Acquire)
    }

    fn set_busy(&self, busy: Option<bool>) {
        if let Some(busy) = busy {
            self.busy.store(busy, Ordering::Release);
        }
    }

    pub(crate) fn row(&self) -> Row {
        lock(&self.fold).row()
    }

    /// Returns the streamed parts of responses that the history does not contain.
    pub(crate) fn partials(&self) -> Vec<(String, Partial)> {
        lock(&self.fold).partials()
    }
}

impl Workspace {
    /// Watches a session from now on, if it is not watched already.
    pub(super) async fn watch(self: &Arc<Self>, session: &SessionId) -> CrushResult<()> {
        if self.watch_of(session).is_some() {
            return Ok(());
        }
        let show = ShowSession { id: session.clone() };
        let head = match self.service.perform(&self.caller, show).await {
            Ok(summary) => summary.head,
            Err(OperationError::Failed(Failure::NotFound(_))) => Seq::ZERO,
            Err(error) => return Err(error.into()),
        };
        self.watch_after(session, head, None);
        Ok(())
    }

    /// Watches a session, and reports changes by events after `after`.
    pub(crate) fn watch_after(self: &Arc<Self>, session: &SessionId, after: Seq, busy: Option<bool>) {
        let mut watches = lock(&self.watches);
        if let Some(watch) = watches.get(session) {
            return watch.set_busy(busy);
        }
        let client = self.service.new_client();
        let fold = Mutex::new(Fold::new(session.clone()));
        let watch = Arc::new(Watch { client, busy: AtomicBool::new(false), fold });
        watch.set_busy(busy);
        watches.insert(session.clone(), watch.clone());
        // Subscribed before the store is read, so that no event between the two is missed.
        let subscription = self.service.live(&self.caller, session).map(|live| subscribe_to(&live, client));
        let span = tracing::info_span!(parent: None, "watch", workspace = %self.id, %session);
        let task = WatchTask {
            workspace: self.clone(),
            session: session.clone(),
            watch,
            cursor: Seq::ZERO,
            reported: after,
        };
        self.service.tasks().spawn(task.run(subscription).instrument(span));
    }

    fn unwatch(&self, session: &SessionId, watch: &Arc<Watch>) {
        let mut watches = lock(&self.watches);
        if watches.get(session).is_some_and(|known| Arc::ptr_eq(known, watch)) {
            watches.remove(session);
        }
    }
}

fn subscribe_to(session: &LiveSession, client: ClientId) -> Subscription {
    let (port, subscription) = subscribe(QUEUE);
    session.hub().attach(client, port);
    subscription
}

/// Sleeps until a moment, or forever.
async fn sleep_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// The task of a [`Watch`].
struct WatchTask {
    workspace: Arc<Workspace>,
    session: SessionId,
    watch: Arc<Watch>,
    /// The last durable event that was folded.
    cursor: Seq,
    /// The last durable event whose changes were reported.
    reported: Seq,
}

impl WatchTask {
    async fn run(mut self, mut subscription: Option<Subscription>) {
        let closed = self.workspace.closed.clone();
        let stopping = self.workspace.service.stopping().clone();
        tokio::select! {
            () = self.follow(&mut subscription) => {}
            () = closed.cancelled() => {}
            () = stopping.cancelled() => {}
        }
        if let Some(live) = self.workspace.service.live(&self.workspace.caller, &self.session) {
            live.hub().detach(self.watch.client);
        }
        self.workspace.unwatch(&self.session, &self.watch);
    }

    /// Follows the session until it is no longer live.
    async fn follow(&mut self, subscription: &mut Option<Subscription>) {
        loop {
            if let Err(error) = self.read_store().await {
                tracing::warn!(%error, "failed to read the session; it is no longer watched");
                return;
            }
            if let Some(subscription) = subscription {
                self.receive(subscription).await;
            }
            // The session is no longer live, unless it was loaded again meanwhile.
            let Workspace { service, caller, .. } = &*self.workspace;
            let Some(live) = service.live_anywhere(caller, &self.session).await else { break };
            *subscription = Some(subscribe_to(&live, self.watch.client));
        }
        self.workspace.unwatch(&self.session, &self.watch);
        // A client that loaded it before `unwatch` found it watched, and did not start a watch.
        if self.workspace.service.live(&self.workspace.caller, &self.session).is_some() {
            self.workspace.watch_after(&self.session, self.cursor, None);
        }
    }

    /// Receives events until the subscription is closed.
    async fn receive(&mut self, subscription: &mut Subscription) {
        let mut flush_at = None;
        loop {
            let has_deltas = lock(&self.watch.fold).has_unreported_deltas();
            flush_at = has_deltas.then(|| flush_at.unwrap_or_else(|| Instant::now() + DELTA_INTERVAL));
            let received = tokio::select! {
                received = subscription.next() => received,
                () = sleep_until(flush_at) => {
                    self.flush();
                    continue;
                }
            };
            match received {
                Received::Events(events) => {
                    for event in events.events() {
                        let next = self.cursor.plus(1);
                        match event.seq {
                            Some(seq) if seq < next => {}
                            Some(seq) if seq > next => drop(self.read_store().await),
                            seq => self.apply(seq, &event.json),
                        }
                    }
                }
                Received::Missed => drop(self.read_store().await),
                Received::Closed => return,
            }
        }
    }

    async fn read_store(&mut self) -> Result<(), OperationError<StoreError>> {
        loop {
            let span = Span::After { after: self.cursor, limit: PAGE };
            let page = read(&self.workspace.service, &self.workspace.caller, &self.session, span).await?;
            let full = page.len() == PAGE;
            page.into_iter().for_each(|record| self.apply(Some(record.seq), &record.body));
            if !full {
                break;
            }
        }
        // Requests that were opened before the watch are still pending.
        let (pending, is_run) = {
            let fold = lock(&self.watch.fold);
            (fold.pending().to_vec(), fold.is_run())
        };
        pending.into_iter().for_each(|pending| self.workspace.open_request(&self.session, pending, is_run));
        Ok(())
    }

    /// Folds an event and reports its changes. An unreadable event changes nothing, and its sequence number counts.
    fn apply(&mut self, seq: Option<Seq>, json: &[u8]) {
        let event = std::str::from_utf8(json).ok().and_then(|text| Event::parse(text).ok());
        let is_reported = seq.is_some_and(|seq| seq <= self.reported);
        if let Some(event) = event {
            if let Some(about_server) = mcp::event(&event.body).filter(|_| seq.is_none()) {
                self.workspace.feed.publish(&about_server);
                return;
            }
            let mut fold = lock(&self.watch.fold);
            if is_reported {
                fold.apply_reported(&event);
            } else {
                let changes = fold.apply(&event);
                let (row, is_run) = (fold.row(), fold.is_run());
                fold.drop_settled();
                drop(fold);
                for change in changes {
                    self.workspace.report(&self.session, &row, is_run, change);
                }
            }
        }
        self.cursor = seq.unwrap_or(self.cursor);
        self.reported = self.reported.max(self.cursor);
    }

    fn flush(&self) {
        let mut fold = lock(&self.watch.fold);
        let (change, row, is_run) = (fold.flush(), fold.row(), fold.is_run());
        drop(fold);
        change.into_iter().for_each(|change| self.workspace.report(&self.session, &row, is_run, change));
    }
}

/// Reads stored events.
async fn read(
    service: &Service,
    caller: &Caller,
    session: &SessionId,
    span: Span,
) -> Result<Vec<Record>, OperationError<StoreError>> {
    let read = ReadEvents { id: session.clone(), span, max_bytes: usize::MAX };
    Ok(service.perform(caller, read).await?.records)
}

/// Folds the whole history of a session, without rewound messages.
pub(super) async fn fold_history(
    service: &Service,
    caller: &Caller,
    session: &SessionId,
) -> Result<Fold, OperationError<StoreError>> {
    let mut fold = Fold::new(session.clone());
    let mut after = Seq::ZERO;
    // The number of messages before each event.
    let mut lengths = BTreeMap::new();
    loop {
        let page = read(service, caller, session, Span::After { after, limit: PAGE }).await?;
        for record in &page {
            after = record.seq;
            lengths.insert(record.seq, fold.len());
            let Some(event) = std::str::from_utf8(&record.body).ok().and_then(|text| Event::parse(text).ok())
            else {
                continue;
            };
            match &event.body {
                Body::HistoryTruncated(rewound) => {
                    let length = lengths.range(Seq(rewound.from_seq)..).next();
                    fold.rewind_to(length.map_or(0, |(_, length)| *length));
                }
                _ => drop(fold.apply(&event)),
            }
        }
        if page.len() < PAGE {
            return Ok(fold);
        }
    }
}
