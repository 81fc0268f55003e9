//! The beginning of a connection: which version of the protocol is spoken, and what the client offers.
//!
//! Servers of versions before 2026-07-28 have a handshake: the request `initialize` with the newest such version, the
//! client's capabilities and its name; the server answers with the version that it speaks; then the notification
//! `notifications/initialized`.
//!
//! Version 2026-07-28 has none: the request `server/discover` returns `supportedVersions`, and every request, this one too,
//! carries its version, the client's name and its capabilities in `_meta`, under `io.modelcontextprotocol/protocolVersion`,
//! `…/clientInfo` and `…/clientCapabilities`. Over HTTP, headers repeat parts of a request ([`super::standard`]), there is
//! no session, and a request is cancelled by closing its stream. Errors -32601 and -32022 to `initialize` mean such a server.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::timeout;

use super::handler::Handler;
use super::message::{Failure, METHOD_NOT_FOUND};
use super::peer::Peer;
use crate::text::clean;

/// How long a server may take from its start to the end of the handshake. `npx` downloads the server first.
const HANDSHAKE: Duration = Duration::from_secs(60);

/// The version without a handshake.
pub(super) const STATELESS: &str = "2026-07-28";
/// The newest version with a handshake.
const NEWEST: &str = "2025-11-25";
const KNOWN: [&str; 5] = ["2024-11-05", "2025-03-26", "2025-06-18", NEWEST, STATELESS];
/// Error code of a server that does not speak the version of a request.
const UNSUPPORTED_VERSION: i64 = -32022;

/// Field of `_meta` with the version of a request.
pub(super) const VERSION_FIELD: &str = "io.modelcontextprotocol/protocolVersion";

/// Problem of a handshake whose connection ended.
pub(super) const ENDED: &str = "the connection ended during the handshake";

/// How a connection begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lifecycle {
    /// With `initialize`, which all servers know that speak a version before 2026-07-28.
    Handshake,
    /// With `server/discover`: every request says what it needs.
    Stateless,
}

/// Why a connection did not begin.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The server does not know `initialize`, or no version with it.
    NoHandshake(String),
    /// It could not be told anything.
    NotSent(String),
    Failed(String),
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self::Failed(match failure {
            Failure::Closed => ENDED.into(),
            Failure::Refused { message, .. } => {
                format!("the server refused to initialize: {}", clean(&message, 1000))
            }
            Failure::Unusable(_) => "the response to initialize cannot be used".into(),
            Failure::NotSent(problem) => return Self::NotSent(clean(&problem, 1000)),
        })
    }
}

/// Agrees on a version with a server.
pub(super) async fn shake_hands(peer: &Peer, handler: &Handler, lifecycle: Lifecycle) -> Result<(), Refusal> {
    let begun = async {
        match lifecycle {
            Lifecycle::Handshake => initialize(peer, handler).await,
            Lifecycle::Stateless => discover(peer, handler).await,
        }
    };
    timeout(HANDSHAKE, begun).await.unwrap_or_else(|_| {
        Err(Refusal::Failed(format!("no response to initialize within {} s", HANDSHAKE.as_secs())))
    })
}

async fn initialize(peer: &Peer, handler: &Handler) -> Result<(), Refusal> {
    let params = json!({
        "protocolVersion": NEWEST,
        "capabilities": handler.capabilities(),
        "clientInfo": client_info(),
    });
    let result = match peer.plain_request("initialize", params).response().await {
        Ok(result) => result,
        Err(failure) => {
            let has_none =
                matches!(failure, Failure::Refused { code: METHOD_NOT_FOUND | UNSUPPORTED_VERSION, .. });
            return Err(match failure.into() {
                Refusal::Failed(problem) if has_none => Refusal::NoHandshake(problem),
                other => other,
            });
        }
    };
    let version = result.get("protocolVersion").and_then(Value::as_str).ok_or_else(Failure::unusable)?;
    if !KNOWN.contains(&version) {
        return Err(unknown(version));
    }
    peer.agree(version, (version == STATELESS).then(|| meta(handler)));
    peer.notify("notifications/initialized", Value::Null).await?;
    Ok(())
}

async fn discover(peer: &Peer, handler: &Handler) -> Result<(), Refusal> {
    let meta = meta(handler);
    let result = peer.plain_request("server/discover", json!({ "_meta": meta })).response().await?;
    let versions = result.get("supportedVersions").and_then(Value::as_array).ok_or_else(Failure::unusable)?;
    if !versions.iter().any(|version| version == STATELESS) {
        return Err(unknown(versions.first().and_then(Value::as_str).unwrap_or("none")));
    }
    peer.agree(STATELESS, Some(meta));
    Ok(())
}

fn unknown(version: &str) -> Refusal {
    let version = clean(version, 40);
    Refusal::Failed(format!("the server speaks an unknown version of the protocol: {version}"))
}

fn client_info() -> Value {
    json!({ "name": "baton", "version": env!("CARGO_PKG_VERSION") })
}

/// Returns the `_meta` of requests without a handshake.
fn meta(handler: &Handler) -> Map<String, Value> {
    Map::from_iter([
        (VERSION_FIELD.to_owned(), json!(STATELESS)),
        ("io.modelcontextprotocol/clientInfo".to_owned(), client_info()),
        ("io.modelcontextprotocol/clientCapabilities".to_owned(), handler.capabilities()),
    ])
}
