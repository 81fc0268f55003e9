//! What differs between SDK versions, all in one place. The rest of the server knows one protocol.
//!
//! SDKs do not say their version. Those of early 2026 (*legacy*) never call `connect`: their first call is `ping`. That
//! is how they are told apart.

use baton_protocol::event::is_public;
use baton_protocol::tool::ToolSpec;
use baton_protocol::{SessionId, Timestamp};
use bytes::Bytes;
use serde_json::{Value, json};

use crate::session::Published;

/// How a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Dialect {
    /// As of May 2026 and later: says `connect` first.
    #[default]
    Current,
    /// Before that: says `ping` first, and knows fewer words.
    Legacy,
}

impl Dialect {
    /// How a client speaks whose first call is this.
    pub(crate) fn of_first_call(method: &str) -> Self {
        if method == "ping" { Self::Legacy } else { Self::Current }
    }

    pub(crate) fn is_legacy(self) -> bool {
        self == Self::Legacy
    }

    /// The time in a reply to `ping`: a number for those who convert it to one, a text for those who parse a date.
    pub(crate) fn ping_time(self, now: Timestamp) -> Value {
        match self {
            Self::Legacy => json!(now.as_millis()),
            Self::Current => json!(now),
        }
    }

    /// The frame that tells a client of an event; none for events that SDKs do not know.
    pub(crate) fn frame(self, session: &SessionId, event: &Published) -> Option<Bytes> {
        if !is_public(&event.kind) {
            return None;
        }
        match self.reworded(&event.kind, &event.json) {
            None => Some(event.frame(session)),
            Some(json) => Some(Published::new(event.seq, &event.kind, json).frame(session)),
        }
    }

    /// An event in older words, where the newer ones are not understood.
    pub(crate) fn reworded(self, kind: &str, event: &Bytes) -> Option<Bytes> {
        if self != Self::Legacy || kind != "permission.completed" {
            return None;
        }
        let mut event: Value = serde_json::from_slice(event).ok()?;
        let result = event.pointer_mut("/data/result/kind")?;
        let older = match result.as_str()? {
            "approved-for-session" | "approved-for-location" => "approved",
            // To those who know no cancel, a request that nobody can answer any more is one that nobody could.
            "cancelled" => "denied-no-approval-rule-and-could-not-request-from-user",
            _ => return None,
        };
        *result = json!(older);
        serde_json::to_vec(&event).ok().map(Bytes::from)
    }
}

/// A tool that sessions of legacy clients have: the model says what it is up to. Newer sessions do without.
pub(crate) const REPORT_INTENT: &str = "report_intent";

/// What `report_intent` answers.
pub(crate) const INTENT_LOGGED: &str = "Intent logged";

/// How `report_intent` is offered.
pub(crate) fn report_intent() -> ToolSpec {
    let parameters = json!({
        "type": "object",
        "properties": { "intent": { "type": "string", "description": "What you are doing now, in at most four words" } },
        "required": ["intent"],
    });
    ToolSpec {
        name: REPORT_INTENT.into(),
        description: "Tells the user in a few words what you are doing. Call it when your focus changes."
            .into(),
        parameters: Some(parameters.into()),
        overrides_built_in_tool: false,
        skip_permission: true,
        is_terminal: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cancelled_permission_is_told_in_words_that_older_clients_know() {
        let event = Bytes::from_static(
            br#"{"type":"permission.completed","data":{"requestId":"r","result":{"kind":"cancelled"}}}"#,
        );
        let reworded = Dialect::Legacy.reworded("permission.completed", &event).unwrap();
        assert!(String::from_utf8_lossy(&reworded).contains("denied-no-approval-rule"));
        assert_eq!(Dialect::Current.reworded("permission.completed", &event), None);
        let approved =
            Bytes::from_static(br#"{"type":"permission.completed","data":{"result":{"kind":"approved"}}}"#);
        assert_eq!(Dialect::Legacy.reworded("permission.completed", &approved), None);
    }

    #[test]
    fn the_first_call_tells() {
        assert!(Dialect::of_first_call("ping").is_legacy());
        assert!(!Dialect::of_first_call("connect").is_legacy());
    }
}
