//! How a part of the door hears what happens in a session, without ever making the session wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use baton_protocol::SessionId;
use tokio::sync::mpsc;

use crate::session::{Batch, CallFailed, Calling, Port};

/// The end that is attached to a session.
pub(super) struct Ear {
    events: mpsc::Sender<Arc<Batch>>,
    missed: Arc<AtomicBool>,
}

/// The end that listens.
pub(super) struct Hearing {
    events: mpsc::Receiver<Arc<Batch>>,
    /// Whether something had to be left out since the listener last looked.
    missed: Arc<AtomicBool>,
}

/// What was heard.
pub(super) enum Heard {
    /// Events of one moment.
    Events(Arc<Batch>),
    /// Something had to be left out: the store has it, if it was durable.
    Missed,
    /// The session has left the memory; nothing will be heard any more.
    Silence,
}

/// An ear that keeps so many moments for whoever listens.
pub(super) fn ear(room: usize) -> (Arc<Ear>, Hearing) {
    let (sender, events) = mpsc::channel(room);
    let missed = Arc::<AtomicBool>::default();
    let ear = Ear { events: sender, missed: missed.clone() };
    (Arc::new(ear), Hearing { events, missed })
}

impl Hearing {
    pub(super) async fn next(&mut self) -> Heard {
        if self.missed.swap(false, Ordering::AcqRel) {
            return Heard::Missed;
        }
        self.events.recv().await.map_or(Heard::Silence, Heard::Events)
    }
}

impl Port for Ear {
    fn deliver(&self, _: &SessionId, events: &Arc<Batch>) {
        if self.events.try_send(events.clone()).is_err() {
            self.missed.store(true, Ordering::Release);
            // Whoever listens has something to take, and will see the note then; or has taken all of it meanwhile, before
            // the note was there, and is woken by this.
            drop(self.events.try_send(events.clone()));
        }
    }

    fn call(&self, _: &'static str, _: serde_json::Value) -> Calling {
        Box::pin(async { Err(CallFailed::Gone) })
    }
}

/// The port of somebody who takes part in a session and hears of it in another way.
pub(super) struct Deaf;

impl Port for Deaf {
    fn deliver(&self, _: &SessionId, _: &Arc<Batch>) {}

    fn call(&self, _: &'static str, _: serde_json::Value) -> Calling {
        Box::pin(async { Err(CallFailed::Gone) })
    }
}
