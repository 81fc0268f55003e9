//! Logging in and out: links, cookies, and who is logged in.

use axum::Json;
use axum::extract::{FromRequest, Request, State};
use axum::response::{IntoResponse, Response};
use baton_people::{Digest, Identity, LOGIN_TIME, NewSecret};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::Deserialize;
use serde_json::{Value, json};

use super::api::{By, JsonBody};
use super::error::ApiError;
use super::guard::{LOGIN_COOKIE, Peer, cookies, is_equal, unreadable};
use super::{Door, Shared};

/// Answers a browser that follows a login link: exchanges the secret in the query for a cookie, and leads to the page without
/// the query. The secret of `?login=` works once; `?token=` is the owner's token, which the guard has checked. The cookie holds
/// a login in both cases.
pub(super) async fn follow_link(
    door: &Door,
    request: &Parts,
    code: Option<&str>,
    token: Option<&str>,
) -> Response {
    let secure = is_secure(request);
    match (code, token) {
        (Some(code), _) if is_foreign(request) => redirect(&offer(code)),
        (Some(code), _) => match redeem(door, code).await {
            Ok(Some(login)) => enter("./", &cookie(LOGIN_COOKIE, login.reveal(), secure)),
            // The page says what happened, and goes on if the browser is logged in already.
            Ok(None) => redirect("./#/used-link"),
            Err(error) => error.into_response(),
        },
        // The token itself would stay in the browser, and could not be revoked there alone.
        (None, Some(_)) => match &door.people {
            Some(people) => match people.log_in_owner(owner_digest(door)).await {
                Ok(login) => enter("./", &cookie(LOGIN_COOKIE, login.reveal(), secure)),
                Err(error) => unreadable(error).into_response(),
            },
            // A server of one session has no logins.
            None => redirect("./"),
        },
        _ => redirect("./"),
    }
}

async fn redeem(door: &Door, code: &str) -> Result<Option<NewSecret>, ApiError> {
    let Some(people) = &door.people else { return Ok(None) };
    people.redeem(code, owner_digest(door)).await.map_err(unreadable)
}

fn owner_digest(door: &Door) -> Digest {
    Digest::of(door.options.token.as_deref().unwrap_or_default())
}

/// Whether another site led the browser here. The browser then sends no cookies, so the server cannot know whether it is logged
/// in. An attacker could lead a user to work under the attacker's login (login CSRF).
fn is_foreign(request: &Parts) -> bool {
    let site = request.headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    matches!(site, Some(b"cross-site" | b"same-site"))
}

/// Returns the address at which the page uses a link: at once if nobody is logged in, else after a question.
fn offer(code: &str) -> String {
    let is_code = code.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    if is_code { format!("./#/login/{code}") } else { "./#/used-link".to_owned() }
}

fn redirect(to: &str) -> Response {
    match HeaderValue::from_str(to) {
        Ok(to) => (StatusCode::SEE_OTHER, [(header::LOCATION, to)]).into_response(),
        Err(_) => StatusCode::BAD_REQUEST.into_response(),
    }
}

fn enter(to: &str, cookie: &str) -> Response {
    let mut response = redirect(to);
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

/// Returns a cookie that scripts cannot read and other sites cannot send. It has no path: the browser then limits it to the
/// directory of the URL, which the server does not know behind a proxy that adds a prefix.
fn cookie(name: &str, value: &str, secure: bool) -> String {
    let secure = if secure { "; Secure" } else { "" };
    format!("{name}={value}; HttpOnly; SameSite=Strict; Max-Age={}{secure}", LOGIN_TIME.as_secs())
}

/// Whether the browser uses TLS, as far as the server can tell. A header of a proxy is believed: a client that lies in it gets a
/// cookie that it cannot send.
fn is_secure(request: &Parts) -> bool {
    let forwarded = request.headers.get("x-forwarded-proto").is_some_and(|proto| proto == "https");
    forwarded || matches!(request.extensions.get(), Some(Peer::Tcp { tls: true, .. }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Login {
    /// The token of the owner or of a person, or the code of a link.
    secret: String,
}

/// Logs in a browser with a token or the code of a link.
pub(super) async fn log_in(State(door): State<Shared>, request: Request) -> Result<Response, ApiError> {
    let (head, body) = request.into_parts();
    let secure = is_secure(&head);
    let read = JsonBody::from_request(Request::from_parts(head, body), &());
    let read = tokio::time::timeout(door.options.header_time, read).await;
    let JsonBody(Login { secret }) = read.map_err(|_| too_slow())??;
    let Some(people) = &door.people else { return Err(ApiError::not_found("this server has no page")) };
    let secret = secret.trim();
    let owner = owner_digest(&door);
    let login = match &door.options.token {
        Some(token) if is_equal(secret, token) => Some(people.log_in_owner(owner).await.map_err(unreadable)?),
        _ => match people.log_in(secret).await.map_err(unreadable)? {
            Some(login) => Some(login),
            None => people.redeem(secret, owner).await.map_err(unreadable)?,
        },
    };
    let wrong = || {
        let message = "this token or link is wrong, expired or was used; `baton link` prints a new link";
        ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
    };
    let login = login.ok_or_else(wrong)?;
    let cookie = cookie(LOGIN_COOKIE, login.reveal(), secure);
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response())
}

fn too_slow() -> ApiError {
    ApiError::new(
        StatusCode::REQUEST_TIMEOUT,
        "too_slow",
        "the request body did not arrive in time; send it again",
    )
}

/// Logs out: ends the login of the browser.
pub(super) async fn log_out(State(door): State<Shared>, headers: HeaderMap) -> Result<Response, ApiError> {
    if let Some(people) = &door.people {
        people.log_out_all(cookies(&headers, LOGIN_COOKIE)).await.map_err(unreadable)?;
    }
    let ended = format!("{LOGIN_COOKIE}=; HttpOnly; SameSite=Strict; Max-Age=0");
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, ended)]).into_response())
}

/// Says who is logged in, and what the page needs to know of the server.
pub(super) async fn me(State(door): State<Shared>, By(caller): By) -> Json<Value> {
    let identity = caller.identity();
    let name = match identity {
        Identity::Owner | Identity::OwnerBrowser { .. } => "owner",
        Identity::Person { name, .. } => name.as_str(),
    };
    Json(json!({
        "name": name,
        "role": identity.role(),
        "version": door.service.version(),
        "cwd": door.service.default_directory(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_from_another_site_is_left_to_the_page() {
        let visit = |site: Option<&str>| {
            let mut request = http::Request::builder().uri("/?login=code");
            if let Some(site) = site {
                request = request.header("sec-fetch-site", site);
            }
            is_foreign(&request.body(()).unwrap().into_parts().0)
        };
        assert!(visit(Some("cross-site")) && visit(Some("same-site")));
        assert!(!visit(Some("none")) && !visit(Some("same-origin")) && !visit(None));
        assert_eq!(offer("aB3-_"), "./#/login/aB3-_");
        assert_eq!(offer("a/../b\r\nx"), "./#/used-link");
    }
}
