//! A client of a server's HTTP API.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Duration;

use baton_model::http::{CertificateProblem, certificate_problem};
use baton_protocol::sse;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Time limit for a connection to be established.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// Time without a byte after which a connection counts as lost. The server sends a keep-alive every 15 s.
const SILENCE_LIMIT: Duration = Duration::from_secs(45);

/// The address of an HTTP API.
#[derive(Debug, Clone)]
pub enum Address {
    /// A base URL.
    Url(String),
    /// A socket file.
    Socket(PathBuf),
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum RequestFailure {
    /// Nothing listens, or the connection broke; can be retried.
    #[error("cannot reach the server: {0}")]
    Unreachable(String),
    /// The server's certificate is not trusted, or does not name the server.
    #[error("the server cannot be trusted: {problem}; {advice}", advice = what_to_do(.problem))]
    Untrusted {
        /// What is wrong with the certificate.
        problem: CertificateProblem,
    },
    /// The server refused the request.
    #[error("{message}")]
    Refused {
        /// For programs.
        code: String,
        /// For people.
        message: String,
    },
}

/// A connection pool to one server, with its token.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    base: String,
    /// Whether the server is reached through a socket file, and so is one of this user's on this machine.
    is_on_socket: bool,
    token: Option<String>,
    /// Name of the user at the terminal, for the authors of prompts and answers.
    user: String,
}

/// An event of a stream.
pub struct StreamedEvent {
    /// Position in the session's sequence; none for an ephemeral event.
    pub seq: Option<u64>,
    /// The event, as JSON.
    pub json: String,
}

impl Client {
    /// Creates a client. `certificates` are trusted in addition to the system's (PEM).
    ///
    /// # Errors
    /// When a certificate cannot be used.
    pub fn new(address: Address, token: Option<String>, certificates: Option<&[u8]>) -> anyhow::Result<Self> {
        let tls = match certificates {
            Some(pem) => baton_model::http::tls_config_trusting(pem)?,
            None => baton_model::http::tls_config()?,
        };
        let builder = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            // A proxy must not see a token for a server on this machine.
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_LIMIT)
            .read_timeout(SILENCE_LIMIT)
            .user_agent(concat!("baton/", env!("CARGO_PKG_VERSION")));
        let (builder, base, is_on_socket) = match address {
            Address::Url(url) => (builder, url, false),
            Address::Socket(path) => (builder.unix_socket(path), "http://localhost".to_owned(), true),
        };
        Ok(Self { http: builder.build()?, base, is_on_socket, token, user: user_of_terminal() })
    }

    /// Whether the server is one of this machine, reached through its socket file: only such a server gets secrets.
    #[must_use]
    pub fn is_on_socket(&self) -> bool {
        self.is_on_socket
    }

    /// Reads a resource.
    ///
    /// # Errors
    /// When the server cannot be reached, cannot be trusted, or refuses the request.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, RequestFailure> {
        let request = self.http.get(format!("{}{path}", self.base));
        parse(self.send(request).await?).await
    }

    /// Posts a body. With an idempotency key, a retry after a failure has no second effect.
    ///
    /// # Errors
    /// When the server cannot be reached, cannot be trusted, or refuses the request.
    pub async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &Value,
        key: Option<&str>,
    ) -> Result<T, RequestFailure> {
        let mut request = self.http.post(format!("{}{path}", self.base));
        request = request.header("content-type", "application/json").body(body.to_string());
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        parse(self.send(request).await?).await
    }

    /// Changes a resource.
    ///
    /// # Errors
    /// When the server cannot be reached, cannot be trusted, or refuses the request.
    pub async fn patch<T: DeserializeOwned>(&self, path: &str, body: &Value) -> Result<T, RequestFailure> {
        let request = self.http.patch(format!("{}{path}", self.base));
        let request = request.header("content-type", "application/json").body(body.to_string());
        parse(self.send(request).await?).await
    }

    /// Deletes a resource.
    ///
    /// # Errors
    /// When the server cannot be reached, cannot be trusted, or refuses the request.
    pub async fn delete(&self, path: &str) -> Result<(), RequestFailure> {
        self.send(self.http.delete(format!("{}{path}", self.base))).await.map(drop)
    }

    /// Streams a session's events after a position.
    ///
    /// # Errors
    /// When the server cannot be reached, cannot be trusted, or refuses the request.
    pub async fn stream(&self, session: &str, after: u64) -> Result<EventStream, RequestFailure> {
        let request = self.http.get(format!("{}/api/sessions/{session}/events", self.base));
        self.events(request.header("last-event-id", after)).await
    }

    /// Streams the changes of all sessions.
    ///
    /// # Errors
    /// When the server cannot be reached, cannot be trusted, or refuses the request.
    pub async fn feed(&self) -> Result<EventStream, RequestFailure> {
        self.events(self.http.get(format!("{}/api/events", self.base))).await
    }

    async fn events(&self, request: reqwest::RequestBuilder) -> Result<EventStream, RequestFailure> {
        let request = request.header("accept", "text/event-stream");
        Ok(EventStream {
            response: self.send(request).await?,
            // Baton's own server is trusted: events have no size limit.
            parser: sse::Parser::new(usize::MAX),
            events: VecDeque::new(),
        })
    }

    async fn send(&self, mut request: reqwest::RequestBuilder) -> Result<reqwest::Response, RequestFailure> {
        request = request.header("x-baton-terminal", &self.user);
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let response = request.send().await.map_err(unreachable)?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let body = response.bytes().await.map_err(unreachable)?;
        match serde_json::from_slice::<ErrorBody>(&body) {
            Ok(ErrorBody { error }) => {
                Err(RequestFailure::Refused { code: error.code, message: error.message })
            }
            Err(_) => Err(RequestFailure::Unreachable(format!(
                "not a Baton server: it answered with status {status}"
            ))),
        }
    }
}

