//! Request bodies: how long one may take, and what becomes of one that nobody reads.
//!
//! A client that is still writing its body when it is answered and the connection closed gets a broken pipe, and never
//! sees the answer. So what a handler left unread is read to its end before the answer is sent ([`Unread::drain`]), as
//! long as it is within the limits; beyond them the connection is closed in a way that still lets the answer through
//! ([`super::linger`]).

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, header};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::Sleep;

/// A body whose sender is given up on when it dawdles: one that announces more than it sends would hold its place for
/// ever.
pub(super) struct PunctualBody(Arc<Mutex<Arriving>>);

/// A body on its way.
struct Arriving {
    body: Incoming,
    patience: Duration,
    /// Set when the first byte is waited for: whoever never looks at the body needs no clock.
    deadline: Option<Pin<Box<Sleep>>>,
    /// Whether anybody has looked. A client that waits to be told to go on (`Expect: 100-continue`) is told then.
    begun: bool,
    received: u64,
}

/// The body did not arrive in time.
#[derive(Debug, thiserror::Error)]
pub(super) enum BodyError {
    #[error("the body of the request did not arrive within {0:?}")]
    TooSlow(Duration),
    #[error(transparent)]
    Broken(#[from] hyper::Error),
}

impl PunctualBody {
    /// The body for the handler, and a hold on what the handler leaves of it.
    pub(super) fn new(body: Incoming, headers: &HeaderMap, patience: Duration) -> (Self, Unread) {
        let awaits_continue = headers
            .get(header::EXPECT)
            .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"));
        let arriving = Arriving { body, patience, deadline: None, begun: false, received: 0 };
        let shared = Arc::new(Mutex::new(arriving));
        (Self(shared.clone()), Unread { body: shared, awaits_continue })
    }
}

/// The part of a body that a handler did not read.
pub(super) struct Unread {
    body: Arc<Mutex<Arriving>>,
    awaits_continue: bool,
}

impl Unread {
    /// Reads the rest of the body, if there are at most `most` bytes in all and they come within `patience`. Returns
    /// whether the whole body has been read: if not, the connection cannot be used for another request.
    pub(super) async fn drain(self, most: u64, patience: Duration) -> bool {
        {
            let body = lock(&self.body);
            if body.body.is_end_stream() {
                return true;
            }
            // Nobody told the client to send it, so it is not under way; asking for it now would be a waste.
            let held_back = self.awaits_continue && !body.begun;
            if held_back || body.body.size_hint().lower().saturating_add(body.received) > most {
                return false;
            }
        }
        tokio::time::timeout(patience, self.read_rest(most)).await.unwrap_or(false)
    }

    async fn read_rest(&self, most: u64) -> bool {
        loop {
            match std::future::poll_fn(|context| lock(&self.body).poll(context)).await {
                None => return true,
                Some(Ok(_)) if lock(&self.body).received <= most => {}
                Some(_) => return false,
            }
        }
    }
}

fn lock<B>(body: &Mutex<B>) -> MutexGuard<'_, B> {
    body.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Arriving {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.begun = true;
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            let data = frame.as_ref().and_then(|frame| frame.as_ref().ok()).and_then(Frame::data_ref);
            self.received += data.map_or(0, Bytes::len) as u64;
            return Poll::Ready(frame.map(|frame| frame.map_err(BodyError::Broken)));
        }
        let patience = self.patience;
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        deadline.as_mut().poll(context).map(|()| Some(Err(BodyError::TooSlow(patience))))
    }
}

/// The reason, if an error comes from a body that did not arrive in time.
pub(super) fn too_slow<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a BodyError> {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let mut found = causes.filter_map(|cause| cause.downcast_ref::<BodyError>());
    found.find(|error| matches!(error, BodyError::TooSlow(_)))
}

impl Body for PunctualBody {
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
