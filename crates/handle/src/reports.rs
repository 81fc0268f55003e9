//! The queue of an engine's reports to its session.

use std::sync::Arc;

use baton_core::{EngineReport, WorkId};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use super::message::{ActorMessage, FromWork};

/// Reports that may wait for the session at the same time.
const MAX_WAITING: usize = 32;

/// Sends reports to a session. One that cannot keep up slows the program down, instead of keeping all that it prints.
pub struct ReportQueue {
    work: WorkId,
    mailbox: mpsc::UnboundedSender<ActorMessage>,
    slots: Arc<Semaphore>,
    cancel: CancellationToken,
}

impl ReportQueue {
    /// Creates the queue of a turn, which `cancel` cancels.
    #[must_use]
    pub fn new(
        work: WorkId,
        mailbox: mpsc::UnboundedSender<ActorMessage>,
        cancel: CancellationToken,
    ) -> Self {
        Self { work, mailbox, slots: Arc::new(Semaphore::new(MAX_WAITING)), cancel }
    }

    /// Sends a report as soon as there is room for it.
    pub async fn send(&self, report: EngineReport) {
        let slot = tokio::select! {
            biased;
            Ok(slot) = self.slots.clone().acquire_owned() => slot,
            // The session ignores reports of work that it has cancelled, and may not take them any more.
            () = self.cancel.cancelled() => return,
        };
        let report = FromWork::Report(self.work, Box::new(report), slot);
        drop(self.mailbox.send(ActorMessage::Work(report)));
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn report_waits_until_the_session_has_taken_earlier_ones() {
        let (mailbox, mut inbox) = mpsc::unbounded_channel();
        let cancel = CancellationToken::new();
        let queue = ReportQueue::new(WorkId(1), mailbox, cancel.clone());
        let is_done = || {
            let sending = queue.send(EngineReport::Note { warning: false, text: "x".into() });
            pin!(sending).poll(&mut Context::from_waker(Waker::noop())).is_ready()
        };
        assert!((0..MAX_WAITING).all(|_| is_done()));
        assert!(!is_done(), "one too many");
        drop(inbox.try_recv().unwrap());
        assert!(is_done());
        cancel.cancel();
        assert!(is_done(), "nobody waits for a session that has cancelled the turn");
        assert_eq!(std::iter::from_fn(|| inbox.try_recv().ok()).count(), MAX_WAITING);
    }
}
