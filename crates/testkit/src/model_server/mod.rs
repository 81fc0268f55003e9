//! A scripted model provider on a loopback port: chat completions, the Responses API and the Messages API,
//! streamed or not.
//!
//! There are two ways to define its answers. A test in Rust can queue [`ScriptedReply`]s with [`ModelServer::push`];
//! each answers one request. If the queue is empty, the last user message of the request decides: it may
//! contain directives such as `[[text:hello]]` or `[[tool:bash {"command":"ls"}]]` (all of them: [`script`]);
//! without any, the answer is `echo N: PROMPT`, where N is the number of user messages. Requests share no
//! state, so a conversation that is resumed after a crash continues normally.
//!
//! Tests wait for events instead of sleeping: [`ModelServer::wait_for_requests`],
//! [`ModelServer::wait_for_end`], and `[[hold:name]]` with [`ModelServer::release`].
//!
//! Over HTTP: `GET /_requests`, `POST /_release/NAME`, `GET …/models`, `POST …/chat/completions`, `POST
//! …/responses`, `POST …/messages`. `GET …/responses` opens a WebSocket; each message on it is recorded as a
//! request of the method `WS`.

mod answer;
mod chat;
mod connection;
mod conversation;
mod messages;
mod reply;
mod responses;
pub mod script;
mod socket;
mod state;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub use reply::{ReplyAction, ScriptedReply};
use state::State;
pub use state::{End, Recorded};

/// A running server. Dropping it closes all its connections.
pub struct ModelServer {
    address: SocketAddr,
    state: Arc<State>,
    accepting: JoinHandle<()>,
}

impl ModelServer {
    /// Starts a server on a free port.
    ///
    /// # Panics
    /// When no port is free.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        Self::serve(listener).expect("the address of a listener")
    }

    /// Starts a server on a listener.
    ///
    /// # Errors
    /// When the listener has no address.
    pub fn serve(listener: TcpListener) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let state = Arc::new(State::default());
        let accepting = tokio::spawn(connection::accept(listener, Arc::clone(&state)));
        Ok(Self { address, state, accepting })
    }

    /// Returns the address that it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the base URL, for the settings of a provider.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Queues the reply to the next chat request that has none yet.
    pub fn push(&self, reply: ScriptedReply) {
        self.state.push(reply);
    }

    /// Replaces the result of `GET /models`.
    pub fn set_models(&self, models: Value) {
        self.state.set_models(models);
    }

    /// Refuses WebSockets from now on.
    pub fn refuse_sockets(&self) {
        self.state.refuse_sockets();
    }

    /// Returns all requests so far, oldest first.
    #[must_use]
    pub fn requests(&self) -> Vec<Recorded> {
        self.state.requests()
    }

    /// Returns the number of connections so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.state.connections()
    }

    /// Waits until this many requests have arrived.
    ///
    /// # Panics
    /// When they do not arrive within the time limit.
    pub async fn wait_for_requests(&self, count: usize) -> Vec<Recorded> {
        self.state.wait_until(&format!("{count} requests"), |state| state.requests().len() >= count).await;
        self.requests()
    }

    /// Waits until a request, counted from 0, has ended. Returns how it ended.
    ///
    /// # Panics
    /// When it does not end within the time limit.
    pub async fn wait_for_end(&self, index: usize) -> End {
        let end = |state: &State| state.requests().get(index).and_then(|request| request.end);
        self.state.wait_until(&format!("the end of request {index}"), |state| end(state).is_some()).await;
        end(&self.state).expect("just seen")
    }

    /// Waits until a reply has reached `[[hold:name]]`.
    ///
    /// # Panics
    /// When it does not within the time limit.
    pub async fn wait_for_hold(&self, name: &str) {
        self.state.wait_until(&format!("a reply at hold {name}"), |state| state.is_held(name)).await;
    }

    /// Releases all current and later replies at `[[hold:name]]`.
    pub fn release(&self, name: &str) {
        self.state.release(name);
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}
