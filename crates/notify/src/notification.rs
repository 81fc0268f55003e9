//! A notification: what happened, in which session, under one stable id.

use baton_markup::visible::Untrusted;
use baton_protocol::{RequestId, SessionId, Timestamp};
use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};

/// Id of a notification: 32 hexadecimal digits.
///
/// It follows from what is notified about, so that a server that was killed, and another server that finds the same request,
/// send under the same id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NotificationId(String);

impl NotificationId {
    /// Returns the id for a pending request.
    #[must_use]
    pub fn of_request(session: &SessionId, request: &RequestId) -> Self {
        Self::of(&["request", &session.to_string(), &request.to_string()])
    }

    /// Returns the id for the end of a turn, which an event records.
    #[must_use]
    pub fn of_turn(session: &SessionId, event: &str) -> Self {
        Self::of(&["turn", &session.to_string(), event])
    }

    /// Returns the id for a test at a time.
    #[must_use]
    pub fn of_test(now: Timestamp) -> Self {
        Self::of(&["test", &now.to_string()])
    }

    fn of(parts: &[&str]) -> Self {
        let mut context = Context::new(&SHA256);
        for part in parts {
            context.update(&(part.len() as u64).to_le_bytes());
            context.update(part.as_bytes());
        }
        Self(context.finish().as_ref()[..16].iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Returns the id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for NotificationId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&self.0)
    }
}

/// A notification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Notification {
    /// Stable id.
    pub id: NotificationId,
    /// Session; none for a test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// Title of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// When it became due.
    pub created: Timestamp,
    /// What it is about.
    pub subject: Subject,
}

/// What a notification is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "type")]
pub enum Subject {
    /// A request is pending.
    Request {
        /// Id of the request.
        request: RequestId,
        /// Kind of the request.
        kind: RequestKind,
        /// Name of the tool, if the request is about one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<String>,
        /// What is asked for, if notifications may contain it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        details: Option<String>,
    },
    /// A turn ended.
    Turn {
        /// How it ended: `completed`, `failed` or `interrupted`.
        outcome: String,
    },
    /// A test of the configuration.
    Test,
}

/// Kind of a request that waits for a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RequestKind {
    /// Permission for a tool call.
    Permission,
    /// Question of the model.
    Question,
    /// Plan to approve.
    Plan,
    /// Fallback model to approve.
    Switch,
    /// Login at an MCP server.
    Login,
    /// Form of an MCP server.
    Elicitation,
    /// Model call of an MCP server.
    Sampling,
}

impl Notification {
    /// Returns one line that says what happened, without the title of the session.
    #[must_use]
    pub fn headline(&self) -> String {
        match &self.subject {
            Subject::Request { kind, tool, .. } => {
                let tool = tool.as_deref().map(|tool| short(tool, 64));
                match (kind, tool) {
                    (RequestKind::Permission, Some(tool)) => format!("Permission needed: {tool}"),
                    (RequestKind::Permission, None) => "Permission needed".to_owned(),
                    (RequestKind::Question, _) => "A question waits for your answer".to_owned(),
                    (RequestKind::Plan, _) => "A plan waits for your approval".to_owned(),
                    (RequestKind::Switch, _) => "Continue with a fallback model?".to_owned(),
                    (RequestKind::Login, _) => "A login is needed".to_owned(),
                    (RequestKind::Elicitation, _) => "A form waits for you".to_owned(),
                    (RequestKind::Sampling, _) => "An MCP server wants to use the model".to_owned(),
                }
            }
            Subject::Turn { outcome } => match outcome.as_str() {
                "completed" => "Turn completed".to_owned(),
                "failed" => "Turn failed".to_owned(),
                _ => "Turn interrupted".to_owned(),
            },
            Subject::Test => "Notifications work".to_owned(),
        }
    }

    /// Returns the title of the session in one line, shortened.
    #[must_use]
    pub fn title_line(&self) -> String {
        short(self.title.as_deref().unwrap_or_default(), 100)
    }

    /// Whether a person who reads only this notification may allow the request: it is a permission, and its details are all
    /// there. A person must not approve what was not shown.
    #[must_use]
    pub fn can_be_allowed(&self) -> bool {
        matches!(&self.subject, Subject::Request { kind: RequestKind::Permission, details: Some(_), .. })
    }

    /// Whether a person may deny the request without reading more.
    #[must_use]
    pub fn can_be_denied(&self) -> bool {
        matches!(&self.subject, Subject::Request { kind: RequestKind::Permission, .. })
    }
}

/// Returns the start of an untrusted text, on one line.
fn short(text: &str, limit: usize) -> String {
    let shown: String = text.chars().take(limit).collect();
    let rest = if shown.len() < text.len() { "…" } else { "" };
    format!("{}{rest}", Untrusted(&shown))
}
