//! Messages of JSON-RPC, as every transport carries them: parsed from bytes, and made into JSON.
//!
//! Parameters and results stay plain JSON, so that one unusual entry does not make the others unreadable. A response that
//! cannot be parsed fails its own request. What a message means is decided in [`super::peer`] and [`super::handler`].

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::log::ServerLog;

/// JSON-RPC error code: the method does not exist.
pub(super) const METHOD_NOT_FOUND: i64 = -32601;
/// JSON-RPC error code: the parameters cannot be used.
pub(super) const INVALID_PARAMS: i64 = -32602;
/// JSON-RPC error code: any other problem.
pub(super) const INTERNAL_ERROR: i64 = -32603;

/// Bytes of an unknown line that are logged.
const QUOTED: usize = 200;

/// A message, from a server or to it. The ids of a server's requests are returned to it exactly as they came.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Message {
    Request { id: Value, method: String, params: Value },
    Notification { method: String, params: Value },
    Response { id: Value, result: Result<Value, Failure> },
}

/// Why a request has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// The response is an error.
    Refused { code: i64, message: String },
    /// The request did not reach the server.
    NotSent(String),
    /// The connection, or the stream of the response, ended first.
    Closed,
    /// The response cannot be used.
    Unusable(String),
}

impl Failure {
    pub(super) fn refused(code: i64, message: impl Into<String>) -> Self {
        Self::Refused { code, message: message.into() }
    }

    pub(super) fn unusable() -> Self {
        Self::Unusable("the response of the server cannot be used".into())
    }

    fn into_json(self) -> Value {
        let (code, message) = match self {
            Self::Refused { code, message } => (code, message),
            Self::NotSent(problem) | Self::Unusable(problem) => (INTERNAL_ERROR, problem),
            Self::Closed => (INTERNAL_ERROR, "closed".to_owned()),
        };
        json!({ "code": code, "message": message })
    }
}

impl Message {
    /// Parses a message. One that cannot be used is logged; if it is the response to a request, the request fails.
    pub(super) fn parse(bytes: &[u8], log: &ServerLog) -> Option<Self> {
        let problem = match baton_json::from_slice::<Map<String, Value>>(bytes) {
            Ok(fields) => match Self::of(fields) {
                Some(message) => return Some(message),
                None => "it is not a message of JSON-RPC".to_owned(),
            },
            Err(error) => error.to_string(),
        };
        let is_object = bytes.trim_ascii_start().starts_with(b"{");
        let Some(head) = serde_json::from_slice::<Head<'_>>(bytes).ok().filter(|_| is_object) else {
            let text = String::from_utf8_lossy(&bytes[..bytes.len().min(QUOTED)]).into_owned();
            log.add(&format!("sent what is not a message: {text}"));
            return None;
        };
        log.add(&format!("sent a message that cannot be used: {problem}"));
        let id = head.id.and_then(|id| baton_json::from_str::<Value>(id.get()).ok());
        let id = id.filter(|id| head.method.is_none() && is_id(id))?;
        Some(Self::Response { id, result: Err(Failure::unusable()) })
    }

    fn of(mut fields: Map<String, Value>) -> Option<Self> {
        (fields.get("jsonrpc")? == "2.0").then_some(())?;
        let id = fields.remove("id");
        let params = fields.remove("params").unwrap_or_default();
        match (fields.remove("method"), id) {
            (Some(Value::String(method)), None) => Some(Self::Notification { method, params }),
            (Some(Value::String(method)), Some(id)) if is_id(&id) => {
                Some(Self::Request { id, method, params })
            }
            (Some(_), _) => None,
            // An error without an id says that the server could not read a request, and not which one.
            (None, id) => {
                let id = id.filter(|id| id.is_null() || is_id(id)).unwrap_or_default();
                let result = result_of(fields)?;
                (is_id(&id) || result.is_err()).then_some(Self::Response { id, result })
            }
        }
    }

    /// Returns the message as bytes of JSON, without a line feed.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        let mut fields = Map::from_iter([("jsonrpc".to_owned(), json!("2.0"))]);
        let mut add = |name: &str, value: Value| drop(fields.insert(name.to_owned(), value));
        let (id, method, params) = match self {
            Self::Request { id, method, params } => (Some(id), Some(method), params),
            Self::Notification { method, params } => (None, Some(method), params),
            Self::Response { id, result } => {
                match result {
                    Ok(result) => add("result", result),
                    Err(failure) => add("error", failure.into_json()),
                }
                (Some(id), None, Value::Null)
            }
        };
        if let Some(id) = id {
            add("id", id);
        }
        if let Some(method) = method {
            add("method", Value::String(method));
        }
        if !params.is_null() {
            add("params", params);
        }
        Value::Object(fields).to_string().into_bytes()
    }
}

