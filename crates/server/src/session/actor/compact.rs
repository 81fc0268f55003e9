//! Summaries of the conversation: begun and ended here, so that what is summarised is exactly what the history has before
//! the event that says so. A summary is no turn: it is written beside whatever else goes on, and one that fails, or that a
//! crash ends, leaves everything as it was.

use std::ops::ControlFlow;

use baton_core::Input;
use baton_protocol::event::{Body, CompactionComplete, CompactionTrigger};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::Actor;
use crate::session::mail::{Compact, Failure};
use crate::work;

/// A summary in the making.
pub(super) struct Compaction {
    pub(super) token: CancellationToken,
    is_manual: bool,
    done: oneshot::Sender<Result<CompactionComplete, Failure>>,
}

impl Actor {
    /// Begins a summary, unless one is being written, or somebody wants one in the middle of a turn.
    pub(super) async fn compact(&mut self, wish: Compact) -> ControlFlow<()> {
        let is_manual = wish.start.trigger != Some(CompactionTrigger::Threshold);
        let refused = match &self.compaction {
            Some(_) => Some("the conversation is being summarised already"),
            None if is_manual && self.session.is_busy() && !self.session.is_running_command() => {
                Some("the session is busy: cancel what it does first")
            }
            None => None,
        };
        if let Some(why) = refused {
            drop(wish.done.send(Err(Failure::Refused(why.into()))));
            return ControlFlow::Continue(());
        }
        if let Err(error) = self.conversation.load(&self.server, &self.session.id, self.head).await {
            drop(wish.done.send(Err(Failure::Store(error))));
            return ControlFlow::Continue(());
        }
        self.note(wish.start.clone()).await?;
        let token = CancellationToken::new();
        self.compaction = Some(Compaction { token: token.clone(), is_manual, done: wish.done });
        work::compact(self.work_bench(token), wish.start, wish.instructions);
        ControlFlow::Continue(())
    }

    /// The summary is there, or is not: the history says which, and whoever waits is told.
    pub(super) async fn compacted(&mut self, complete: CompactionComplete) -> ControlFlow<()> {
        let Some(compaction) = self.compaction.take() else { return ControlFlow::Continue(()) };
        self.note(complete.clone()).await?;
        drop(compaction.done.send(Ok(complete)));
        ControlFlow::Continue(())
    }

    /// Ends a summary that nobody wants any more.
    pub(super) async fn stop_compacting(
        &mut self,
        manual: bool,
        told: oneshot::Sender<bool>,
    ) -> ControlFlow<()> {
        let token = self.compaction.as_ref().filter(|c| c.is_manual == manual).map(|c| c.token.clone());
        let Some(token) = token else {
            let _ = told.send(false);
            return ControlFlow::Continue(());
        };
        token.cancel();
        let error = Some("cancelled by a client".to_owned());
        let ended = self.compacted(CompactionComplete { error, ..CompactionComplete::default() }).await;
        let _ = told.send(true);
        ended
    }

    async fn note(&mut self, body: impl Into<Body>) -> ControlFlow<()> {
        self.step(Input::Note { agent: None, body: Box::new(body.into()) }).await
    }
}
