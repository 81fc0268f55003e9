//! Configuration files of other programs: `.mcp.json` (Claude and others), `.github/mcp.json`, `.vscode/mcp.json`.
//!
//! All hold a map of servers, under `mcpServers` or (VS Code) `servers`; VS Code's may contain comments.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::config::{self, ConfigError, ServerConfig};

/// Files of a workspace, in the order in which they are read. A server in an earlier file wins.
pub const WORKSPACE: [&str; 3] = [".mcp.json", ".github/mcp.json", ".vscode/mcp.json"];

/// Largest file that is read.
pub const LARGEST: usize = 1024 * 1024;

/// Servers of a file, by name. A server that cannot be used does not affect the others.
pub type Servers = BTreeMap<String, Result<ServerConfig, ConfigError>>;

/// Parses a file.
///
/// # Errors
/// When it is not JSON, or has no map of servers.
pub fn parse(text: &str) -> Result<Servers, String> {
    Ok(config::parse_all(&servers(text)?))
}

/// Returns the map of servers in a file, as it is written.
///
/// # Errors
/// When it is not JSON, or has no map of servers.
pub fn servers(text: &str) -> Result<Map<String, Value>, String> {
    let text = without_comments(text.trim_start_matches('\u{feff}'));
    if text.trim().is_empty() {
        return Ok(Map::new());
    }
    let file: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let Value::Object(mut file) = file else { return Err("not an object".into()) };
    match file.remove("mcpServers").or_else(|| file.remove("servers")) {
        Some(Value::Object(servers)) => Ok(servers),
        Some(_) => Err("mcpServers is not an object".into()),
        None => Ok(Map::new()),
    }
}

/// Replaces comments and trailing commas outside strings by spaces, so that positions in errors stay true.
fn without_comments(text: &str) -> String {
    let mut out: Vec<char> = Vec::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    let mut in_string = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' if in_string => {
                out.push(c);
                out.extend(chars.next());
                continue;
            }
            '"' => in_string = !in_string,
            '/' if !in_string && chars.peek() == Some(&'/') => {
                while chars.next_if(|c| *c != '\n').is_some() {
                    out.push(' ');
                }
                continue;
            }
            '/' if !in_string && chars.peek() == Some(&'*') => {
                let mut last = ' ';
                for c in chars.by_ref() {
                    out.push(if c == '\n' { c } else { ' ' });
                    if last == '*' && c == '/' {
                        break;
                    }
                    last = c;
                }
                continue;
            }
            '}' | ']' if !in_string => {
                let last = out.iter().rposition(|c| !c.is_whitespace());
                if let Some(comma) = last.and_then(|at| out.get_mut(at)).filter(|c| **c == ',') {
                    *comma = ' ';
                }
            }
            _ => {}
        }
        out.push(c);
    }
    out.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Result<Vec<String>, String> {
        parse(text).map(|servers| servers.into_keys().collect())
    }

    #[test]
    fn both_forms_are_read() {
        assert_eq!(names(r#"{"mcpServers":{"a":{"command":"x"}}}"#).unwrap(), ["a"]);
        let vscode = "{ // mine\n \"inputs\": [], /* all\n of */ \"servers\": {\"b\": {\"url\": \"http://x//y\",},},\n}";
        assert_eq!(names(vscode).unwrap(), ["b"]);
        assert_eq!(names("\u{feff}{}").unwrap(), [""; 0]);
        assert_eq!(names("").unwrap(), [""; 0]);
    }

    #[test]
    fn one_bad_server_does_not_affect_the_others() {
        let servers = parse(r#"{"mcpServers":{"a":{"command":"x"},"b":7}}"#).unwrap();
        assert!(servers["a"].is_ok());
        assert!(servers["b"].as_ref().unwrap_err().to_string().contains("\"b\""));
    }

    #[test]
    fn malformed_files_are_refused() {
        for text in ["{", "[]", "7", r#"{"mcpServers":[]}"#, "/*", "\"\\"] {
            assert!(names(text).is_err() || text == "/*", "{text}");
        }
        assert!(names(&"[".repeat(100_000)).is_err());
        assert!(names("{\n\n \"mcpServers\": }").unwrap_err().contains("line 3"));
    }
}
