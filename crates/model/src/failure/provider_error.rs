//! Finds the error of a provider in any form of response, and classifies it.

use serde_json::Value;

use crate::ErrorKind;

/// Maximum length of a provider's message; some repeat the whole request.
const LONGEST_MESSAGE: usize = 400;

/// An error as reported by a provider.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ProviderError {
    /// Its message.
    pub(super) message: Option<String>,
    /// Its error code.
    pub(super) code: Option<String>,
    /// An HTTP status, where the code is one.
    pub(super) status: Option<u16>,
}

impl ProviderError {
    /// Extracts the error from the body of a response.
    pub(super) fn in_body(body: &[u8]) -> Self {
        if let Ok(json) = baton_json::from_slice(body) {
            return Self::in_json(&json);
        }
        let text = String::from_utf8_lossy(body);
        let message = if text.trim_start().starts_with('<') {
            title(&text).map(|title| format!("a web page with the title “{title}”"))
        } else {
            Some(tidy(&text, LONGEST_MESSAGE))
        };
        Self { message: message.filter(|message| !message.is_empty()), ..Self::default() }
    }

    /// Extracts the error from JSON: `{"error": {"message", "code", "type"}}` and similar shapes.
    pub(super) fn in_json(json: &Value) -> Self {
        let inner = match json {
            Value::Array(list) => list.first(),
            Value::Object(map) => map.get("error").filter(|error| !error.is_null()),
            _ => None,
        };
        // Without an HTTP status, as on a WebSocket, the status is a sibling of the error.
        let status = |key: &str| Some(u16::try_from(json.get(key)?.as_u64()?).ok()?).filter(|n| *n >= 400);
        if let Some(inner) = inner {
            let beside = || status("status").or_else(|| status("status_code"));
            let error = Self::in_json(inner);
            return Self { status: error.status.or_else(beside), ..error };
        }
        let text =
            |value: &Value| value.as_str().map(|text| tidy(text, LONGEST_MESSAGE)).filter(|t| !t.is_empty());
        let message =
            ["message", "detail", "error_description"].iter().find_map(|key| json.get(key).and_then(text));
        let code = json.get("code");
        Self {
            message: message.or_else(|| text(json)).or_else(|| json.pointer("/detail/0/msg").and_then(text)),
            code: code.and_then(text).or_else(|| json.get("type").and_then(text)),
            status: status("code"),
        }
    }

    /// Classifies the error.
    pub(super) fn kind(&self, status: Option<u16>) -> ErrorKind {
        let code = self.code.as_deref().unwrap_or_default().to_ascii_lowercase();
        let has = |parts: &[&str]| parts.iter().any(|part| code.contains(part));
        let may_be_too_long = matches!(status, None | Some(400 | 413 | 422 | 500));
        match status {
            _ if has(&["content_filter", "content_policy", "responsibleai"]) => ErrorKind::Filtered,
            _ if has(&["insufficient_quota", "billing"]) => ErrorKind::Quota,
            Some(413) => ErrorKind::ContextTooLong,
            _ if may_be_too_long && self.says_too_long(&code) => ErrorKind::ContextTooLong,
            Some(401 | 403) => ErrorKind::Auth,
            Some(402) => ErrorKind::Quota,
            Some(404 | 405 | 410 | 300..=399) => ErrorKind::NotFound,
            Some(408 | 409 | 425) => ErrorKind::Server,
            Some(429) => ErrorKind::RateLimited,
            Some(400..=499) => ErrorKind::BadRequest,
            Some(_) => ErrorKind::Server,
            None if has(&["rate_limit"]) => ErrorKind::RateLimited,
            None if has(&["auth", "api_key", "permission"]) => ErrorKind::Auth,
            None if has(&["not_found"]) => ErrorKind::NotFound,
            None if has(&["invalid_request"]) => ErrorKind::BadRequest,
            // A failure in the middle of an answer is usually one of the server.
            None => ErrorKind::Server,
        }
    }

    /// Whether the error means that the conversation is too long. There is one official code, and as many
    /// wordings as providers.
    fn says_too_long(&self, code: &str) -> bool {
        const CODES: [&str; 2] = ["context_length_exceeded", "prompt_tokens_exceeded"];
        const WORDS: [&str; 6] = [
            "context length",
            "context window",
            "context size",
            "context limit",
            "prompt is too long",
            "token limit",
        ];
        let message = self.message.as_deref().unwrap_or_default().to_ascii_lowercase();
        CODES.iter().any(|known| code.contains(known)) || WORDS.iter().any(|words| message.contains(words))
    }
}

