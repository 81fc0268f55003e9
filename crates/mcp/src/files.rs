//! Files that declare servers: `.mcp.json` (Claude and others), `.github/mcp.json`, `.vscode/mcp.json`.
//!
//! All hold a map of servers: under `mcpServers`, under `servers` (VS Code), or (plugins of Claude) at the top. VS Code's
//! may contain comments and `inputs`, values that its user is asked for.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserializer as _;
use serde::de::{MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::origin::{Declared, Origin};
use crate::text::clean;

/// Files of a workspace, in the order of their precedence.
pub const WORKSPACE: [&str; 3] = [".mcp.json", ".github/mcp.json", ".vscode/mcp.json"];

/// Largest file that is read.
pub const LARGEST: usize = 1024 * 1024;

/// Bytes that inputs may add to the servers of a file: the file is a stranger's, and a short one could name a long value
/// many times.
const MOST_INSERTED: usize = LARGEST;

/// Servers that a file may declare.
const MOST_SERVERS: usize = 1000;

/// How a value refers to an input.
const INPUT: &str = "${input:";

/// Parses a file. A server that cannot be used does not affect the others.
///
/// # Errors
/// When it is not JSON, or has no map of servers.
pub fn parse(text: &str, origin: &Origin) -> Result<Vec<Declared>, String> {
    let text = without_comments(text.trim_start_matches('\u{feff}'));
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let file = entries(&text).map_err(|error| error.to_string())?;
    let find = |name: &str| file.iter().find(|(key, _)| key == name).map(|(_, value)| value);
    let mut inputs = Inputs::of(find("inputs").map(|inputs| value(inputs)).as_ref());
    let servers = match find("mcpServers").or_else(|| find("servers")) {
        Some(servers) => entries(servers.get()).map_err(|_| "the map of servers is not an object")?,
        None if file.iter().all(|(_, entry)| is_server(&value(entry))) => file,
        None => return Ok(Vec::new()),
    };
    if servers.len() > MOST_SERVERS {
        return Err(format!("it declares {} servers; at most {MOST_SERVERS} are accepted", servers.len()));
    }
    let mut declared: Vec<Declared> = Vec::new();
    for (name, entry) in &servers {
        match declared.iter_mut().find(|known| known.name == *name) {
            Some(known) => {
                *known = Declared::unusable(name, "declared twice in the file; remove one", origin.clone());
            }
            None => declared.push(one(name, value(entry), &mut inputs, origin)),
        }
    }
    Ok(declared)
}

/// Parses a value. One that is nested too deeply counts as null, which is no server.
fn value(raw: &RawValue) -> Value {
    baton_json::from_str(raw.get()).unwrap_or_default()
}

fn is_server(value: &Value) -> bool {
    value.get("command").is_some() || value.get("url").is_some()
}

fn one(name: &str, mut value: Value, inputs: &mut Inputs, origin: &Origin) -> Declared {
    match inputs.fill_in(&mut value) {
        Ok(()) => Declared::parse(name, &value, origin.clone()),
        Err(problem) => Declared::unusable(name, problem, origin.clone()),
    }
}

/// VS Code's inputs.
struct Inputs {
    /// Their defaults, by id.
    defaults: BTreeMap<String, Option<String>>,
    /// Bytes that may still be inserted.
    room: usize,
}

impl Inputs {
    fn of(inputs: Option<&Value>) -> Self {
        let inputs = inputs.and_then(Value::as_array).into_iter().flatten();
        let text = |input: &Value, name: &str| input.get(name).and_then(Value::as_str).map(str::to_owned);
        let defaults = inputs.filter_map(|input| Some((text(input, "id")?, text(input, "default"))));
        Self { defaults: defaults.collect(), room: MOST_INSERTED }
    }

    /// Replaces `${input:ID}` in all strings by the default of the input: there is no editor that would ask.
    fn fill_in(&mut self, value: &mut Value) -> Result<(), String> {
        match value {
            Value::String(text) if text.contains(INPUT) => *text = self.filled(text)?,
            Value::Array(values) => values.iter_mut().try_for_each(|value| self.fill_in(value))?,
            Value::Object(map) => map.values_mut().try_for_each(|value| self.fill_in(value))?,
            _ => {}
        }
        Ok(())
    }

    fn filled(&mut self, text: &str) -> Result<String, String> {
        let (mut out, mut rest) = (String::new(), text);
        while let Some(start) = rest.find(INPUT) {
            let Some(length) = rest[start..].find('}') else { break };
            let id = &rest[start + INPUT.len()..start + length];
            let shown = || clean(id, 100);
            let Some(Some(default)) = self.defaults.get(id) else {
                return Err(format!(
                    "the input \"{}\" has no value; declare the server in your own configuration (`baton mcp add`)",
                    shown()
                ));
            };
            let Some(room) = self.room.checked_sub(default.len()) else {
                return Err(format!("the inputs of the file insert more than {MOST_INSERTED} bytes"));
            };
            self.room = room;
            if default.contains(INPUT) {
                return Err(format!("the default of the input \"{}\" refers to an input", shown()));
            }
            out.push_str(&rest[..start]);
            out.push_str(default);
            rest = &rest[start + length + 1..];
        }
        out.push_str(rest);
        Ok(out)
    }
}

/// Reads an object, with all entries of the same name: the usual map would silently drop all but the last.
fn entries(text: &str) -> Result<Vec<(String, Box<RawValue>)>, serde_json::Error> {
    struct Object;
    impl<'de> Visitor<'de> for Object {
        type Value = Vec<(String, Box<RawValue>)>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut entries = Vec::new();
            while let Some(entry) = map.next_entry()? {
                entries.push(entry);
            }
            Ok(entries)
        }
    }
    let mut parser = serde_json::Deserializer::from_str(text);
    let entries = parser.deserialize_map(Object)?;
    parser.end()?;
    Ok(entries)
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

    fn read(text: &str) -> Result<Vec<Declared>, String> {
        parse(text, &Origin::Workspace { file: "/w/.mcp.json".into(), root: "/w".into() })
    }

    fn names(text: &str) -> Result<Vec<String>, String> {
        read(text).map(|servers| servers.into_iter().map(|server| server.name).collect())
    }

    fn problem(text: &str, name: &str) -> Option<String> {
        let all = read(text).unwrap();
        let found = all.iter().find(|server| server.name == name).unwrap();
        found.config.as_ref().err().map(|error| error.problem.clone())
    }

    #[test]
    fn all_forms_are_read() {
        assert_eq!(names(r#"{"mcpServers":{"a":{"command":"x"}}}"#).unwrap(), ["a"]);
        let vscode = "{ // mine\n \"inputs\": [], /* all\n of */ \"servers\": {\"b\": {\"url\": \"http://x//y\",},},\n}";
        assert_eq!(names(vscode).unwrap(), ["b"]);
        assert_eq!(names(r#"{"c":{"command":"x"},"d":{"url":"http://x"}}"#).unwrap(), ["c", "d"]);
        assert_eq!(names(r#"{"other":{"x":1}}"#).unwrap(), [""; 0]);
        assert_eq!(names("\u{feff}{}").unwrap(), [""; 0]);
        assert_eq!(names("").unwrap(), [""; 0]);
    }

    #[test]
    fn one_bad_server_does_not_affect_the_others() {
        let text = r#"{"mcpServers":{"a":{"command":"x"},"b":7,"c":{"command":["x"]}}}"#;
        assert_eq!(problem(text, "a"), None);
        assert!(problem(text, "b").unwrap().contains("object"));
        assert!(problem(text, "c").unwrap().contains("command"));
    }

    #[test]
    fn server_that_is_declared_twice_is_not_used() {
        let text = r#"{"mcpServers":{"a":{"command":"x"},"b":{"command":"y"},"a":{"command":"evil"}}}"#;
        assert!(problem(text, "a").unwrap().contains("twice"));
        assert_eq!(problem(text, "b"), None);
        assert_eq!(names(text).unwrap(), ["a", "b"]);
    }

    #[test]
    fn inputs_have_their_defaults_or_are_missing() {
        let text = r#"{"inputs":[{"id":"k","type":"promptString"},{"id":"d","default":"v"}],
            "servers":{"a":{"command":"x","env":{"K":"${input:k}"}},"b":{"command":"x","args":["-${input:d}-"]}}}"#;
        assert!(problem(text, "a").unwrap().contains("\"k\""));
        let servers = read(text).unwrap();
        assert_eq!(servers[1].config.as_ref().unwrap().raw["args"][0], "-v-");
        let recursive =
            r#"{"inputs":[{"id":"a","default":"${input:a}"}],"servers":{"s":{"command":"${input:a}"}}}"#;
        assert!(problem(recursive, "s").unwrap().contains("refers"));
    }

    #[test]
    fn long_input_cannot_be_inserted_without_end() {
        let long = "x".repeat(LARGEST / 2);
        let file = |value: &str| {
            format!(
                r#"{{"inputs":[{{"id":"a","default":"{long}"}}],
                "servers":{{"s":{{"command":"{value}"}},"t":{{"command":"y"}}}}}}"#
            )
        };
        assert_eq!(problem(&file("-${input:a}${input:a}-"), "s"), None);
        let bomb = file(&"${input:a}".repeat(50_000));
        assert!(problem(&bomb, "s").unwrap().contains("insert more than"));
        assert_eq!(problem(&bomb, "t"), None);
    }

    #[test]
    fn file_with_very_many_servers_is_refused() {
        let file = |count: usize| {
            let servers: Vec<String> = (0..count).map(|n| format!(r#""{n}":7"#)).collect();
            names(&format!(r#"{{"mcpServers":{{{}}}}}"#, servers.join(",")))
        };
        assert_eq!(file(MOST_SERVERS).unwrap().len(), MOST_SERVERS);
        assert!(file(MOST_SERVERS + 1).unwrap_err().contains("at most"));
    }

    #[test]
    fn malformed_files_are_refused() {
        for text in ["{", "[]", "7", r#"{"mcpServers":[]}"#, "\"\\", r#"{"mcpServers":{"a":{]}}"#] {
            assert!(names(text).is_err(), "{text}");
        }
        assert!(names(&"[".repeat(100_000)).is_err());
        assert!(names(&r#"{"a":"#.repeat(100_000)).is_err());
        assert!(names("{\n\n \"mcpServers\": }").unwrap_err().contains("line 3"));
    }
}
