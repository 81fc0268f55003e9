//! Protocol differences between SDK versions. The rest of the server knows one protocol.
//!
//! SDKs do not send their version. Those of early 2026 (*legacy*) never call `connect`: their first call is `ping`, which
//! identifies them.

use baton_protocol::event::is_public;
use baton_protocol::{SessionId, Timestamp};
use baton_runtime::session::Published;
use bytes::Bytes;
use serde_json::{Value, json};

use super::frames;

/// Protocol variant of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Dialect {
    /// Since May 2026: the first call is `connect`.
    #[default]
    Current,
    /// Before: the first call is `ping`, and some values are unknown.
    Legacy,
}

impl Dialect {
    /// Returns the dialect of a client from the method of its first call.
    pub(crate) fn of_first_call(method: &str) -> Self {
        if method == "ping" { Self::Legacy } else { Self::Current }
    }

    pub(crate) fn is_legacy(self) -> bool {
        self == Self::Legacy
    }

    /// Encodes the time in the reply to `ping`: as a number for legacy SDKs, as a date for current ones.
    pub(crate) fn ping_time(self, now: Timestamp) -> Value {
        match self {
            Self::Legacy => json!(now.as_millis()),
            Self::Current => json!(now),
        }
    }

    /// Encodes an event as a frame; none for events that SDKs do not know.
    pub(crate) fn frame(self, session: &SessionId, event: &Published) -> Option<Bytes> {
        if !is_public(&event.kind) {
            return None;
        }
        match self.translate(&event.kind, &event.json) {
            None => Some(frames::event(session, event)),
            Some(json) => Some(frames::encode(session, &json)),
        }
    }

    /// Replaces values in an event that the client does not know. Returns nothing if the event can be sent as it is.
    pub(crate) fn translate(self, kind: &str, event: &Bytes) -> Option<Bytes> {
        if self != Self::Legacy || kind != "permission.completed" {
            return None;
        }
        let mut event: Value = serde_json::from_slice(event).ok()?;
        let result = event.pointer_mut("/data/result/kind")?;
        let known = match result.as_str()? {
            "approved-for-session" | "approved-for-location" => "approved",
            // Legacy SDKs have no result for a cancelled request. The nearest is a request that no client could answer.
            "cancelled" => "denied-no-approval-rule-and-could-not-request-from-user",
            _ => return None,
        };
        *result = json!(known);
        serde_json::to_vec(&event).ok().map(Bytes::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cancelled_permission_is_translated_for_legacy_clients() {
        let event = Bytes::from_static(
            br#"{"type":"permission.completed","data":{"requestId":"r","result":{"kind":"cancelled"}}}"#,
        );
        let translated = Dialect::Legacy.translate("permission.completed", &event).unwrap();
        assert!(String::from_utf8_lossy(&translated).contains("denied-no-approval-rule"));
        assert_eq!(Dialect::Current.translate("permission.completed", &event), None);
        let approved =
            Bytes::from_static(br#"{"type":"permission.completed","data":{"result":{"kind":"approved"}}}"#);
        assert_eq!(Dialect::Legacy.translate("permission.completed", &approved), None);
    }

    #[test]
    fn first_call_identifies_the_dialect() {
        assert!(Dialect::of_first_call("ping").is_legacy());
        assert!(!Dialect::of_first_call("connect").is_legacy());
    }
}
