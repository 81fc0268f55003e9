//! A request's body that must have arrived by a certain time.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::Sleep;

/// A body whose sender is given up on when it dawdles: one that announces more than it sends would hold its place for
/// ever.
pub(super) struct PunctualBody {
    body: Incoming,
    patience: Duration,
    /// Set when the first byte is waited for: whoever never looks at the body needs no clock.
    deadline: Option<Pin<Box<Sleep>>>,
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
    pub(super) fn new(body: Incoming, patience: Duration) -> Self {
        Self { body, patience, deadline: None }
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
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            return Poll::Ready(frame.map(|frame| frame.map_err(BodyError::Broken)));
        }
        let patience = self.patience;
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        deadline.as_mut().poll(context).map(|()| Some(Err(BodyError::TooSlow(patience))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
