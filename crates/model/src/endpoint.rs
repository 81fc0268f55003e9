//! Where a provider is, and how one shows who one is.

use std::fmt;

use bytes::Bytes;

use crate::http::{BadUrl, HttpRequest, Method, Patience, Url};

/// A text that is never shown.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Secret(String);

impl Secret {
    /// Takes a secret. White space around it comes from copying and pasting and is dropped.
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

/// How one shows who one is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum Auth {
    /// Not at all, as most local servers have it.
    #[default]
    None,
    /// `Authorization: Bearer …`, as almost everybody has it.
    Bearer(Secret),
    /// `api-key: …`, as Azure has it.
    ApiKey(Secret),
    /// `x-api-key: …`, as Anthropic has it.
    XApiKey(Secret),
}

impl Auth {
    /// A bearer token.
    #[must_use]
    pub fn bearer(token: &str) -> Self {
        Self::Bearer(Secret::new(token))
    }

    /// A key in the `api-key` header.
    #[must_use]
    pub fn api_key(key: &str) -> Self {
        Self::ApiKey(Secret::new(key))
    }

    /// A key in the `x-api-key` header.
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

/// The paths of the wires below the base address.
const PATHS: [&str; 3] = ["/chat/completions", "/responses", "/messages"];

/// A provider's API, whatever wire it speaks.
#[derive(Clone)]
pub struct Endpoint {
    base: Url,
    /// How one shows who one is.
    pub auth: Auth,
    /// Further headers of every request. They win over our own.
    pub headers: Vec<(String, String)>,
    /// Who is calling.
    pub user_agent: String,
    /// How long to wait for somebody who does not speak.
    pub patience: Patience,
}

impl Endpoint {
    /// The API at a base address, such as `https://api.openai.com/v1`.
    ///
    /// The full address of a wire, such as that of chat completions, is understood too, with a query (as in an Azure
    /// deployment route), because this is what people copy from documentation.
    ///
    /// # Errors
    /// When the address is none.
    pub fn new(base: &str) -> Result<Self, BadUrl> {
        Ok(Self {
            base: PATHS.iter().fold(Url::parse(base)?, |base, path| base.without_end(path)),
            auth: Auth::None,
            headers: Vec::new(),
            user_agent: concat!("baton/", env!("CARGO_PKG_VERSION")).to_owned(),
            patience: Patience::default(),
        })
    }

    /// The same API, for somebody.
    #[must_use]
    pub fn with_auth(self, auth: Auth) -> Self {
        Self { auth, ..self }
    }

    /// The same API, with a header unless it has one of that name.
    #[must_use]
    pub(crate) fn with_default_header(mut self, (name, value): (&str, &str)) -> Self {
        if !self.headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)) {
            self.headers.push((name.to_owned(), value.to_owned()));
        }
        self
    }

    /// The base address.
    #[must_use]
    pub fn base(&self) -> &Url {
        &self.base
    }

    /// Who is there, for people.
    #[must_use]
    pub fn host(&self) -> String {
        self.base.host()
    }

    /// A request to read something.
    pub(crate) fn get(&self, path: &str) -> HttpRequest {
        self.request(Method::Get, path, &[("accept", "application/json")], &[], Bytes::new())
    }

    /// A request to go on with a WebSocket.
    pub(crate) fn upgrade(&self, path: &str, more: &[(String, String)]) -> HttpRequest {
        self.request(Method::Get, path, &[], more, Bytes::new())
    }

    /// A request that carries JSON.
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

    /// The text without any of our secrets: providers like to repeat the key they refuse.
    pub(crate) fn scrub(&self, text: &str) -> String {
        let secrets =
            self.headers.iter().filter(|(name, _)| sounds_secret(name)).map(|(_, value)| value.as_str());
        let own = match &self.auth {
            Auth::None => None,
            Auth::Bearer(Secret(secret)) | Auth::ApiKey(Secret(secret)) | Auth::XApiKey(Secret(secret)) => {
                Some(secret.as_str())
            }
        };
        secrets.chain(own).fold(text.to_owned(), |text, secret| {
            let secret = secret.rsplit(' ').next().unwrap_or_default();
            // Shorter ones are placeholders such as `x` or `none`, and would tear holes into every word.
            if secret.len() < 6 { text } else { text.replace(secret, "***") }
        })
    }
}

fn sounds_secret(header: &str) -> bool {
    let name = header.to_ascii_lowercase();
    ["auth", "cookie", "key", "secret", "token"].iter().any(|part| name.contains(part))
}

/// Sets a header; a later value replaces an earlier one, whatever the case of the name.
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
    fn shows_who_one_is_in_four_ways() {
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
    fn headers_of_the_caller_win_and_are_kept_verbatim() {
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
    fn secrets_are_neither_printed_nor_repeated() {
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
