//! Bounded subscriptions to a session's events: a slow receiver misses events, and never delays the session.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use baton_protocol::SessionId;
use baton_providers::{CallFailed, Calling};
use tokio::sync::mpsc;

use crate::{Batch, Port};

/// Sending end of a subscription, attached to a session.
pub struct SubscriptionPort {
    events: mpsc::Sender<Arc<Batch>>,
    missed: Arc<AtomicBool>,
}

/// Receiving end of a subscription.
pub struct Subscription {
    events: mpsc::Receiver<Arc<Batch>>,
    /// Whether events were dropped since the last call of [`Self::next`].
    missed: Arc<AtomicBool>,
}

/// An item of a subscription.
pub enum Received {
    /// Events that are published together.
    Events(Arc<Batch>),
    /// Events were dropped, because the receiver was too slow. The store has those that are durable.
    Missed,
    /// The session has been unloaded; no more events follow.
    Closed,
}

/// Creates a subscription with room for `capacity` batches.
#[must_use]
pub fn subscribe(capacity: usize) -> (Arc<SubscriptionPort>, Subscription) {
    let (sender, events) = mpsc::channel(capacity);
    let missed = Arc::<AtomicBool>::default();
    let port = SubscriptionPort { events: sender, missed: missed.clone() };
    (Arc::new(port), Subscription { events, missed })
}

impl Subscription {
    /// Waits for the next events.
    pub async fn next(&mut self) -> Received {
        if self.missed.swap(false, Ordering::AcqRel) {
            return Received::Missed;
        }
        self.events.recv().await.map_or(Received::Closed, Received::Events)
    }
}

impl Port for SubscriptionPort {
    fn deliver(&self, _: &SessionId, events: &Arc<Batch>) {
        if self.events.try_send(events.clone()).is_err() {
            self.missed.store(true, Ordering::Release);
            // If the channel is still full, the receiver sees the flag with its next call. If it was emptied before the
            // flag was set, this batch wakes the receiver.
            drop(self.events.try_send(events.clone()));
        }
    }

    fn call(&self, _: &'static str, _: serde_json::Value) -> Calling {
        Box::pin(async { Err(CallFailed::Gone) })
    }
}

/// Port of a client that is attached, and receives its events in another way.
pub struct NoEvents;

impl Port for NoEvents {
    fn deliver(&self, _: &SessionId, _: &Arc<Batch>) {}

    fn call(&self, _: &'static str, _: serde_json::Value) -> Calling {
        Box::pin(async { Err(CallFailed::Gone) })
    }
}
