//! Requests to servers that are reached over HTTP: their authorization, the challenges of servers, and bounded bodies.
//!
//! The two transports are [`super::streamable`] and [`super::sse`].

use std::sync::Mutex;

use futures_util::StreamExt;
use url::Url;

use super::headers::{HeadersVersion, SuppliedHeaders};
use crate::http::{ByteStream, Http, HttpError, HttpRequest, HttpResponse};
use crate::lock;

/// Bytes of an error's body that are read.
pub(super) const ERROR_BODY: usize = 64 * 1024;

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
