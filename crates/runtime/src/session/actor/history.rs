//! Rewinding the conversation, with or without files.

use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;

use baton_ask::{ReplyMessage, Rewind, TruncateAt};
use baton_ask::{RewindOutcome, Rewound};
use baton_core::ask::Truncate;
use baton_core::{Asking, Input};
use baton_files::rewind::{FileHistory, Plan, RestoreFailure, Snapshots, TouchedFile};
use baton_handle::Failure;
use baton_history::cut_before;
use baton_protocol::event::HistoryTruncated;
use baton_store::{Seq, StoreError};
use tokio::sync::oneshot;

use super::Actor;
use crate::session::{Respond, Responder};

impl Actor {
    /// Rewinds the conversation to before an event. The actor serves nothing else meanwhile, so that no event can come in
    /// between.
    pub(super) async fn truncate(
        &mut self,
        ask: TruncateAt,
        respond: Respond<TruncateAt>,
    ) -> ControlFlow<()> {
        let TruncateAt { event, by } = ask;
        let found = cut_before(&*self.runtime.store, &self.session.id, self.head, &event).await;
        match found {
            Err(error) => respond.with(Err(Failure::Store(error))),
            Ok(None) => respond.with(Err(Failure::Refused(format!("Event {event} not found in session")))),
            Ok(Some(cut)) => {
                let (flow, removed) = self.remove_from(HistoryTruncated { by, ..cut }).await;
                respond.with(removed.map(|Removed { events, pruned }| {
                    if let Err(error) = pruned {
                        tracing::warn!(%error, "failed to delete obsolete snapshots");
                    }
                    events
                }));
                return flow;
            }
        }
        ControlFlow::Continue(())
    }

    /// Rewinds to before a prompt: first the files, if that is wanted, then the conversation. After a crash in between, the
    /// files are restored and the conversation can still be rewound.
    pub(super) async fn rewind(&mut self, ask: &Rewind, respond: Respond<Rewind>) -> ControlFlow<()> {
        let mut rewound = Rewound::default();
        let (flow, reply) = match self.try_rewind(ask, &mut rewound).await {
            Ok(flow) => (flow, Ok(rewound)),
            Err(failure) => (ControlFlow::Continue(()), Err(failure)),
        };
        respond.with(reply);
        flow
    }

    async fn try_rewind(&mut self, ask: &Rewind, rewound: &mut Rewound) -> Result<ControlFlow<()>, Failure> {
        const UNCHANGED: ControlFlow<()> = ControlFlow::Continue(());
        if let Some(obstacle) = self.session.rewind_obstacle(ask.with_files) {
            rewound.outcome = obstacle.into();
            return Ok(UNCHANGED);
        }
        let cut = cut_before(&*self.runtime.store, &self.session.id, self.head, &ask.event).await?;
        let Some(cut) = cut.filter(|cut| cut.from_seq > 1) else {
            rewound.outcome = RewindOutcome::TruncationFailed;
            rewound.error = Some(format!("Event {} not found in session", ask.event));
            return Ok(UNCHANGED);
        };
        if ask.with_files {
            let file_history = FileHistory::read(&*self.runtime.store, &self.session.id, self.head).await?;
            let snapshots = self.tools.files().snapshots();
            restore(snapshots, file_history.touched_since(Seq(cut.from_seq)), rewound).await?;
            if rewound.outcome != RewindOutcome::Success {
                return Ok(UNCHANGED);
            }
        }
        let (flow, removed) = self.remove_from(HistoryTruncated { by: ask.by.clone(), ..cut }).await;
        let (outcome, error) = match removed {
            Ok(Removed { events, pruned }) => {
                rewound.removed = Some(events);
                let Err(error) = pruned else { return Ok(flow) };
                (RewindOutcome::SnapshotPruneFailed, error.to_string())
            }
            Err(failure) => (RewindOutcome::TruncationFailed, failure.to_string()),
        };
        (rewound.outcome, rewound.error) = (outcome, Some(error));
        Ok(flow)
    }

    /// Removes the end of the conversation, and then deletes the snapshots of files that only this part needs.
    async fn remove_from(&mut self, cut: HistoryTruncated) -> (ControlFlow<()>, Result<Removed, Failure>) {
        let obsolete = match self.snapshots_only_since(Seq(cut.from_seq)).await {
            Ok(obsolete) => obsolete,
            Err(error) => return (ControlFlow::Continue(()), Err(Failure::Store(error))),
        };
        let (sender, receiver) = oneshot::channel();
        let responder = Responder::new(&self.session.id, move |reply| drop(sender.send(reply)));
        let id = self.expect_reply(responder);
        let flow = self.step(Input::Ask { id, ask: Truncate { cut }.into() }).await;
        let removed = match receiver.await {
            Ok(Ok(ReplyMessage::Core(reply))) => Truncate::of(*reply),
            Ok(Err(failure)) => return (flow, Err(failure)),
            _ => None,
        };
        let Some(events) = removed else { return (flow, Err(Failure::NotFound(self.session.id.clone()))) };
        let pruned = delete_snapshots(self.tools.files().snapshots(), obsolete).await;
        (flow, Ok(Removed { events, pruned }))
    }

    async fn snapshots_only_since(&mut self, from: Seq) -> Result<Vec<String>, StoreError> {
        if !self.session.durable.facts.tracks_files {
            return Ok(Vec::new());
        }
        let file_history = FileHistory::read(&*self.runtime.store, &self.session.id, self.head).await?;
        Ok(file_history.copies_only_since(from))
    }
}

/// Result of removing the end of the conversation.
struct Removed {
    /// Number of public events that were removed.
    events: u64,
    /// Whether obsolete snapshots of files were deleted.
    pruned: io::Result<()>,
}

/// Restores files, and reports which.
async fn restore(
    snapshots: Snapshots,
    touched: BTreeMap<PathBuf, TouchedFile>,
    rewound: &mut Rewound,
) -> Result<(), Failure> {
    let work = move || {
        let plan = Plan::of(&snapshots, touched);
        (plan.carry_out(&snapshots), plan.skip)
    };
    let done = tokio::task::spawn_blocking(work).await;
    let (restored, skipped) = done.map_err(|error| Failure::Refused(error.to_string()))?;
    rewound.skipped = skipped;
    match restored {
        Ok(restored) => rewound.restored = restored,
        Err(RestoreFailure { whole, error }) => {
            let undone =
                if whole { RewindOutcome::FilesRolledBack } else { RewindOutcome::RollbackIncomplete };
            (rewound.outcome, rewound.error) = (undone, Some(error));
        }
    }
    Ok(())
}

/// Deletes snapshots of files that no rewind needs any more.
async fn delete_snapshots(snapshots: Snapshots, digests: Vec<String>) -> io::Result<()> {
    let work = move || digests.iter().try_for_each(|digest| snapshots.forget(digest));
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other).flatten()
}
