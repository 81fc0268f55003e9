//! A client of a server's HTTP door.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// How long a connection may take to be made.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// A stream says every 15 s that it lives.
const SILENCE_LIMIT: Duration = Duration::from_secs(45);

/// Where a door is.
pub(super) enum Place {
    Url(String),
    Socket(PathBuf),
}

/// Why something could not be had from the server.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// There is nobody, or the connection broke: worth another try.
    #[error("the server cannot be reached: {0}")]
    Unreachable(String),
    /// The server said no, and why.
    #[error("{message}")]
    Refused { code: String, message: String },
}

/// See the module.
pub(super) struct Client {
    http: reqwest::Client,
    base: String,
    token: Option<String>,
}

/// A piece of a stream of events.
pub(super) struct Piece {
    /// The event's place in the sequence; none if it is ephemeral.
    pub(super) seq: Option<u64>,
    /// The event, as JSON.
    pub(super) json: String,
}

impl Client {
    pub(super) fn new(place: Place, token: Option<String>) -> anyhow::Result<Self> {
        let builder = reqwest::Client::builder()
            .tls_backend_preconfigured(baton_model::http::tls_config()?)
            // A token that is meant for this machine must not go to a proxy.
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_LIMIT)
            .read_timeout(SILENCE_LIMIT);
        let (builder, base) = match place {
            Place::Url(url) => (builder, url),
            Place::Socket(path) => (builder.unix_socket(path), "http://localhost".to_owned()),
        };
        Ok(Self { http: builder.build()?, base, token })
    }

    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        let request = self.http.get(format!("{}{path}", self.base));
        parse(self.send(request).await?).await
    }

    /// Posts a body. With a key, it may be posted again after a failure without being done twice.
    pub(super) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &Value,
        key: Option<&str>,
    ) -> Result<T, Failure> {
        let mut request = self.http.post(format!("{}{path}", self.base));
        request = request.header("content-type", "application/json").body(body.to_string());
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        parse(self.send(request).await?).await
    }

    /// A session's events after a place, as they come.
    pub(super) async fn stream(&self, session: &str, after: u64) -> Result<Stream, Failure> {
        let request = self.http.get(format!("{}/api/sessions/{session}/events", self.base));
        let request = request.header("accept", "text/event-stream").header("last-event-id", after);
        Ok(Stream { response: self.send(request).await?, text: Vec::new() })
    }

    async fn send(&self, mut request: reqwest::RequestBuilder) -> Result<reqwest::Response, Failure> {
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let response = request.send().await.map_err(unreachable)?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let said = response.bytes().await.map_err(unreachable)?;
        match serde_json::from_slice::<ErrorBody>(&said) {
            Ok(ErrorBody { error }) => Err(Failure::Refused { code: error.code, message: error.message }),
            Err(_) => {
                Err(Failure::Unreachable(format!("something else answers there, with status {status}")))
            }
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

async fn parse<T: DeserializeOwned>(response: reqwest::Response) -> Result<T, Failure> {
    let bytes = response.bytes().await.map_err(unreachable)?;
    serde_json::from_slice(&bytes)
        .map_err(|error| Failure::Unreachable(format!("something else answers there: {error}")))
}

fn unreachable(error: reqwest::Error) -> Failure {
    let error = error.without_url();
    let causes = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
    Failure::Unreachable(causes.last().map(ToString::to_string).unwrap_or_default())
}

/// A stream of events that is open.
pub(super) struct Stream {
    response: reqwest::Response,
    text: Vec<u8>,
}

impl Stream {
    /// The next event; none when the server has ended the stream. Can be dropped and asked for again.
    pub(super) async fn next(&mut self) -> Result<Option<Piece>, Failure> {
        loop {
            if let Some(end) = self.text.windows(2).position(|pair| pair == b"\n\n") {
                let block: Vec<u8> = self.text.drain(..end + 2).collect();
                match piece(&String::from_utf8_lossy(&block)) {
                    Some(piece) => return Ok(Some(piece)),
                    None => continue,
                }
            }
            match self.response.chunk().await.map_err(unreachable)? {
                Some(bytes) => self.text.extend_from_slice(&bytes),
                None => return Ok(None),
            }
        }
    }
}

/// One block of the stream; a comment is none. Our own server writes each field on one line.
fn piece(block: &str) -> Option<Piece> {
    let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    Some(Piece { seq: field("id").and_then(|id| id.parse().ok()), json: field("data")?.to_owned() })
}