#[derive(Deserialize)]
struct ErrorBody {
    error: ErrorDetail,
}

#[derive(Deserialize)]
struct ErrorDetail {
    code: String,
    message: String,
}

async fn parse<T: DeserializeOwned>(response: reqwest::Response) -> Result<T, RequestFailure> {
    let bytes = response.bytes().await.map_err(unreachable)?;
    serde_json::from_slice(&bytes)
        .map_err(|error| RequestFailure::Unreachable(format!("not a Baton server: {error}")))
}

fn unreachable(error: reqwest::Error) -> RequestFailure {
    let error = error.without_url();
    if let Some(problem) = certificate_problem(&error) {
        return RequestFailure::Untrusted { problem };
    }
    let causes = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
    RequestFailure::Unreachable(causes.last().map(in_words).unwrap_or_default())
}

/// Describes the innermost cause of a failed request.
fn in_words(cause: &(dyn std::error::Error + 'static)) -> String {
    let kind = cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
    match kind {
        // The TLS library explains itself to programmers.
        Some(std::io::ErrorKind::UnexpectedEof) => "the server or a proxy closed it".to_owned(),
        _ => cause.to_string(),
    }
}

/// Returns the advice for a certificate that is not trusted.
fn what_to_do(problem: &CertificateProblem) -> String {
    match problem {
        CertificateProblem::UnknownIssuer => {
            "if it is your server's, name the file of the certificate with --ca".to_owned()
        }
        CertificateProblem::OtherNames { expected, presented } => {
            let kind = if expected.parse::<std::net::IpAddr>().is_ok() { "IP" } else { "DNS" };
            let own = format!(
                "make one for this host (`openssl req -x509 … -addext subjectAltName={kind}:{expected}`)"
            );
            match presented.first() {
                Some(name) => format!("use {name} in --url, or {own} and name it with --ca"),
                None => format!("{own} and name it with --ca"),
            }
        }
        CertificateProblem::Other(_) => {
            "renew the certificate, and name it with --ca if it is self-signed".to_owned()
        }
    }
}

/// Returns the name of the user, as the login has set it; empty if it is unknown, or no text for a header.
#[must_use]
pub fn user_of_terminal() -> String {
    let user = ["USER", "LOGNAME"].into_iter().find_map(|name| std::env::var(name).ok());
    user.filter(|user| user.chars().all(|c| c.is_ascii_graphic())).unwrap_or_default()
}

/// An open event stream.
pub struct EventStream {
    response: reqwest::Response,
    parser: sse::Parser,
    events: VecDeque<sse::SseEvent>,
}

impl EventStream {
    /// Waits for the next event; none when the server ended the stream. Cancel-safe.
    ///
    /// # Errors
    /// When the connection broke.
    pub async fn next(&mut self) -> Result<Option<StreamedEvent>, RequestFailure> {
        loop {
            if let Some(sse::SseEvent { id, data, .. }) = self.events.pop_front() {
                return Ok(Some(StreamedEvent { seq: id.and_then(|id| id.parse().ok()), json: data }));
            }
            let Some(bytes) = self.response.chunk().await.map_err(unreachable)? else { return Ok(None) };
            let parsed = self.parser.push(&bytes, |event| self.events.push_back(event));
            parsed.map_err(|error| RequestFailure::Unreachable(error.to_string()))?;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};

    use super::*;

    #[test]
    fn end_of_a_connection_is_told_in_words() {
        let eof =
            Error::new(ErrorKind::UnexpectedEof, "peer closed connection without sending TLS close_notify");
        assert_eq!(in_words(&eof), "the server or a proxy closed it");
        assert_eq!(in_words(&Error::new(ErrorKind::ConnectionRefused, "refused")), "refused");
    }
}
