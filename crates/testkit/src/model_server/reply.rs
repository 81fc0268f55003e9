//! Scripted replies: a status, headers, and a list of actions.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

/// A reply to one request.
#[derive(Debug, Clone, PartialEq)]
pub struct ScriptedReply {
    /// The HTTP status.
    pub status: u16,
    /// Headers; a `content-type` here replaces the default one.
    pub headers: Vec<(String, String)>,
    /// The actions, in order.
    pub actions: Vec<ReplyAction>,
}

/// An action of a reply.
#[derive(Debug, Clone, PartialEq)]
pub enum ReplyAction {
    /// Sends text, in a stream word by word.
    Text(String),
    /// Sends text with a citation.
    Cited(String),
    /// Sends reasoning.
    Think(String),
    /// Calls a tool with these arguments, sent as they are.
    Call {
        /// The tool.
        name: String,
        /// JSON, or any other text.
        arguments: String,
    },
    /// Sets the finish reason.
    Finish(String),
    /// Sends these bytes, and nothing else from then on.
    Raw(Bytes),
    /// Pauses.
    Sleep(Duration),
    /// Waits until it is released.
    Hold(String),
    /// Sends nothing more, but keeps the connection open.
    Hang,
    /// Ends the body properly, but too early.
    Truncate,
    /// Closes the connection in the middle.
    Drop,
    /// Resets the connection in the middle.
    Reset,
}

impl ScriptedReply {
    /// Creates a successful reply.
    #[must_use]
    pub fn new(actions: impl IntoIterator<Item = ReplyAction>) -> Self {
        Self { status: 200, headers: Vec::new(), actions: actions.into_iter().collect() }
    }

    /// Creates a reply with text.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self::new([ReplyAction::Text(text.to_owned())])
    }

    /// Creates a reply that calls a tool.
    #[must_use]
    pub fn call(name: &str, arguments: &Value) -> Self {
        Self::new([ReplyAction::Call { name: name.to_owned(), arguments: arguments.to_string() }])
    }

    /// Creates an error with a status and the usual JSON.
    #[must_use]
    pub fn error(status: u16) -> Self {
        let error = json!({"error": {"message": format!("scripted failure {status}"), "code": "scripted"}});
        Self { status, ..Self::raw("application/json", [error.to_string()]) }
    }

    /// Creates a reply with exactly these chunks as its body.
    #[must_use]
    pub fn raw<B: Into<Bytes>>(content_type: &str, pieces: impl IntoIterator<Item = B>) -> Self {
        Self::new(pieces.into_iter().map(|piece| ReplyAction::Raw(piece.into())))
            .header("content-type", content_type)
    }

    /// Creates a web page, like that of a proxy or a login.
    #[must_use]
    pub fn web_page() -> Self {
        Self::raw("text/html; charset=utf-8", ["<html><head><title>Please log in</title></head></html>"])
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Whether the reply defines its body itself.
    pub(super) fn is_raw(&self) -> bool {
        self.actions.iter().any(|action| matches!(action, ReplyAction::Raw(_)))
    }
}
