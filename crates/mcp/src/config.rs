//! Server configurations, in the form that SDKs send (`mcpServers`).
//!
//! Unknown fields are kept: a stored configuration is returned to clients as they wrote it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value, json};
use url::Url;

use crate::origin::Origin;
use crate::text::is_deceptive;

/// The longest name of a server.
const LONGEST_NAME: usize = 128;

/// The configuration of a server.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerConfig {
    /// How the server is reached.
    pub reach: Reach,
    /// Which of its tools are offered.
    pub tools: ToolFilter,
    /// How long a call may be silent; `None` for the default.
    pub timeout: Option<Duration>,
    /// Whether the server's `readOnlyHint` spares a permission request.
    pub trusts_hints: bool,
    /// Who declared the server.
    pub origin: Origin,
    /// The configuration as it was written.
    pub raw: Map<String, Value>,
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq)]
pub enum Reach {
    /// A program, over its standard input and output.
    Local(Local),
    /// An HTTP server.
    Remote(Remote),
}

/// A server that is started as a program.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Local {
    /// The program.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Additional environment variables.
    pub env: BTreeMap<String, String>,
    /// Its working directory; the session's if `None`.
    pub cwd: Option<String>,
}

/// A server that is reached over HTTP.
#[derive(Debug, Clone, PartialEq)]
pub struct Remote {
    /// The transport.
    pub kind: RemoteKind,
    /// Its address.
    pub url: Url,
    /// Headers of every request.
    pub headers: BTreeMap<String, String>,
    /// How long headers are valid that a client supplies; none if no client is asked.
    pub supplied_headers: Option<Duration>,
}

/// The transport of a remote server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemoteKind {
    /// Streamable HTTP.
    Http,
    /// The older transport: an event stream, and a second address for messages.
    Sse,
}

/// Which tools of a server are offered.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolFilter {
    /// Only these; all if `None`.
    pub only: Option<Vec<String>>,
    /// Never these.
    pub except: Vec<String>,
}

impl ToolFilter {
    /// Whether a tool is offered.
    #[must_use]
    pub fn offers(&self, tool: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.iter().any(|name| name == tool))
            && !self.except.iter().any(|name| name == tool)
    }
}

/// Error for a configuration that cannot be used. Names the field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("MCP server \"{server}\": {problem}")]
pub struct ConfigError {
    /// Name of the server.
    pub server: String,
    /// What is wrong, and where.
    pub problem: String,
}

impl ServerConfig {
    /// Parses a configuration.
    ///
    /// # Errors
    /// When a field is missing or has the wrong type.
    pub fn parse(name: &str, value: &Value) -> Result<Self, ConfigError> {
        parse(name, value).map_err(|problem| ConfigError { server: name.to_owned(), problem })
    }

    /// Returns the source to show: the one of its origin, or else the one that a client wrote.
    #[must_use]
    pub fn source(&self) -> Option<&str> {
        self.origin.source().or_else(|| self.raw.get("source").and_then(Value::as_str))
    }

    /// Returns the name of the transport: `stdio`, `http` or `sse`.
    #[must_use]
    pub fn transport(&self) -> &'static str {
        match &self.reach {
            Reach::Local(_) => "stdio",
            Reach::Remote(Remote { kind: RemoteKind::Http, .. }) => "http",
            Reach::Remote(Remote { kind: RemoteKind::Sse, .. }) => "sse",
        }
    }

    /// Returns the configuration as it was written, with the defaults that clients expect to see.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let mut raw = self.raw.clone();
        raw.entry("tools").or_insert_with(|| json!(["*"]));
        if matches!(self.reach, Reach::Local(_)) {
            raw.entry("args").or_insert_with(|| json!([]));
        }
        Value::Object(raw)
    }
}

