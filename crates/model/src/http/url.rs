//! Validated URLs.

use std::fmt;
use std::net::IpAddr;

/// An `http` or `https` URL with a host.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Url(reqwest::Url);

/// Error for an invalid URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a web address: {why}")]
pub struct BadUrl {
    text: String,
    why: String,
}

impl Url {
    /// Parses a URL.
    ///
    /// # Errors
    /// When it is not `http` or `https`, or has no host.
    pub fn parse(text: &str) -> Result<Self, BadUrl> {
        // The query and the user info may contain a secret, and errors are shown and logged.
        let shown = text.split('?').next().unwrap_or_default();
        let shown = shown.rsplit('@').next().unwrap_or_default();
        let bad = |why: &str| BadUrl { text: shown.to_owned(), why: why.to_owned() };
        let mut url = match reqwest::Url::parse(text.trim()) {
            Ok(url) if matches!(url.scheme(), "http" | "https") => url,
            Ok(_) | Err(_) if !text.contains("://") => {
                return Err(bad("it must start with http:// or https://"));
            }
            Ok(_) => return Err(bad("only http:// and https:// are supported")),
            Err(error) => return Err(bad(&error.to_string())),
        };
        url.set_fragment(None);
        Ok(Self(url))
    }

    /// Returns the URL of a path below this one. Slashes are neither doubled nor lost, and a query stays at
    /// the end.
    #[must_use]
    pub fn below(&self, path: &str) -> Self {
        let mut url = self.0.clone();
        url.set_path(&format!("{}/{}", self.0.path().trim_end_matches('/'), path.trim_start_matches('/')));
        Self(url)
    }

    /// Returns the URL without this suffix, if it has it.
    #[must_use]
    pub fn without_suffix(&self, path: &str) -> Self {
        let mut url = self.0.clone();
        let trimmed = self.0.path().trim_end_matches('/');
        url.set_path(trimmed.strip_suffix(path).unwrap_or(trimmed));
        Self(url)
    }

    /// The host, for people, with the port if it is not the default.
    #[must_use]
    pub fn host(&self) -> String {
        let host = self.0.host_str().unwrap_or_default();
        self.0.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    /// The host alone, as it is resolved.
    pub(super) fn host_name(&self) -> &str {
        self.0.host_str().unwrap_or_default()
    }

    /// The host, if it is an address.
    pub(super) fn address(&self) -> Option<IpAddr> {
        self.host_name().trim_matches(['[', ']']).parse().ok()
    }

    /// Whether the host is this machine, by its name or a loopback address.
    #[must_use]
    pub fn is_on_this_machine(&self) -> bool {
        self.host_name().eq_ignore_ascii_case("localhost")
            || self.address().is_some_and(|address| address.is_loopback())
    }

    /// Returns the URL with the scheme of WebSockets.
    #[must_use]
    pub fn as_websocket(&self) -> String {
        self.0.as_str().replacen("http", "ws", 1)
    }

    /// The whole text, including any secret in it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    pub(super) fn into_inner(self) -> reqwest::Url {
        self.0
    }
}

/// Omits query and user info: both may contain keys.
impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.0.scheme(), self.host(), self.0.path())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_join_with_one_slash_and_keep_the_query() {
        let check = |base: &str, expected: &str| {
            let url = Url::parse(base).unwrap();
            assert_eq!(
                url.without_suffix("/chat/completions").below("chat/completions").as_str(),
                expected,
                "{base}"
            );
        };
        check("https://api.example.com/v1", "https://api.example.com/v1/chat/completions");
        check("https://api.example.com/v1/", "https://api.example.com/v1/chat/completions");
        check("https://api.example.com/v1//", "https://api.example.com/v1/chat/completions");
        check("https://api.example.com", "https://api.example.com/chat/completions");
        check("  http://[::1]:8080/ ", "http://[::1]:8080/chat/completions");
        check("https://api.example.com/v1/chat/completions", "https://api.example.com/v1/chat/completions");
        check(
            "https://x.example.com/openai/deployments/d/chat/completions?api-version=1#top",
            "https://x.example.com/openai/deployments/d/chat/completions?api-version=1",
        );
    }

    #[test]
    fn loopback_addresses_are_on_this_machine() {
        let local = |url: &str| Url::parse(url).unwrap().is_on_this_machine();
        for url in ["http://localhost:1/v1", "http://127.0.0.1:1", "http://127.9.9.9", "http://[::1]:1"] {
            assert!(local(url), "{url}");
        }
        for url in ["http://localhost.example", "http://10.0.0.1", "https://api.example"] {
            assert!(!local(url), "{url}");
        }
    }

    #[test]
    fn debug_output_omits_secrets() {
        let url = Url::parse("https://user:pw@api.example.com:8443/v1?key=secret").unwrap();
        assert_eq!(url.host(), "api.example.com:8443");
        assert_eq!(format!("{url:?}"), "https://api.example.com:8443/v1");
    }

    #[test]
    fn errors_name_the_problem() {
        let check =
            |text: &str, expected: &str| assert_eq!(Url::parse(text).unwrap_err().to_string(), expected);
        check(
            "localhost:11434/v1",
            "`localhost:11434/v1` is not a web address: it must start with http:// or https://",
        );
        check(
            "api.example.com",
            "`api.example.com` is not a web address: it must start with http:// or https://",
        );
        check("ftp://x/y?key=1", "`ftp://x/y` is not a web address: only http:// and https:// are supported");
        check("https://", "`https://` is not a web address: empty host");
    }
}
