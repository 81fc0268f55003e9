//! Request bodies: their time limit, and draining the part that no handler reads.
//!
//! A client that still writes its body when the connection is closed gets a broken pipe, and never sees the response. So the
//! part of a body that a handler left unread is read before the response is sent ([`UnreadBody::drain`]), within limits;
//! beyond them, the connection is closed so that the response still arrives ([`super::linger`]).

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, header};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::Sleep;

use baton_wire::SlowBody;

/// A body with a time limit: a client that announces more than it sends would hold its connection permit forever.
pub(super) struct TimedBody(Arc<Mutex<BodyState>>);

struct BodyState {
    body: Incoming,
    time_limit: Duration,
    /// Set on the first read: a body that is never read needs no timer.
    deadline: Option<Pin<Box<Sleep>>>,
    /// Whether the body has been read from. This makes hyper send `100 Continue` to a client that waits for it.
    started: bool,
    received: u64,
}

/// Error of an incomplete body.
#[derive(Debug, thiserror::Error)]
pub(super) enum BodyError {
    /// The body did not arrive in time.
    #[error("{0}")]
    Slow(#[source] SlowBody),
    #[error(transparent)]
    Broken(#[from] hyper::Error),
}

impl TimedBody {
    /// Returns the body for the handler, and a handle to the part that the handler leaves unread.
    pub(super) fn new(body: Incoming, headers: &HeaderMap, time_limit: Duration) -> (Self, UnreadBody) {
        let awaits_continue = headers
            .get(header::EXPECT)
            .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"));
        let state = BodyState { body, time_limit, deadline: None, started: false, received: 0 };
        let shared = Arc::new(Mutex::new(state));
        (Self(shared.clone()), UnreadBody { body: shared, awaits_continue })
    }
}

/// The part of a body that a handler did not read.
pub(super) struct UnreadBody {
    body: Arc<Mutex<BodyState>>,
    awaits_continue: bool,
}

impl UnreadBody {
    /// Reads and discards the rest of the body, if the body has at most `max_bytes` and the rest arrives within `time_limit`.
    /// Returns whether the whole body has been read: if not, the connection cannot carry a further request.
    pub(super) async fn drain(self, max_bytes: u64, time_limit: Duration) -> bool {
        {
            let body = lock(&self.body);
            if body.body.is_end_stream() {
                return true;
            }
            // The client still waits for `100 Continue` and has sent nothing; requesting the body now would be a waste.
            let not_sent = self.awaits_continue && !body.started;
            if not_sent || body.body.size_hint().lower().saturating_add(body.received) > max_bytes {
                return false;
            }
        }
        tokio::time::timeout(time_limit, self.read_rest(max_bytes)).await.unwrap_or(false)
    }

    async fn read_rest(&self, max_bytes: u64) -> bool {
        loop {
            match std::future::poll_fn(|context| lock(&self.body).poll(context)).await {
                None => return true,
                Some(Ok(_)) if lock(&self.body).received <= max_bytes => {}
                Some(_) => return false,
            }
        }
    }
}

fn lock(body: &Mutex<BodyState>) -> MutexGuard<'_, BodyState> {
    body.lock().unwrap_or_else(PoisonError::into_inner)
}

impl BodyState {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.started = true;
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            let data = frame.as_ref().and_then(|frame| frame.as_ref().ok()).and_then(Frame::data_ref);
            self.received += data.map_or(0, Bytes::len) as u64;
            return Poll::Ready(frame.map(|frame| frame.map_err(BodyError::Broken)));
        }
        let time_limit = self.time_limit;
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(time_limit)));
        deadline.as_mut().poll(context).map(|()| Some(Err(BodyError::Slow(SlowBody(time_limit)))))
    }
}

impl Body for TimedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        lock(&self.0).poll(context)
    }

    fn is_end_stream(&self) -> bool {
        lock(&self.0).body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        lock(&self.0).body.size_hint()
    }
}
