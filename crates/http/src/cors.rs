//! Cross-origin requests: a web page of a foreign origin has no access, unless its origin was configured.

use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};

use super::HttpOptions;

/// Returns the origin of a request, if it is a configured one.
pub(super) fn configured_origin(options: &HttpOptions, headers: &HeaderMap) -> Option<HeaderValue> {
    let origin = headers.get(header::ORIGIN)?;
    options.origins.iter().any(|allowed| allowed.as_bytes() == origin.as_bytes()).then(|| origin.clone())
}

/// Whether this is a CORS preflight. It carries no token; the request that follows does.
pub(super) fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    method == Method::OPTIONS && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// Returns the response to a preflight from an allowed origin.
pub(super) fn preflight() -> Response {
    let headers = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, PATCH, DELETE"),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, "authorization, content-type, idempotency-key, last-event-id"),
        (header::ACCESS_CONTROL_MAX_AGE, "600"),
    ];
    (StatusCode::NO_CONTENT, headers).into_response()
}

/// Lets a page of a configured origin read the response. Without credentials: the cookie is for Baton's own page, others
/// send the token.
pub(super) fn permit(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    let policy = HeaderName::from_static("cross-origin-resource-policy");
    headers.insert(policy, HeaderValue::from_static("cross-origin"));
}
