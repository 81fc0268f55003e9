//! A session from the point of view of a client.

use serde_json::{Value, json};

use crate::client::{CallResult, Client};

/// A session that a client created or resumed.
pub struct Chat<'a> {
    /// The client.
    pub client: &'a Client,
    /// The session id.
    pub id: String,
}

/// The events from a prompt until the session was idle again.
#[derive(Debug, Clone)]
pub struct Turn {
    /// The events, in order.
    pub events: Vec<Value>,
}

impl<'a> Chat<'a> {
    /// Creates a session. `params` may contain any parameter of `session.create`.
    pub async fn create(client: &'a Client, mut params: Value) -> Self {
        params["requestPermission"] = json!(true);
        let made = client.ok("session.create", params).await;
        Self { client, id: made["sessionId"].as_str().expect("a session id").to_owned() }
    }

    /// Creates a session in which every tool call is approved.
    pub async fn trusting(client: &'a Client, params: Value) -> Self {
        let chat = Self::create(client, params).await;
        chat.ok("session.permissions.setApproveAll", json!({"enabled": true})).await;
        chat
    }

    /// Resumes a session.
    pub async fn resume(client: &'a Client, id: &str, mut params: Value) -> Self {
        params["sessionId"] = json!(id);
        params["requestPermission"] = json!(true);
        client.ok("session.resume", params).await;
        Self { client, id: id.to_owned() }
    }

    /// Calls a method of the session.
    ///
    /// # Errors
    /// With the error object of the response.
    pub async fn call(&self, method: &str, params: Value) -> CallResult {
        self.client.call(method, self.with_id(params)).await
    }

    /// Calls a method of the session that must succeed.
    pub async fn ok(&self, method: &str, params: Value) -> Value {
        self.client.ok(method, self.with_id(params)).await
    }

    fn with_id(&self, mut params: Value) -> Value {
        params["sessionId"] = json!(self.id);
        params
    }

    /// Sends a prompt and returns its id once it is accepted.
    pub async fn send(&self, prompt: &str) -> String {
        let sent = self.ok("session.send", json!({"prompt": prompt})).await;
        sent["messageId"].as_str().expect("a message id").to_owned()
    }

    /// Sends a prompt to an idle session and waits until it is idle again.
    pub async fn turn(&self, prompt: &str) -> Turn {
        let from = self.client.count();
        self.send(prompt).await;
        self.until_idle(from).await
    }

    /// Waits until the session is idle. Returns its events from the given frame on.
    pub async fn until_idle(&self, from: usize) -> Turn {
        let (end, _) = self.event("session.idle", from).await;
        let frames = self.client.frames();
        let events = frames[from..=end].iter().filter_map(|f| crate::client::event_of(f, &self.id));
        Turn { events: events.cloned().collect() }
    }

    /// Waits for an event of a type, at or after the given frame.
    pub async fn event(&self, kind: &str, from: usize) -> (usize, Value) {
        self.client.event(&self.id, kind, from).await
    }

    /// Returns the history from the server.
    pub async fn history(&self) -> Vec<Value> {
        let events = self.ok("session.getMessages", json!({})).await;
        events["events"].as_array().expect("events").clone()
    }

    /// Asserts that the session works: the scripted model answers a prompt.
    pub async fn assert_usable(&self) {
        let turn = self.turn("[[text:still here]]").await;
        assert_eq!(turn.text(), "still here", "the session is unusable: {turn:?}");
    }
}

impl Turn {
    /// Returns the events of a type.
    pub fn of(&self, kind: &str) -> Vec<&Value> {
        self.events.iter().filter(|event| event["type"] == kind).collect()
    }

    /// Returns the types of all events.
    #[must_use]
    pub fn kinds(&self) -> Vec<&str> {
        self.events.iter().filter_map(|event| event["type"].as_str()).collect()
    }

    /// Returns the last message of the model.
    #[must_use]
    pub fn text(&self) -> &str {
        let last = self.of("assistant.message").pop();
        last.and_then(|event| event["data"]["content"].as_str()).unwrap_or_default()
    }

    /// Returns the messages of all errors.
    #[must_use]
    pub fn errors(&self) -> Vec<&str> {
        self.of("session.error").iter().filter_map(|event| event["data"]["message"].as_str()).collect()
    }
}
