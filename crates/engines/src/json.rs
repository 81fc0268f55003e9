//! Reading what programs say without being upset by it: whatever is missing or of another kind is simply not there.

use serde_json::Value;

/// A text at a path such as `/item/id`; empty texts count as missing.
pub(crate) fn text<'a>(value: &'a Value, path: &str) -> Option<&'a str> {
    value.pointer(path).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// A number at a path.
pub(crate) fn number(value: &Value, path: &str) -> Option<u64> {
    value.pointer(path).and_then(Value::as_u64)
}

/// The members of a list at a path.
pub(crate) fn list<'a>(value: &'a Value, path: &str) -> impl Iterator<Item = &'a Value> {
    value.pointer(path).and_then(Value::as_array).into_iter().flatten()
}

/// The texts of blocks such as `{"type": "text", "text": ...}`, or the text itself.
pub(crate) fn block_text(content: &Value) -> String {
    if let Some(text) = content.as_str() {
        return text.to_owned();
    }
    let texts = list(content, "").filter_map(|block| text(block, "/text"));
    texts.collect::<Vec<_>>().join("\n")
}

/// The words in an error that may be wrapped in JSON, as providers send it.
pub(crate) fn readable(error: &str) -> String {
    let Ok(parsed) = serde_json::from_str::<Value>(error) else { return error.to_owned() };
    let message = ["/error/message", "/message", "/detail"].iter().find_map(|path| text(&parsed, path));
    message.unwrap_or(error).to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_there_is_not_there() {
        let value = json!({"a": {"b": "x", "n": 3}, "empty": ""});
        assert_eq!(text(&value, "/a/b"), Some("x"));
        assert_eq!(number(&value, "/a/n"), Some(3));
        assert!(["/a", "/a/n", "/a/b/c", "/empty", "/none"].iter().all(|path| text(&value, path).is_none()));
        assert_eq!(list(&value, "/a").count(), 0);
    }

    #[test]
    fn blocks_and_errors_are_read_for_people() {
        assert_eq!(block_text(&json!("x")), "x");
        let blocks = json!([{"type": "text", "text": "a"}, {"type": "image"}, {"text": "b"}]);
        assert_eq!(block_text(&blocks), "a\nb");
        assert_eq!(readable(r#"{"error":{"message":"no"}}"#), "no");
        assert_eq!(readable("plain"), "plain");
        assert_eq!(readable("[1]"), "[1]");
    }
}