/// Returns one line without control characters, truncated to `longest` characters.
pub(crate) fn tidy(text: &str, longest: usize) -> String {
    let spaced = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    // Limited before anything is collected: the text may have megabytes.
    let line: String = spaced.take(longest * 8).collect();
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(longest) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Returns the title of a web page.
pub(super) fn title(html: &str) -> Option<String> {
    let lower = html.to_ascii_lowercase();
    let begin = lower.find("<title")?;
    let begin = begin + lower[begin..].find('>')? + 1;
    let end = begin + lower[begin..].find('<')?;
    Some(tidy(&html[begin..end], 80)).filter(|title| !title.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &str, message: Option<&str>, code: Option<&str>, status: Option<u16>) {
        let expected = ProviderError { message: message.map(Into::into), code: code.map(Into::into), status };
        assert_eq!(ProviderError::in_body(body.as_bytes()), expected, "{body}");
    }

    #[test]
    fn error_is_found_in_all_shapes() {
        check(r#"{"error":{"message":"m","code":"c","type":"t"}}"#, Some("m"), Some("c"), None);
        check(r#"{"error":{"message":"m","code":null,"type":"t"}}"#, Some("m"), Some("t"), None);
        check(r#"{"error":{"message":"m","code":429}}"#, Some("m"), None, Some(429));
        check(r#"[{"error":{"message":"m","code":400,"status":"INVALID"}}]"#, Some("m"), None, Some(400));
        let on_a_socket = r#"{"type":"error","status":429,"error":{"message":"m","code":"c"}}"#;
        check(on_a_socket, Some("m"), Some("c"), Some(429));
        check(r#"{"error":"model not found"}"#, Some("model not found"), None, None);
        check(r#"{"message":"Bad credentials"}"#, Some("Bad credentials"), None, None);
        check(r#"{"detail":[{"msg":"field required"}]}"#, Some("field required"), None, None);
        check(r#"{"detail":"nope"}"#, Some("nope"), None, None);
        check("  plain\n text ", Some("plain text"), None, None);
        check(
            "<!DOCTYPE html><TITLE lang=en>Log in</TITLE>",
            Some("a web page with the title “Log in”"),
            None,
            None,
        );
        check("<html>no title", None, None, None);
        check("", None, None, None);
        check("null", None, None, None);
    }

    #[test]
    fn error_is_classified_by_status_code_and_wording() {
        let check = |status: Option<u16>, code: &str, message: &str, expected: ErrorKind| {
            let error = ProviderError {
                message: Some(message.to_owned()),
                code: Some(code.to_owned()),
                status: None,
            };
            assert_eq!(error.kind(status), expected, "{status:?} {code} {message}");
        };
        check(Some(401), "", "", ErrorKind::Auth);
        check(Some(403), "", "", ErrorKind::Auth);
        check(Some(404), "", "", ErrorKind::NotFound);
        check(Some(400), "", "", ErrorKind::BadRequest);
        check(Some(422), "", "", ErrorKind::BadRequest);
        check(Some(402), "", "", ErrorKind::Quota);
        check(Some(429), "", "", ErrorKind::RateLimited);
        check(Some(429), "insufficient_quota", "", ErrorKind::Quota);
        check(Some(429), "user_weekly_rate_limited", "", ErrorKind::RateLimited);
        check(Some(400), "context_length_exceeded", "", ErrorKind::ContextTooLong);
        check(Some(400), "", "This model's maximum context length is 8192 tokens", ErrorKind::ContextTooLong);
        check(Some(413), "", "", ErrorKind::ContextTooLong);
        check(Some(400), "content_filter", "", ErrorKind::Filtered);
        for status in [408, 409, 425, 500, 502, 503, 504, 529] {
            check(Some(status), "", "", ErrorKind::Server);
        }
        check(None, "rate_limit_exceeded", "", ErrorKind::RateLimited);
        check(None, "invalid_request_error", "", ErrorKind::BadRequest);
        check(None, "", "the machine is on fire", ErrorKind::Server);
    }

    #[test]
    fn long_texts_are_truncated_between_characters() {
        assert_eq!(tidy(&"ä".repeat(10), 3), "äää…");
        assert_eq!(tidy("a \r\n\t b", 10), "a b");
        assert!(tidy(&" x".repeat(1_000_000), 400).chars().count() <= 401);
    }
}