fn result_of(mut fields: Map<String, Value>) -> Option<Result<Value, Failure>> {
    match fields.remove("error") {
        None | Some(Value::Null) => fields.remove("result").map(Ok),
        Some(Value::Object(error)) => {
            let code = error.get("code").and_then(Value::as_i64).unwrap_or(INTERNAL_ERROR);
            let message = error.get("message").and_then(Value::as_str).unwrap_or_default();
            Some(Err(Failure::refused(code, message)))
        }
        Some(_) => None,
    }
}

fn is_id(id: &Value) -> bool {
    id.is_string() || id.is_number()
}

/// Returns the id of one of our requests, or its progress token. Some servers return numbers as strings.
pub(super) fn number(id: &Value) -> Option<u64> {
    id.as_u64().or_else(|| id.as_str()?.parse().ok())
}

/// The part of a message that tells what it is for. Nothing of it is built, so a message beyond all limits has one, too.
#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: Option<IgnoredAny>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<Message> {
        Message::parse(text.as_bytes(), &ServerLog::default())
    }

    fn failure(text: &str) -> Option<(Value, Failure)> {
        match parse(text)? {
            Message::Response { id, result: Err(failure) } => Some((id, failure)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn response_that_is_nested_too_deeply_fails_its_request() {
        let deep = format!(
            r#"{{"jsonrpc":"2.0","result":{}{},"id":7}}"#,
            r#"{"a":"#.repeat(10_000),
            "1".to_owned() + &"}".repeat(10_000)
        );
        assert_eq!(failure(&deep), Some((json!(7), Failure::unusable())));
    }

    #[test]
    fn response_with_too_many_values_fails_its_request() {
        let many = "[],".repeat(baton_json::MAX_VALUES);
        let text = format!(r#"{{"jsonrpc":"2.0","result":[{many}[]],"id":7}}"#);
        assert_eq!(failure(&text), Some((json!(7), Failure::unusable())));
        let text = format!(r#"{{"jsonrpc":"2.0","result":{{}},"id":[{many}[]]}}"#);
        assert_eq!(parse(&text), None);
    }

    #[test]
    fn response_without_a_usable_result_fails_its_request() {
        for odd in [
            r#"{"jsonrpc":"2.0","id":7,"result":"nonsense","error":3}"#,
            r#"{"jsonrpc":"2.0","id":7}"#,
            r#"{"jsonrpc":"1.0","id":7,"result":{}}"#,
            r#"{"id":7,"result":{}}"#,
        ] {
            assert_eq!(failure(odd), Some((json!(7), Failure::unusable())), "{odd}");
        }
        let refused =
            failure(r#"{"jsonrpc":"2.0","id":"7","error":{"code":-1,"message":"no"},"result":null}"#);
        assert_eq!(refused, Some((json!("7"), Failure::refused(-1, "no"))));
        let without_id = failure(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700}}"#);
        assert_eq!(without_id, Some((Value::Null, Failure::refused(-32700, ""))));
    }

    #[test]
    fn noise_is_logged_and_skipped() {
        let log = ServerLog::default();
        let noise = [
            "Welcome!",
            "[1,2",
            "[7,null]",
            "{}",
            r#"{"jsonrpc":"2.0"}"#,
            r#"{"jsonrpc":"2.0","method":7}"#,
            r#"{"jsonrpc":"2.0","method":"m","id":null}"#,
            r#"{"jsonrpc":"2.0","method":"m","id":{}}"#,
            r#"{"jsonrpc":"2.0","result":{}}"#,
            r#"{"jsonrpc":"2.0","result":{},"id":[1]}"#,
        ];
        for text in noise {
            assert_eq!(Message::parse(text.as_bytes(), &log), None, "{text}");
        }
        assert_eq!(log.lines().len(), noise.len());
    }

    #[test]
    fn messages_are_the_same_after_a_round_trip() {
        let messages = [
            Message::Request { id: json!(1), method: "a".into(), params: json!({ "x": [1] }) },
            Message::Request { id: json!("q-1"), method: "a".into(), params: Value::Null },
            Message::Notification { method: "n".into(), params: json!({}) },
            Message::Response { id: json!(-5), result: Ok(json!({ "odd": null })) },
            Message::Response { id: json!("x"), result: Err(Failure::refused(-32000, "no")) },
        ];
        for message in messages {
            let bytes = message.clone().into_bytes();
            assert!(!bytes.contains(&b'\n'));
            assert_eq!(Message::parse(&bytes, &ServerLog::default()), Some(message));
        }
    }

    #[test]
    fn ids_that_came_back_as_strings_are_understood() {
        assert_eq!((number(&json!(3)), number(&json!("3"))), (Some(3), Some(3)));
        for other in [json!(-3), json!("x"), json!(3.5), Value::Null] {
            assert_eq!(number(&other), None);
        }
    }
}
