//! How a part of the door hears what happens in a session, without ever making the session wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use baton_protocol::SessionId;
use baton_store::Seq;
use tokio::sync::{Notify, mpsc};

use crate::session::{CallFailed, Calling, Port, Published};

/// The end that is attached to a session.
pub(super) struct Ear {
    events: mpsc::Sender<(Arc<Published>, Seq)>,
    /// The last durable event that was heard.
    last: AtomicU64,
    shared: Arc<State>,
}

/// The end that listens.
pub(super) struct Hearing {
    events: mpsc::Receiver<(Arc<Published>, Seq)>,
    shared: Arc<State>,
}

/// What was heard.
pub(super) enum Heard {
    /// An event, and the last durable one before it (or itself). A streamed piece whose place has passed by the time it
    /// is read, because the reader caught up from the store meanwhile, is of no use any more.
    Event(Arc<Published>, Seq),
    /// Something had to be left out: the store has it, if it was durable.
    Missed,
    /// The session has left the memory; nothing will be heard any more.
    Silence,
}

#[derive(Default)]
struct State {
    missed: AtomicBool,
    wake: Notify,
}

/// An ear that keeps up to so many events for whoever listens. `head` is where the session stands.
pub(super) fn ear(room: usize, head: Seq) -> (Arc<Ear>, Hearing) {
    let (sender, events) = mpsc::channel(room);
    let shared = Arc::<State>::default();
    let ear = Ear { events: sender, last: AtomicU64::new(head.0), shared: shared.clone() };
    (Arc::new(ear), Hearing { events, shared })
}

impl Hearing {
    pub(super) async fn next(&mut self) -> Heard {
        loop {
            if self.shared.missed.swap(false, Ordering::AcqRel) {
                return Heard::Missed;
            }
            tokio::select! {
                event = self.events.recv() => return match event {
                    Some((event, place)) => Heard::Event(event, place),
                    None => Heard::Silence,
                },
                () = self.shared.wake.notified() => {}
            }
        }
    }
}

impl Port for Ear {
    fn deliver(&self, _: &SessionId, event: &Arc<Published>) {
        // A session speaks with one voice at a time, so this counts along without a race.
        let place = event.seq.unwrap_or(Seq(self.last.load(Ordering::Relaxed)));
        self.last.store(place.0, Ordering::Relaxed);
        if self.events.try_send((event.clone(), place)).is_err() {
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
