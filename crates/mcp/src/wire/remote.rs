//! Servers that are reached over streamable HTTP.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use baton_protocol::sse::Parser;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use http::{HeaderName, HeaderValue};
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, InsufficientScopeError, SseError, StreamableHttpClient,
    StreamableHttpClientTransportConfig, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::Sse;
use url::Url;

use super::headers::{HeadersVersion, SuppliedHeaders};
use super::lines::LONGEST;
use super::stdio::usable;
use crate::config::Remote;
use crate::http::{ByteStream, Http, HttpError, HttpRequest, HttpResponse, Method};
use crate::lock;
use crate::text::clean;

/// Bytes of an error's body that are read.
const ERROR_BODY: usize = 64 * 1024;
const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";
const SESSION: &str = "mcp-session-id";

type Failure = StreamableHttpError<HttpError>;

/// A response that requires authorization.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Challenge {
    /// Address of the request.
    pub url: Url,
    /// 401, or 403 if the token lacks a scope.
    pub status: u16,
    /// All headers of the response.
    pub headers: Vec<(String, String)>,
    /// The beginning of its body.
    pub body: String,
}

impl Challenge {
    /// Returns the value of `WWW-Authenticate`.
    #[must_use]
    pub fn authenticate(&self) -> Option<&str> {
        let name = |header: &&(String, String)| header.0.eq_ignore_ascii_case("www-authenticate");
        self.headers.iter().find(name).map(|(_, value)| value.as_str())
    }

    /// Returns a parameter of `WWW-Authenticate`.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<String> {
        parameter(self.authenticate()?, name)
    }
}

/// Finds `name="value"` or `name=value` in a challenge.
fn parameter(challenge: &str, name: &str) -> Option<String> {
    let mut rest = challenge.split_once(' ')?.1;
    loop {
        let (key, value) = rest.split_once('=')?;
        let key = key.trim_matches(|c: char| c == ',' || c.is_whitespace());
        let (value, after) = match value.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => value.split_once(',').unwrap_or((value, "")),
        };
        if key.eq_ignore_ascii_case(name) {
            return Some(value.trim().to_owned());
        }
        rest = after;
    }
}

/// The authorization of a connection.
#[derive(Default)]
pub(crate) struct Authorization {
    token: Mutex<Option<String>>,
    challenge: Mutex<Option<Challenge>>,
    supplied: Option<SuppliedHeaders>,
}

impl Authorization {
    /// Creates the authorization of a server whose headers a client supplies.
    pub(crate) fn with_headers(supplied: SuppliedHeaders) -> Self {
        Self { supplied: Some(supplied), ..Self::default() }
    }

    /// Uses a token for later requests.
    pub(crate) fn set_token(&self, token: String) {
        *lock(&self.token) = Some(token);
        *lock(&self.challenge) = None;
    }

    /// Whether there is a token.
    pub(crate) fn has_token(&self) -> bool {
        lock(&self.token).is_some()
    }

    /// Forgets the token. Returns whether there was one.
    pub(crate) fn forget_token(&self) -> bool {
        lock(&self.token).take().is_some()
    }

    /// Takes the latest challenge.
    pub(super) fn take_challenge(&self) -> Option<Challenge> {
        lock(&self.challenge).take()
    }

    pub(super) fn has_challenge(&self) -> bool {
        lock(&self.challenge).is_some()
    }

    /// Adds supplied headers and the token to the headers of a request, in place of configured ones.
    pub(super) async fn authorize(&self, headers: &mut Vec<(String, String)>) -> Option<HeadersVersion> {
        let answer = match &self.supplied {
            Some(supplied) => Some(supplied.add_to(headers).await),
            None => None,
        };
        if let Some(token) = &*lock(&self.token) {
            headers.retain(|(name, _)| !name.eq_ignore_ascii_case("authorization"));
            headers.push(("authorization".into(), format!("Bearer {token}")));
        }
        answer
    }

    /// Sends a request. One that is rejected because of supplied headers was not executed, and is sent once more with others.
    pub(super) async fn send(
        &self,
        http: &dyn Http,
        request: HttpRequest,
    ) -> Result<HttpResponse, HttpError> {
        let mut authorized = request.clone();
        let answer = self.authorize(&mut authorized.headers).await;
        let response = http.send(authorized).await?;
        if let (401, Some(supplied), Some(answer)) = (response.status, &self.supplied, answer)
            && supplied.replace(answer).await
        {
            let mut again = request;
            self.authorize(&mut again.headers).await;
            return http.send(again).await;
        }
        Ok(response)
    }

