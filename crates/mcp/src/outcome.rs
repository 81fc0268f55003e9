//! Results of calls: what the model is given, what people see, and how calls fail.

use baton_protocol::Json;
use serde_json::Value;

/// Why a call has no result. The texts are those that models and people see, after the name of the server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolCallError {
    /// The server answered with an error of the protocol.
    #[error("McpError: MCP error {code}: {message}")]
    Refused {
        /// The error code.
        code: i64,
        /// The server's message.
        message: String,
    },
    /// The server did not answer in time.
    #[error("McpError: MCP error -32001: Request timed out")]
    TimedOut,
    /// The connection ended before the answer.
    #[error("MCP request failed: MCP transport closed before the tool responded")]
    Closed,
    /// The message could not be sent.
    #[error("MCP request failed: {0}")]
    NotSent(String),
    /// The answer cannot be used.
    #[error("MCP request failed: {0}")]
    Unusable(String),
    /// The server requires authorization, and there is none.
    #[error("MCP server requires authorization")]
    Unauthorized,
    /// The server is not connected.
    #[error("MCP server is not connected: {0}")]
    Unavailable(String),
    /// The server was connected again for the call, and describes the tool differently than when it was approved.
    #[error(
        "the tool has changed since the call was approved, and was not called; call it again to ask for approval"
    )]
    Changed,
    /// The caller cancelled the call.
    #[error("The call was cancelled")]
    Cancelled,
}

/// The parts of a result.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Contents {
    /// Text for the model.
    pub text: String,
    /// The parts, as the server sent them.
    pub parts: Vec<Value>,
    /// Structured content, as the server sent it.
    pub structured: Option<Value>,
    /// Images: base64 data and media type.
    pub images: Vec<(String, String)>,
    /// The server says that the tool failed.
    pub is_error: bool,
}

/// Reads a `CallToolResult`. Fields of an unexpected type are ignored.
#[must_use]
pub fn contents(result: &Value) -> Contents {
    let parts = result.get("content").and_then(Value::as_array).cloned().unwrap_or_default();
    let structured = result.get("structuredContent").filter(|value| !value.is_null()).cloned();
    let mut text: String = parts.iter().filter_map(text_of).collect();
    // A server that pretty-prints JSON spends the model's tokens on white space.
    if text.trim_start().starts_with(['{', '['])
        && let Ok(json) = Json::from_text(&text)
    {
        text = json.as_str().to_owned();
    }
    if let Some(structured) = &structured {
        let compact = structured.to_string();
        // Most servers repeat their structured content as text.
        if text != compact {
            let gap = if text.is_empty() { "" } else { "\n\n" };
            text = format!("{text}{gap}{compact}");
        }
    }
    Contents {
        text,
        images: parts.iter().filter_map(image).collect(),
        is_error: result.get("isError").and_then(Value::as_bool).unwrap_or(false),
        structured,
        parts,
    }
}

fn text_of(part: &Value) -> Option<&str> {
    match part.get("type")?.as_str()? {
        "text" => part.get("text")?.as_str(),
        "resource" => part.pointer("/resource/text")?.as_str(),
        _ => None,
    }
}

fn image(part: &Value) -> Option<(String, String)> {
    let field = |name: &str| part.get(name)?.as_str().map(str::to_owned);
    (part.get("type")?.as_str()? == "image").then_some(())?;
    Some((field("data")?, field("mimeType")?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(result: &Value) -> String {
        contents(result).text
    }

    #[test]
    fn texts_are_joined_without_separator() {
        let result = json!({ "content": [
            { "type": "text", "text": "a" },
            { "type": "resource", "resource": { "uri": "x:", "text": "b" } },
            { "type": "resource_link", "uri": "y:" },
            { "type": "text", "text": "c" },
        ]});
        assert_eq!(text(&result), "abc");
        assert_eq!(contents(&result).parts.len(), 4);
    }

    #[test]
    fn json_is_compacted_and_structured_content_appended() {
        assert_eq!(text(&json!({ "content": [{ "type": "text", "text": "{ \"a\" : 1 }" }] })), "{\"a\":1}");
        assert_eq!(text(&json!({ "content": [{ "type": "text", "text": " 12" }] })), " 12");
        let both = json!({ "content": [{ "type": "text", "text": "t" }], "structuredContent": { "a": 1 } });
        assert_eq!(text(&both), "t\n\n{\"a\":1}");
        assert_eq!(text(&json!({ "structuredContent": { "a": 1 } })), "{\"a\":1}");
    }

    #[test]
    fn images_and_errors_are_recognised() {
        let result = json!({ "isError": true, "content": [
            { "type": "image", "data": "AAAA", "mimeType": "image/png" },
            { "type": "image", "data": 1 },
            7,
        ]});
        let contents = contents(&result);
        assert_eq!(contents.images, [("AAAA".to_owned(), "image/png".to_owned())]);
        assert!(contents.is_error);
    }

    #[test]
    fn nonsense_is_an_empty_result() {
        for result in [json!(null), json!([]), json!({ "content": {} }), json!({ "content": [null] })] {
            assert_eq!(text(&result), "");
        }
    }
}
