//! Discovery: from an MCP server to its authorization server.

use serde_json::Value;
use url::Url;

use super::OAuthError;
use super::fetch::Fetch;
use crate::credentials::without_credentials;
use crate::http::Http;
use crate::wire::Challenge;

/// Authorization servers of a resource that are tried.
const MOST_SERVERS: usize = 3;

/// An authorization server, and what a login there is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginTarget {
    /// The MCP server, as tokens name it (RFC 8707).
    pub resource: String,
    /// The authorization server.
    pub issuer: String,
    /// Where people log in.
    pub authorization_endpoint: Url,
    /// Where tokens come from.
    pub token_endpoint: Url,
    /// Where clients register.
    pub registration_endpoint: Option<Url>,
    /// Whether responses name the issuer (RFC 9207).
    pub names_issuer: bool,
    /// Supported ways to authenticate clients.
    pub authentication: Vec<String>,
    /// Scopes to ask for: those of the challenge, else those of the resource.
    pub scopes: Vec<String>,
}

/// Finds the authorization server of an MCP server.
///
/// # Errors
/// When there is none that can be used.
pub async fn discover(
    http: &dyn Http,
    server: &Url,
    challenge: Option<&Challenge>,
) -> Result<LoginTarget, OAuthError> {
    let fetch = Fetch::new(http, server);
    let resource = resource(&fetch, server, challenge).await?;
    let mut problem = OAuthError::Unusable("the MCP server names no authorization server".into());
    for issuer in resource.issuers.iter().take(MOST_SERVERS) {
        match authorization_server(&fetch, issuer, resource.is_guess).await {
            Ok(mut found) => {
                let asked = challenge.and_then(|challenge| challenge.parameter("scope"));
                found.scopes = asked.map_or(resource.scopes, |asked| words(&asked));
                found.resource = resource.name;
                return Ok(found);
            }
            Err(error) => problem = error,
        }
    }
    Err(problem)
}

/// Metadata of an MCP server as a protected resource (RFC 9728).
struct Resource {
    name: String,
    issuers: Vec<String>,
    scopes: Vec<String>,
    /// The server says nothing, and its own origin is tried: servers of the protocol before 2025-06-18.
    is_guess: bool,
}

async fn resource(
    fetch: &Fetch<'_>,
    server: &Url,
    challenge: Option<&Challenge>,
) -> Result<Resource, OAuthError> {
    let mut places = Vec::new();
    if let Some(named) = challenge.and_then(|challenge| challenge.parameter("resource_metadata")) {
        let url = fetch.address("resource_metadata", &named)?;
        // The metadata of a server is on the server: another origin could speak for it otherwise.
        if url.origin() != server.origin() {
            let why = "it is not on the MCP server".to_owned();
            return Err(OAuthError::Address { what: "resource_metadata", why });
        }
        places.push(url);
    } else {
        let path = server.path().trim_end_matches('/');
        if !path.is_empty() {
            places.push(at(server, &format!("/.well-known/oauth-protected-resource{path}")));
        }
        places.push(at(server, "/.well-known/oauth-protected-resource"));
    }
    for place in places {
        let fetched = fetch.get(place).await?;
        if let (200, Some(body)) = (fetched.status, fetched.body) {
            return described(server, &body);
        }
    }
    let origin = server.origin().ascii_serialization();
    Ok(Resource { name: canonical(server), issuers: vec![origin], scopes: Vec::new(), is_guess: true })
}

fn described(server: &Url, body: &Value) -> Result<Resource, OAuthError> {
    let name = text(body, "resource").unwrap_or_else(|| canonical(server));
    let url = Url::parse(&name).ok().filter(|url| covers(url, server));
    if url.is_none() {
        return Err(OAuthError::Unusable(
            "the metadata of the MCP server is about another server (`resource`)".into(),
        ));
    }
    Ok(Resource {
        name,
        issuers: texts(body, "authorization_servers"),
        scopes: texts(body, "scopes_supported").into_iter().filter(|scope| is_scope(scope)).collect(),
        is_guess: false,
    })
}

