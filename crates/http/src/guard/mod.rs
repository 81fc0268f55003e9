//! Access control: every request passes through [`guard`].
//!
//! A local server can be reached by every web page that its user visits, and by every user of the machine. So a request on
//! TCP needs a token or a login ([`identity`]), must name an allowed host ([`host`]), and must not come from a page of a
//! foreign origin, even with a token. The guard also limits the rate ([`rate`]), writes the access log, and answers 500 when
//! a handler panics.
//!
//! It does not know who may do what: `baton-service` does. [`Restricted`] asks it for each route, before the handler
//! reads the body.

mod host;
mod identity;
mod rate;

use std::any::Any;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::handler::Handler;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::future::{Either, Ready, ready};
use futures_util::{FutureExt as _, StreamExt as _};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use tokio_util::task::AbortOnDropHandle;

use self::host::check_host;
pub(crate) use self::host::is_allowed_authority;
pub(crate) use self::identity::{LOGIN_COOKIE, cookies, is_equal, unreadable};
use self::identity::{identify, is_start, query};
pub(super) use self::rate::RateLimit;
use super::api::caller_of;
use super::error::ApiError;
use super::oauth::CALLBACK;
use super::slots::ConnectionSlot;
use super::{HttpOptions, Shared, cors, login};
use baton_people::Identity;
use baton_protocol::Author;
use baton_runtime::session::panics;
use baton_service::{Caller, Operation};

/// Maximum size of the body of a request that needs no login, in bytes.
pub(super) const MAX_PUBLIC_BODY: usize = 8 << 10;

/// Origin of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// A socket file, which only its owner can open.
    SocketFile,
    /// A TCP port.
    Tcp {
        /// Address of the client.
        address: IpAddr,
        /// Whether the connection is encrypted.
        tls: bool,
    },
}

impl std::fmt::Display for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::SocketFile => f.write_str("socket"),
            Self::Tcp { address, .. } => address.fmt(f),
        }
    }
}

/// Checks a request, runs its handler, and writes the access log.
pub(super) async fn guard(State(door): State<Shared>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let unknown = Peer::Tcp { address: IpAddr::from([0, 0, 0, 0]), tls: false };
    let (mut head, body) = request.into_parts();
    let announced = hyper::body::Body::size_hint(&body).lower();
    let peer = head.extensions.get::<Peer>().copied().unwrap_or(unknown);
    let (method, path) = (head.method.clone(), head.uri.path().to_owned());
    let origin = cors::configured_origin(&door.options, &head.headers);
    let mut response = match admit(&door, peer, &head, announced).await {
        Ok(identity) => {
            let person = identity.clone().filter(|identity| *identity != Identity::Owner);
            if let Some(identity) = identity {
                head.extensions.insert(Caller::new(identity, client_of(&head.headers)));
            }
            let run = AssertUnwindSafe(next.run(Request::from_parts(head, body))).catch_unwind();
            let response = run.await.unwrap_or_else(|panic| panicked(&*panic));
            match person {
                Some(person) => until_revoked(&door, person, response),
                None => response,
            }
        }
        Err(response) => *response,
    };
    let status = response.status();
    door.metrics.count(status);
    let ms = started.elapsed().as_millis() as u64;
    // Without the query, which may contain a token, and without headers, which may contain anything. Outside of the spans of
    // the connection and the request, whose fields it repeats: an entry is complete in itself.
    tracing::info!(target: "baton::access", parent: None, %peer, %method, path, status = status.as_u16(), ms);
    add_security_headers(response.headers_mut(), status);
    if let Some(origin) = origin {
        cors::permit(response.headers_mut(), origin);
    }
    response
}

/// Header in which a command names the user at its terminal. It counts for clients of the owner only; other people are
/// named by their tokens.
const TERMINAL_HEADER: &str = "x-baton-terminal";

/// Returns the owner's client, as its requests name it.
fn client_of(headers: &HeaderMap) -> Author {
    let user = headers.get(TERMINAL_HEADER).map(|user| user.to_str().unwrap_or_default());
    user.map_or_else(Author::http, Author::terminal)
}

