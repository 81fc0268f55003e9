//! The reader compared with `serde_json`, on texts of all kinds.

use std::borrow::Cow;
use std::collections::BTreeMap;

use proptest::prelude::*;
use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Number, json};

use super::*;

#[derive(Debug, PartialEq, Serialize, serde::Deserialize)]
struct Everything<'a> {
    flag: bool,
    byte: u8,
    signed: i32,
    float: f64,
    #[serde(borrow)]
    text: Cow<'a, str>,
    letter: char,
    maybe: Option<Box<Everything<'a>>>,
    list: Vec<Shape>,
    pair: (u64, String),
    map: BTreeMap<i16, Unit>,
    names: BTreeMap<Name, Value>,
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, serde::Deserialize)]
struct Name(String);

#[derive(Debug, PartialEq, Serialize, serde::Deserialize)]
struct Unit;

#[derive(Debug, PartialEq, Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
enum Shape {
    Point,
    Circle(f32),
    Line(i64, i64),
    Box { width: u32, height: Option<u32> },
}

#[derive(Debug, PartialEq, Serialize, serde::Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
enum Tagged {
    One { n: u8 },
    Two { tags: Vec<String> },
}

#[derive(Debug, PartialEq, Serialize, serde::Deserialize)]
#[serde(untagged)]
enum Loose {
    Number(i64),
    Text(String),
    Object { n: u8 },
}

/// Values, with strings that need escapes and numbers of every size.
fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
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

/// JSON texts, most of them broken in one place.
fn texts() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        Just(" ".to_owned()),
        r#"[\[\]{}:,"0-9.eE+\\ \n\x01-]"#,
        "(null|true|false|nul|\\\\u[0-9a-f]{4}|\"a\"|1e999|01|-0)",
    ];
    (values(), any::<bool>(), any::<prop::sample::Index>(), 0..3usize, part).prop_map(
        |(value, is_pretty, at, removed, part)| {
            let text = if is_pretty { format!("{value:#}") } else { value.to_string() };
            let mut letters: Vec<char> = text.chars().collect();
            let at = at.index(letters.len() + 1);
            let end = (at + removed).min(letters.len());
            letters.splice(at..end, part.chars());
            letters.into_iter().collect()
        },
    )
}