fn parse(name: &str, value: &Value) -> Result<ServerConfig, String> {
    let is_unprintable = |c: char| c.is_control() || is_deceptive(c);
    if name.trim().is_empty() || name.len() > LONGEST_NAME || name.chars().any(is_unprintable) {
        return Err(format!("the name must be printable, with 1 to {LONGEST_NAME} characters"));
    }
    if name.contains(['(', ')']) {
        return Err(
            "the name must not contain parentheses: rules write SERVER(TOOL); rename the server".into()
        );
    }
    let Value::Object(raw) = value else { return Err("the configuration must be an object".into()) };
    let fields = Fields(raw);
    let reach = match (fields.text("type")?.as_deref(), raw.contains_key("url")) {
        (Some("local" | "stdio"), _) | (None, false) => Reach::Local(local(&fields)?),
        (Some("http" | "streamable-http" | "streamableHttp"), _) | (None, true) => {
            Reach::Remote(remote(RemoteKind::Http, &fields)?)
        }
        (Some("sse"), _) => Reach::Remote(remote(RemoteKind::Sse, &fields)?),
        (Some(other), _) => return Err(format!("type: \"{other}\" is not local, stdio, http or sse")),
    };
    let only = fields.texts("tools")?.filter(|names| !names.iter().any(|name| name == "*"));
    Ok(ServerConfig {
        reach,
        tools: ToolFilter { only, except: fields.texts("excludeTools")?.unwrap_or_default() },
        timeout: fields.milliseconds("timeout")?,
        trusts_hints: fields.flag("trustReadOnlyHint")?.unwrap_or(false),
        origin: Origin::Session,
        raw: raw.clone(),
    })
}

fn local(fields: &Fields<'_>) -> Result<Local, String> {
    let command = fields.text("command")?.filter(|command| !command.trim().is_empty());
    Ok(Local {
        command: command.ok_or("command: required for a local server")?,
        args: fields.texts("args")?.unwrap_or_default(),
        env: fields.map("env")?,
        cwd: fields.text("cwd")?,
    })
}

fn remote(kind: RemoteKind, fields: &Fields<'_>) -> Result<Remote, String> {
    let url = fields.text("url")?.ok_or("url: required for a remote server")?;
    let url = Url::parse(&url).map_err(|error| format!("url: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("url: must begin with http:// or https://".into());
    }
    let headers = fields.map("headers")?;
    for (name, value) in &headers {
        let valid = ::http::HeaderName::from_bytes(name.as_bytes()).is_ok()
            && ::http::HeaderValue::from_str(value).is_ok();
        if !valid {
            return Err(format!("headers: \"{name}\" is not a valid header"));
        }
    }
    let supplied_headers = fields.milliseconds("headersRefreshTtlMs")?;
    Ok(Remote { kind, url, headers, supplied_headers })
}

/// Typed access to the fields of a configuration.
struct Fields<'a>(&'a Map<String, Value>);

impl Fields<'_> {
    fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    fn text(&self, name: &str) -> Result<Option<String>, String> {
        self.get(name).map(|value| string(name, value)).transpose()
    }

    fn flag(&self, name: &str) -> Result<Option<bool>, String> {
        self.get(name)
            .map(|value| value.as_bool().ok_or_else(|| format!("{name}: must be true or false")))
            .transpose()
    }

    fn texts(&self, name: &str) -> Result<Option<Vec<String>>, String> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let values = value.as_array().ok_or_else(|| format!("{name}: must be a list of strings"))?;
        values.iter().map(|value| string(name, value)).collect::<Result<_, _>>().map(Some)
    }

    fn map(&self, name: &str) -> Result<BTreeMap<String, String>, String> {
        let Some(value) = self.get(name) else { return Ok(BTreeMap::new()) };
        let values = value.as_object().ok_or_else(|| format!("{name}: must be an object of strings"))?;
        values
            .iter()
            .map(|(key, value)| Ok((key.clone(), string(&format!("{name}.{key}"), value)?)))
            .collect()
    }

    fn milliseconds(&self, name: &str) -> Result<Option<Duration>, String> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let number = value.as_f64().filter(|number| (1.0..=86_400_000.0).contains(number));
        let number =
            number.ok_or_else(|| format!("{name}: must be a number of milliseconds, at most one day"))?;
        Ok(Some(Duration::from_secs_f64(number / 1000.0)))
    }
}

