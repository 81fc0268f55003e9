//! How a part of the door hears what happens in a session, without ever making the session wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use baton_protocol::SessionId;
use tokio::sync::{Notify, mpsc};

use crate::session::{CallFailed, Calling, Port, Published};

/// The end that is attached to a session.
pub(super) struct Ear {
    events: mpsc::Sender<Arc<Published>>,
    shared: Arc<State>,
}

/// The end that listens.
pub(super) struct Hearing {
    events: mpsc::Receiver<Arc<Published>>,
    shared: Arc<State>,
}

/// What was heard.
pub(super) enum Heard {
    Event(Arc<Published>),
    /// Something had to be left out: the store has it, if it was durable.
    Missed,
}

#[derive(Default)]
struct State {
    missed: AtomicBool,
    wake: Notify,
}

/// An ear that keeps up to so many events for whoever listens.
pub(super) fn ear(room: usize) -> (Arc<Ear>, Hearing) {
    let (sender, events) = mpsc::channel(room);
    let shared = Arc::<State>::default();
    (Arc::new(Ear { events: sender, shared: shared.clone() }), Hearing { events, shared })
}

impl Hearing {
    pub(super) async fn next(&mut self) -> Heard {
        loop {
            if self.shared.missed.swap(false, Ordering::AcqRel) {
                return Heard::Missed;
            }
            tokio::select! {
                event = self.events.recv() => match event {
                    Some(event) => return Heard::Event(event),
                    // Nobody can speak into this ear any more.
                    None => std::future::pending().await,
                },
                () = self.shared.wake.notified() => {}
            }
        }
    }
}

impl Port for Ear {
    fn deliver(&self, _: &SessionId, event: &Arc<Published>) {
        if self.events.try_send(event.clone()).is_err() {
            self.shared.missed.store(true, Ordering::Release);
            self.shared.wake.notify_one();
        }
    }

    fn call(&self, _: &'static str, _: serde_json::Value) -> Calling {
        Box::pin(async { Err(CallFailed::Gone) })
    }
}

/// The port of somebody who takes part in a session and hears of it in another way.
pub(super) struct Deaf;

impl Port for Deaf {
    fn deliver(&self, _: &SessionId, _: &Arc<Published>) {}

    fn call(&self, _: &'static str, _: serde_json::Value) -> Calling {
        Box::pin(async { Err(CallFailed::Gone) })
    }
}