    /// Records a response that requires authorization. Returns whether it is one.
    pub(super) async fn note(&self, url: &Url, response: &mut HttpResponse) -> bool {
        let is_challenge = response.status == 401
            || (response.status == 403 && response.header("www-authenticate").is_some());
        if is_challenge {
            let headers = std::mem::take(&mut response.headers);
            let body = read(&mut response.body, ERROR_BODY).await.unwrap_or_default();
            let body = String::from_utf8_lossy(&body).into_owned();
            *lock(&self.challenge) =
                Some(Challenge { url: url.clone(), status: response.status, headers, body });
        }
        is_challenge
    }
}

/// Creates the transport of a server.
pub(super) fn transport(
    remote: &Remote,
    http: Arc<dyn Http>,
    access: Arc<Authorization>,
) -> StreamableHttpClientTransport<HttpClient> {
    let headers = remote.headers.iter().filter_map(|(name, value)| {
        Some((HeaderName::from_bytes(name.as_bytes()).ok()?, HeaderValue::from_str(value).ok()?))
    });
    let mut config = StreamableHttpClientTransportConfig::with_uri(remote.url.as_str());
    config.custom_headers = headers.collect();
    config.max_sse_event_size = LONGEST;
    // A call must never be made twice without somebody's decision, and the library repeats those of an expired session.
    config.reinit_on_expired_session = false;
    StreamableHttpClientTransport::with_client(HttpClient { http, access }, config)
}

/// Adapts the program's HTTP client.
#[derive(Clone)]
pub(super) struct HttpClient {
    http: Arc<dyn Http>,
    access: Arc<Authorization>,
}

