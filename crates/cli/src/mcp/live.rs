//! Servers of running sessions: `baton mcp list --session` and `baton mcp logs`.

use std::process::ExitCode;

use anyhow::Context;
use serde::Deserialize;
use serde_json::Value;

use super::{NO_SUCH_SERVER, Surroundings};
use crate::client::{Client, RequestFailure, ServerLocator, SessionView};
use crate::terminal;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Server {
    name: String,
    status: String,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    source: Option<String>,
    tool_count: usize,
}

/// Finds a session, and connects to the process that has it open.
async fn find(around: &Surroundings, wanted: Option<&str>) -> anyhow::Result<(Client, SessionView)> {
    let locator = ServerLocator {
        url: None,
        socket: None,
        token_file: None,
        ca: None,
        home: &around.config.home.value,
        token: around.environment.get("BATON_TOKEN"),
    };
    let client = locator.connect()?;
    let of_run = locator.session_of_run();
    let session = match wanted.or(of_run.as_deref()) {
        Some(wanted) => client.find(wanted).await?,
        None => {
            let all = client.sessions().await?;
            all.into_iter().next().context("there is no session; send a prompt first")?
        }
    };
    match locator.connect_to_holder(&session)? {
        Some(holder) => Ok((holder, session)),
        None => Ok((client, session)),
    }
}

pub(super) async fn list(around: &Surroundings, session: &str, as_json: bool) -> anyhow::Result<ExitCode> {
    let (client, session) = find(around, Some(session)).await?;
    let list: Value = client.get(&format!("/api/sessions/{}/mcp", session.id)).await?;
    if as_json {
        terminal::json(&serde_json::to_string_pretty(&list)?);
        return Ok(ExitCode::SUCCESS);
    }
    let servers: Vec<Server> = baton_json::from_value(&list["servers"])?;
    if servers.is_empty() {
        terminal::note("the session uses no MCP servers");
        return Ok(ExitCode::SUCCESS);
    }
    let row = |server: &Server| {
        vec![
            server.name.clone(),
            server.status.clone(),
            server.source.clone().unwrap_or_else(|| "session".to_owned()),
            server.tool_count.to_string(),
            server.error.clone().unwrap_or_default(),
        ]
    };
    let rows: Vec<Vec<String>> = servers.iter().map(row).collect();
    terminal::table(&["NAME", "STATUS", "SOURCE", "TOOLS", "ERROR"], &rows);
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn logs(
    around: &Surroundings,
    name: &str,
    session: Option<&str>,
    as_json: bool,
) -> anyhow::Result<ExitCode> {
    let (client, session) = find(around, session).await?;
    let path = format!("/api/sessions/{}/mcp/{}/log", session.id, segment(name));
    let log: Value = match client.get(&path).await {
        Ok(log) => log,
        Err(RequestFailure::Refused { code, message }) if code == "not_found" => {
            terminal::error(&format!("{message}; choose another session with --session"));
            return Ok(ExitCode::from(NO_SUCH_SERVER));
        }
        Err(error) => return Err(error.into()),
    };
    if as_json {
        terminal::json(&serde_json::to_string_pretty(&log)?);
        return Ok(ExitCode::SUCCESS);
    }
    for line in log["lines"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        terminal::line(line);
    }
    Ok(ExitCode::SUCCESS)
}

/// Encodes a name as one segment of a path.
fn segment(name: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    name.bytes().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_one_segment() {
        assert_eq!(segment("a/../b c?ä"), "a%2F..%2Fb%20c%3F%C3%A4");
    }
}
