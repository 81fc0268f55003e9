//! From what went wrong on the wire to a [`ModelError`] that says so.
//!
//! Shared by all wires: providers disagree about the shape of an answer, but complain in much the same ways.

mod complaint;

use std::time::Duration;

use serde_json::Value;

use crate::endpoint::Endpoint;
use crate::http::{Headers, TransportError, Url, reason};
use crate::{ErrorKind, ModelError};
use complaint::Complaint;
pub(crate) use complaint::tidy;

/// The request, or the rest of the response, did not get through.
pub(crate) fn of_transport(endpoint: &Endpoint, error: &TransportError) -> ModelError {
    let host = endpoint.host();
    let (kind, what) = match error {
        TransportError::Invalid(why) => {
            (ErrorKind::BadRequest, format!("The request to {host} cannot be sent: {why}"))
        }
        TransportError::Unreachable(why) => (ErrorKind::Network, format!("{host} cannot be reached: {why}")),
        TransportError::Untrusted(why) => (ErrorKind::Certificate, format!("{host} is not trusted: {why}")),
        TransportError::Closed(_) => {
            (ErrorKind::Network, format!("{host} leads to an address that must not be reached"))
        }
        TransportError::Broken(why) => {
            (ErrorKind::Network, format!("The connection to {host} broke off: {why}"))
        }
        TransportError::Stalled(after) => {
            (ErrorKind::Stalled, format!("{host} has said nothing for {} s", after.as_secs_f32()))
        }
        TransportError::TooLong(limit) => (
            ErrorKind::Protocol,
            format!("{host} sent more than {limit} bytes, which is no answer of a model"),
        ),
    };
    ModelError::new(kind, &host, sentences(&endpoint.scrub(&what), advice(kind, None)))
}

/// The provider answered with a status that is no success.
pub(crate) fn of_status(endpoint: &Endpoint, status: u16, headers: &Headers, body: &[u8]) -> ModelError {
    let complaint = Complaint::in_body(body);
    let mut error = of_complaint(endpoint, Some(status), complaint, retry_after(headers));
    if let Some(location) = headers.get("location").filter(|_| (300..400).contains(&status)) {
        error.message = moved(endpoint, status, location);
    }
    error.request_id = request_id(headers).map(Into::into);
    error
}

/// The provider began with a success and then complained. On a WebSocket it has put into the complaint what would have
/// been the head of a response.
pub(crate) fn in_answer(endpoint: &Endpoint, complaint: &Value) -> ModelError {
    let wait = retry_after(&headers_in(complaint));
    let complaint = Complaint::in_json(complaint);
    of_complaint(endpoint, complaint.status, complaint, wait)
}

fn headers_in(complaint: &Value) -> Headers {
    let headers = complaint.get("headers").and_then(Value::as_object).into_iter().flatten();
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    Headers(headers.map(|(name, value)| (name.clone(), text(value))).collect())
}

/// What came back makes no sense. `what` goes on after the name of the host.
pub(crate) fn nonsense(endpoint: &Endpoint, what: &str) -> ModelError {
    let host = endpoint.host();
    let what = endpoint.scrub(&format!("{host} {what}"));
    ModelError::new(ErrorKind::Protocol, &host, sentences(&what, advice(ErrorKind::Protocol, None)))
}

/// A page for people came back where an answer for programs was expected.
pub(crate) fn web_page(endpoint: &Endpoint, page: &[u8]) -> ModelError {
    let title = complaint::title(&String::from_utf8_lossy(page));
    let title = title.map(|title| format!(" (“{title}”)")).unwrap_or_default();
    nonsense(endpoint, &format!("sent a web page{title} instead of an answer"))
}

/// The stream ended properly, the answer in it did not.
pub(crate) fn broke_off(endpoint: &Endpoint) -> ModelError {
    of_transport(endpoint, &TransportError::Broken("the answer ended in the middle".to_owned()))
}

/// The provider's id of the request, under any of its usual names.
pub(crate) fn request_id(headers: &Headers) -> Option<&str> {
    ["x-request-id", "request-id", "x-github-request-id", "apim-request-id"]
        .iter()
        .find_map(|name| headers.get(name))
}

fn of_complaint(
    endpoint: &Endpoint,
    status: Option<u16>,
    complaint: Complaint,
    retry_after: Option<Duration>,
) -> ModelError {
    let host = endpoint.host();
    let kind = complaint.kind(status);
    let mut what = in_short(kind, &host);
    if let Some(status) = status {
        what.push_str(&format!(" ({})", format!("{status} {}", reason(status)).trim_end()));
    }
    if let Some(message) = &complaint.message {
        what.push_str(": ");
        what.push_str(message);
    }
    let message = sentences(&endpoint.scrub(&what), advice(kind, retry_after));
    ModelError {
        status,
        code: complaint.code.map(Into::into),
        retry_after,
        ..ModelError::new(kind, &host, message)
    }
}

fn in_short(kind: ErrorKind, host: &str) -> String {
    match kind {
        ErrorKind::Auth => format!("{host} refused the credentials"),
        ErrorKind::RateLimited => format!("{host} wants to be asked less often"),
        ErrorKind::Quota => format!("{host} says that the account is used up"),
        ErrorKind::NotFound => format!("{host} does not know this address or this model"),
        ErrorKind::ContextTooLong => format!("The conversation is too long for this model of {host}"),
        ErrorKind::Filtered => format!("The content filter of {host} stopped this"),
        ErrorKind::BadRequest => format!("{host} rejected the request"),
        ErrorKind::Server | ErrorKind::Stalled | ErrorKind::Network => format!("{host} failed"),
        ErrorKind::Certificate | ErrorKind::Protocol => format!("{host} answered strangely"),
    }
}