impl HttpClient {
    async fn send(
        &self,
        method: Method,
        uri: &str,
        session: Option<Arc<str>>,
        custom: HashMap<HeaderName, HeaderValue>,
        more: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Result<HttpResponse, Failure> {
        let url = Url::parse(uri).map_err(|error| Failure::Client(HttpError(error.to_string())))?;
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let mut headers: Vec<(String, String)> =
            custom.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
        headers.extend(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        headers.extend(session.map(|session| (SESSION.to_owned(), session.to_string())));
        let request = HttpRequest { method, url: url.clone(), headers, body: body.into() };
        let mut response = self.access.send(&*self.http, request).await.map_err(Failure::Client)?;
        if !self.access.note(&url, &mut response).await {
            return Ok(response);
        }
        let challenge = response.header("www-authenticate").unwrap_or_default().to_owned();
        Err(match response.status {
            401 => Failure::AuthRequired(AuthRequiredError::new(challenge)),
            _ => Failure::InsufficientScope(InsufficientScopeError::new(challenge, None)),
        })
    }
}

impl StreamableHttpClient for HttpClient {
    type Error = HttpError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _: Option<String>,
        custom: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let wants_reply = matches!(message, JsonRpcMessage::Request(_));
        let has_session = session.is_some();
        let accept = format!("{EVENTS}, {JSON}");
        let headers = [("accept", accept.as_str()), ("content-type", JSON)];
        let body = serde_json::to_vec(&message)?;
        let mut response = self.send(Method::Post, &uri, session, custom, &headers, body).await?;
        let session = response.header(SESSION).map(str::to_owned);
        match response.status {
            200..300 if !wants_reply => Ok(StreamableHttpPostResponse::Accepted),
            202 | 204 => Ok(StreamableHttpPostResponse::Accepted),
            404 if has_session => Err(Failure::SessionExpired),
            200..300 if response.is_of_type(EVENTS) => {
                Ok(StreamableHttpPostResponse::Sse(events(response.body), session))
            }
            200..300 => {
                let body = read(&mut response.body, LONGEST).await.map_err(Failure::Client)?;
                let message = serde_json::from_slice::<ServerJsonRpcMessage>(&body)?;
                Ok(StreamableHttpPostResponse::Json(message, session))
            }
            status => {
                let body = read(&mut response.body, ERROR_BODY).await.unwrap_or_default();
                match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
                    Ok(error @ JsonRpcMessage::Error(_)) => {
                        Ok(StreamableHttpPostResponse::Json(error, session))
                    }
                    _ => Err(refused(status, &body)),
                }
            }
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        _: Option<String>,
        custom: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failure> {
        self.send(Method::Delete, &uri, Some(session), custom, &[], Vec::new()).await.map(drop)
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last: Option<String>,
        _: Option<String>,
        custom: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        let mut headers = vec![("accept", EVENTS)];
        headers.extend(last.as_deref().map(|last| ("last-event-id", last)));
        let mut response = self.send(Method::Get, &uri, session, custom, &headers, Vec::new()).await?;
        match response.status {
            200 if response.is_of_type(EVENTS) => Ok(events(response.body)),
            200 | 405 => Err(Failure::ServerDoesNotSupportSse),
            status => {
                let body = read(&mut response.body, ERROR_BODY).await.unwrap_or_default();
                Err(refused(status, &body))
            }
        }
    }
}

fn refused(status: u16, body: &[u8]) -> Failure {
    let text = clean(String::from_utf8_lossy(body).trim(), 300);
    let gap = if text.is_empty() { "" } else { ": " };
    Failure::UnexpectedServerResponse(Cow::Owned(format!("HTTP {status}{gap}{text}")))
}

/// Sends a request, and returns the text of a successful response, up to a limit.
///
/// # Errors
/// When there is no such response.
pub async fn fetch_text(http: &dyn Http, request: HttpRequest) -> Result<String, HttpError> {
    let mut response = http.send(request).await?;
    if response.status != 200 {
        return Err(HttpError(format!("HTTP {}", response.status)));
    }
    let body = read(&mut response.body, ERROR_BODY).await?;
    String::from_utf8(body).map_err(|error| HttpError(error.to_string()))
}

/// Reads a body up to a limit. A longer one is an error.
pub(crate) async fn read(body: &mut ByteStream, limit: usize) -> Result<Vec<u8>, HttpError> {
    let mut bytes = Vec::new();
    while let Some(chunk) = body.next().await {
        bytes.extend_from_slice(&chunk?);
        if bytes.len() > limit {
            return Err(HttpError(format!("the response has more than {limit} bytes")));
        }
    }
    Ok(bytes)
}

/// Parses a body into events, each of bounded size.
fn events(body: ByteStream) -> BoxStream<'static, Result<Sse, SseError>> {
    let state = (body, Parser::new(LONGEST), VecDeque::new(), false);
    stream::unfold(state, |(mut body, mut parser, mut ready, failed)| async move {
        loop {
            if let Some(event) = ready.pop_front() {
                return Some((Ok(event), (body, parser, ready, failed)));
            }
            if failed {
                return None;
            }
            let problem: Box<dyn std::error::Error + Send + Sync> = match body.next().await? {
                Ok(bytes) => match push(&mut parser, &bytes, &mut ready) {
                    Ok(()) => continue,
                    Err(error) => Box::new(error),
                },
                Err(error) => Box::new(error),
            };
            return Some((Err(SseError::Body(problem)), (body, parser, ready, true)));
        }
    })
    .boxed()
}

fn push(parser: &mut Parser, bytes: &Bytes, ready: &mut VecDeque<Sse>) -> Result<(), HttpError> {
    let pushed = parser.push(bytes, |event| {
        let name = Some(event.name).filter(|name| !name.is_empty());
        ready.push_back(Sse { event: name, data: Some(usable(event.data)), id: event.id, retry: None });
    });
    pushed.map_err(|error| HttpError(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_a_challenge_are_found() {
        let challenge = r#"Bearer resource_metadata="http://x/y?a=b", scope="a b", error=invalid_token"#;
        assert_eq!(parameter(challenge, "scope").as_deref(), Some("a b"));
        assert_eq!(parameter(challenge, "resource_metadata").as_deref(), Some("http://x/y?a=b"));
        assert_eq!(parameter(challenge, "error").as_deref(), Some("invalid_token"));
        assert_eq!(parameter(challenge, "realm"), None);
        for odd in ["Bearer", "", "Bearer =", "Bearer a=\"", "Bearer a"] {
            assert_eq!(parameter(odd, "scope"), None);
        }
    }

    #[tokio::test]
    async fn token_replaces_a_configured_one() {
        let access = Authorization::default();
        let mut headers = vec![("Authorization".to_owned(), "Basic x".to_owned())];
        access.authorize(&mut headers).await;
        assert_eq!(headers[0].1, "Basic x");
        access.set_token("t".into());
        access.authorize(&mut headers).await;
        assert_eq!(headers, [("authorization".to_owned(), "Bearer t".to_owned())]);
    }
}
