//! Descriptions of servers, for a person who decides whether to trust them.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::config::{Reach, ServerConfig};

/// Fields that decide who logs in at a remote server.
const OAUTH: [&str; 4] = ["oauthClientId", "oauthClientSecret", "oauthGrantType", "oauthPublicClient"];

/// Describes everything that a server starts with or sends: the command with its variables or the address, then the rest,
/// one a line. What is approved is what runs, so nothing of it is left out.
#[must_use]
pub fn describe(name: &str, config: &ServerConfig) -> String {
    let (first, mut rest) = match &config.reach {
        Reach::Local(local) => {
            let variables = pairs(&local.env, "=");
            let words = std::iter::once(&local.command).chain(&local.args).map(|word| quoted(word));
            let rest = local.cwd.iter().map(|cwd| format!("cwd: {}", quoted(cwd))).collect();
            (variables.chain(words).collect::<Vec<_>>().join(" "), rest)
        }
        Reach::Remote(remote) => {
            let headers = pairs(&remote.headers, ": ").map(|header| format!("header: {header}"));
            (remote.url.to_string(), headers.collect::<Vec<_>>())
        }
    };
    if matches!(config.reach, Reach::Remote(_)) {
        let set = OAUTH.iter().filter_map(|name| Some((name, config.raw.get(*name)?)));
        rest.extend(set.map(|(name, value)| match value {
            Value::String(text) => format!("{name}: {}", quoted(text)),
            other => format!("{name}: {other}"),
        }));
    }
    rest.insert(0, format!("{}: {first}", quoted(name)));
    rest.join("\n    ")
}

fn pairs<'a>(map: &'a BTreeMap<String, String>, between: &'a str) -> impl Iterator<Item = String> + 'a {
    map.iter().map(move |(name, value)| format!("{}{between}{}", quoted(name), quoted(value)))
}

/// Quotes a word unless it is plain. Quoting shows control, invisible and bidirectional characters, which would make a
/// command look like another one.
fn quoted(text: &str) -> String {
    let is_plain = !text.is_empty() && !text.contains(' ') && text.escape_debug().eq(text.chars());
    if is_plain { text.to_owned() } else { format!("{text:?}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn described(value: &Value) -> String {
        describe("s", &ServerConfig::parse("s", value).unwrap())
    }

    #[test]
    fn everything_that_runs_or_is_sent_is_shown() {
        let local =
            json!({ "command": "x", "args": ["a b"], "env": { "LD_PRELOAD": "./evil.so" }, "cwd": "../up" });
        assert_eq!(described(&local), "s: LD_PRELOAD=./evil.so x \"a b\"\n    cwd: ../up");
        let remote = json!({ "url": "https://x.example/", "headers": { "X-Key": "a b" }, "oauthClientId": "me",
            "oauthPublicClient": true });
        let expected = "s: https://x.example/\n    header: X-Key: \"a b\"\n    oauthClientId: me\n    oauthPublicClient: true";
        assert_eq!(described(&remote), expected);
    }

    #[test]
    fn no_value_looks_like_another_line() {
        let shown =
            described(&json!({ "command": "x", "args": ["\n    cwd: /safe", "\u{202e}"], "cwd": "/evil" }));
        assert_eq!(shown.lines().count(), 2, "{shown}");
        assert!(shown.ends_with("cwd: /evil") && !shown.contains('\u{202e}'), "{shown}");
    }
}