/// Refuses a request to a mounted API whose sender may not perform an operation.
pub(crate) async fn permit(
    State(operation): State<Operation>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    caller_of(request.extensions())?.permit(operation)?;
    Ok(next.run(request).await)
}

/// A handler that refuses senders who may not perform its operation, before it reads the body. A layer around the handler
/// would do the same, and box several futures for each request.
#[derive(Clone)]
pub(crate) struct Restricted<H> {
    operation: Operation,
    handler: H,
}

impl<H> Restricted<H> {
    pub(crate) fn new(operation: Operation, handler: H) -> Self {
        Self { operation, handler }
    }
}

impl<H: Handler<T, S>, T, S> Handler<T, S> for Restricted<H> {
    type Future = Either<Ready<Response>, H::Future>;

    fn call(self, request: Request, state: S) -> Self::Future {
        let caller = caller_of(request.extensions());
        match caller.and_then(|caller| Ok(caller.permit(self.operation)?)) {
            Ok(()) => Either::Right(self.handler.call(request, state)),
            Err(error) => Either::Left(ready(error.into_response())),
        }
    }
}

/// Whether a route needs no authentication: it reveals nothing, or checks a secret itself.
pub(crate) fn is_public(method: &Method, path: &str) -> bool {
    match path {
        "/api/health" | "/api/ready" => matches!(*method, Method::GET | Method::HEAD),
        "/api/login" => *method == Method::POST,
        _ => false,
    }
}

/// Logs the panic of a handler and returns the response to its request.
fn panicked(panic: &(dyn Any + Send)) -> Response {
    tracing::error!(panic = panics::text(panic), "request handler panicked; answering 500");
    ApiError::internal("internal error; see the server log").into_response()
}

/// Ends the body of a response when the identity of its reader ends. Only streams live that long; event streams of sessions
/// watch it themselves.
fn until_revoked(door: &Shared, person: Identity, response: Response) -> Response {
    let Some(people) = door.people.clone() else { return response };
    if hyper::body::Body::size_hint(response.body()).exact().is_some() {
        return response;
    }
    let (head, body) = response.into_parts();
    // A task of its own: a body is not polled while its reader does not read, and would keep what it waits for from all
    // others: the list of people, and a reader of the store.
    let revoked = AbortOnDropHandle::new(tokio::spawn(async move { people.revoked(&person).await }));
    Response::from_parts(head, Body::from_stream(body.into_data_stream().take_until(revoked)))
}

/// Identifies the sender of a request, if the request needs that. Otherwise returns the response to a request that does not
/// reach its handler: an error, a preflight, or a login.
async fn admit(
    door: &Shared,
    peer: Peer,
    request: &Parts,
    announced: u64,
) -> Result<Option<Identity>, Box<Response>> {
    let options = &door.options;
    let refused = |error: ApiError| Box::new(error.into_response());
    let Peer::Tcp { address, .. } = peer else {
        return check_length(options.max_body, announced).map(|()| Some(Identity::Owner)).map_err(refused);
    };
    check_rate(door, address).and_then(|()| check_host(options, request)).map_err(refused)?;
    if is_return_from_login(request) {
        return Ok(None);
    }
    if !is_visit(door, request) {
        check_origin(options, &request.headers).map_err(refused)?;
    }
    if cors::is_preflight(&request.method, &request.headers) {
        return Err(Box::new(cors::preflight()));
    }
    let identity = check_identity(door, request).await?;
    if let Some(identity) = &identity {
        keep_connection(request, identity)?;
    }
    let max_body = if identity.is_some() { options.max_body } else { options.max_body.min(MAX_PUBLIC_BODY) };
    check_length(max_body, announced).map(|()| identity).map_err(refused)
}

