//! JSON-RPC 2.0 messages, in both directions.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::json::Json;

/// Error codes of JSON-RPC and of the SDK protocol.
pub mod code {
    /// The frame is not JSON.
    pub const PARSE_ERROR: i64 = -32700;
    /// The JSON is not a request.
    pub const INVALID_REQUEST: i64 = -32600;
    /// The method does not exist.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The parameters do not match the method.
    pub const INVALID_PARAMS: i64 = -32602;
    /// The method failed.
    pub const INTERNAL_ERROR: i64 = -32603;
    /// The caller has cancelled the call.
    pub const REQUEST_CANCELLED: i64 = -32800;
    /// A call before a successful `connect`.
    pub const AUTHENTICATION_REQUIRED: i64 = -32001;
    /// A wrong or missing connection token.
    pub const AUTHENTICATION_FAILED: i64 = -32002;
}

/// The error of a failed call, as sent to the caller.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{message} (code {code})")]
pub struct RpcError {
    /// One of [`code`].
    pub code: i64,
    /// What failed and how to fix it, for people.
    pub message: String,
    /// Details for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Json>,
}

impl RpcError {
    /// Creates an error with a code and a text.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// Creates the error of a method that failed.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(code::INTERNAL_ERROR, message)
    }

    /// Creates the error of an unknown method.
    #[must_use]
    pub fn unknown_method(method: &str) -> Self {
        Self::new(code::METHOD_NOT_FOUND, format!("Unhandled method {method}"))
    }

    /// Creates the error of invalid parameters.
    pub fn bad_params(message: impl Into<String>) -> Self {
        Self::new(code::INVALID_PARAMS, message)
    }
}

/// The id of a request, echoed with the JSON type it came with: some SDKs use numbers, others strings.
pub type CallId = Json;

/// A received message.
#[derive(Debug, Clone, PartialEq)]
pub enum Incoming {
    /// A call that expects a response.
    Request {
        /// The id to echo.
        id: CallId,
        /// The method.
        method: String,
        /// Its parameters; `null` if absent.
        params: Json,
    },
    /// A call without a response.
    Notification {
        /// The method.
        method: String,
        /// Its parameters; `null` if absent.
        params: Json,
    },
    /// The response to one of our calls.
    Response {
        /// The id of our call.
        id: CallId,
        /// Its result.
        outcome: Result<Json, RpcError>,
    },
}

#[derive(Deserialize)]
struct Parts {
    id: Option<Json>,
    method: Option<String>,
    params: Option<Json>,
    result: Option<Json>,
    error: Option<RpcError>,
}

/// A frame that is not a message. If its id could be parsed, the error can be sent as the response to that
/// call.
#[derive(Debug, Clone, PartialEq)]
pub struct MalformedFrame {
    /// The id of the call, if it could be parsed.
    pub id: Option<CallId>,
    /// The error.
    pub error: RpcError,
}

impl Incoming {
    /// Parses the body of a frame.
    ///
    /// # Errors
    /// When the body is not JSON, or not a message.
    pub fn parse(body: &[u8]) -> Result<Self, MalformedFrame> {
        let fail = |id, code, message: String| MalformedFrame { id, error: RpcError::new(code, message) };
        let text = std::str::from_utf8(body)
            .map_err(|e| fail(None, code::PARSE_ERROR, format!("the message is not UTF-8: {e}")))?;
        // A raw value is skipped, not built. So the limits are checked after it, and the refusal has the id of the call.
        let raw: &RawValue = serde_json::from_str(text)
            .map_err(|e| fail(None, code::PARSE_ERROR, format!("the message is not JSON: {e}")))?;
        // Serde would accept an array as the fields of a message in order. A client that sends one means a
        // batch, which this protocol does not have.
        if !raw.get().starts_with('{') {
            let why = "a JSON-RPC message is an object; batches are not supported".to_owned();
            return Err(fail(None, code::INVALID_REQUEST, why));
        }
        let parts: Parts = baton_json::from_str(raw.get())
            .map_err(|e| fail(id_of(raw), code::INVALID_REQUEST, format!("not a JSON-RPC message: {e}")))?;
        let id = parts.id.filter(|id| id.as_str() != "null");
        let params = parts.params.unwrap_or_else(Json::null);
        match (parts.method, id) {
            (Some(method), Some(id)) => Ok(Self::Request { id, method, params }),
            (Some(method), None) => Ok(Self::Notification { method, params }),
            (None, Some(id)) => {
                let outcome = match parts.error {
                    Some(error) => Err(error),
                    None => Ok(parts.result.unwrap_or_else(Json::null)),
                };
                Ok(Self::Response { id, outcome })
            }
            (None, None) => {
                let why =
                    "a JSON-RPC message has a `method`, or the `id` of a call that it answers".to_owned();
                Err(fail(None, code::INVALID_REQUEST, why))
            }
        }
    }
}

