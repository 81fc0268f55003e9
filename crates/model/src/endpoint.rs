//! The address of a provider, and authentication.

use std::fmt;

use bytes::Bytes;

use crate::http::{BadUrl, HttpRequest, Method, Patience, Url};

/// A text that is never printed.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret. Drops white space around it, which comes from copying and pasting.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.trim().to_owned())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// The method of authentication.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum Auth {
    /// None, as for most local servers.
    #[default]
    None,
    /// `Authorization: Bearer …`, as for most providers.
    Bearer(Secret),
    /// `api-key: …`, as for Azure.
    ApiKey(Secret),
    /// `x-api-key: …`, as for Anthropic.
    XApiKey(Secret),
}

impl Auth {
    /// Authenticates with a bearer token.
    #[must_use]
    pub fn bearer(token: &str) -> Self {
        Self::Bearer(Secret::new(token))
    }

    /// Authenticates with a key in the `api-key` header.
    #[must_use]
    pub fn api_key(key: &str) -> Self {
        Self::ApiKey(Secret::new(key))
    }

    /// Authenticates with a key in the `x-api-key` header.
    #[must_use]
    pub fn x_api_key(key: &str) -> Self {
        Self::XApiKey(Secret::new(key))
    }

    fn header(&self) -> Option<(&'static str, String)> {
        match self {
            Self::None => None,
            Self::Bearer(Secret(token)) => Some(("authorization", format!("Bearer {token}"))),
            Self::ApiKey(Secret(key)) => Some(("api-key", key.clone())),
            Self::XApiKey(Secret(key)) => Some(("x-api-key", key.clone())),
        }
    }
}

/// The paths of the wire APIs below the base URL.
const PATHS: [&str; 3] = ["/chat/completions", "/responses", "/messages"];

/// The API of a provider, for any wire format.
#[derive(Clone)]
pub struct Endpoint {
    base: Url,
    /// The method of authentication.
    pub auth: Auth,
    /// Additional headers of every request. They take precedence over ours.
    pub headers: Vec<(String, String)>,
    /// The `User-Agent` header.
    pub user_agent: String,
    /// Time limits for a provider that does not respond.
    pub patience: Patience,
}

impl Endpoint {
    /// Creates the endpoint at a base URL, such as `https://api.openai.com/v1`.
    ///
    /// The full URL of a wire API, such as that of chat completions, is accepted too, with a query (as in an
    /// Azure deployment route), because this is what people copy from documentation.
    ///
    /// # Errors
    /// When the URL is invalid.
    pub fn new(base: &str) -> Result<Self, BadUrl> {
        Ok(Self {
            base: PATHS.iter().fold(Url::parse(base)?, |base, path| base.without_suffix(path)),
            auth: Auth::None,
            headers: Vec::new(),
            user_agent: concat!("baton/", env!("CARGO_PKG_VERSION")).to_owned(),
            patience: Patience::default(),
        })
    }

    /// Sets the authentication.
    #[must_use]
    pub fn with_auth(self, auth: Auth) -> Self {
        Self { auth, ..self }
    }