/// Whether a resource is a server, or a path above it.
fn covers(resource: &Url, server: &Url) -> bool {
    let above = resource.path().trim_end_matches('/');
    let below = server.path().strip_prefix(above);
    resource.origin() == server.origin() && below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Reads the metadata of an authorization server (RFC 8414), under any of the addresses that are in use. One that was
/// guessed may name another issuer, whose own metadata is then used.
async fn authorization_server(
    fetch: &Fetch<'_>,
    issuer: &str,
    is_guess: bool,
) -> Result<LoginTarget, OAuthError> {
    let url = fetch.address("the authorization server", issuer)?;
    let path = url.path().trim_end_matches('/');
    let mut places = vec![
        at(&url, &format!("/.well-known/oauth-authorization-server{path}")),
        at(&url, &format!("/.well-known/openid-configuration{path}")),
    ];
    if !path.is_empty() {
        places.push(at(&url, &format!("{path}/.well-known/openid-configuration")));
    }
    for place in places {
        let fetched = fetch.get(place).await?;
        if let (200, Some(body)) = (fetched.status, fetched.body) {
            return match text(&body, "issuer").filter(|named| is_guess && !is_same_issuer(named, issuer)) {
                // A pointer to another server, and no more: that server describes itself.
                Some(named) => Box::pin(authorization_server(fetch, &named, false)).await,
                None => server_metadata(fetch, issuer, &body),
            };
        }
    }
    Err(OAuthError::Unusable(format!("{} publishes no metadata", crate::text::clean(issuer, 200))))
}

fn is_same_issuer(a: &str, b: &str) -> bool {
    a.trim_end_matches('/') == b.trim_end_matches('/')
}

fn server_metadata(fetch: &Fetch<'_>, issuer: &str, body: &Value) -> Result<LoginTarget, OAuthError> {
    let unusable = |why: &str| OAuthError::Unusable(format!("the authorization server {why}"));
    let named = text(body, "issuer").ok_or_else(|| unusable("does not name itself"))?;
    // Mix-up: metadata of one server that speaks for another would send codes and secrets of that one elsewhere.
    if !is_same_issuer(&named, issuer) {
        return Err(unusable("calls itself by another name (`issuer`)"));
    }
    if !texts(body, "code_challenge_methods_supported").iter().any(|method| method == "S256") {
        return Err(unusable("does not support PKCE with S256"));
    }
    let endpoint = |name: &'static str| match text(body, name) {
        Some(url) => fetch.address(name, &url).map(Some),
        None => Ok(None),
    };
    let required = |name: &'static str| {
        endpoint(name)?.ok_or_else(|| OAuthError::Unusable(format!("the authorization server has no {name}")))
    };
    Ok(LoginTarget {
        resource: String::new(),
        issuer: named,
        authorization_endpoint: required("authorization_endpoint")?,
        token_endpoint: required("token_endpoint")?,
        registration_endpoint: endpoint("registration_endpoint")?,
        names_issuer: body.get("authorization_response_iss_parameter_supported") == Some(&Value::Bool(true)),
        authentication: texts(body, "token_endpoint_auth_methods_supported"),
        scopes: Vec::new(),
    })
}

/// Returns an address on the same origin.
fn at(url: &Url, path: &str) -> Url {
    let mut at = url.clone();
    at.set_path(path);
    at.set_query(None);
    at.set_fragment(None);
    at
}

/// Returns the name of an MCP server in tokens: its address without user, query and fragment.
pub(super) fn canonical(server: &Url) -> String {
    let url = without_credentials(server);
    let text = url.to_string();
    if url.path() == "/" { text.trim_end_matches('/').to_owned() } else { text }
}

fn text(body: &Value, name: &str) -> Option<String> {
    body.get(name)?.as_str().map(str::to_owned)
}

fn texts(body: &Value, name: &str) -> Vec<String> {
    let entries = body.get(name).and_then(Value::as_array).into_iter().flatten();
    entries.filter_map(|entry| entry.as_str().map(str::to_owned)).take(100).collect()
}

pub(super) fn words(scopes: &str) -> Vec<String> {
    scopes.split_whitespace().filter(|scope| is_scope(scope)).take(100).map(str::to_owned).collect()
}

