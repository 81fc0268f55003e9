//! Conversion of failures on the wire to [`ModelError`].
//!
//! Shared by all wire formats: providers differ in the shape of an answer, but report errors in similar ways.

mod provider_error;

use std::time::Duration;

use serde_json::Value;

use crate::endpoint::Endpoint;
use crate::http::{Headers, TransportError, Url, reason};
use crate::{ErrorKind, ModelError};
use provider_error::ProviderError;
pub(crate) use provider_error::tidy;

/// Returns the error of a request or response that did not get through.
pub(crate) fn of_transport(endpoint: &Endpoint, error: &TransportError) -> ModelError {
    let host = endpoint.host();
    let (kind, what) = match error {
        TransportError::Invalid(why) => {
            (ErrorKind::BadRequest, format!("The request to {host} cannot be sent: {why}"))
        }
        TransportError::Refused(why) if endpoint.is_on_this_machine() => {
            (ErrorKind::NotRunning, format!("{host} cannot be reached: {why}"))
        }
        TransportError::Unreachable(why) | TransportError::Refused(why) => {
            (ErrorKind::Network, format!("{host} cannot be reached: {why}"))
        }
        TransportError::Untrusted(why) => (ErrorKind::Certificate, format!("{host} is not trusted: {why}")),
        TransportError::Closed(_) => {
            (ErrorKind::Network, format!("{host} has an address that is not allowed"))
        }
        TransportError::Broken(why) => {
            (ErrorKind::Network, format!("The connection to {host} broke off: {why}"))
        }
        TransportError::Stalled(after) => {
            (ErrorKind::Stalled, format!("{host} sent nothing for {} s", after.as_secs_f32()))
        }
        TransportError::TooLong(limit) => (
            ErrorKind::Protocol,
            format!("{host} sent more than {limit} bytes; no model answers at that length"),
        ),
    };
    ModelError::new(kind, &host, sentences(&endpoint.scrub(&what), advice(kind, None)))
}

/// Returns the error of a response with an unsuccessful status.
pub(crate) fn of_status(endpoint: &Endpoint, status: u16, headers: &Headers, body: &[u8]) -> ModelError {
    let reported = ProviderError::in_body(body);
    let mut error = of_reported(endpoint, Some(status), reported, retry_after(headers));
    if let Some(location) = headers.get("location").filter(|_| (300..400).contains(&status)) {
        error.message = moved(endpoint, status, location);
    }
    error.request_id = request_id(headers).map(Into::into);
    error
}

/// Returns the error inside an answer that started successfully. On a WebSocket it contains the status and
/// headers of an HTTP response.
pub(crate) fn in_answer(endpoint: &Endpoint, error: &Value) -> ModelError {
    let wait = retry_after(&headers_in(error));
    let reported = ProviderError::in_json(error);
    of_reported(endpoint, reported.status, reported, wait)
}

fn headers_in(error: &Value) -> Headers {
    let headers = error.get("headers").and_then(Value::as_object).into_iter().flatten();
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    Headers(headers.map(|(name, value)| (name.clone(), text(value))).collect())
}

/// Returns the error of an invalid response. `what` continues the sentence after the host name.
pub(crate) fn invalid(endpoint: &Endpoint, what: &str) -> ModelError {
    let host = endpoint.host();
    let what = endpoint.scrub(&format!("{host} {what}"));
    ModelError::new(ErrorKind::Protocol, &host, sentences(&what, advice(ErrorKind::Protocol, None)))
}

/// Returns the error of an answer with neither text nor calls.
pub(crate) fn without_content(endpoint: &Endpoint) -> ModelError {
    invalid(endpoint, "sent an answer without content")
}

/// Returns the error of a web page in place of an API response.
pub(crate) fn web_page(endpoint: &Endpoint, page: &[u8]) -> ModelError {
    let title = provider_error::title(&String::from_utf8_lossy(page));
    let title = title.map(|title| format!(" (“{title}”)")).unwrap_or_default();
    invalid(endpoint, &format!("sent a web page{title} instead of an answer"))
}

/// Returns the error of an incomplete answer in a stream that ended properly.
pub(crate) fn incomplete(endpoint: &Endpoint) -> ModelError {
    of_transport(endpoint, &TransportError::Broken("the answer is incomplete".to_owned()))
}

