//! Events as frames of JSON-RPC notifications. Each is encoded once for all clients.

use baton_protocol::SessionId;
use baton_protocol::event::is_public;
use baton_protocol::rpc::Outgoing;
use baton_runtime::lifecycle::News;
use baton_runtime::session::{Batch, Encoding, Published};
use bytes::Bytes;
use serde_json::json;

/// Encodes an event.
pub(crate) fn event(session: &SessionId, event: &Published) -> Bytes {
    event.encoded(Encoding::Rpc, || encode(session, &event.json))
}

/// Encodes all events of a batch that SDK clients see.
pub(crate) fn batch(session: &SessionId, batch: &Batch) -> Bytes {
    batch.encoded(Encoding::Rpc, |published| is_public(&published.kind).then(|| event(session, published)))
}

/// Encodes the notification that a session was created, changed or deleted.
pub(crate) fn lifecycle(news: &News) -> Bytes {
    let mut params = json!({ "type": news.change, "sessionId": news.session });
    if let Some(metadata) = &news.metadata {
        params["metadata"] = metadata.clone();
    }
    // Encoding a JSON value cannot fail. If it did, an empty frame sends nothing.
    Outgoing::notification("session.lifecycle", params).to_frame().unwrap_or_default()
}

/// Encodes an event from its JSON, which is sent byte for byte as it is stored.
pub(crate) fn encode(session: &SessionId, event: &[u8]) -> Bytes {
    let mut body = Vec::with_capacity(event.len() + 160);
    body.extend_from_slice(br#"{"jsonrpc":"2.0","method":"session.event","params":{"sessionId":""#);
    // A session id has no character that JSON escapes.
    body.extend_from_slice(session.as_str().as_bytes());
    body.extend_from_slice(br#"","event":"#);
    body.extend_from_slice(event);
    body.extend_from_slice(b"}}");
    baton_protocol::frame::encode(&body)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use baton_protocol::ClientId;
    use baton_protocol::frame::Decoder;
    use baton_runtime::lifecycle::{Lifecycle, LifecycleChange, Listener};
    use baton_store::Seq;
    use bytes::BytesMut;
    use serde_json::Value;

    use super::*;

    fn session() -> SessionId {
        "s-1".parse().unwrap()
    }

    /// Decodes the body of the only frame.
    fn body(frame: &Bytes) -> String {
        let (mut decoder, mut buffer) = (Decoder::new(1 << 20), BytesMut::from(&frame[..]));
        let body = decoder.decode(&mut buffer).unwrap().expect("a complete frame");
        assert!(buffer.is_empty(), "one frame");
        String::from_utf8(body.to_vec()).unwrap()
    }

    #[test]
    fn event_is_sent_byte_for_byte() {
        let json = r#"{ "type":"session.idle",  "data":{"number":1.0, "text":"\u00e9"} }"#;
        let body = body(&encode(&session(), json.as_bytes()));
        let start = r#"{"jsonrpc":"2.0","method":"session.event","params":{"sessionId":"s-1","event":"#;
        assert_eq!(body, format!("{start}{json}}}}}"));
        baton_json::from_str::<Value>(&body).unwrap();
    }

    #[test]
    fn event_is_encoded_once_for_all_clients() {
        let published = Published::new(Some(Seq(1)), "session.idle", Bytes::from_static(b"{}"));
        let (first, second) = (event(&session(), &published), event(&session(), &published));
        assert_eq!(first.as_ptr(), second.as_ptr());
    }

    #[derive(Default)]
    struct Recorder(Mutex<Vec<Bytes>>);

    impl Listener for Recorder {
        fn hear(&self, news: &News) {
            self.0.lock().unwrap().push(lifecycle(news));
        }
    }

    #[test]
    fn lifecycle_notification_has_metadata_unless_the_session_is_deleted() {
        let (source, recorder) = (Lifecycle::default(), Arc::new(Recorder::default()));
        source.listen(ClientId(1), recorder.clone());
        source.announce(LifecycleChange::Created, &session(), Some(json!({ "summary": "a" })));
        source.announce(LifecycleChange::Deleted, &session(), None);
        let bodies: Vec<Value> = recorder
            .0
            .lock()
            .unwrap()
            .iter()
            .map(|frame| baton_json::from_str(&body(frame)).unwrap())
            .collect();
        assert!(bodies.iter().all(|body| body["method"] == "session.lifecycle"), "{bodies:?}");
        let expected = [
            json!({ "type": "session.created", "sessionId": "s-1", "metadata": { "summary": "a" } }),
            json!({ "type": "session.deleted", "sessionId": "s-1" }),
        ];
        assert_eq!(bodies.iter().map(|body| body["params"].clone()).collect::<Vec<_>>(), expected);
    }
}