fn same<'de, T: serde::Deserialize<'de> + PartialEq + std::fmt::Debug>(text: &'de str) {
    let (ours, theirs) = (from_str::<T>(text), serde_json::from_str::<T>(text));
    match (&ours, &theirs) {
        (Ok(ours), Ok(theirs)) => assert_eq!(ours, theirs, "{text}"),
        (Err(ours), Err(theirs)) => {
            let syntax = serde_json::from_str::<IgnoredAny>(text).map_err(|error| error.to_string());
            assert!(
                syntax.is_ok() || theirs.is_data() || syntax == Err(ours.to_string()),
                "{text:?}: {ours}"
            );
        }
        _ => panic!("{text:?}: {ours:?}, and serde_json says {theirs:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn values_are_read_as_serde_json_reads_them(text in texts()) {
        same::<Value>(&text);
        same::<Option<Vec<Loose>>>(&text);
        same::<BTreeMap<String, Value>>(&text);
    }

    #[test]
    fn raw_values_are_the_texts_that_were_written(text in texts()) {
        let ours = from_str::<&RawValue>(&text).map(RawValue::get).ok();
        prop_assert_eq!(ours, serde_json::from_str::<&RawValue>(&text).map(RawValue::get).ok());
    }

    #[test]
    fn bytes_are_read_as_serde_json_reads_them(bytes in prop::collection::vec(any::<u8>(), 0..12)) {
        let bytes = [b"\"".as_slice(), &bytes, b"\""].concat();
        prop_assert_eq!(from_slice::<Value>(&bytes).ok(), serde_json::from_slice::<Value>(&bytes).ok());
    }

    #[test]
    fn numbers_are_read_as_serde_json_reads_them(text in "-?[0-9]{1,24}(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?") {
        same::<Value>(&text);
        same::<f64>(&text);
        same::<u8>(&text);
        same::<i64>(&text);
    }
}

#[test]
fn all_kinds_of_types_are_read() {
    let all = json!({
        "flag": true, "byte": 255, "signed": -7, "float": 1.5, "text": "a\"b", "letter": "ü",
        "maybe": {
            "flag": false, "byte": 0, "signed": 0, "float": 2, "text": "plain", "letter": "\n", "maybe": null, "list": [],
            "pair": [0, ""], "map": {}, "names": {}
        },
        "list": ["point", { "circle": 2.5 }, { "line": [1, -1] }, { "box": { "width": 3 } }, { "point": null }],
        "pair": [18_446_744_073_709_551_615u64, "x"], "map": { "-3": null }, "names": { "n": [1, {}] }, "other": { "a": [] }
    });
    let (compact, pretty) = (all.to_string(), format!("{all:#}"));
    for text in [&compact, &pretty] {
        same::<Everything<'_>>(text);
        from_str::<Everything<'_>>(text).unwrap();
    }
    assert_eq!(from_value::<Value>(&all).unwrap(), all);
    for text in
        [r#"{"kind":"one","n":1}"#, r#"{"tags":["a"],"kind":"two"}"#, r#"{"kind":"three"}"#, "{}", "[]"]
    {
        same::<Tagged>(text);
    }
}

#[test]
fn keys_are_numbers_as_serde_json_reads_them() {
    for key in ["5", "-5", "5.0", "05", " 5", "5 ", "+5", "", "-", r"\u0035", "x", "99999"] {
        same::<BTreeMap<i16, Value>>(&format!(r#"{{"{key}": 1}}"#));
    }
}

#[test]
fn strings_are_borrowed_where_they_have_no_escapes() {
    assert!(
        matches!(from_str::<Everything<'_>>("{}"), Err(error) if error.to_string().contains("missing field"))
    );
    assert_eq!(from_str::<&str>(r#" "plain" "#).unwrap(), "plain");
    assert!(from_str::<&str>(r#""\n""#).is_err());
}

#[test]
fn struct_is_not_read_from_an_array() {
    assert!(serde_json::from_str::<Shape>(r#"{"box":[1,2]}"#).is_ok());
    let error = from_str::<Shape>(r#"{"box":[1,2]}"#).unwrap_err();
    assert_eq!(
        error.to_string(),
        "invalid type: sequence, expected struct variant Shape::Box at line 1 column 7"
    );
}

#[test]
fn errors_have_positions() {
    for (text, expected) in [
        ("{\n \"circle\": \"x\"}", "invalid type: string \"x\", expected f32 at line 2 column 14"),
        (
            r#""square""#,
            "unknown variant `square`, expected one of `point`, `circle`, `line`, `box` at line 1 column 8",
        ),
        ("", "EOF while parsing a value at line 1 column 0"),
        ("{\"line\":[1,2,3]}", "trailing characters at line 1 column 12"),
        ("\"circle\"", "invalid type: unit variant, expected newtype variant at line 1 column 8"),
    ] {
        assert_eq!(from_str::<Shape>(text).unwrap_err().to_string(), expected);
    }
    let error = from_slice::<Value>(b"{\n\"a\": \"\xff\"}").unwrap_err();
    assert_eq!((error.line(), error.column()), (2, 6));
}

#[test]
fn deeply_nested_text_is_refused() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    for depth in [127, 128, 100_000] {
        same::<Value>(&nested(depth));
    }
    assert!(from_str::<Value>(&nested(127)).is_ok());
    let wide = format!("[{}[]]", "[],".repeat(1_000));
    assert!(from_str::<Value>(&wide).is_ok(), "what was closed does not count");
}
