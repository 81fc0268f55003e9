//! Frames of JSON-RPC, and the messages in them.

use baton_protocol::frame::{Decoder, FrameError, encode};
use baton_protocol::rpc::{CallId, Incoming, Outgoing, RpcError};
use bytes::{Bytes, BytesMut};

/// Limit on bodies: small, so that short inputs exceed it.
const MAX_BODY: usize = 1024;

/// Decodes a stream of frames and the messages in them. The chunks in which a stream arrives change nothing, no body exceeds the
/// limit, and a message that is sent on is the same message.
pub fn frames(data: &[u8]) {
    let whole = decode(&[data]);
    for cut in [1, data.len() / 2, data.len().saturating_sub(1)] {
        let (first, second) = data.split_at(cut.min(data.len()));
        assert_eq!(decode(&[first, second]), whole, "cut at {cut}");
    }
    // Each byte of a header costs a look at those before it.
    if data.len() <= 256 {
        assert_eq!(decode(&data.chunks(1).collect::<Vec<_>>()), whole, "byte by byte");
    }
    for body in &whole.0 {
        assert!(body.len() <= MAX_BODY, "a body of {} bytes", body.len());
        assert_eq!(decode(&[&encode(body)]), (vec![body.clone()], None), "a frame is read as it was written");
        message(body);
    }
}

/// Decodes a stream that arrives in chunks: its bodies, and the error that ends it.
fn decode(chunks: &[&[u8]]) -> (Vec<Bytes>, Option<FrameError>) {
    let (mut decoder, mut buffer, mut bodies) = (Decoder::new(MAX_BODY), BytesMut::new(), Vec::new());
    for chunk in chunks {
        buffer.extend_from_slice(chunk);
        loop {
            match decoder.decode(&mut buffer) {
                Ok(Some(body)) => bodies.push(body),
                Ok(None) => break,
                Err(error) => return (bodies, Some(error)),
            }
        }
    }
    (bodies, None)
}

fn message(body: &[u8]) {
    match Incoming::parse(body) {
        Ok(message) => {
            assert_eq!(baton_json::check(body), Ok(()), "a message is within the limits of JSON");
            assert_eq!(sent(&message), Ok(message), "a message that is sent on stays the same");
        }
        // The refusal can be sent, and reaches the call that it is for.
        Err(refused) => {
            let id = refused.id.unwrap_or_else(CallId::null);
            let refusal = Incoming::Response { id: id.clone(), outcome: Err(refused.error) };
            if id != CallId::null() {
                assert_eq!(sent(&refusal), Ok(refusal));
            }
        }
    }
}

/// Sends a message, and receives it.
fn sent(message: &Incoming) -> Result<Incoming, RpcError> {
    let frame = match message {
        Incoming::Request { id, method, params } => Outgoing::request(id, method, params).to_frame(),
        Incoming::Notification { method, params } => Outgoing::notification(method, params).to_frame(),
        Incoming::Response { id, outcome } => Outgoing::response(id, outcome.as_ref()).to_frame(),
    };
    let mut buffer = BytesMut::from(&*frame.expect("a message can be written"));
    let body = Decoder::new(usize::MAX).decode(&mut buffer).expect("our own frame").expect("a whole frame");
    assert!(buffer.is_empty(), "one frame");
    Incoming::parse(&body).map_err(|refused| refused.error)
}
