//! Reading TOML into types, by way of JSON.
//!
//! Types are read by the one parser that the whole program uses, and are not compiled for TOML as well. Errors name the line of
//! the TOML text, and show it.

use std::fmt::Write as _;
use std::ops::Range;

use serde::de::DeserializeOwned;
use toml::de::{DeTable, DeValue};

/// Why a text cannot be read: what is wrong, and where.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

/// Reads a text.
///
/// # Errors
/// When the text is not TOML, or does not match the type.
pub fn from_str<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    let mut json = JsonText::default();
    json.table(DeTable::parse(text).map_err(|error| Error(error.to_string()))?.get_ref());
    baton_json::from_str(&json.text).map_err(|error| json.explain(text, &error))
}

/// A TOML document as JSON, without line breaks.
#[derive(Default)]
struct JsonText {
    text: String,
    /// Where keys and values begin: here, and in the TOML text.
    origins: Vec<(usize, Range<usize>)>,
}

impl JsonText {
    fn table(&mut self, table: &DeTable<'_>) {
        self.text.push('{');
        for (index, (key, value)) in table.iter().enumerate() {
            self.separate(index);
            self.begin(key.span());
            self.string(key.get_ref());
            self.text.push(':');
            self.begin(value.span());
            self.value(value.get_ref());
        }
        self.text.push('}');
    }

    fn value(&mut self, value: &DeValue<'_>) {
        match value {
            DeValue::String(text) => self.string(text),
            DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
                Ok(number) => drop(write!(self.text, "{number}")),
                Err(_) => self.string(number.as_str()),
            },
            // JSON has no infinity: a string, which no number is read from.
            DeValue::Float(number) => match number.as_str().parse::<f64>() {
                Ok(number) if number.is_finite() => drop(write!(self.text, "{number:?}")),
                _ => self.string(number.as_str()),
            },
            DeValue::Boolean(value) => drop(write!(self.text, "{value}")),
            DeValue::Datetime(time) => self.string(&time.to_string()),
            DeValue::Array(items) => {
                self.text.push('[');
                for (index, item) in items.iter().enumerate() {
                    self.separate(index);
                    self.begin(item.span());
                    self.value(item.get_ref());
                }
                self.text.push(']');
            }
            DeValue::Table(table) => self.table(table),
        }
    }

    fn separate(&mut self, index: usize) {
        if index > 0 {
            self.text.push(',');
        }
    }

    fn begin(&mut self, origin: Range<usize>) {
        self.origins.push((self.text.len(), origin));
    }

    fn string(&mut self, text: &str) {
        self.text.push_str(&serde_json::Value::from(text).to_string());
    }

    /// Returns an error with the line of the TOML text, in place of a position in the JSON text.
    fn explain(&self, toml: &str, error: &serde_json::Error) -> Error {
        let message = error.to_string();
        let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message);
        let message = in_words(message);
        let is_before = |(begin, _): &&(usize, Range<usize>)| *begin < error.column();
        let Some((_, origin)) = self.origins.iter().rev().find(is_before) else {
            return Error(message);
        };
        let before = toml.get(..origin.start).unwrap_or_default();
        let number = before.matches('\n').count() + 1;
        let line = toml.lines().nth(number - 1).unwrap_or_default().trim();
        Error(format!("line {number}, `{line}`: {message}"))
    }
}

/// Names a type of numbers in words of people.
fn in_words(message: &str) -> String {
    let Some((before, expected)) = message.rsplit_once("expected ") else { return message.to_owned() };
    let words = match expected {
        "usize" | "u64" | "u32" | "u16" | "u8" => "a whole number",
        "i64" | "i32" | "isize" => "a whole number, which may be negative",
        "f64" | "f32" => "a number",
        "a nonzero usize" | "a nonzero u64" | "a nonzero u32" | "a nonzero u16" => {
            "a whole number of at least 1"
        }
        other => other,
    };
    format!("{before}expected {words}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use serde_json::{Value, json};

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "only parsed")]
    struct Table {
        port: Option<u16>,
        name: Option<String>,
        inner: Option<BTreeMap<String, Vec<u8>>>,
    }

    fn error(text: &str) -> String {
        from_str::<Table>(text).unwrap_err().to_string()
    }

    #[test]
    fn every_kind_of_value_is_read() {
        let text = "a = \"x\\n\\\"y\\\"\"\nb = 0x1_F\nc = -1.5e3\nd = true\ne = [1, [\"z\"], { f = 2 }]\n\
            g = 1979-05-27\n'h.i' = 3.0\n[j.k]\nl = ''\n[[m]]\nn = 1\n[[m]]\no = 9223372036854775807";
        let expected = json!({
            "a": "x\n\"y\"", "b": 31, "c": -1500.0, "d": true, "e": [1, ["z"], { "f": 2 }], "g": "1979-05-27", "h.i": 3.0,
            "j": { "k": { "l": "" } }, "m": [{ "n": 1 }, { "o": i64::MAX }]
        });
        assert_eq!(from_str::<Value>(text).unwrap(), expected);
    }

    #[test]
    fn errors_name_the_line() {
        assert_eq!(
            error("name = 'a'\nport = 'x'"),
            "line 2, `port = 'x'`: invalid type: string \"x\", expected a whole number"
        );
        assert!(error("\n\nnmae = 'a'\nport = 1").starts_with("line 3, `nmae = 'a'`: unknown field `nmae`"));
        let nested = error("[inner]\na = [\n 1,\n 256,\n]\nb = []");
        assert!(nested.starts_with("line 4, `256,`: invalid value: integer `256`"), "{nested}");
        for number in ["inf", "nan", "99999999999999999999"] {
            assert!(error(&format!("port = {number}")).starts_with("line 1, `port = "), "{number}");
        }
        assert!(error("port = ").contains("line 1"), "an error of syntax");
    }
}
