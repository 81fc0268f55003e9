//! Memory of requests and responses. A body that arrives and a response that its client does not read stay in memory, and
//! one person can open many connections. So there is a limit for each person besides the owner; further requests wait, and
//! then fail.

use std::convert::Infallible;
use std::time::Duration;

use axum::BoxError;
use axum::body::Body;
use baton_protocol::Author;
use bytes::Bytes;
use futures_util::stream::{self, Stream, StreamExt as _};
use http::{HeaderValue, Response, StatusCode, header};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use crate::error::ApiError;
use baton_service::Turns;

/// Limit for a person, in MiB.
const EACH: u32 = 64;

/// How long a request waits for others of the same person.
const PATIENCE: Duration = Duration::from_secs(10);

/// Size of the parts in which a response is sent, in bytes. Smaller bodies do not count.
const PART: usize = 64 << 10;

/// Memory that people use.
pub(crate) struct PersonalMemory(Turns);

/// Memory for one body. The owner's is not counted.
pub(crate) struct Room(Option<OwnedSemaphorePermit>);

impl Default for PersonalMemory {
    fn default() -> Self {
        Self(Turns::new(EACH))
    }
}

impl PersonalMemory {
    /// Waits until a person, or the owner (`None`), may use so many bytes. To be called before they are.
    ///
    /// # Errors
    /// When other requests of the person use too many for too long.
    pub(crate) async fn room(&self, person: Option<Author>, bytes: u64) -> Result<Room, ApiError> {
        if person.is_none() || bytes <= PART as u64 {
            return Ok(Room(None));
        }
        let mib = u32::try_from(bytes.div_ceil(1 << 20)).unwrap_or(u32::MAX);
        let room = timeout(PATIENCE, self.0.turn(person, mib)).await.ok().flatten();
        room.map(|room| Room(Some(room))).ok_or_else(|| {
            let message = format!(
                "{EACH} MiB of your other requests have not been sent or read to their end; complete or close them first"
            );
            ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "too_much_unread", message)
        })
    }
}

impl Room {
    /// Creates a response of JSON, which keeps as much of the room as it needs until it has been sent.
    pub(crate) fn json(self, body: Vec<u8>) -> Response<Body> {
        let length = body.len();
        let body =
            if length > PART { self.at_most(length).body(parts(body.into())) } else { Body::from(body) };
        let mut response = Response::new(body);
        let json = HeaderValue::from_static("application/json");
        let headers = [(header::CONTENT_TYPE, json), (header::CONTENT_LENGTH, HeaderValue::from(length))];
        response.headers_mut().extend(headers);
        response
    }

    /// Creates a body that keeps the room until it has been sent.
    pub(crate) fn body<E>(self, parts: impl Stream<Item = Result<Bytes, E>> + Send + Unpin + 'static) -> Body
    where
        E: Into<BoxError> + 'static,
    {
        Body::from_stream(stream::unfold((parts, self), |(mut parts, room)| async move {
            Some((parts.next().await?, (parts, room)))
        }))
    }

    /// Gives back what so many bytes do not need.
    fn at_most(self, bytes: usize) -> Self {
        let needed =
            |mut room: OwnedSemaphorePermit| room.split(room.num_permits().min(bytes.div_ceil(1 << 20)));
        Self(self.0.and_then(needed))
    }
}

/// Takes a body apart. The connection asks for the next part when it has sent the one before.
fn parts(body: Bytes) -> impl Stream<Item = Result<Bytes, Infallible>> + Send + Unpin {
    let starts = (0..body.len()).step_by(PART);
    stream::iter(starts.map(move |start| Ok(body.slice(start..body.len().min(start + PART)))))
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use futures_util::FutureExt as _;

    use super::*;

    const MIB: usize = 1 << 20;

    #[tokio::test(start_paused = true)]
    async fn person_who_does_not_read_gets_no_more() {
        let memory = PersonalMemory::default();
        let vera = |mib: usize| memory.room(Some(Author("vera".into())), (mib * MIB) as u64);
        let mut unread = Vec::new();
        for _ in 0..EACH / 4 {
            unread.push(vera(4).await.unwrap().json(vec![b'x'; 4 * MIB]));
        }
        let ada = memory.room(Some(Author("ada".into())), 4 << 20);
        assert!(ada.now_or_never().unwrap().is_ok(), "others do not wait");
        assert!(memory.room(None, 4 << 20).now_or_never().unwrap().is_ok());
        assert!(vera(1).await.is_err());
        let read = to_bytes(unread.pop().unwrap().into_body(), usize::MAX).await.unwrap();
        assert_eq!(read.len(), 4 * MIB);
        for _ in 0..EACH {
            // They keep no more than they need: small ones nothing.
            unread.push(vera(4).await.unwrap().json(vec![b'x'; PART]));
        }
        unread.push(vera(4).await.unwrap().json(vec![b'x'; 3 * MIB]));
        assert!(vera(2).await.is_err() && vera(1).await.is_ok());
        drop(unread);
        assert!(vera(10 * EACH as usize).now_or_never().unwrap().is_ok(), "nothing needs more than there is");
    }
}