/// Whether a browser opens the start page, also from a link on a page elsewhere. The page reveals nothing by itself.
fn is_visit(door: &Shared, request: &Parts) -> bool {
    let is =
        |name: &str, value: &[u8]| request.headers.get(name).is_some_and(|found| found.as_bytes() == value);
    door.page.is_some()
        && is_start(request)
        && is("sec-fetch-mode", b"navigate")
        && is("sec-fetch-dest", b"document")
}

/// Identifies the sender. A login link is answered here.
async fn check_identity(door: &Shared, request: &Parts) -> Result<Option<Identity>, Box<Response>> {
    let refused = |error: ApiError| Box::new(error.into_response());
    let (method, path) = (&request.method, request.uri.path());
    let start = is_start(request);
    let (code, token) =
        (query(request, "login").filter(|_| start), query(request, "token").filter(|_| start));
    if code.is_some() {
        return Err(Box::new(login::follow_link(door, request, code, None).await));
    }
    let is_of_page = door.page.as_ref().is_some_and(|page| (page.serves)(path));
    if is_of_page && token.is_none() && matches!(*method, Method::GET | Method::HEAD) {
        return Ok(None);
    }
    if is_public(method, path) {
        return Ok(None);
    }
    let identity = identify(&door.options, door.people.as_deref(), request).await.map_err(refused)?;
    if token.is_some() {
        let caller = Caller::new(identity, Author::http());
        caller.permit(Operation::LogInAsOwner).map_err(|denied| refused(denied.into()))?;
        return Err(Box::new(login::follow_link(door, request, None, token).await));
    }
    Ok(Some(identity))
}

/// Counts the connection of a request as one of its sender, unless that person has too many.
fn keep_connection(request: &Parts, identity: &Identity) -> Result<(), Box<Response>> {
    let slot = request.extensions.get::<Arc<ConnectionSlot>>();
    if slot.is_none_or(|slot| slot.keep(identity.person().as_ref())) {
        return Ok(());
    }
    let message = "you have too many connections open; close some";
    let error = ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_connections", message);
    let mut response = error.into_response();
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    Err(Box::new(response))
}

/// Whether a browser returns from a login: from another site, and without a token. It must be a navigation: no page can
/// request this one in the background.
fn is_return_from_login(request: &Parts) -> bool {
    let headers = &request.headers;
    let mode = headers.get("sec-fetch-mode").map(HeaderValue::as_bytes);
    request.method == Method::GET
        && request.uri.path() == CALLBACK
        && !headers.contains_key(header::ORIGIN)
        && mode.is_none_or(|mode| mode == b"navigate")
}

/// Refuses a body whose announced size exceeds the limit, before any of it is read.
fn check_length(max_body: usize, announced: u64) -> Result<(), ApiError> {
    if announced <= max_body as u64 {
        return Ok(());
    }
    let message = format!("a body of {announced} bytes is larger than the limit of {max_body} bytes");
    Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message))
}

/// Refuses requests that a web page of a foreign origin may have sent, for a server without a token.
pub(super) fn check_source(options: &HttpOptions, request: &Parts) -> Result<(), ApiError> {
    check_host(options, request)?;
    check_origin(options, &request.headers)
}

