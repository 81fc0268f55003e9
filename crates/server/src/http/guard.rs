//! Who may pass. Every request goes through here, whatever it asks for.
//!
//! A local server is reachable by every web page that its user visits, and by every user of the machine. So: on TCP a
//! token is needed; the name under which we are addressed must be one of ours (a page elsewhere can make its own name
//! point here, and would otherwise read the answers); a page of another origin is refused, token or not.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use subtle::ConstantTimeEq;

use super::error::ApiError;
use super::{HttpOptions, Shared, cors};

/// Where a request came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// A socket file that only its owner can open.
    SocketFile,
    /// A port.
    Tcp(IpAddr),
}

impl std::fmt::Display for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::SocketFile => f.write_str("socket"),
            Self::Tcp(address) => address.fmt(f),
        }
    }
}

/// The cookie in which a browser keeps the token.
pub(crate) const COOKIE: &str = "baton_token";

/// Lets a request pass, or does not; and writes the access log.
pub(super) async fn guard(State(door): State<Shared>, request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let peer = request.extensions().get::<Peer>().copied().unwrap_or(Peer::Tcp(IpAddr::from([0, 0, 0, 0])));
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let origin = cors::configured_origin(&door.options, request.headers());
    let mut response = match stop(&door, peer, &request) {
        None => next.run(request).await,
        Some(instead) => instead,
    };
    let status = response.status();
    door.metrics.count(status);
    // The query is left out: it may hold a token. So is what the client says of itself: it may say anything.
    let ms = begun.elapsed().as_millis() as u64;
    tracing::info!(target: "baton_server::access", %peer, %method, path, status = status.as_u16(), ms);
    add_safe_headers(response.headers_mut(), status);
    if let Some(origin) = origin {
        cors::permit(response.headers_mut(), origin);
    }
    response
}

/// What a request is answered that may not pass, or need not.
fn stop(door: &Shared, peer: Peer, request: &Request) -> Option<Response> {
    let options = &door.options;
    let Peer::Tcp(address) = peer else {
        return check_length(options, request).err().map(IntoResponse::into_response);
    };
    let checked = check_rate(door, address)
        .and_then(|()| check_host(options, request))
        .and_then(|()| check_origin(options, request.headers()));
    if checked.is_ok() && cors::is_preflight(request.method(), request.headers()) {
        return Some(cors::preflight());
    }
    let checked = checked.and_then(|()| check_token(options, request));
    checked.and_then(|()| check_length(options, request)).err().map(IntoResponse::into_response)
}

/// A body that is announced as larger than the limit is refused before any of it is read.
fn check_length(options: &HttpOptions, request: &Request) -> Result<(), ApiError> {
    let announced = hyper::body::Body::size_hint(request.body()).lower();
    if announced <= options.max_body as u64 {
        return Ok(());
    }
    let message =
        format!("a body of {announced} bytes is larger than the limit of {} bytes", options.max_body);
    Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message))
}

fn check_rate(door: &Shared, address: IpAddr) -> Result<(), ApiError> {
    if door.rate.allow(address) {
        return Ok(());
    }
    Err(ApiError::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", "too many requests; slow down"))
}

fn check_host(options: &HttpOptions, request: &Request) -> Result<(), ApiError> {
    let headers = request.headers();
    let named = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let is_single = headers.get_all(header::HOST).iter().count() == 1;
    // A request line with an authority of its own (`GET http://name/ HTTP/1.1`) must not say another one than the header.
    let target = request.uri().authority().map(http::uri::Authority::as_str);
    let agrees = target.is_none_or(|target| target.eq_ignore_ascii_case(named));
    if is_single && agrees && host_of(named).is_some_and(|host| is_ours(options, host)) {
        return Ok(());
    }
    let message = match host_of(named) {
        Some(host) => format!("Host {named:?} is not allowed; add --allow-host {host}"),
        None => format!("Host {named:?} is not a host with an optional port"),
    };
    Err(ApiError::new(StatusCode::MISDIRECTED_REQUEST, "wrong_host", message))
}

/// The host of an authority `host[:port]`, or `None` if it is anything else: user information, a port that is not a
/// number, an address in brackets that is none.
fn host_of(authority: &str) -> Option<&str> {
    let host_end = match authority.strip_prefix('[') {
        Some(rest) => rest.find(']')? + 2,
        None => authority.find(':').unwrap_or(authority.len()),
    };
    let (host, port) = authority.split_at(host_end);
    let is_port = |port: &str| port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok();
    let port_fits = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
    (is_host(host) && port_fits).then_some(host)
}

/// Whether this can be the name or the address of a host: letters, digits, dots, hyphens and underscores, or an IPv6
/// address in brackets.
fn is_host(host: &str) -> bool {
    match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_".contains(&b)),
    }
}

