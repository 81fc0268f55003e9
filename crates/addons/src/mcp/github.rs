//! GitHub's own MCP server, for sessions whose client asks for it (`githubMcpToolConfig`).
//!
//! It is beside the Copilot API that the server calls, and gets the same token. Sessions that do not ask for it never
//! connect to it.

use baton_mcp::{Declared, Origin};
use baton_protocol::params::GithubMcpToolConfig;
use baton_settings::Settings;
use serde_json::{Map, Value, json};

use crate::GithubServer;

/// Name of the server.
const NAME: &str = "github-mcp-server";

/// Declares the server, if the session uses it and has a token for it.
pub(super) fn declared(server: Option<&GithubServer>, settings: &Settings) -> Option<Declared> {
    let (server, wanted) = (server?, settings.github_mcp.as_ref()?);
    let token = settings.github_token.as_ref().or(server.token.as_ref())?;
    let mut headers = headers(wanted);
    headers.insert("Authorization".into(), json!(format!("Bearer {token}")));
    let config = json!({ "type": "http", "url": server.url, "headers": headers });
    Some(Declared::parse(NAME, &config, Origin::BuiltIn))
}

/// Returns the headers that choose tools.
fn headers(wanted: &GithubMcpToolConfig) -> Map<String, Value> {
    let mut headers = Map::new();
    let mut set = |name: &str, value: String| headers.insert(name.into(), json!(value));
    let (all, insiders) = (wanted.enable_all_tools == Some(true), wanted.enable_insiders_mode == Some(true));
    match (all, &wanted.additional_toolsets) {
        (true, _) => drop(set("x-mcp-toolsets", "all".into())),
        (false, Some(more)) => drop(set("x-mcp-toolsets", format!("default,{}", more.join(",")))),
        (false, None) => {}
    }
    if let Some(tools) = &wanted.additional_tools {
        set("x-mcp-tools", tools.join(","));
    }
    if insiders {
        set("x-mcp-insiders", "true".into());
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_is_declared_for_sessions_that_ask_for_it() {
        let server = GithubServer { url: "http://x/mcp".into(), token: Some("t".into()) };
        let mut settings = Settings::default();
        assert_eq!(declared(Some(&server), &settings), None);
        settings.github_mcp =
            Some(GithubMcpToolConfig { enable_all_tools: Some(true), ..Default::default() });
        assert_eq!(declared(None, &settings), None, "the server calls another API");
        let found = declared(Some(&server), &settings).unwrap();
        let raw = &found.config.as_ref().unwrap().raw;
        assert_eq!(raw["headers"], json!({ "x-mcp-toolsets": "all", "Authorization": "Bearer t" }));
        let without = GithubServer { token: None, ..server };
        assert_eq!(declared(Some(&without), &settings), None, "no token");
    }

    #[test]
    fn headers_choose_tools() {
        let wanted = GithubMcpToolConfig {
            additional_toolsets: Some(vec!["actions".into()]),
            additional_tools: Some(vec!["get_me".into(), "b".into()]),
            enable_insiders_mode: Some(true),
            ..Default::default()
        };
        let expected = json!({ "x-mcp-toolsets": "default,actions", "x-mcp-tools": "get_me,b", "x-mcp-insiders": "true" });
        assert_eq!(Value::Object(headers(&wanted)), expected);
    }
}
