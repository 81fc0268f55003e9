//! Writes steps before anything acts on them, and undoes steps that cannot be written.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use baton_core::{Input, Output, Session};
use baton_handle::Failure;
use baton_history::record_of;
use baton_protocol::Timestamp;
use baton_store::{Append, Lease, NewRecord, Seq, Store, StoreError};
use bytes::Bytes;

use super::{Actor, stamp};
use crate::crash::CrashPoint;
use crate::session::stored_settings;

/// Number of events after which a new snapshot is written, so that opening the session stays cheap.
const SNAPSHOT_EVERY: u64 = 128;

/// Pauses before the retries of a write that failed and that no caller waits for. The result of a model call or tool is too
/// expensive to lose to a full disk that may have space again in a moment.
const RETRIES: [Duration; 5] = [
    Duration::from_millis(100),
    Duration::from_millis(400),
    Duration::from_secs(1),
    Duration::from_secs(3),
    Duration::from_secs(6),
];

/// Steps that were taken and are not written yet.
pub(super) struct UnwrittenSteps {
    /// The session before the steps, to restore if the write fails.
    pub(super) before: Box<Session>,
    pub(super) outputs: Vec<Output>,
    /// Whether a step came from work, rather than from a caller who waits for a reply.
    pub(super) from_work: bool,
}

impl Actor {
    /// Steps one input, and writes it by itself.
    pub(super) async fn step(&mut self, input: Input) -> ControlFlow<()> {
        let before = Box::new(self.session.clone());
        let outputs = self.session.step(input, stamp());
        self.settle(UnwrittenSteps { before, outputs, from_work: true }).await
    }

    /// Makes steps durable and acts on them. Undoes them if they cannot be written.
    pub(super) async fn settle(&mut self, pending: UnwrittenSteps) -> ControlFlow<()> {
        let UnwrittenSteps { before, outputs, from_work } = pending;
        if from_work {
            // Before the events that tell of them: who reads those finds the files, too.
            self.tools.share().try_push().await;
        }
        let records: Vec<NewRecord> = outputs.iter().filter_map(record_of).collect();
        let bodies: Vec<Bytes> = records.iter().map(|record| record.body.clone()).collect();
        match self.write(records, from_work).await {
            Ok(first) => {
                self.leave_background(&before, &outputs);
                self.act(first, outputs, bodies).await;
                ControlFlow::Continue(())
            }
            Err(error) => self.write_failed(before, outputs, from_work, &error),
        }
    }

    /// Appends records and returns the sequence number of the first. With `retry`, a write that the medium refuses is
    /// repeated ([`RETRIES`]).
    pub(super) async fn write(&mut self, records: Vec<NewRecord>, retry: bool) -> Result<Seq, StoreError> {
        let first = self.head.plus(1);
        if records.is_empty() {
            return Ok(first);
        }
        let append = Arc::new(self.append_of(records));
        self.runtime.crash_point(CrashPoint::BeforeAppend);
        let mut retries = RETRIES.iter();
        loop {
            match self.runtime.store.append_shared(append.clone()).await {
                Ok(head) => {
                    self.runtime.crash_point(CrashPoint::AfterAppend);
                    self.head = head;
                    if append.meta.is_some() {
                        self.meta = stored_settings::metadata_of(&self.session, &self.settings);
                    }
                    if append.snapshot.is_some() {
                        self.last_snapshot = head.0;
                    }
                    return Ok(first);
                }
                Err(StoreError::Medium { cause, .. }) if retry && let Some(pause) = retries.next() => {
                    tracing::warn!(cause, ?pause, "append failed; retrying");
                    tokio::time::sleep(*pause).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn append_of(&self, records: Vec<NewRecord>) -> Append {
        let meta = (!stored_settings::is_current(&self.meta, &self.session, &self.settings))
            .then(|| stored_settings::metadata_of(&self.session, &self.settings).encode());
        // Every snapshot contains the queue. With a long queue there are fewer snapshots, so that they never cost more to
        // write than the events.
        let interval = SNAPSHOT_EVERY.max(4 * self.session.durable.inbox.len() as u64);
        let due = self.session.durable.seq >= self.last_snapshot + interval;
        let snapshot = due.then(|| serde_json::to_vec(&self.session.durable).ok()).flatten().map(Bytes::from);
        Append {
            lease: self.lease.clone(),
            expected: self.head,
            records,
            modified: Timestamp::now(),
            meta,
            snapshot,
            busy: self.session.is_busy(),
        }
    }

    /// Undoes steps that could not be written, and fails their asks. A session that lost the result of its work, or its
    /// lease, cannot continue: it is unloaded, and stays as the store has it.
    fn write_failed(
        &mut self,
        before: Box<Session>,
        outputs: Vec<Output>,
        from_work: bool,
        error: &StoreError,
    ) -> ControlFlow<()> {
        match error {
            // Ordinary: a session that does nothing may be used by another process.
            StoreError::Fenced(_) if !before.is_busy() => tracing::info!(%error, "idle session released"),
            _ => tracing::error!(%error, "append failed"),
        }
        self.session = *before;
        let stays = !from_work && matches!(error, StoreError::Medium { .. });
        if !stays && self.runtime.cluster.is_none() {
            // Before the replies: a client that asks again is given the next actor.
            self.hub.fail(Failure::Store(error.clone()));
        }
        for output in outputs {
            if let Output::Reply(to, _) = output
                && let Some(responder) = self.replies.remove(&to)
            {
                responder.reply(Err(Failure::Store(error.clone())));
            }
        }
        if stays {
            return ControlFlow::Continue(());
        }
        self.give_up(error);
        ControlFlow::Break(())
    }

    /// Stops all work, and reports the error to the attached clients and to later asks.
    pub(super) fn give_up(&mut self, error: &StoreError) {
        if self.runtime.cluster.is_some() {
            return self.step_down();
        }
        self.hub.fail(Failure::Store(error.clone()));
        self.show_failure(error);
        self.stop_everything();
    }
}

impl Actor {
    /// Stops all work, because another server has the session or may soon have it. Clients are not told: this server finds
    /// the session again for them.
    pub(super) fn step_down(&mut self) {
        self.steps_down = true;
        self.stop_everything();
    }
}

/// Whether another server holds the session now, or it was deleted. Checked while work runs: the next write may be far
/// away, and two servers would work on the session until it is refused.
pub(super) async fn has_lost(store: &dyn Store, lease: &Lease) -> bool {
    match store.summary(&lease.session).await {
        Ok(summary) => {
            let holder = summary.and_then(|summary| summary.holder);
            holder.is_none_or(|holder| holder.epoch != lease.epoch)
        }
        // A store that cannot be read says nothing about the lease.
        Err(_) => false,
    }
}