fn check_rate(door: &Shared, address: IpAddr) -> Result<(), ApiError> {
    if door.rate.allow(address) {
        return Ok(());
    }
    Err(ApiError::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", "too many requests; slow down"))
}

/// Refuses requests from web pages of foreign origins, unless their origin was configured.
fn check_origin(options: &HttpOptions, headers: &HeaderMap) -> Result<(), ApiError> {
    let refused = || {
        let message = "requests from web pages of foreign origins are refused; add --allow-origin ORIGIN to allow one, or let the proxy pass on Host with its port";
        ApiError::new(StatusCode::FORBIDDEN, "cross_origin", message)
    };
    // Which of several counts is a matter of opinion; browsers send one.
    if headers.get_all(header::ORIGIN).iter().nth(1).is_some() {
        return Err(refused());
    }
    let Some(origin) = headers.get(header::ORIGIN) else {
        // Requests for images, scripts and links have no `Origin`, but they have this header. `same-site` is refused too: a
        // page on a different port of this machine is of the same site, and may belong to a different user.
        let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
        let foreign = matches!(site, Some(b"cross-site" | b"same-site"));
        return if foreign { Err(refused()) } else { Ok(()) };
    };
    let origin_text = origin.to_str().unwrap_or_default();
    let own = headers.get(header::HOST).and_then(|host| host.to_str().ok()).is_some_and(|host| {
        origin_text.split_once("://").is_some_and(|(_, authority)| authority.eq_ignore_ascii_case(host))
    });
    if own || cors::configured_origin(options, headers).is_some() { Ok(()) } else { Err(refused()) }
}

/// Adds headers that keep a browser from sniffing, framing, caching or sharing a response, and those that a status requires.
fn add_security_headers(headers: &mut HeaderMap, status: StatusCode) {
    let set = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in set {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static("default-src 'none'"));
    match status {
        StatusCode::UNAUTHORIZED => {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        StatusCode::TOO_MANY_REQUESTS => {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::test_requests::{options, request};
    use super::*;

    #[test]
    fn only_a_navigation_returns_from_a_login() {
        let returns = |headers: &[(&str, &str)], path: &str| is_return_from_login(&request(headers, path));
        assert!(returns(
            &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")],
            "/oauth/callback?x=y"
        ));
        assert!(returns(&[], "/oauth/callback"), "an older browser");
        assert!(!returns(&[("sec-fetch-mode", "no-cors")], "/oauth/callback"));
        assert!(!returns(&[("origin", "https://evil.example")], "/oauth/callback"));
        assert!(!returns(&[], "/oauth/callback/"));
        assert!(!returns(&[], "/api/sessions"));
    }

    #[test]
    fn only_health_and_login_are_public() {
        assert!(is_public(&Method::GET, "/api/health") && is_public(&Method::HEAD, "/api/ready"));
        assert!(is_public(&Method::POST, "/api/login"));
        for (method, path) in [
            (Method::POST, "/api/health"),
            (Method::GET, "/api/login"),
            (Method::GET, "/api/health/x"),
            (Method::GET, "/"),
        ] {
            assert!(!is_public(&method, path), "{method} {path}");
        }
    }

    #[test]
    fn pages_of_foreign_origins_are_refused() {
        let check =
            |headers: &[(&str, &str)]| check_origin(&options(), &request(headers, "/").headers).is_ok();
        assert!(check(&[("host", "localhost:1")]), "not a browser");
        assert!(check(&[("host", "localhost:1"), ("origin", "http://localhost:1")]));
        assert!(check(&[("host", "localhost:1"), ("origin", "https://app.example")]));
        assert!(!check(&[("host", "localhost:1"), ("origin", "http://localhost:2")]));
        assert!(!check(&[("host", "localhost:1"), ("origin", "null")]));
        let own = ("origin", "http://localhost:1");
        assert!(!check(&[("host", "localhost:1"), own, ("origin", "http://evil.example")]));
        assert!(!check(&[("host", "localhost:1"), ("sec-fetch-site", "cross-site")]));
        assert!(!check(&[("host", "localhost:1"), ("sec-fetch-site", "same-site")]));
        assert!(check(&[("host", "localhost:1"), ("sec-fetch-site", "none")]), "typed into the address bar");
    }
}

/// Requests and options for the tests of the checks.
#[cfg(test)]
mod test_requests {
    use super::*;

    pub(super) fn request(headers: &[(&str, &str)], path: &str) -> Parts {
        let mut builder = Request::builder().uri(path);
        for (name, value) in headers {
            builder = builder.header(*name, *value);
        }
        builder.body(()).unwrap().into_parts().0
    }

    pub(super) fn options() -> HttpOptions {
        HttpOptions {
            token: Some("secret".into()),
            hosts: vec!["baton.example".into()],
            origins: vec!["https://app.example".into()],
            ..HttpOptions::default()
        }
    }
}