fn string(name: &str, value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) if text.contains('\0') => Err(format!("{name}: contains a null character")),
        Value::String(text) => Ok(text.clone()),
        // Numbers and flags are what people write in `env` and `args` without quotes.
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(flag) => Ok(flag.to_string()),
        _ => Err(format!("{name}: must be a string")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &Value) -> Result<ServerConfig, String> {
        ServerConfig::parse("s", value).map_err(|error| error.problem)
    }

    #[test]
    fn local_server_needs_only_a_command() {
        let config = read(&json!({ "command": "node" })).unwrap();
        assert_eq!(config.reach, Reach::Local(Local { command: "node".into(), ..Local::default() }));
        assert_eq!(config.transport(), "stdio");
        assert!(config.tools.offers("anything"));
        assert_eq!(config.to_value(), json!({ "command": "node", "tools": ["*"], "args": [] }));
    }

    #[test]
    fn type_follows_from_the_url_if_it_is_absent() {
        assert_eq!(read(&json!({ "url": "https://x.example/mcp" })).unwrap().transport(), "http");
        assert_eq!(read(&json!({ "type": "sse", "url": "http://x/" })).unwrap().transport(), "sse");
        assert_eq!(read(&json!({ "type": "local", "command": "x" })).unwrap().transport(), "stdio");
    }

    #[test]
    fn filters_select_tools() {
        let offers = |tools: Value, except: Value| {
            read(&json!({ "command": "x", "tools": tools, "excludeTools": except }))
                .unwrap()
                .tools
                .offers("a")
        };
        assert!(offers(json!(["*"]), json!([])));
        assert!(offers(json!(["a"]), json!([])));
        assert!(!offers(json!([]), json!([])));
        assert!(!offers(json!(["b"]), json!([])));
        assert!(!offers(json!(["*"]), json!(["a"])));
    }

    #[test]
    fn unknown_fields_survive() {
        let value = json!({ "type": "http", "url": "http://x/", "oauthPublicClient": false, "tools": ["a"], "new": [1] });
        assert_eq!(read(&value).unwrap().to_value(), value);
    }

    #[test]
    fn errors_name_the_field() {
        for (value, field) in [
            (json!(1), "object"),
            (json!({}), "command"),
            (json!({ "command": " " }), "command"),
            (json!({ "command": ["x"] }), "command"),
            (json!({ "command": "x", "args": "y" }), "args"),
            (json!({ "command": "x", "args": [{}] }), "args"),
            (json!({ "command": "x", "env": { "A": {} } }), "env.A"),
            (json!({ "command": "x\0y" }), "command"),
            (json!({ "command": "x", "timeout": -1 }), "timeout"),
            (json!({ "command": "x", "timeout": 1e300 }), "timeout"),
            (json!({ "type": "ws", "url": "http://x/" }), "type"),
            (json!({ "type": "http" }), "url"),
            (json!({ "url": "file:///etc/passwd" }), "url"),
            (json!({ "url": "http://x/", "headersRefreshTtlMs": "soon" }), "headersRefreshTtlMs"),
            (json!({ "url": "http://x/", "headers": { "A\nB": "c" } }), "headers"),
            (json!({ "url": "http://x/", "headers": { "A": "c\r\nX: y" } }), "headers"),
        ] {
            let problem = read(&value).unwrap_err();
            assert!(problem.contains(field), "{value}: {problem}");
        }
        assert!(ServerConfig::parse("", &json!({ "command": "x" })).is_err());
        for name in ["a\u{1b}", "a\u{202e}b", "s(echo)", "s)", "("] {
            assert!(ServerConfig::parse(name, &json!({ "command": "x" })).is_err(), "{name:?}");
        }
    }
}
