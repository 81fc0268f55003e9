//! Compaction of the conversation. It is started and ended by the actor, so that the summary covers exactly the history
//! before the event that records the start. It is no turn: it runs beside other work, and one that fails, or that a crash
//! interrupts, changes nothing.

use std::ops::ControlFlow;

use baton_ask::StopCompaction;
use baton_core::Input;
use baton_handle::{Compact, Failure};
use baton_protocol::event::{Body, CompactionComplete, CompactionTrigger};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{Actor, spans};
use crate::session::Respond;
use crate::work;

/// A running compaction.
pub(super) struct Compaction {
    pub(super) token: CancellationToken,
    is_manual: bool,
    done: oneshot::Sender<Result<CompactionComplete, Failure>>,
}

impl Actor {
    /// Starts a compaction. Refused while one runs; one that a client starts is also refused in the middle of a turn.
    pub(super) async fn compact(&mut self, request: Compact) -> ControlFlow<()> {
        let is_manual = request.start.trigger != Some(CompactionTrigger::Threshold);
        let permitted = match &self.compaction {
            Some(_) => Err("the conversation is being summarised already".into()),
            None if is_manual => self.session.check_compaction(),
            None => Ok(()),
        };
        if let Err(refusal) = permitted {
            drop(request.done.send(Err(refusal.into())));
            return ControlFlow::Continue(());
        }
        if let Err(error) = self.conversation.load(&self.runtime, &self.session.id, self.head).await {
            drop(request.done.send(Err(Failure::Store(error))));
            return ControlFlow::Continue(());
        }
        self.note(request.start.clone()).await?;
        let token = CancellationToken::new();
        self.compaction = Some(Compaction { token: token.clone(), is_manual, done: request.done });
        let scope = self.work_scope(token);
        spans::compaction().in_scope(|| work::compact(scope, request.start, request.instructions));
        ControlFlow::Continue(())
    }

    /// Records the result of the compaction, and replies with it.
    pub(super) async fn compacted(&mut self, complete: CompactionComplete) -> ControlFlow<()> {
        let Some(compaction) = self.compaction.take() else { return ControlFlow::Continue(()) };
        self.note(complete.clone()).await?;
        drop(compaction.done.send(Ok(complete)));
        ControlFlow::Continue(())
    }

    /// Cancels the running compaction. Replies whether a matching one was running.
    pub(super) async fn stop_compacting(
        &mut self,
        manual: bool,
        respond: Respond<StopCompaction>,
    ) -> ControlFlow<()> {
        let token = self.compaction.as_ref().filter(|c| c.is_manual == manual).map(|c| c.token.clone());
        let Some(token) = token else {
            respond.with(Ok(false));
            return ControlFlow::Continue(());
        };
        token.cancel();
        let error = Some("cancelled by a client".to_owned());
        let ended = self.compacted(CompactionComplete { error, ..CompactionComplete::default() }).await;
        respond.with(Ok(true));
        ended
    }

    async fn note(&mut self, body: impl Into<Body>) -> ControlFlow<()> {
        self.step(Input::Note { agent: None, body: Box::new(body.into()) }).await
    }
}
