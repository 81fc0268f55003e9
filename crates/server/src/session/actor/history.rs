//! Going back to before an event: where that is, and what of it clients had seen.

use std::collections::BTreeMap;
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
                let reply = self.expect_reply(respond);
                return self.step(Input::Truncate { reply, cut }).await;
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
        let mut useless = Vec::new();
        let shelf = Shelf::of(self.tools.directory());
        if wish.with_files {
            let trail = Trail::read(&*self.server.store, &self.session.id, self.head).await?;
            let from = Seq(cut.from_seq);
            useless = trail.copies_only_since(from);
            restore(&shelf, trail.touched_since(from), rewound).await?;
            if rewound.outcome != RewindOutcome::Success {
                return Ok(STAYED);
            }
        }
        let flow = self.take_back(cut, rewound).await;
        if rewound.outcome == RewindOutcome::Success {
            forget(shelf, useless, rewound).await;
        }
        Ok(flow)
    }

    async fn take_back(&mut self, cut: HistoryTruncated, rewound: &mut Rewound) -> ControlFlow<()> {
        let (told, heard) = oneshot::channel();
        let reply = self.expect_reply(Box::new(move |answer| drop(told.send(answer))));
        let flow = self.step(Input::Truncate { reply, cut }).await;
        match heard.await {
            Ok(Ok(Reply::Truncated(removed))) => rewound.removed = Some(removed),
            answer => {
                rewound.outcome = RewindOutcome::TruncationFailed;
                rewound.error = Some(match answer {
                    Ok(Ok(Reply::Refused(why))) => why,
                    Ok(Err(failure)) => failure.to_string(),
                    _ => "the session has ended".into(),
                });
            }
        }
        flow
    }
}

/// Puts files back, and says which.
async fn restore(
    shelf: &Shelf,
    touched: BTreeMap<PathBuf, Touched>,
    rewound: &mut Rewound,
) -> Result<(), Failure> {
    let shelf = shelf.clone();
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
async fn forget(shelf: Shelf, copies: Vec<String>, rewound: &mut Rewound) {
    let work = move || copies.iter().try_for_each(|digest| shelf.forget(digest));
    let done = tokio::task::spawn_blocking(work).await.map_err(std::io::Error::other).flatten();
    if let Err(error) = done {
        rewound.outcome = RewindOutcome::SnapshotPruneFailed;
        rewound.error = Some(error.to_string());
    }
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
