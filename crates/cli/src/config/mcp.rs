//! `[mcp]` of the configuration file: MCP servers for all sessions, and where the key of logins is.

use std::collections::BTreeMap;

use baton_addons::mcp::{Declared, Origin};
use serde::Deserialize;
use serde_json::Value;

/// The `[mcp]` table.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct McpTable {
    /// Whether the key of stored logins is in the user's keyring.
    pub(crate) keyring: Option<bool>,
    servers: BTreeMap<String, Value>,
}

impl McpTable {
    /// Returns the declarations. One that cannot be used has a status that says why; it does not keep the server from
    /// starting.
    pub(crate) fn declared(&self) -> Vec<Declared> {
        let declare =
            |(name, value): (&String, &Value)| Declared::parse(name, &renamed(value), Origin::Settings);
        self.servers.iter().map(declare).collect()
    }
}

/// Renames keys as the other forms have them: `exclude_tools` becomes `excludeTools`.
fn renamed(value: &Value) -> Value {
    let Value::Object(table) = value else { return value.clone() };
    table.iter().map(|(key, value)| (camel_case(key), value.clone())).collect()
}

fn camel_case(key: &str) -> String {
    let mut words = key.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| {
        let (head, tail) = word.split_at(word.chars().next().map_or(0, char::len_utf8));
        name + &head.to_uppercase() + tail
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(text: &str) -> Vec<Declared> {
        toml::from_str::<McpTable>(text).unwrap().declared()
    }

    #[test]
    fn servers_are_declared_in_the_style_of_the_file() {
        let all = declared(
            "[servers.docs]\nurl = \"https://docs.example/mcp\"\nexclude_tools = [\"rm\"]\ntimeout = 5000\n\
             trust_read_only_hint = true\n[servers.files]\ncommand = \"npx\"\nargs = [\"-y\", \"x\"]\nenv = { A_B = \"1\" }",
        );
        let docs = all[0].config.as_ref().unwrap();
        assert!(!docs.tools.offers("rm") && docs.trusts_hints && docs.timeout.is_some());
        let files = all[1].config.as_ref().unwrap();
        assert_eq!(files.raw["env"]["A_B"], "1", "names of variables are not keys of the file");
        assert_eq!(files.source(), Some("user"));
    }

    #[test]
    fn unusable_server_does_not_affect_the_others() {
        let all = declared("[servers.a]\nargs = [\"x\"]\n[servers.b]\ncommand = \"x\"");
        assert!(all[0].config.as_ref().unwrap_err().problem.contains("command"));
        assert!(all[1].config.is_ok());
        assert!(
            toml::from_str::<McpTable>("server.a.command = \"x\"").is_err(),
            "a mistyped key is an error"
        );
    }
}
