//! The add-ons' view of their session.

use std::pin::Pin;

use baton_core::ask::{CloseLogin, Elicit, Elicited, RequestLogin, Sample};
use baton_protocol::{Body, Json, RequestId};
use baton_providers::Clients;
use baton_sandbox::Place;

/// A reply that is awaited. The ask was sent before: dropping this ignores the reply, and withdraws nothing.
pub type Awaited<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A live session, for its add-ons: they show events, call clients, and put requests to them.
///
/// An error is a message for people: the session refused, or has been unloaded.
pub trait SessionPort: Clients {
    /// Shows an ephemeral event to all clients.
    fn show(&self, event: Body);

    /// Returns where a program runs that the session's repository brings: in the sandbox of the session, if it has one.
    fn place(&self) -> Awaited<Result<Place, String>>;

    /// Puts a form to the clients.
    fn elicit(&self, ask: Elicit) -> Awaited<Result<Elicited, String>>;

    /// Puts a server's request for an answer of the model to the clients; none if it was declined or withdrawn.
    fn sample(&self, ask: Sample) -> Awaited<Result<Option<Json>, String>>;

    /// Withdraws a form or a request, by its key.
    fn withdraw(&self, key: String);

    /// Requests a login at a server.
    fn request_login(&self, ask: RequestLogin) -> Awaited<Result<RequestId, String>>;

    /// Closes the request for a login at a server. Returns whether it was pending.
    fn close_login(&self, ask: CloseLogin) -> Awaited<bool>;
}