fn is_ours(options: &HttpOptions, host: &str) -> bool {
    let local = ["localhost", "127.0.0.1", "[::1]"];
    local.iter().any(|name| host.eq_ignore_ascii_case(name))
        || options.hosts.iter().any(|name| host.eq_ignore_ascii_case(name))
}

/// A browser says which page a request comes from. Pages of our own are fine, and those that were configured.
fn check_origin(options: &HttpOptions, headers: &HeaderMap) -> Result<(), ApiError> {
    let refused = || {
        let message =
            "a web page of another origin may not use this server; allow it with --allow-origin if it should";
        ApiError::new(StatusCode::FORBIDDEN, "cross_origin", message)
    };
    let Some(origin) = headers.get(header::ORIGIN) else {
        // Images, scripts and links of other pages come without an origin, but not without this. A page of another port
        // of this machine is of the same site, and no friend for that.
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

fn check_token(options: &HttpOptions, request: &Request) -> Result<(), ApiError> {
    let Some(expected) = &options.token else { return Ok(()) };
    // Whether we live is no secret; a watchdog need not hold the token.
    if matches!(request.uri().path(), "/api/health" | "/api/ready") {
        return Ok(());
    }
    let given = bearer(request.headers()).or_else(|| cookie(request.headers())).or_else(|| query(request));
    let matches = given.is_some_and(|given| bool::from(given.as_bytes().ct_eq(expected.as_bytes())));
    if matches {
        return Ok(());
    }
    let message =
        "a token is needed: send it as `Authorization: Bearer TOKEN`; the server printed where it is";
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

/// The token in the address, as in the link that the server prints. For the first page only: addresses end up in
/// histories and logs.
fn query(request: &Request) -> Option<String> {
    if request.uri().path() != "/" {
        return None;
    }
    let pairs = request.uri().query()?.split('&').filter_map(|pair| pair.split_once('='));
    pairs.into_iter().find(|(name, _)| *name == "token").map(|(_, value)| value.to_owned())
}

/// Headers that keep a browser from doing something clever with an answer, and tell a program what to do about it.
fn add_safe_headers(headers: &mut HeaderMap, status: StatusCode) {
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

/// How many requests each address may still make right now.
pub(super) struct RateLimit {
    per_second: f64,
    buckets: Mutex<HashMap<IpAddr, (f64, Instant)>>,
}

impl RateLimit {
    pub(super) fn new(per_second: u32) -> Self {
        Self { per_second: f64::from(per_second.max(1)), buckets: Mutex::default() }
    }

    /// Takes one request from the address's allowance. A quiet second allows a burst of a second's worth, twice over.
    fn allow(&self, address: IpAddr) -> bool {
        const MOST_ADDRESSES: usize = 10_000;
        let now = Instant::now();
        let most = self.per_second * 2.0;
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() > MOST_ADDRESSES {
            buckets.retain(|_, (left, _)| *left < most);
        }
        let (left, since) = buckets.entry(address).or_insert((most, now));
        *left = (*left + now.duration_since(*since).as_secs_f64() * self.per_second).min(most);
        *since = now;
        let allowed = *left >= 1.0;
        if allowed {
            *left -= 1.0;
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;

    fn request(headers: &[(&str, &str)], path: &str) -> Request {
        let mut builder = Request::builder().uri(path);
        for (name, value) in headers {
            builder = builder.header(*name, *value);
        }
        builder.body(Body::empty()).unwrap()
    }

    fn options() -> HttpOptions {
        HttpOptions {
            token: Some("secret".into()),
            hosts: vec!["baton.example".into()],
            origins: vec!["https://app.example".into()],
            ..HttpOptions::default()
        }
    }

    #[test]
    fn only_a_host_of_ours_with_a_port_is_allowed() {
        let check = |host: &str| check_host(&options(), &request(&[("host", host)], "/")).is_ok();
        for good in [
            "localhost",
            "localhost:8080",
            "LOCALHOST",
            "127.0.0.1",
            "127.0.0.1:1",
            "127.0.0.1:65535",
            "[::1]",
            "[::1]:80",
            "baton.example",
            "baton.example:443",
        ] {
            assert!(check(good), "{good}");
        }
        for bad in [
            "",
            ":80",
            "evil.example",
            "localhost.evil.example",
            "localhost.",
            "127.0.0.1.evil.example:80",
            "127.0.0.1:evil.com",
            "127.0.0.1:80.evil.com",
            "127.0.0.1:80:80",
            "127.0.0.1:",
            "127.0.0.1:+80",
            "127.0.0.1:65536",
            "127.0.0.1:80@evil.com",
            "evil.com@127.0.0.1",
            "localhost@evil.com:80",
            "localhost/",
            "localhost#evil.com",
            "localhost evil.com",
            "localhost,evil.com",
            "http://localhost",
            "[::1",
            "[::1]evil.com",
            "[::1]:evil.com",
            "[::1]:80.evil.com",
            "[::1%25lo]",
            "[::2]:80",
            "[localhost]",
            "[]",
            "::1",
            "[[::1]]",
        ] {
            assert!(!check(bad), "{bad}");
        }
        assert!(check_host(&options(), &request(&[("host", "localhost"), ("host", "evil")], "/")).is_err());
        assert!(check_host(&options(), &request(&[], "/")).is_err());
    }

    #[test]
    fn request_target_and_host_must_name_the_same_authority() {
        let check =
            |target: &str| check_host(&options(), &request(&[("host", "localhost:1")], target)).is_ok();
        assert!(check("http://localhost:1/api/sessions"));
        assert!(!check("http://evil.example/api/sessions"));
        assert!(!check("http://evil.example@localhost:1/api/sessions"));
    }

    #[test]
    fn refused_host_says_which_flag_allows_it() {
        let refused =
            |host: &str| check_host(&options(), &request(&[("host", host)], "/")).unwrap_err().message;
        assert_eq!(
            refused("dev.example:80"),
            "Host \"dev.example:80\" is not allowed; add --allow-host dev.example"
        );
        assert!(refused("localhost:x").contains("is not a host with an optional port"));
    }

    #[test]
    fn pages_of_other_origins_are_refused() {
        let check =
            |headers: &[(&str, &str)]| check_origin(&options(), request(headers, "/").headers()).is_ok();
        assert!(check(&[("host", "localhost:1")]), "not a browser");
        assert!(check(&[("host", "localhost:1"), ("origin", "http://localhost:1")]));
        assert!(check(&[("host", "localhost:1"), ("origin", "https://app.example")]));
        assert!(!check(&[("host", "localhost:1"), ("origin", "http://localhost:2")]));
        assert!(!check(&[("host", "localhost:1"), ("origin", "null")]));
        assert!(!check(&[("host", "localhost:1"), ("sec-fetch-site", "cross-site")]));
        assert!(!check(&[("host", "localhost:1"), ("sec-fetch-site", "same-site")]));
        assert!(check(&[("host", "localhost:1"), ("sec-fetch-site", "none")]), "typed by a person");
    }

    #[test]
    fn the_token_is_needed_and_taken_from_three_places() {
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

    #[test]
    fn a_burst_is_allowed_and_a_flood_is_not() {
        let limit = RateLimit::new(10);
        let address = IpAddr::from([127, 0, 0, 1]);
        let allowed = (0..100).filter(|_| limit.allow(address)).count();
        assert!((20..=22).contains(&allowed), "{allowed}");
        assert!(limit.allow(IpAddr::from([10, 0, 0, 1])), "others are not concerned");
    }
}
