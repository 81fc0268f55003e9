//! Who sends a request: the proof in a header, in a cookie, or in the query of a login link.

use baton_people::{Digest, Identity, People, PeopleError};
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode, header};
use subtle::ConstantTimeEq;

use crate::HttpOptions;
use crate::error::ApiError;

/// Cookie in which a browser stores its login.
pub(crate) const LOGIN_COOKIE: &str = "baton_login";
/// Maximum number of cookies of one name that are read.
const MAX_COOKIES: usize = 16;
/// Header that the page sends with every change. Pages of other origins cannot send it: the browser asks
/// the server first (CORS preflight), which refuses.
const PAGE_HEADER: &str = "x-baton-page";

/// Identifies the sender of a request.
pub(super) async fn identify(
    options: &HttpOptions,
    people: Option<&People>,
    request: &Parts,
) -> Result<Identity, ApiError> {
    let Some(owner) = &options.token else { return Ok(Identity::Owner) };
    let headers = &request.headers;
    if let Some(given) = bearer(headers) {
        if is_equal(&given, owner) {
            return Ok(Identity::Owner);
        }
        return of_person(people, &given).await?.ok_or_else(unauthorized);
    }
    if is_start(request) && query(request, "token").is_some_and(|given| is_equal(given, owner)) {
        return Ok(Identity::Owner);
    }
    let identity = of_cookie(people, headers, owner).await?.ok_or_else(unauthorized)?;
    // A browser sends cookies on its own. The header proves that the page sends the request, and not a form elsewhere.
    let changes = !matches!(request.method, Method::GET | Method::HEAD);
    if changes && !headers.contains_key(PAGE_HEADER) {
        let message =
            format!("a change with a cookie needs the header {PAGE_HEADER}; programs send the token instead");
        return Err(ApiError::new(StatusCode::FORBIDDEN, "csrf", message));
    }
    Ok(identity)
}

async fn of_person(people: Option<&People>, token: &str) -> Result<Option<Identity>, ApiError> {
    match people {
        Some(people) => people.of_token(token).await.map_err(unreadable),
        None => Ok(None),
    }
}

async fn of_cookie(
    people: Option<&People>,
    headers: &HeaderMap,
    owner: &str,
) -> Result<Option<Identity>, ApiError> {
    let Some(people) = people else { return Ok(None) };
    people.of_logins(cookies(headers, LOGIN_COOKIE), Digest::of(owner)).await.map_err(unreadable)
}

pub(crate) fn unreadable(error: PeopleError) -> ApiError {
    match error {
        PeopleError::Store(error) => error.into(),
        error => ApiError::internal(error.to_string()),
    }
}

fn unauthorized() -> ApiError {
    let message = "token missing or wrong; send `Authorization: Bearer TOKEN` (baton attach: --token-file or BATON_TOKEN); the server printed the path of the token file when it started";
    ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
}

pub(crate) fn is_equal(given: &str, expected: &str) -> bool {
    bool::from(given.as_bytes().ct_eq(expected.as_bytes()))
}

fn bearer(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().to_owned())
}

/// Returns the values of a cookie: a browser sends one for each path that has one. At most
/// [`MAX_COOKIES`] are read.
pub(crate) fn cookies<'a>(headers: &'a HeaderMap, name: &'a str) -> impl Iterator<Item = &'a str> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(move |(found, _)| *found == name).map(|(_, value)| value).take(MAX_COOKIES)
}

/// Whether a request is for the start page. Only its query may contain a secret: URLs end up in histories and logs.
pub(super) fn is_start(request: &Parts) -> bool {
    request.method == Method::GET && request.uri.path() == "/"
}

/// Returns a value of the query.
pub(super) fn query<'a>(request: &'a Parts, name: &str) -> Option<&'a str> {
    let pairs = request.uri.query()?.split('&').filter_map(|pair| pair.split_once('='));
    pairs.into_iter().find(|(found, _)| *found == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use baton_people::Role;
    use baton_store::memory::MemoryStore;

    use super::super::test_requests::{options, request};
    use super::*;

    async fn check(method: &str, headers: &[(&str, &str)], path: &str) -> Result<Identity, &'static str> {
        let mut request = request(headers, path);
        request.method = method.parse().unwrap();
        identify(&options(), None, &request).await.map_err(|error| error.code())
    }

    #[tokio::test]
    async fn token_is_required_in_header_or_start_link() {
        for (headers, path) in [
            (&[("authorization", "Bearer secret")][..], "/api/sessions"),
            (&[("authorization", "bearer secret")][..], "/api/sessions"),
            (&[][..], "/?token=secret"),
        ] {
            assert_eq!(check("GET", headers, path).await, Ok(Identity::Owner), "{headers:?} {path}");
        }
        for (headers, path) in [
            (&[][..], "/api/sessions"),
            (&[("authorization", "Bearer wrong")][..], "/api/sessions"),
            (&[("authorization", "Bearer secret2")][..], "/api/sessions"),
            (&[("authorization", "secret")][..], "/api/sessions"),
            // Browsers have a login instead; earlier versions stored the token itself.
            (&[("cookie", "baton_token=secret")][..], "/api/sessions"),
            (&[("cookie", "baton_login=secret")][..], "/api/sessions"),
            (&[][..], "/api/sessions?token=secret"),
        ] {
            assert_eq!(check("GET", headers, path).await, Err("unauthorized"), "{headers:?} {path}");
        }
    }

    #[test]
    fn flood_of_cookies_is_cut() {
        let flood = format!("other=y; {}", "baton_login=x; ".repeat(3000));
        let request = request(&[("cookie", &flood)], "/");
        assert_eq!(cookies(&request.headers, LOGIN_COOKIE).count(), MAX_COOKIES);
        assert_eq!(cookies(&request.headers, "other").count(), 1);
    }

    #[tokio::test]
    async fn change_with_a_cookie_needs_the_header_of_the_page() {
        let people = People::new(Arc::new(MemoryStore::default()));
        let login = people.log_in_owner(Digest::of("secret")).await.unwrap();
        let cookie = format!("a=b; baton_login=old; baton_login={}", login.reveal());
        let check = async |method: &str, headers: &[(&str, &str)]| {
            let mut request = request(headers, "/api/sessions");
            request.method = method.parse().unwrap();
            let identity = identify(&options(), Some(&people), &request).await;
            identity.map(|identity| identity.role()).map_err(|error| error.code())
        };
        let cookie = ("cookie", cookie.as_str());
        assert_eq!(check("GET", &[cookie]).await, Ok(Role::Admin));
        assert_eq!(check("POST", &[cookie]).await, Err("csrf"));
        assert_eq!(check("DELETE", &[cookie]).await, Err("csrf"));
        let page = ("x-baton-page", "1");
        assert_eq!(check("POST", &[cookie, page]).await, Ok(Role::Admin));
        assert_eq!(check("GET", &[cookie, ("authorization", "Bearer wrong")]).await, Err("unauthorized"));
        assert_eq!(check("POST", &[("authorization", "Bearer secret")]).await, Ok(Role::Admin));
    }
}