/// Whether a text can be a scope (RFC 6749).
fn is_scope(scope: &str) -> bool {
    !scope.is_empty()
        && scope.len() <= 200
        && scope.bytes().all(|b| b.is_ascii_graphic() && b != b'"' && b != b'\\')
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use serde_json::{Value, json};

    use super::{LoginTarget, OAuthError, discover};
    use crate::http::{Http, HttpRequest, HttpResponse};
    use crate::{HttpError, Working};

    /// JSON documents by their addresses; everything else is missing.
    struct Pages(HashMap<String, Value>);

    impl Http for Pages {
        fn send(&self, request: HttpRequest) -> Working<'_, Result<HttpResponse, HttpError>> {
            let page = self.0.get(request.url.as_str());
            let (status, body) = page.map_or((404, String::new()), |page| (200, page.to_string()));
            let body = Box::pin(futures_util::stream::iter([Ok(body.into())]));
            Box::pin(async move { Ok(HttpResponse { status, headers: Vec::new(), body }) })
        }
    }

    /// Metadata of an issuer, whose tokens come from another place.
    fn metadata(issuer: &str, tokens: &str) -> Value {
        json!({
            "issuer": issuer,
            "authorization_endpoint": format!("{issuer}/authorize"),
            "token_endpoint": format!("{tokens}/token"),
            "code_challenge_methods_supported": ["S256"],
        })
    }

    /// Discovers the authorization server of `https://mcp.example/mcp`, which publishes no metadata of its resource.
    async fn guessed(pages: &[(&str, Value)]) -> Result<LoginTarget, OAuthError> {
        let pages = pages.iter().map(|(host, page)| {
            (format!("https://{host}/.well-known/oauth-authorization-server"), page.clone())
        });
        discover(&Pages(pages.collect()), &"https://mcp.example/mcp".parse().unwrap(), None).await
    }

    #[tokio::test]
    async fn guessed_server_cannot_send_codes_of_another_issuer_to_itself() {
        let (good, own) = ("https://login.example", "https://mcp.example");
        let evil = ("mcp.example", metadata(good, own));
        let found = guessed(&[evil.clone(), ("login.example", metadata(good, good))]).await.unwrap();
        assert_eq!(
            (found.issuer.as_str(), found.token_endpoint.as_str()),
            (good, "https://login.example/token")
        );
        assert!(guessed(std::slice::from_ref(&evil)).await.is_err(), "the issuer publishes nothing");
        let third = metadata("https://third.example", "https://third.example");
        assert!(guessed(&[evil, ("login.example", third)]).await.is_err(), "the issuer names another one");
        let found = guessed(&[("mcp.example", metadata(own, own))]).await.unwrap();
        assert_eq!(found.token_endpoint.as_str(), "https://mcp.example/token");
    }

    #[test]
    fn resource_is_the_server_or_above_it() {
        let covers = |resource: &str, server: &str| {
            super::covers(&resource.parse().unwrap(), &server.parse().unwrap())
        };
        assert!(covers("https://x.example", "https://x.example/mcp"));
        assert!(covers("https://x.example/mcp", "https://x.example/mcp"));
        assert!(covers("https://x.example/mcp/", "https://x.example/mcp"));
        assert!(covers("https://x.example/a", "https://x.example/a/b"));
        assert!(!covers("https://x.example/mc", "https://x.example/mcp"));
        assert!(!covers("https://y.example/mcp", "https://x.example/mcp"));
        assert!(!covers("http://x.example/mcp", "https://x.example/mcp"));
        assert!(!covers("https://x.example/mcp/b", "https://x.example/mcp"));
    }

    #[test]
    fn names_of_servers_have_no_query() {
        let canonical = |url: &str| super::canonical(&url.parse().unwrap());
        assert_eq!(canonical("https://x.example/mcp?key=1#a"), "https://x.example/mcp");
        assert_eq!(canonical("https://X.example:443/"), "https://x.example");
        assert_eq!(canonical("https://me:pass@x.example/mcp"), "https://x.example/mcp");
    }
}
