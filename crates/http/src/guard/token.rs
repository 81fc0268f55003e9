//! The token of a request: in a header, in a cookie, or in the query of the link that the server prints.

use axum::extract::Request;
use http::{HeaderMap, StatusCode, header};
use subtle::ConstantTimeEq;

use crate::HttpOptions;
use crate::error::ApiError;

/// Cookie in which a browser stores the token.
pub(crate) const COOKIE: &str = "baton_token";

/// Checks the token of a request, if one is configured.
pub(super) fn check_token(options: &HttpOptions, request: &Request) -> Result<(), ApiError> {
    let Some(expected) = &options.token else { return Ok(()) };
    // Health is not secret, and a monitor need not know the token.
    if matches!(request.uri().path(), "/api/health" | "/api/ready") {
        return Ok(());
    }
    let given = bearer(request.headers()).or_else(|| cookie(request.headers())).or_else(|| query(request));
    let matches = given.is_some_and(|given| bool::from(given.as_bytes().ct_eq(expected.as_bytes())));
    if matches {
        return Ok(());
    }
    let message = "token missing or wrong; send `Authorization: Bearer TOKEN`; the server printed the path of the token file when it started";
    Err(ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized", message))
}

fn bearer(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().to_owned())
}

fn cookie(headers: &HeaderMap) -> Option<String> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.into_iter().find(|(name, _)| *name == COOKIE).map(|(_, value)| value.to_owned())
}

/// Returns the token in the query, as in the link that the server prints. Only for the start page: URLs end up in browser
/// histories and logs.
fn query(request: &Request) -> Option<String> {
    if request.uri().path() != "/" {
        return None;
    }
    let pairs = request.uri().query()?.split('&').filter_map(|pair| pair.split_once('='));
    pairs.into_iter().find(|(name, _)| *name == "token").map(|(_, value)| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::test_requests::{options, request};
    use super::*;

    #[test]
    fn token_is_required_in_header_cookie_or_start_link() {
        let check =
            |headers: &[(&str, &str)], path: &str| check_token(&options(), &request(headers, path)).is_ok();
        assert!(check(&[("authorization", "Bearer secret")], "/api/sessions"));
        assert!(check(&[("authorization", "bearer secret")], "/api/sessions"));
        assert!(check(&[("cookie", "a=b; baton_token=secret")], "/api/sessions"));
        assert!(check(&[], "/?token=secret"));
        assert!(check(&[], "/api/health"));
        for (headers, path) in [
            (&[][..], "/api/sessions"),
            (&[("authorization", "Bearer wrong")][..], "/api/sessions"),
            (&[("authorization", "Bearer secret2")][..], "/api/sessions"),
            (&[("authorization", "secret")][..], "/api/sessions"),
            (&[][..], "/api/sessions?token=secret"),
        ] {
            assert!(!check(headers, path), "{headers:?} {path}");
        }
    }
}