    /// Adds a header, unless one of that name is set.
    #[must_use]
    pub(crate) fn with_default_header(mut self, (name, value): (&str, &str)) -> Self {
        if !self.headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)) {
            self.headers.push((name.to_owned(), value.to_owned()));
        }
        self
    }

    /// Returns the base URL.
    #[must_use]
    pub fn base(&self) -> &Url {
        &self.base
    }

    /// Returns the host, for messages.
    #[must_use]
    pub fn host(&self) -> String {
        self.base.host()
    }

    /// Whether the provider is a server on this machine.
    pub(crate) fn is_on_this_machine(&self) -> bool {
        self.base.is_on_this_machine()
    }

    /// Creates a GET request.
    pub(crate) fn get(&self, path: &str) -> HttpRequest {
        self.request(Method::Get, path, &[("accept", "application/json")], &[], Bytes::new())
    }

    /// Creates the request that opens a WebSocket.
    pub(crate) fn upgrade(&self, path: &str, more: &[(String, String)]) -> HttpRequest {
        self.request(Method::Get, path, &[], more, Bytes::new())
    }

    /// Creates a POST request with a JSON body.
    pub(crate) fn post(
        &self,
        path: &str,
        accept: &str,
        more: &[(String, String)],
        body: Bytes,
    ) -> HttpRequest {
        let own = [("content-type", "application/json"), ("accept", accept)];
        self.request(Method::Post, path, &own, more, body)
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        own: &[(&str, &str)],
        more: &[(String, String)],
        body: Bytes,
    ) -> HttpRequest {
        let mut headers = Vec::new();
        for (name, value) in own {
            set(&mut headers, name, value);
        }
        set(&mut headers, "user-agent", &self.user_agent);
        if let Some((name, value)) = self.auth.header() {
            set(&mut headers, name, &value);
        }
        for (name, value) in self.headers.iter().chain(more) {
            set(&mut headers, name, value);
        }
        HttpRequest { method, url: self.base.below(path), headers, body }
    }

    /// Removes our secrets from a text: providers like to repeat the key that they refuse.
    pub(crate) fn scrub(&self, text: &str) -> String {
        let secrets =
            self.headers.iter().filter(|(name, _)| is_secret_name(name)).map(|(_, value)| value.as_str());
        let own = match &self.auth {
            Auth::None => None,
            Auth::Bearer(Secret(secret)) | Auth::ApiKey(Secret(secret)) | Auth::XApiKey(Secret(secret)) => {
                Some(secret.as_str())
            }
        };
        secrets.chain(own).fold(text.to_owned(), |text, secret| {
            let secret = secret.rsplit(' ').next().unwrap_or_default();
            // Shorter ones are placeholders such as `x` or `none`, and would match inside other words.
            if secret.len() < 6 { text } else { text.replace(secret, "***") }
        })
    }
}

fn is_secret_name(header: &str) -> bool {
    let name = header.to_ascii_lowercase();
    ["auth", "cookie", "key", "secret", "token"].iter().any(|part| name.contains(part))
}

/// Sets a header; a later value replaces an earlier one. Names are compared without regard to case.
fn set(headers: &mut Vec<(String, String)>, name: &str, value: &str) {
    headers.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
    headers.push((name.to_owned(), value.to_owned()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(auth: Auth) -> Endpoint {
        Endpoint::new("https://api.example.com/v1/").unwrap().with_auth(auth)
    }

    fn headers(endpoint: &Endpoint, more: &[(&str, &str)]) -> Vec<(String, String)> {
        let more: Vec<_> = more.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        endpoint.post("x", "application/json", &more, Bytes::new()).headers
    }

    #[test]
    fn each_authentication_method_sets_its_header() {
        let check = |auth: Auth, name: &str, expected: Option<&str>| {
            let headers = headers(&endpoint(auth), &[]);
            let found = headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str());
            assert_eq!(found, expected);
        };
        check(Auth::None, "authorization", None);
        check(Auth::bearer(" sk-1234567\n"), "authorization", Some("Bearer sk-1234567"));
        check(Auth::api_key("k"), "api-key", Some("k"));
        check(Auth::x_api_key("k"), "x-api-key", Some("k"));
    }

    #[test]
    fn headers_of_the_caller_take_precedence() {
        let mut endpoint = endpoint(Auth::bearer("ours"));
        endpoint.headers = vec![("Authorization".to_owned(), "Basic theirs".to_owned())];
        let headers = headers(&endpoint, &[("X-Interaction-Id", "7"), ("User-Agent", "me")]);
        let expected = [
            ("content-type", "application/json"),
            ("accept", "application/json"),
            ("Authorization", "Basic theirs"),
            ("X-Interaction-Id", "7"),
            ("User-Agent", "me"),
        ];
        let headers: Vec<_> = headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        assert_eq!(headers, expected);
    }

    #[test]
    fn secrets_are_neither_printed_nor_echoed() {
        let mut endpoint = endpoint(Auth::bearer("sk-geheim"));
        endpoint.headers = vec![
            ("X-Gateway-Token".to_owned(), "Bearer gw-geheim".to_owned()),
            ("x-title".to_owned(), "Baton".to_owned()),
        ];
        assert_eq!(format!("{:?}", endpoint.auth), "Bearer(***)");
        assert_eq!(
            endpoint.scrub("bad key sk-geheim for gw-geheim of Baton"),
            "bad key *** for *** of Baton"
        );
    }
}