/// Returns the provider's id of the request, under any of its usual names.
pub(crate) fn request_id(headers: &Headers) -> Option<&str> {
    ["x-request-id", "request-id", "x-github-request-id", "apim-request-id"]
        .iter()
        .find_map(|name| headers.get(name))
}

fn of_reported(
    endpoint: &Endpoint,
    status: Option<u16>,
    reported: ProviderError,
    retry_after: Option<Duration>,
) -> ModelError {
    let host = endpoint.host();
    let kind = reported.kind(status);
    let mut what = in_short(kind, &host);
    if let Some(status) = status {
        what.push_str(&format!(" ({})", format!("{status} {}", reason(status)).trim_end()));
    }
    if let Some(message) = &reported.message {
        what.push_str(": ");
        what.push_str(message);
    }
    let message = sentences(&endpoint.scrub(&what), advice(kind, retry_after));
    ModelError {
        status,
        code: reported.code.map(Into::into),
        retry_after,
        ..ModelError::new(kind, &host, message)
    }
}

fn in_short(kind: ErrorKind, host: &str) -> String {
    match kind {
        ErrorKind::Auth => format!("{host} refused the credentials"),
        ErrorKind::RateLimited => format!("{host} reports that the rate limit is exceeded"),
        ErrorKind::Quota => format!("{host} reports that the quota of the account is exhausted"),
        ErrorKind::NotFound => format!("{host} does not know this URL or model"),
        ErrorKind::ContextTooLong => format!("The conversation is too long for this model of {host}"),
        ErrorKind::Filtered => format!("The content filter of {host} blocked the request or the answer"),
        ErrorKind::BadRequest => format!("{host} rejected the request"),
        ErrorKind::Server | ErrorKind::Stalled | ErrorKind::Network | ErrorKind::NotRunning => {
            format!("{host} failed")
        }
        ErrorKind::Certificate | ErrorKind::Protocol => format!("{host} sent an invalid response"),
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
        ErrorKind::NotRunning => "Start the model server, or check the port.",
        ErrorKind::Certificate => {
            "If a company proxy inspects TLS connections, add its certificate to the system's store, or name it in \
             SSL_CERT_FILE."
        }
        ErrorKind::Stalled => "Try again; if it happens often, ask for less at once or wait longer.",
        ErrorKind::Protocol => {
            "Check that the base URL is that of an API, and that no proxy or login page answers."
        }
        ErrorKind::Filtered => "Rephrase the prompt.",
        ErrorKind::RateLimited | ErrorKind::Server => match retry_after {
            Some(wait) => return format!("Try again in {} s.", wait.as_secs_f32().ceil()),
            None => "Try again in a moment.",
        },
    };
    advice.to_owned()
}

/// Joins the failure, ended with exactly one full stop, and the advice.
fn sentences(what: &str, advice: impl AsRef<str>) -> String {
    let stop = if what.ends_with(['.', '!', '?', '…']) { "" } else { "." };
    format!("{what}{stop} {}", advice.as_ref())
}

fn moved(endpoint: &Endpoint, status: u16, location: &str) -> String {
    let to = Url::parse(location).map_or_else(|_| "another address".to_owned(), |url| format!("{url:?}"));
    let what = format!("{} redirects ({status} {}) to {to}", endpoint.host(), reason(status));
    sentences(
        &what,
        "Redirects are not followed, because they would disclose the credentials: correct the base URL.",
    )
}

/// Returns how long the provider asks us to wait: given in milliseconds, in seconds, or as a date.
fn retry_after(headers: &Headers) -> Option<Duration> {
    if let Some(millis) = headers.get("retry-after-ms").and_then(|text| text.trim().parse().ok()) {
        return Some(Duration::from_millis(millis));
    }
    let text = headers.get("retry-after")?.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = |text: &str| jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text).ok();
    // Relative to the provider's clock if it is known: ours may be wrong.
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
    fn all_forms_of_retry_after_are_parsed() {
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
    fn messages_are_readable_and_omit_secrets() {
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
            "api.example.com reports that the rate limit is exceeded (429 Too Many Requests): Slow down. \
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
            "api.example.com redirects (301 Moved Permanently) to \
             https://new.example.com/v1. Redirects are not followed, because they would disclose the credentials: \
             correct the base URL.",
        );
        check(599, &[], "", "api.example.com failed (599). Try again in a moment.");
    }
}