fn advice(kind: ErrorKind, retry_after: Option<Duration>) -> String {
    let advice = match kind {
        ErrorKind::Auth => "Check the API key or token of this provider.",
        ErrorKind::Quota => "Check the plan and the billing of the account.",
        ErrorKind::BadRequest => "Check the settings of the model and of the provider.",
        ErrorKind::NotFound => "Check the base URL and the name of the model.",
        ErrorKind::ContextTooLong => "Compact the conversation, or start a new one.",
        ErrorKind::Network => "Check the address, the network and the proxy settings, and try again.",
        ErrorKind::Certificate => {
            "If a proxy of your company stands in between, put its certificate into the system's store, or \
             name it in SSL_CERT_FILE."
        }
        ErrorKind::Stalled => "Try again; if it happens often, ask for less at once or wait longer.",
        ErrorKind::Protocol => {
            "Check that the base URL is that of an API, and that no proxy or login page answers."
        }
        ErrorKind::Filtered => "Word it differently.",
        ErrorKind::RateLimited | ErrorKind::Server => match retry_after {
            Some(wait) => return format!("Try again in {} s.", wait.as_secs_f32().ceil()),
            None => "Try again in a moment.",
        },
    };
    advice.to_owned()
}

/// What happened, with exactly one full stop, and what to do.
fn sentences(what: &str, advice: impl AsRef<str>) -> String {
    let stop = if what.ends_with(['.', '!', '?', '…']) { "" } else { "." };
    format!("{what}{stop} {}", advice.as_ref())
}

fn moved(endpoint: &Endpoint, status: u16, location: &str) -> String {
    let to = Url::parse(location).map_or_else(|_| "another address".to_owned(), |url| format!("{url:?}"));
    let what =
        format!("{} says ({status} {}) that this is to be found at {to}", endpoint.host(), reason(status));
    sentences(
        &what,
        "Redirects are not followed, so as not to hand the credentials on: correct the base URL.",
    )
}

/// How long the provider asks us to wait: in milliseconds, in seconds, or until a date.
fn retry_after(headers: &Headers) -> Option<Duration> {
    if let Some(millis) = headers.get("retry-after-ms").and_then(|text| text.trim().parse().ok()) {
        return Some(Duration::from_millis(millis));
    }
    let text = headers.get("retry-after")?.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = |text: &str| jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text).ok();
    // Counted from the provider's own clock, where it tells: ours may be wrong.
    let now = headers.get("date").and_then(date).unwrap_or_else(jiff::Timestamp::now);
    Some(Duration::try_from(date(text)?.duration_since(now)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint() -> Endpoint {
        Endpoint::new("https://api.example.com/v1")
            .unwrap()
            .with_auth(crate::endpoint::Auth::bearer("sk-geheim"))
    }

    #[test]
    fn understands_all_forms_of_retry_after() {
        let check = |headers: &[(&str, &str)], expected: Option<f64>| {
            let headers = Headers(headers.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect());
            assert_eq!(retry_after(&headers).map(|wait| wait.as_secs_f64()), expected, "{headers:?}");
        };
        check(&[], None);
        check(&[("Retry-After", " 7 ")], Some(7.0));
        check(&[("retry-after", "1.5")], Some(1.5));
        check(&[("retry-after", "60"), ("retry-after-ms", "250")], Some(0.25));
        let date = ("date", "Wed, 21 Oct 2026 07:28:00 GMT");
        check(&[date, ("retry-after", "Wed, 21 Oct 2026 07:28:30 GMT")], Some(30.0));
        check(&[date, ("retry-after", "Wed, 21 Oct 2026 07:27:00 GMT")], Some(0.0));
        check(&[("retry-after", "soon")], None);
        check(&[("retry-after", "-1")], None);
        check(&[("retry-after", "1e300")], None);
    }

    #[test]
    fn speaks_to_people_and_keeps_secrets() {
        let check = |status: u16, headers: &[(&str, &str)], body: &str, expected: &str| {
            let headers = Headers(headers.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect());
            let error = of_status(&endpoint(), status, &headers, body.as_bytes());
            assert_eq!(error.to_string(), expected);
        };
        check(
            401,
            &[],
            r#"{"error":{"message":"Incorrect API key provided: sk-geheim.","code":"invalid_api_key"}}"#,
            "api.example.com refused the credentials (401 Unauthorized): Incorrect API key provided: ***. \
             Check the API key or token of this provider.",
        );
        check(
            429,
            &[("retry-after", "12")],
            r#"{"error":{"message":"Slow down"}}"#,
            "api.example.com wants to be asked less often (429 Too Many Requests): Slow down. \
             Try again in 12 s.",
        );
        check(
            502,
            &[],
            "<html><head><title>Bad\n gateway</title></head><body>nginx</body></html>",
            "api.example.com failed (502 Bad Gateway): a web page with the title “Bad gateway”. \
             Try again in a moment.",
        );
        check(
            301,
            &[("location", "https://new.example.com/v1?key=x")],
            "",
            "api.example.com says (301 Moved Permanently) that this is to be found at \
             https://new.example.com/v1. Redirects are not followed, so as not to hand the credentials on: \
             correct the base URL.",
        );
        check(599, &[], "", "api.example.com failed (599). Try again in a moment.");
    }
}
