//! Going back to before an event: where that is, and what of it clients had seen.

use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;

use baton_core::{Input, Reply};
use baton_protocol::event::{HistoryTruncated, is_public};
use baton_protocol::{EventId, SessionId};
use baton_store::{Record, Seq, Store, StoreError};
use tokio::sync::oneshot;

use super::Actor;
use crate::history::{id_of, newest_first};
use crate::rewind::{Plan, Shelf, Touched, Trail, Undone};
use crate::session::mail::{Failure, Responder, Rewind, RewindOutcome, Rewound};

impl Actor {
    /// Finds the event and takes it back, with all that came after it. The session waits meanwhile, so that nothing can
    /// come in between.
    pub(super) async fn truncate(&mut self, event: &str, respond: Responder) -> ControlFlow<()> {
        let found = cut_before(&*self.server.store, &self.session.id, self.head, event).await;
        match found {
            Err(error) => respond(Err(Failure::Store(error))),
            Ok(None) => respond(Err(Failure::Refused(format!("Event {event} not found in session")))),
            Ok(Some(cut)) => {
                let (flow, answer) = self.take_back(cut).await;
                respond(answer.map(|Removed { reply, forgotten }| {
                    if let Err(error) = forgotten {
                        tracing::warn!(%error, "copies of files that nobody can come back to stay");
                    }
                    reply
                }));
                return flow;
            }
        }
        ControlFlow::Continue(())
    }
}

impl Actor {
    /// Goes back to before something that a user said: first the files, if that is wanted, then the conversation. A crash
    /// in between leaves files that are what they were and a conversation that one can still go back in.
    pub(super) async fn rewind(&mut self, wish: Rewind) -> ControlFlow<()> {
        let mut rewound = Rewound::default();
        let went = self.go_back(&wish, &mut rewound).await;
        let (flow, answer) = match went {
            Ok(flow) => (flow, Ok(rewound)),
            Err(failure) => (ControlFlow::Continue(()), Err(failure)),
        };
        drop(wish.done.send(answer));
        flow
    }

    async fn go_back(&mut self, wish: &Rewind, rewound: &mut Rewound) -> Result<ControlFlow<()>, Failure> {
        const STAYED: ControlFlow<()> = ControlFlow::Continue(());
        if self.session.is_busy() {
            rewound.outcome = RewindOutcome::SessionBusy;
            return Ok(STAYED);
        }
        if wish.with_files && !self.session.durable.facts.tracks_files {
            rewound.outcome = RewindOutcome::FileChangeTrackingDisabled;
            return Ok(STAYED);
        }
        let cut = cut_before(&*self.server.store, &self.session.id, self.head, &wish.event).await?;
        let Some(cut) = cut.filter(|cut| cut.from_seq > 1) else {
            rewound.outcome = RewindOutcome::TruncationFailed;
            rewound.error = Some(format!("Event {} not found in session", wish.event));
            return Ok(STAYED);
        };
        if wish.with_files {
            let trail = Trail::read(&*self.server.store, &self.session.id, self.head).await?;
            let shelf = Shelf::of(self.tools.directory());
            restore(shelf, trail.touched_since(Seq(cut.from_seq)), rewound).await?;
            if rewound.outcome != RewindOutcome::Success {
                return Ok(STAYED);
            }
        }
        let (flow, answer) = self.take_back(cut).await;
        let (outcome, error) = match answer {
            Ok(Removed { reply: Reply::Truncated(removed), forgotten }) => {
                rewound.removed = Some(removed);
                let Err(error) = forgotten else { return Ok(flow) };
                (RewindOutcome::SnapshotPruneFailed, error.to_string())
            }
            Ok(Removed { reply: Reply::Refused(why), .. }) => (RewindOutcome::TruncationFailed, why),
            Ok(_) => (RewindOutcome::TruncationFailed, "the session has ended".into()),
            Err(failure) => (RewindOutcome::TruncationFailed, failure.to_string()),
        };
        (rewound.outcome, rewound.error) = (outcome, Some(error));
        Ok(flow)
    }

