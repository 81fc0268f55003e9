//! What the server says: a status, headers, and a list of things to do one after another.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

/// A reply to one request.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// The HTTP status.
    pub status: u16,
    /// Headers; a `content-type` here replaces the usual one.
    pub headers: Vec<(String, String)>,
    /// What is done, in order.
    pub actions: Vec<Action>,
}

/// Something the server does while it replies.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Says something, in a stream word by word.
    Text(String),
    /// Says something, and where it was found.
    Cited(String),
    /// Says it aloud before it speaks.
    Think(String),
    /// Calls a tool with these arguments, sent as they are.
    Call {
        /// Which tool.
        name: String,
        /// JSON, or whatever else the test wants.
        arguments: String,
    },
    /// Says why it stops, instead of the obvious reason.
    Finish(String),
    /// Sends these bytes as they are, and nothing of its own any more.
    Raw(Bytes),
    /// Waits.
    Sleep(Duration),
    /// Waits until it is released.
    Hold(String),
    /// Says nothing more, but stays.
    Hang,
    /// Ends the reply properly, though there should have been more.
    Truncate,
    /// Closes the connection in the middle.
    Drop,
    /// Tears the connection down in the middle.
    Reset,
}

impl Reply {
    /// A proper reply.
    #[must_use]
    pub fn new(actions: impl IntoIterator<Item = Action>) -> Self {
        Self { status: 200, headers: Vec::new(), actions: actions.into_iter().collect() }
    }

    /// Says something.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self::new([Action::Text(text.to_owned())])
    }

    /// Calls a tool.
    #[must_use]
    pub fn call(name: &str, arguments: &Value) -> Self {
        Self::new([Action::Call { name: name.to_owned(), arguments: arguments.to_string() }])
    }

    /// Fails with a status and the usual JSON.
    #[must_use]
    pub fn error(status: u16) -> Self {
        let error = json!({"error": {"message": format!("scripted failure {status}"), "code": "scripted"}});
        Self { status, ..Self::raw("application/json", [error.to_string()]) }
    }

    /// Sends exactly these pieces of a body.
    #[must_use]
    pub fn raw<B: Into<Bytes>>(content_type: &str, pieces: impl IntoIterator<Item = B>) -> Self {
        Self::new(pieces.into_iter().map(|piece| Action::Raw(piece.into())))
            .header("content-type", content_type)
    }

    /// A web page, as a proxy or a login would send it.
    #[must_use]
    pub fn web_page() -> Self {
        Self::raw("text/html; charset=utf-8", ["<html><head><title>Please log in</title></head></html>"])
    }

    /// The same reply with a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Whether it writes its body itself.
    pub(super) fn is_raw(&self) -> bool {
        self.actions.iter().any(|action| matches!(action, Action::Raw(_)))
    }
}
