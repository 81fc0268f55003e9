//! Parsing of the arguments that a model sends, with errors that help it to correct them.

use std::time::Duration;

use baton_json::path_of;
use baton_protocol::Json;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

use super::ToolRefusal;

/// Parses the arguments of a call of `tool`.
///
/// Two common mistakes of models are accepted: no arguments at all, and an object inside a string.
pub(crate) fn read<T: DeserializeOwned>(tool: &str, arguments: &Json) -> Result<T, ToolRefusal> {
    let unquoted = arguments.parse::<String>().ok();
    let text = match unquoted.as_deref().unwrap_or(arguments.as_str()).trim() {
        "" | "null" => "{}",
        text => text,
    };
    baton_json::from_str(text).map_err(|error| {
        let message = error.to_string();
        if message.starts_with("trailing characters") {
            return ToolRefusal::arguments(tool, "there is more than one JSON value");
        }
        let path = path_of::<T>(text);
        let place = if path.is_empty() { String::new() } else { format!("{path}: ") };
        ToolRefusal::arguments(tool, &format!("{place}{}", without_position(&message)))
    })
}

/// Removes the position: the model does not see its arguments as one line.
fn without_position(message: &str) -> &str {
    message.rfind(" at line ").map_or(message, |end| &message[..end])
}

/// A number, or a string of digits, which models send too.
#[derive(Deserialize)]
#[serde(untagged)]
enum LooseNumber {
    Number(f64),
    Text(String),
}

fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let number = match LooseNumber::deserialize(deserializer) {
        Ok(LooseNumber::Number(number)) => Some(number),
        Ok(LooseNumber::Text(text)) => text.trim().parse().ok(),
        Err(_) => None,
    };
    number
        .filter(|n: &f64| n.is_finite() && *n >= 0.0)
        .ok_or_else(|| serde::de::Error::custom("expected a number that is not negative"))
}

/// A time to wait, at most ten minutes: a turn that waits longer looks dead.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Seconds(pub(crate) Duration);

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(Duration::from_secs_f64(number(deserializer)?.min(600.0))))
    }
}

/// A non-negative integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Count(pub(crate) usize);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // The cast saturates, as a limit of 1e300 should.
        Ok(Self(number(deserializer)? as usize))
    }
}

#[cfg(test)]
mod tests {
    use baton_protocol::tool::ToolResult;

    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    struct Sample {
        path: String,
        delay: Option<Seconds>,
        limit: Option<Count>,
    }

    fn sample(json: &str) -> Result<Sample, String> {
        read("sample", &Json::from_text(json).unwrap())
            .map_err(|refusal| ToolResult::from(refusal).text_result_for_llm)
    }

    #[test]
    fn common_mistakes_are_accepted() {
        let plain = sample(r#"{"path":"a","delay":5,"limit":3}"#).unwrap();
        assert_eq!(plain.delay, Some(Seconds(Duration::from_secs(5))));
        assert_eq!(sample(r#"{"path":"a","delay":"5","limit":" 3 "}"#).unwrap(), plain);
        assert_eq!(sample(r#""{\"path\":\"a\",\"delay\":5,\"limit\":3}""#).unwrap(), plain);
        assert_eq!(sample(r#"{"path":"a","delay":null,"surprise":[1]}"#).unwrap().delay, None);
        assert_eq!(
            sample(r#"{"path":"a","delay":1e9}"#).unwrap().delay,
            Some(Seconds(Duration::from_secs(600)))
        );
        assert_eq!(sample(r#"{"path":"a","limit":1e300}"#).unwrap().limit, Some(Count(usize::MAX)));
    }

    #[test]
    fn invalid_arguments_are_explained() {
        for (json, hint) in [
            ("null", "missing field `path`"),
            ("\"\"", "missing field `path`"),
            (r#"{"path":7}"#, "path: invalid type: integer `7`, expected a string. "),
            (r#"{"path":"a","delay":-1}"#, "delay: expected a number that is not negative"),
            (r#"{"path":"a","limit":"many"}"#, "limit: expected a number"),
            ("[]", "invalid"),
            ("7", "invalid type"),
            (r#""{\"path\":\"a\"} {}""#, "more than one JSON value"),
        ] {
            let error = sample(json).unwrap_err();
            assert!(error.contains("'sample'") && error.contains(hint), "{json}: {error}");
        }
    }
}
