//! Lenient access to the JSON of programs: a value of an unexpected type counts as missing.

use serde_json::Value;

/// Returns the text at a path such as `/item/id`. An empty text counts as missing.
pub(crate) fn text<'a>(value: &'a Value, path: &str) -> Option<&'a str> {
    value.pointer(path).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// Larger numbers count as missing: programs cannot represent them exactly, and sums of them could overflow.
const LARGEST: u64 = 1 << 53;

/// Returns the number at a path.
pub(crate) fn number(value: &Value, path: &str) -> Option<u64> {
    value.pointer(path).and_then(Value::as_u64).filter(|number| *number <= LARGEST)
}

/// Returns the elements of the list at a path.
pub(crate) fn list<'a>(value: &'a Value, path: &str) -> impl Iterator<Item = &'a Value> {
    value.pointer(path).and_then(Value::as_array).into_iter().flatten()
}

/// Returns the texts of blocks such as `{"type": "text", "text": ...}`, or the text itself.
pub(crate) fn block_text(content: &Value) -> String {
    if let Some(text) = content.as_str() {
        return text.to_owned();
    }
    let texts = list(content, "").filter_map(|block| text(block, "/text"));
    texts.collect::<Vec<_>>().join("\n")
}

/// Returns the message of an error that may be wrapped in JSON, as providers send it.
pub(crate) fn readable(error: &str) -> String {
    let Ok(parsed) = baton_json::from_str::<Value>(error) else { return error.to_owned() };
    let message = ["/error/message", "/message", "/detail"].iter().find_map(|path| text(&parsed, path));
    message.unwrap_or(error).to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn missing_and_mistyped_values_are_none() {
        let value = json!({"a": {"b": "x", "n": 3}, "empty": ""});
        assert_eq!(text(&value, "/a/b"), Some("x"));
        assert_eq!(number(&value, "/a/n"), Some(3));
        assert_eq!(number(&json!({ "n": u64::MAX }), "/n"), None);
        assert!(["/a", "/a/n", "/a/b/c", "/empty", "/none"].iter().all(|path| text(&value, path).is_none()));
        assert_eq!(list(&value, "/a").count(), 0);
    }

    #[test]
    fn texts_of_blocks_and_errors_are_extracted() {
        assert_eq!(block_text(&json!("x")), "x");
        let blocks = json!([{"type": "text", "text": "a"}, {"type": "image"}, {"text": "b"}]);
        assert_eq!(block_text(&blocks), "a\nb");
        assert_eq!(readable(r#"{"error":{"message":"no"}}"#), "no");
        assert_eq!(readable("plain"), "plain");
        assert_eq!(readable("[1]"), "[1]");
    }
}
