//! The page that browsers return to after a login at an MCP server.
//!
//! The browser has no token of ours: it comes from the authorization server. The state in its address takes the token's
//! place: 256 random bits, for one login, once. The page repeats nothing of the address.

use axum::extract::{RawQuery, State};
use axum::response::{Html, IntoResponse, Response};
use baton_addons::mcp::logins::LoggedIn;
use baton_ask::mcp::FinishMcpLogin;
use http::{HeaderMap, StatusCode, header};

use crate::Shared;
use crate::guard::is_allowed_authority;
use crate::remote_logins::RemoteLogin;

/// The path of the page.
pub(crate) const CALLBACK: &str = "/oauth/callback";

/// Finishes a login.
pub(crate) async fn callback(State(door): State<Shared>, RawQuery(query): RawQuery) -> Response {
    let query = query.unwrap_or_default();
    let done = match door.remote_logins.take(&query) {
        Some(login) => finish_elsewhere(&door, login, &query).await,
        None => door.runtime.finish_login(&query).await,
    };
    match done {
        Ok(done) => {
            tracing::info!(session = ?done.session, server = done.server, "logged in to an MCP server");
            page(
                StatusCode::OK,
                "You are logged in",
                "The session can use the server now. You can close this page.",
            )
        }
        Err(why) => {
            tracing::warn!(why, "a login at an MCP server failed");
            page(
                StatusCode::BAD_REQUEST,
                "The login did not work",
                "Ask for another link, and open that. The server log says why.",
            )
        }
    }
}

/// Finishes a login for a session that another server holds.
async fn finish_elsewhere(door: &Shared, login: RemoteLogin, query: &str) -> Result<LoggedIn, String> {
    let RemoteLogin { session, server, .. } = login;
    let handle = door.runtime.registry.open(&door.runtime, &session);
    let pasted = format!("http://localhost{CALLBACK}?{query}");
    let finish = FinishMcpLogin { server: server.clone(), pasted };
    handle.ask(finish).await.map_err(|failure| failure.to_string())?;
    Ok(LoggedIn { session: Some(session), server })
}

fn page(status: StatusCode, title: &'static str, text: &'static str) -> Response {
    let html = format!(
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>\
         <title>Baton: {title}</title><h1>{title}</h1><p>{text}</p></html>\n"
    );
    (status, Html(html)).into_response()
}

/// Returns the address of the page, as the client of a request reaches this door; none if it came through a socket file.
pub(crate) fn callback_address(door: &Shared, headers: &HeaderMap) -> Option<String> {
    let host = headers.get(header::HOST)?.to_str().ok()?;
    // The guard has checked it for requests on TCP; a socket file accepts any name.
    if !is_allowed_authority(&door.options, host) {
        return None;
    }
    let scheme = if door.has_tls() { "https" } else { "http" };
    // On a socket file, clients send a name without a port.
    (host.contains(':') || door.has_tls()).then(|| format!("{scheme}://{host}{CALLBACK}"))
}
