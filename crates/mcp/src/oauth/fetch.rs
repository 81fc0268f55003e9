//! Requests to addresses that a stranger named.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tokio::time::timeout;
use url::{Host, Url};

use super::OAuthError;
use crate::credentials::without_credentials;
use crate::http::{Http, HttpRequest, Method};
use crate::text::clean;
use crate::wire::read;

/// Bytes of a response.
const LONGEST: usize = 256 * 1024;
/// How long a response may take.
const PATIENCE: Duration = Duration::from_secs(15);
/// The longest address.
const LONGEST_ADDRESS: usize = 4096;

/// Sends requests for the login at one MCP server.
pub(super) struct Fetch<'a> {
    http: &'a dyn Http,
    /// Whether the MCP server is on this machine: only then may it name others there.
    is_local: bool,
}

/// A response: its status, and its body if that is JSON.
pub(super) struct Fetched {
    pub(super) status: u16,
    pub(super) body: Option<Value>,
}

impl<'a> Fetch<'a> {
    pub(super) fn new(http: &'a dyn Http, server: &Url) -> Self {
        Self { http, is_local: is_on_this_machine(server) }
    }

    /// Parses an address that may be used.
    pub(super) fn address(&self, what: &'static str, text: &str) -> Result<Url, OAuthError> {
        let bad = |why: &str| OAuthError::Address { what, why: why.to_owned() };
        if text.len() > LONGEST_ADDRESS {
            return Err(bad("it is too long"));
        }
        let url = Url::parse(text).map_err(|error| bad(&error.to_string()))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(bad("it contains a user name"));
        }
        if url.fragment().is_some() {
            return Err(bad("it contains a fragment"));
        }
        match (url.scheme(), is_on_this_machine(&url)) {
            ("https", false) => Ok(url),
            ("https" | "http", true) if self.is_local => Ok(url),
            ("https" | "http", true) => Err(bad("it is on this machine, and the MCP server is not")),
            _ => Err(bad("it must begin with https://")),
        }
    }

    pub(super) async fn get(&self, url: Url) -> Result<Fetched, OAuthError> {
        self.send(Method::Get, url, Vec::new(), Bytes::new()).await
    }

    pub(super) async fn post_json(&self, url: Url, body: &Value) -> Result<Fetched, OAuthError> {
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        self.send(Method::Post, url, headers, body.to_string().into()).await
    }

    pub(super) async fn post_form(
        &self,
        url: Url,
        fields: &[(&str, &str)],
        authorization: Option<String>,
    ) -> Result<Fetched, OAuthError> {
        let form = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let mut headers = vec![("content-type".to_owned(), "application/x-www-form-urlencoded".to_owned())];
        headers.extend(authorization.map(|value| ("authorization".to_owned(), value)));
        self.send(Method::Post, url, headers, form.into()).await
    }

    /// Sends a request. Redirects are not followed: they would lead where nothing was checked.
    async fn send(
        &self,
        method: Method,
        url: Url,
        mut headers: Vec<(String, String)>,
        body: Bytes,
    ) -> Result<Fetched, OAuthError> {
        let shown = clean(without_credentials(&url).as_str(), 200);
        let fail = |why: String| OAuthError::Unusable(format!("{shown}: {why}"));
        headers.push(("accept".into(), "application/json".into()));
        let exchange = async {
            let mut response = self.http.send(HttpRequest { method, url, headers, body }).await?;
            let bytes = read(&mut response.body, LONGEST).await?;
            Ok::<_, crate::HttpError>((response.status, bytes))
        };
        let (status, bytes) = timeout(PATIENCE, exchange)
            .await
            .map_err(|_| fail(format!("no response within {} s", PATIENCE.as_secs())))?
            .map_err(|error| fail(outward(&error.to_string(), &shown)))?;
        if (300..400).contains(&status) {
            return Err(fail("redirects are not followed".into()));
        }
        Ok(Fetched { status, body: baton_json::from_slice(&bytes).ok() })
    }
}

/// Returns an error of the HTTP client for people who ask through any door. Names in the certificate of a host that a
/// stranger chose would describe that host, so those are only in the log.
fn outward(error: &str, shown: &str) -> String {
    if !error.to_ascii_lowercase().contains("certificate") {
        return error.to_owned();
    }
    tracing::warn!(address = shown, error, "the certificate of an authorization server is not accepted");
    "its certificate is not accepted; see the server log".to_owned()
}

/// Whether an address is on this machine.
#[must_use]
pub fn is_on_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            name.eq_ignore_ascii_case("localhost") || name.to_ascii_lowercase().ends_with(".localhost")
        }
        Some(Host::Ipv4(address)) => is_loopback(IpAddr::V4(address)),
        Some(Host::Ipv6(address)) => is_loopback(IpAddr::V6(address)),
        None => false,
    }
}

fn is_loopback(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => address.is_loopback() || address == Ipv4Addr::UNSPECIFIED,
        IpAddr::V6(address) => address.is_loopback() || address == Ipv6Addr::UNSPECIFIED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HttpError, HttpResponse, Working};

    struct Nobody;

    impl Http for Nobody {
        fn send(&self, _: HttpRequest) -> Working<'_, Result<HttpResponse, HttpError>> {
            Box::pin(async { Err(HttpError("nobody".into())) })
        }
    }

    #[test]
    fn names_in_certificates_stay_in_the_log() {
        let error = "invalid peer certificate: certificate is only valid for DnsName(\"db.internal\")";
        assert!(!outward(error, "https://login.example/").contains("internal"));
        assert_eq!(outward("connection refused", "https://login.example/"), "connection refused");
    }

    #[test]
    fn only_https_is_followed_and_this_machine_only_from_this_machine() {
        let fetch = |server: &str| Fetch::new(&Nobody, &server.parse().unwrap());
        let (remote, local) = (fetch("https://mcp.example/mcp"), fetch("http://127.0.0.1:1/mcp"));
        for url in ["https://login.example/a", "https://login.example:8443/a?b=c"] {
            assert!(remote.address("x", url).is_ok() && local.address("x", url).is_ok(), "{url}");
        }
        for url in ["http://127.0.0.1:2/a", "http://localhost/", "http://[::1]:3/", "https://localhost/"] {
            assert!(remote.address("x", url).is_err() && local.address("x", url).is_ok(), "{url}");
        }
        for url in [
            "http://login.example/",
            "javascript:alert(1)",
            "file:///etc/passwd",
            "data:text/html,x",
            "https://u:p@login.example/",
            "https://login.example/#x",
            "http://127.0.0.1.evil.example/",
            "ftp://127.0.0.1/",
            "//login.example/",
            "",
        ] {
            assert!(remote.address("x", url).is_err() && local.address("x", url).is_err(), "{url}");
        }
        for url in ["http://2130706433/", "http://0x7f.1/", "http://0/", "http://[::ffff:127.0.0.1]/"] {
            assert!(remote.address("x", url).is_err(), "{url}");
            assert!(is_on_this_machine(&url.parse().unwrap()), "{url}");
        }
    }
}