fn id_of(raw: &RawValue) -> Option<CallId> {
    #[derive(Deserialize)]
    struct OnlyId {
        id: Option<Json>,
    }
    serde_json::from_str::<OnlyId>(raw.get()).ok()?.id.filter(|id| id.as_str() != "null")
}

/// A message to send. `jsonrpc` comes first, as peers print it in their logs.
#[derive(Debug, Serialize)]
pub struct Outgoing<'a, T: Serialize> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a RpcError>,
}

impl<'a> Outgoing<'a, ()> {
    /// Creates the response to a call. `result` is written even if it is `null`: one SDK rejects a response
    /// with neither `result` nor `error`.
    #[must_use]
    pub fn response(id: &'a CallId, outcome: Result<&'a Json, &'a RpcError>) -> Self {
        let (result, error) = match outcome {
            Ok(result) => (Some(result), None),
            Err(error) => (None, Some(error)),
        };
        Self { jsonrpc: "2.0", id: Some(id), method: None, params: None, result, error }
    }
}

impl<'a, T: Serialize> Outgoing<'a, T> {
    /// Creates a notification.
    pub fn notification(method: &'a str, params: T) -> Self {
        Self {
            jsonrpc: "2.0",
            id: None,
            method: Some(method),
            params: Some(params),
            result: None,
            error: None,
        }
    }

    /// Creates a call.
    pub fn request(id: &'a CallId, method: &'a str, params: T) -> Self {
        Self { id: Some(id), ..Self::notification(method, params) }
    }

    /// Encodes the message as a frame.
    ///
    /// # Errors
    /// When the parameters cannot be represented in JSON.
    pub fn to_frame(&self) -> serde_json::Result<bytes::Bytes> {
        Ok(crate::frame::encode(&serde_json::to_vec(self)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::from_text(text).unwrap()
    }

    #[test]
    fn requests_notifications_and_responses_are_distinguished() {
        let request =
            Incoming::parse(br#"{"jsonrpc":"2.0","id":"a","method":"ping","params":{"message":null}}"#);
        let expected = Incoming::Request {
            id: json("\"a\""),
            method: "ping".into(),
            params: json(r#"{"message":null}"#),
        };
        assert_eq!(request.unwrap(), expected);
        let note = Incoming::parse(br#"{"method":"$/cancelRequest"}"#).unwrap();
        assert_eq!(note, Incoming::Notification { method: "$/cancelRequest".into(), params: Json::null() });
        let response = Incoming::parse(br#"{"id":7,"result":null}"#).unwrap();
        assert_eq!(response, Incoming::Response { id: json("7"), outcome: Ok(Json::null()) });
        let failure = Incoming::parse(br#"{"id":7,"error":{"code":-32603,"message":"no"}}"#).unwrap();
        assert_eq!(failure, Incoming::Response { id: json("7"), outcome: Err(RpcError::failed("no")) });
    }

    #[test]
    fn malformed_message_error_has_reason_and_id() {
        assert_eq!(Incoming::parse(b"{").unwrap_err().error.code, code::PARSE_ERROR);
        assert_eq!(Incoming::parse(b"\xff{}").unwrap_err().error.code, code::PARSE_ERROR);
        assert_eq!(Incoming::parse(b"{}").unwrap_err().error.code, code::INVALID_REQUEST);
        for batch in [&b"[]"[..], br#"[{"id":1,"method":"ping"}]"#, br#"[1,"ping",null,null,null]"#, b"7"] {
            let refused = Incoming::parse(batch).unwrap_err();
            assert_eq!((refused.id, refused.error.code), (None, code::INVALID_REQUEST));
        }
        let deep = format!("{{\"id\":1,\"method\":\"x\",\"params\":{}{}}}", "[".repeat(500), "]".repeat(500));
        assert_eq!(Incoming::parse(deep.as_bytes()).unwrap_err().error.code, code::INVALID_REQUEST);
        let wrong_type = Incoming::parse(br#"{"id":3,"method":7}"#).unwrap_err();
        assert_eq!((wrong_type.id, wrong_type.error.code), (Some(json("3")), code::INVALID_REQUEST));
    }

    #[test]
    fn null_result_is_written() {
        let (id, null) = (json("1"), Json::null());
        let text = serde_json::to_string(&Outgoing::response(&id, Ok(&null))).unwrap();
        assert_eq!(text, r#"{"jsonrpc":"2.0","id":1,"result":null}"#);
    }
}
