//! Responses of the proxy itself. They are read by programs, and by models that see the output of those programs.

use std::fmt::Display;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use hyper::ext::ReasonPhrase;

use crate::body::ResponseBody;
use crate::{BadTarget, Refusal, Target};

/// Why a request was not forwarded.
#[derive(Debug)]
pub(super) struct Problem {
    status: StatusCode,
    /// The reason phrase: many programs show it, and not the text, when a tunnel is refused.
    phrase: &'static str,
    text: String,
}

impl Problem {
    pub(super) fn malformed(why: &str) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            phrase: "Bad Request",
            text: format!("Malformed request: {why}."),
        }
    }

    pub(super) fn bad_target(error: BadTarget) -> Self {
        Self::malformed(&error.to_string())
    }

    pub(super) fn denied(target: &Target, reason: &str) -> Self {
        Self::forbidden("Host not allowed in the sandbox", format!("{target} is not allowed: {reason}"))
    }

    pub(super) fn undecided(target: &Target) -> Self {
        let text = format!(
            "{target} is not allowed yet. A request for approval is open; try again once it is approved. Until then, this \
             host cannot be reached from inside the sandbox."
        );
        Self::forbidden("Host waits for approval, try again later", text)
    }

    pub(super) fn unresolved(refusal: &Refusal) -> Self {
        match refusal {
            Refusal::Private { .. } => {
                Self::forbidden("Private address not allowed in the sandbox", format!("{refusal}."))
            }
            Refusal::NotFound { .. } => Self::bad_gateway("Host not found", format!("{refusal}.")),
        }
    }

    pub(super) fn unreachable(target: &Target, error: &dyn Display) -> Self {
        Self::bad_gateway("Host not reachable", format!("The connection to {target} failed: {error}."))
    }

    pub(super) fn protocol(target: &Target) -> Self {
        let text = format!(
            "{target} switched to another protocol, which plain HTTP requests may not do; use CONNECT."
        );
        Self::bad_gateway("Protocol not supported", text)
    }

    fn forbidden(phrase: &'static str, text: String) -> Self {
        Self { status: StatusCode::FORBIDDEN, phrase, text }
    }

    fn bad_gateway(phrase: &'static str, text: String) -> Self {
        Self { status: StatusCode::BAD_GATEWAY, phrase, text }
    }

    pub(super) fn into_response(self) -> Response<ResponseBody> {
        let text = Bytes::from(format!("{}\n", self.text));
        let mut response = Response::new(ResponseBody::Text(Some(text)));
        *response.status_mut() = self.status;
        response.extensions_mut().insert(ReasonPhrase::from_static(self.phrase.as_bytes()));
        let plain = HeaderValue::from_static("text/plain; charset=utf-8");
        response.headers_mut().insert(header::CONTENT_TYPE, plain);
        response
    }
}
