//! A login in a browser.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest;
use ring::rand::{SecureRandom, SystemRandom};
use url::Url;

use super::{ClientIdentity, LoginTarget, OAuthError};
use crate::text::clean;

/// The longest code.
const LONGEST: usize = 8192;

/// A login that was prepared, and waits for the browser to return.
#[derive(Clone)]
pub struct Login {
    /// The address to open.
    pub url: Url,
    /// The `state` parameter: identifies the login in the redirect, and cannot be guessed.
    pub state: String,
    /// Where the browser returns to.
    pub redirect: String,
    /// The authorization server.
    pub found: LoginTarget,
    /// The client.
    pub identity: ClientIdentity,
    /// The scopes that are asked for.
    pub scopes: Vec<String>,
    /// The secret whose digest the authorization server has.
    verifier: String,
}

// Not derived: neither the verifier nor the state must reach a log.
impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Login").field("issuer", &self.found.issuer).finish_non_exhaustive()
    }
}

impl Login {
    /// Prepares a login that returns to `redirect`.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub fn new(
        found: LoginTarget,
        identity: ClientIdentity,
        redirect: &str,
        scopes: &[String],
    ) -> Result<Self, OAuthError> {
        let (state, verifier) = (random()?, random()?);
        let challenge = URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, verifier.as_bytes()));
        let mut url = found.authorization_endpoint.clone();
        let scope = scopes.join(" ");
        {
            let mut query = url.query_pairs_mut();
            query
                .append_pair("response_type", "code")
                .append_pair("client_id", &identity.id)
                .append_pair("redirect_uri", redirect)
                .append_pair("state", &state)
                .append_pair("code_challenge", &challenge)
                .append_pair("code_challenge_method", "S256")
                .append_pair("resource", &found.resource);
            if !scope.is_empty() {
                query.append_pair("scope", &scope);
            }
        }
        let (redirect, scopes) = (redirect.to_owned(), scopes.to_vec());
        Ok(Self { url, state, redirect, found, identity, scopes, verifier })
    }

    /// Checks the parameters of the redirect, and returns the code. The state has been checked: it found the login.
    ///
    /// # Errors
    /// When the person or the authorization server refused, or another one answered.
    pub fn code(&self, returned: &Returned) -> Result<String, OAuthError> {
        match &returned.issuer {
            Some(issuer) if *issuer != self.found.issuer => {
                return Err(OAuthError::Mismatch("it comes from another authorization server (`iss`)"));
            }
            None if self.found.names_issuer && !returned.is_bare => {
                return Err(OAuthError::Mismatch("it does not name its authorization server (`iss`)"));
            }
            _ => {}
        }
        if let Some((code, description)) = &returned.error {
            return Err(OAuthError::Refused { code: clean(code, 100), description: clean(description, 300) });
        }
        let code = returned.code.clone().filter(|code| !code.is_empty() && code.len() <= LONGEST);
        code.ok_or(OAuthError::Mismatch("it has no code"))
    }

    pub(super) fn verifier(&self) -> &str {
        &self.verifier
    }
}

/// Parameters of the redirect that ended a login in the browser.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Returned {
    /// The state of the login; none if a person pasted only the code.
    pub state: Option<String>,
    code: Option<String>,
    issuer: Option<String>,
    error: Option<(String, String)>,
    /// A person pasted only the code.
    is_bare: bool,
}

impl Returned {
    /// Parses the query of a redirect. A parameter that occurs twice makes the whole unusable (RFC 6749).
    #[must_use]
    pub fn parse(query: &str) -> Option<Self> {
        let mut returned = Self::default();
        let (mut error, mut description) = (None, None);
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            let place = match &*name {
                "state" => &mut returned.state,
                "code" => &mut returned.code,
                "iss" => &mut returned.issuer,
                "error" => &mut error,
                "error_description" => &mut description,
                _ => continue,
            };
            if place.replace(value.into_owned()).is_some() {
                return None;
            }
        }
        returned.error = error.map(|code| (code, description.unwrap_or_default()));
        Some(returned)
    }
}

