//! Performs a reply for any API: delays, hangs and failures are here, the wire format is in the API.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;

use super::state::State;
use super::{ReplyAction, ScriptedReply};

/// Ids are unique in the process, so that conversations can be told apart.
static IDS: AtomicU64 = AtomicU64::new(1);

/// Returns a unique id.
pub(super) fn new_id(prefix: &str) -> String {
    format!("{prefix}{}", IDS.fetch_add(1, Ordering::Relaxed))
}

/// The wire format of a provider. Records its output for the end of the answer.
pub(super) trait Api: Send {
    /// Returns the id of the answer.
    fn id(&self) -> &str;
    /// Returns the events for more text.
    fn text(&mut self, text: &str) -> String;
    /// Returns the events for more text with a citation. Not every API supports it.
    fn cited(&mut self, text: &str) -> String {
        self.text(text)
    }
    /// Returns the events for reasoning.
    fn reasoning(&mut self, reasoning: &str) -> String;
    /// Returns the events for a whole tool call.
    fn call(&mut self, name: &str, arguments: &str) -> String;
    /// Returns the events for the end, with a finish reason if it is not the default one.
    fn end(&mut self, reason: Option<&str>) -> String;
    /// Returns the whole answer, for requests without a stream.
    fn whole(&mut self, reason: Option<&str>) -> Value;
}

/// Whether another request may follow on the same connection.
#[derive(PartialEq)]
pub(super) enum After {
    KeepAlive,
    Close,
}

/// The destination of an answer.
pub(super) trait Outlet: Send {
    /// Starts an answer.
    fn head(
        &mut self,
        status: u16,
        headers: &[(String, String)],
    ) -> impl Future<Output = io::Result<()>> + Send;
    /// Sends a chunk: events of a stream, or any bytes.
    fn chunk(&mut self, bytes: &[u8]) -> impl Future<Output = io::Result<()>> + Send;
    /// Ends the answer, complete or not.
    fn finish(&mut self, is_complete: bool) -> impl Future<Output = io::Result<After>> + Send;
    /// Resets the connection.
    fn reset(&self) -> io::Result<After>;
    /// Waits until the client disconnects.
    fn client_left(&mut self) -> impl Future<Output = io::Error> + Send;
}

/// Splits arguments into two parts, between characters.
pub(super) fn halves(arguments: &str) -> [&str; 2] {
    let middle = arguments.char_indices().nth(arguments.chars().count() / 2).map_or(0, |(at, _)| at);
    [&arguments[..middle], &arguments[middle..]]
}

/// Performs the reply, streamed or whole.
pub(super) async fn answer(
    outlet: &mut impl Outlet,
    streams: bool,
    reply: &ScriptedReply,
    state: &State,
    api: Box<dyn Api>,
) -> io::Result<After> {
    let mut writer = Writer { outlet, reply, api, streams, has_head: false, finish: None };
    for action in &reply.actions {
        match action {
            ReplyAction::Sleep(time) => writer.wait_for(tokio::time::sleep(*time)).await?,
            ReplyAction::Hold(name) => writer.wait_for(state.hold(name)).await?,
            ReplyAction::Hang => {
                writer.head().await?;
                return Err(writer.outlet.client_left().await);
            }
            ReplyAction::Drop => {
                writer.head().await?;
                return Ok(After::Close);
            }
            ReplyAction::Reset => {
                writer.head().await?;
                return writer.outlet.reset();
            }
            ReplyAction::Truncate => return writer.end_early().await,
            ReplyAction::Text(_)
            | ReplyAction::Cited(_)
            | ReplyAction::Think(_)
            | ReplyAction::Call { .. }
            | ReplyAction::Finish(_)
            | ReplyAction::Raw(_) => {
                writer.say(action).await?;
            }
        }
    }
    writer.end().await
}

/// Writes one answer.
struct Writer<'a, O> {
    outlet: &'a mut O,
    reply: &'a ScriptedReply,
    api: Box<dyn Api>,
    streams: bool,
    has_head: bool,
    finish: Option<String>,
}

impl<O: Outlet> Writer<'_, O> {
    /// Waits, unless the client disconnects.
    async fn wait_for(&mut self, something: impl Future<Output = ()> + Send) -> io::Result<()> {
        tokio::select! {
            () = something => Ok(()),
            left = self.outlet.client_left() => Err(left),
        }
    }

    async fn head(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.has_head, true) {
            return Ok(());
        }
        let mut headers = self.reply.headers.clone();
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
            let usual = if self.streams { "text/event-stream" } else { "application/json" };
            headers.push(("content-type".to_owned(), usual.to_owned()));
        }
        headers.push(("x-request-id".to_owned(), format!("req-{}", self.api.id())));
        self.outlet.head(self.reply.status, &headers).await
    }

    async fn say(&mut self, action: &ReplyAction) -> io::Result<()> {
        match action {
            ReplyAction::Text(text) => {
                for word in text.split_inclusive(' ') {
                    let events = self.api.text(word);
                    self.events(&events).await?;
                }
            }
            ReplyAction::Cited(text) => {
                let events = self.api.cited(text);
                self.events(&events).await?;
            }
            ReplyAction::Think(reasoning) => {
                let events = self.api.reasoning(reasoning);
                self.events(&events).await?;
            }
            ReplyAction::Call { name, arguments } => {
                let events = self.api.call(name, arguments);
                self.events(&events).await?;
            }
            ReplyAction::Finish(reason) => self.finish = Some(reason.clone()),
            ReplyAction::Raw(bytes) => {
                self.head().await?;
                self.outlet.chunk(bytes).await?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Sends events of a stream; nothing if the answer is not streamed.
    async fn events(&mut self, events: &str) -> io::Result<()> {
        if !self.streams {
            return Ok(());
        }
        self.head().await?;
        self.outlet.chunk(events.as_bytes()).await
    }

    async fn end(mut self) -> io::Result<After> {
        let finish = self.finish.take();
        if self.reply.is_raw() {
            self.head().await?;
        } else if self.streams {
            let events = self.api.end(finish.as_deref());
            self.events(&events).await?;
        } else {
            let whole = self.api.whole(finish.as_deref());
            self.head().await?;
            self.outlet.chunk(whole.to_string().as_bytes()).await?;
        }
        self.outlet.finish(!self.reply.is_raw()).await
    }

    /// Ends the body properly, but in the middle of the answer.
    async fn end_early(mut self) -> io::Result<After> {
        self.head().await?;
        if !self.streams {
            let whole = self.api.whole(None).to_string();
            self.outlet.chunk(&whole.as_bytes()[..whole.len() / 2]).await?;
        }
        self.outlet.finish(false).await
    }
}