    /// Takes a part of the history back, and then removes the copies of files that only this part needs.
    async fn take_back(&mut self, cut: HistoryTruncated) -> (ControlFlow<()>, Result<Removed, Failure>) {
        let useless = match self.copies_only_since(Seq(cut.from_seq)).await {
            Ok(useless) => useless,
            Err(error) => return (ControlFlow::Continue(()), Err(Failure::Store(error))),
        };
        let (told, heard) = oneshot::channel();
        let reply = self.expect_reply(Box::new(move |answer| drop(told.send(answer))));
        let flow = self.step(Input::Truncate { reply, cut }).await;
        let answer = heard.await.unwrap_or_else(|_| Err(Failure::NotFound(self.session.id.clone())));
        let removed = match answer {
            Ok(reply @ Reply::Truncated(_)) => {
                Ok(Removed { reply, forgotten: forget(Shelf::of(self.tools.directory()), useless).await })
            }
            answer => answer.map(|reply| Removed { reply, forgotten: Ok(()) }),
        };
        (flow, removed)
    }

    async fn copies_only_since(&mut self, from: Seq) -> Result<Vec<String>, StoreError> {
        if !self.session.durable.facts.tracks_files {
            return Ok(Vec::new());
        }
        let trail = Trail::read(&*self.server.store, &self.session.id, self.head).await?;
        Ok(trail.copies_only_since(from))
    }
}

/// What came of taking something back.
struct Removed {
    reply: Reply,
    /// Whether the copies that nobody can come back to are gone.
    forgotten: io::Result<()>,
}

/// Puts files back, and says which.
async fn restore(
    shelf: Shelf,
    touched: BTreeMap<PathBuf, Touched>,
    rewound: &mut Rewound,
) -> Result<(), Failure> {
    let work = move || {
        let plan = Plan::of(&shelf, touched);
        (plan.carry_out(&shelf), plan.skip)
    };
    let done = tokio::task::spawn_blocking(work).await;
    let (restored, skipped) = done.map_err(|error| Failure::Refused(error.to_string()))?;
    rewound.skipped = skipped;
    match restored {
        Ok(restored) => rewound.restored = restored,
        Err(Undone { whole, error }) => {
            let undone =
                if whole { RewindOutcome::FilesRolledBack } else { RewindOutcome::RollbackIncomplete };
            (rewound.outcome, rewound.error) = (undone, Some(error));
        }
    }
    Ok(())
}

/// Removes copies that nobody can come back to.
async fn forget(shelf: Shelf, copies: Vec<String>) -> io::Result<()> {
    let work = move || copies.iter().try_for_each(|digest| shelf.forget(digest));
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other).flatten()
}

async fn cut_before(
    store: &dyn Store,
    session: &SessionId,
    head: Seq,
    event: &str,
) -> Result<Option<HistoryTruncated>, StoreError> {
    let Ok(wanted) = event.parse().map(EventId) else { return Ok(None) };
    let mut search = Search { wanted, seen: 0, cut: None };
    newest_first(store, session, head, |record| search.take(&record)).await?;
    Ok(search.cut)
}

/// A search from the newest event to the oldest.
struct Search {
    wanted: EventId,
    /// How many events that SDK clients see were passed on the way.
    seen: u64,
    cut: Option<HistoryTruncated>,
}

impl Search {
    /// Breaks when all is known.
    fn take(&mut self, record: &Record) -> ControlFlow<()> {
        let public = is_public(&record.kind);
        let Some(cut) = &mut self.cut else {
            self.seen += u64::from(public);
            if public && id_of(record) == Some(self.wanted) {
                self.cut = Some(HistoryTruncated {
                    from_event_id: self.wanted,
                    from_seq: record.seq.0,
                    events_removed: self.seen,
                    last_kept: None,
                    has_prompts: false,
                });
            }
            return ControlFlow::Continue(());
        };
        // What only prepared the event goes with it.
        let prepared = matches!(record.kind.as_str(), "baton.context_added" | "baton.prompt_accepted");
        if prepared && cut.last_kept.is_none() && record.seq.0 + 1 == cut.from_seq {
            cut.from_seq = record.seq.0;
        }
        if public {
            cut.last_kept = cut.last_kept.or_else(|| id_of(record));
        }
        cut.has_prompts = record.kind == "user.message";
        if cut.has_prompts { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
