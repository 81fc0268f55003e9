//! Answers over a WebSocket: one message is sent, and the events of the answer arrive as messages.

use std::time::Duration;

use baton_protocol::sse;

use super::{Assemble, LONGEST_ANSWER};
use crate::endpoint::Endpoint;
use crate::http::{HttpRequest, Patience, Socket, Transport, TransportError};
use crate::{Delta, ModelError, Sink, failure};

/// Opens a socket and sends a message. Returns `None` if the provider does not support WebSockets.
pub(super) async fn open(
    transport: &dyn Transport,
    request: HttpRequest,
    message: String,
    patience: Patience,
) -> Result<Option<Box<dyn Socket>>, TransportError> {
    let Some(mut socket) = within(patience.head, transport.open(request)).await? else { return Ok(None) };
    within(patience.stall, socket.send(message)).await?;
    Ok(Some(socket))
}

/// Reads messages until the answer is complete.
pub(super) async fn read(
    endpoint: &Endpoint,
    socket: &mut dyn Socket,
    assembler: &mut dyn Assemble,
    sink: Sink<'_>,
) -> Result<(), ModelError> {
    let failed = |error| failure::of_transport(endpoint, &error);
    let mut bytes = 0;
    // The first message may take as long as the head of an HTTP response.
    let mut patience = endpoint.patience.head;
    while let Some(data) = within(patience, socket.next()).await.map_err(failed)? {
        patience = endpoint.patience.stall;
        bytes += data.len() as u64;
        if bytes > LONGEST_ANSWER as u64 {
            return Err(failed(TransportError::TooLong(LONGEST_ANSWER)));
        }
        assembler.take_event(&sse::SseEvent { id: None, name: String::new(), data }, sink)?;
        sink(Delta::Progress { bytes });
        if assembler.has_end_mark() {
            break;
        }
    }
    Ok(())
}

async fn within<T>(
    limit: Duration,
    future: impl Future<Output = Result<T, TransportError>>,
) -> Result<T, TransportError> {
    tokio::time::timeout(limit, future).await.unwrap_or(Err(TransportError::Stalled(limit)))
}
