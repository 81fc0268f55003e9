//! Tests of the limits, and that texts within them are read exactly as `serde_json` reads them.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::value::RawValue;
use serde_json::{Number, json};

use super::*;

#[derive(Debug, PartialEq, serde::Deserialize)]
struct Size {
    width: u32,
    height: Option<u32>,
}

/// Values, with strings that need escapes and numbers of every size.
fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|number| Number::from_f64(number).map_or(Value::Null, Value::Number)),
        ".*".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((".{0,4}", inner), 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Counts values and keys of a tree.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(fields) => fields.values().map(|value| 1 + count(value)).sum(),
        _ => 0,
    }
}

fn nested(depth: usize) -> String {
    "[".repeat(depth) + &"]".repeat(depth)
}

proptest! {
    #[test]
    fn values_are_read_as_serde_json_reads_them(value in values(), is_pretty: bool) {
        let text = if is_pretty { format!("{value:#}") } else { value.to_string() };
        prop_assert_eq!(from_str::<Value>(&text).ok(), serde_json::from_str::<Value>(&text).ok());
        prop_assert_eq!(from_value::<Value>(&value).unwrap(), value);
    }

    #[test]
    fn any_text_is_read_as_serde_json_reads_it(text in r#"[\[\]{}:,"0-9.e\\ntrue -]{0,24}"#) {
        prop_assert_eq!(from_str::<Value>(&text).ok(), serde_json::from_str::<Value>(&text).ok());
        prop_assert_eq!(
            from_str::<&RawValue>(&text).map(RawValue::get).ok(),
            serde_json::from_str::<&RawValue>(&text).map(RawValue::get).ok()
        );
    }

    /// The number of values of a text is never underestimated, whatever is in its strings.
    #[test]
    fn no_value_escapes_the_count(value in values(), copies in 1..4_usize) {
        let each = count(&value).max(1);
        let wide = vec![value.to_string(); copies * MAX_VALUES / each + 1].join(",");
        prop_assert_eq!(check(format!("[{wide}]").as_bytes()), Err(limits::Excess::Values(MAX_VALUES)));
    }
}

#[test]
fn number_of_values_is_limited() {
    let list = |length: usize| format!("[{}1]", "1,".repeat(length - 1));
    assert!(from_str::<Vec<u8>>(&list(MAX_VALUES - 2)).is_ok());
    let error = from_str::<Vec<u8>>(&list(MAX_VALUES)).unwrap_err();
    assert_eq!(error.to_string(), "JSON with more than 100000 values is refused");
    let fields = format!("{{{}\"\":0}}", "\"\":0,".repeat(MAX_VALUES));
    assert!(from_str::<Value>(&fields).is_err());
    // Hundred levels deep, over and over: 15 MB that took 2.3 GB.
    let hostile = vec![nested(99); 75_000].join(",");
    assert!(from_str::<Value>(&format!("[{hostile}]")).is_err());
}

#[test]
fn long_strings_are_one_value() {
    let text = serde_json::to_string(&"[{,:\\\"".repeat(1_000_000)).unwrap();
    assert!(from_str::<String>(&text).is_ok());
}

#[test]
fn depth_is_limited_for_all_types() {
    assert!(from_str::<Value>(&nested(MAX_DEPTH)).is_ok());
    for depth in [MAX_DEPTH + 1, 128, 100_000] {
        assert!(from_str::<Value>(&nested(depth)).is_err());
        assert!(from_str::<&RawValue>(&nested(depth)).is_err(), "kept as text, it is read later");
    }
    let wide = format!("[{}[]]", "[],".repeat(1_000));
    assert!(from_str::<Value>(&wide).is_ok(), "closed arrays do not count");
}

#[test]
fn events_have_room_for_values_within_the_limits() {
    let event = |value: &str| format!(r#"{{"data":{{"result":{{"content":{value}}}}}}}"#);
    let list = format!("[{}1]", "1,".repeat(MAX_VALUES - 3));
    for value in [nested(MAX_DEPTH), list] {
        assert_eq!((check(value.as_bytes()), check_event(event(&value).as_bytes())), (Ok(()), Ok(())));
        assert!(serde_json::from_str::<Value>(&event(&value)).is_ok());
    }
    assert!(check_event(event(&nested(120)).as_bytes()).is_err());
    assert!(check_event("[],".repeat(200_000).as_bytes()).is_err());
}

#[test]
fn struct_is_not_read_from_an_array() {
    assert!(serde_json::from_str::<Size>("[1,2]").is_ok());
    let error = from_str::<Size>("[1,2]").unwrap_err();
    assert_eq!(error.to_string(), "invalid type: sequence, expected struct Size at line 1 column 1");
    assert!(from_value::<Size>(&json!([1, 2])).is_err());
    assert_eq!(from_str::<Size>(r#"{"width":1}"#).unwrap(), Size { width: 1, height: None });
    assert!(from_str::<BTreeMap<String, u8>>("{}").is_ok());
}

#[test]
fn errors_have_positions() {
    for (text, expected) in [
        ("{\n \"width\": \"x\"}", "invalid type: string \"x\", expected u32 at line 2 column 13"),
        ("", "EOF while parsing a value at line 1 column 0"),
        ("{\"width\":1} 2", "trailing characters at line 1 column 13"),
        ("{}", "missing field `width` at line 1 column 2"),
    ] {
        assert_eq!(from_str::<Size>(text).unwrap_err().to_string(), expected);
    }
    assert!(from_slice::<Value>(b"\"\xff\"").unwrap_err().to_string().starts_with("not UTF-8"));
}