/// Parses what a person pasted: the address that the browser ended at, its query, or only the code.
#[must_use]
pub fn parse_returned(pasted: &str) -> Option<Returned> {
    let pasted = pasted.trim();
    if pasted.is_empty() || pasted.len() > 4 * LONGEST || pasted.chars().any(char::is_control) {
        return None;
    }
    let has_scheme = pasted.starts_with("http://") || pasted.starts_with("https://");
    match pasted.split_once('?') {
        Some((_, query)) if has_scheme => Returned::parse(query.split('#').next().unwrap_or_default()),
        _ if has_scheme => None,
        _ if pasted.contains("code=") || pasted.contains("error=") => {
            Returned::parse(pasted.trim_start_matches('?'))
        }
        _ if pasted.contains(char::is_whitespace) => None,
        _ => Some(Returned { code: Some(pasted.to_owned()), is_bare: true, ..Returned::default() }),
    }
}

/// Returns 32 random bytes as text.
fn random() -> Result<String, OAuthError> {
    let mut bytes = [0; 32];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| OAuthError::Unusable("the system has no random numbers".into()))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::super::Authentication;
    use super::*;

    fn login(names_issuer: bool) -> Login {
        let found = LoginTarget {
            resource: "https://mcp.example/mcp".into(),
            issuer: "https://login.example".into(),
            authorization_endpoint: "https://login.example/authorize?tenant=1".parse().unwrap(),
            token_endpoint: "https://login.example/token".parse().unwrap(),
            registration_endpoint: None,
            names_issuer,
            authentication: Vec::new(),
            scopes: Vec::new(),
        };
        let identity = ClientIdentity { id: "me".into(), secret: None, authentication: Authentication::None };
        Login::new(found, identity, "http://127.0.0.1:1/oauth/callback", &["a".into(), "b".into()]).unwrap()
    }

    #[test]
    fn link_has_everything_and_no_secret() {
        let (one, two) = (login(false), login(false));
        let query: std::collections::BTreeMap<_, _> = one.url.query_pairs().into_owned().collect();
        assert_eq!(query["tenant"], "1", "a query of the endpoint stays");
        assert_eq!(query["response_type"], "code");
        assert_eq!(query["code_challenge_method"], "S256");
        assert_eq!(query["resource"], "https://mcp.example/mcp");
        assert_eq!(query["scope"], "a b");
        assert_eq!(query["state"], one.state);
        assert!(!one.url.as_str().contains(&one.verifier));
        assert!(one.state != two.state && one.verifier != two.verifier && one.state.len() == 43);
        assert!(!format!("{one:?}").contains(&one.verifier));
    }

    #[test]
    fn issuer_of_the_response_is_checked() {
        let code = |names: bool, query: &str| login(names).code(&Returned::parse(query).unwrap());
        assert_eq!(code(false, "code=c&state=s").unwrap(), "c");
        assert_eq!(code(true, "code=c&iss=https%3A%2F%2Flogin.example").unwrap(), "c");
        assert!(matches!(code(true, "code=c&state=s"), Err(OAuthError::Mismatch(_))));
        assert!(matches!(code(false, "code=c&iss=https://evil.example"), Err(OAuthError::Mismatch(_))));
        assert!(matches!(code(false, "state=s"), Err(OAuthError::Mismatch(_))));
        assert!(matches!(code(false, "code="), Err(OAuthError::Mismatch(_))));
        let refused = code(false, "error=access_denied&error_description=no%1b[31m").unwrap_err();
        assert_eq!(refused.to_string(), "the authorization server refused: access_denied (no[31m)");
    }

    #[test]
    fn repeated_parameters_are_refused() {
        assert!(Returned::parse("code=a&code=b&state=s").is_none());
        assert!(Returned::parse("code=a&state=s&state=s").is_none());
    }

    #[test]
    fn pasted_text_is_an_address_or_a_code() {
        let code = |text: &str| parse_returned(text).and_then(|returned| returned.code);
        assert_eq!(code(" http://127.0.0.1:1/oauth/callback?code=c&state=s \n").as_deref(), Some("c"));
        assert_eq!(code("https://x.example/oauth/callback?code=c&state=s#frag").as_deref(), Some("c"));
        assert_eq!(code("code=c&state=s").as_deref(), Some("c"));
        assert_eq!(code("?code=c&state=s").as_deref(), Some("c"));
        assert_eq!(code("4/0AbC-_x").as_deref(), Some("4/0AbC-_x"));
        for odd in ["", "  ", "two words", "http://x/", "a\u{0}b", &"x".repeat(5 * LONGEST)] {
            assert_eq!(code(odd), None, "{odd:.20}");
        }
    }
}
