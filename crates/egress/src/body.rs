//! Bodies of the proxy's responses.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio_util::task::AbortOnDropHandle;

/// Body of a response to a sandboxed program.
pub(crate) enum ResponseBody {
    /// Text of the proxy itself; none once it was sent.
    Text(Option<Bytes>),
    /// Body of a server's response.
    Forwarded {
        body: Incoming,
        /// The task that drives the connection to the server, which ends with the body.
        _connection: AbortOnDropHandle<()>,
    },
}

impl ResponseBody {
    pub(crate) fn empty() -> Self {
        Self::Text(None)
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match self.get_mut() {
            Self::Text(text) => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
            Self::Forwarded { body, .. } => Pin::new(body).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Text(text) => text.is_none(),
            Self::Forwarded { body, .. } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Text(text) => SizeHint::with_exact(text.as_ref().map_or(0, Bytes::len) as u64),
            Self::Forwarded { body, .. } => body.size_hint(),
        }
    }
}
