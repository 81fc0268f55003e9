//! Server information, workspaces, clients and event streams.

use std::time::Duration;

use axum::Json;
use axum::body::Body as HttpBody;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use http::{StatusCode, header};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Shared;
use super::error::{CrushError, CrushResult};
use super::extract::{ClientKey, JsonBody, WorkspaceScope, client_key};
use super::feed::Reader;
use super::registry::{CreateError, StreamClaim};
use super::workspace::{Workspace, WorkspaceSettings};
use baton_runtime::cluster::ListReader;
use baton_wire::OpenStream;

/// Time after which an idle stream sends a comment, which detects a client that disappeared.
const HEARTBEAT: Duration = Duration::from_secs(60);

pub(super) async fn health() -> StatusCode {
    StatusCode::OK
}

/// Returns the version. It never equals the client's, so the client asks for a shutdown next ([`control`]).
pub(super) async fn version(State(door): State<Shared>) -> Json<Value> {
    let platform = format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH);
    let version = format!("baton-{}", door.service.version());
    Json(
        json!({ "version": version, "commit": "", "build_id": version, "go_version": "", "platform": platform }),
    )
}

pub(super) async fn config() -> Json<Value> {
    Json(json!({ "options": {}, "providers": {} }))
}

#[derive(Deserialize)]
pub(super) struct Control {
    #[serde(default)]
    command: String,
}

/// Refuses shutdowns: other doors use the server, too. The client continues with a server that refuses.
pub(super) async fn control(JsonBody(control): JsonBody<Control>) -> CrushError {
    match control.command.as_str() {
        "shutdown" | "shutdown_if_idle" => CrushError::conflict(
            "this server is shared, and clients cannot stop it; stop it where it was started",
        ),
        other => CrushError::bad_request(format!("unknown command {other:?}")),
    }
}

pub(super) async fn retire(
    State(door): State<Shared>,
    Path(client): Path<String>,
) -> CrushResult<StatusCode> {
    door.workspaces.retire(client_key(Some(&client))?);
    Ok(StatusCode::OK)
}

pub(super) async fn list(State(door): State<Shared>) -> Json<Value> {
    let mut shown = Vec::new();
    for workspace in door.workspaces.all() {
        shown.push(view(&workspace).await);
    }
    Json(Value::Array(shown))
}

async fn view(workspace: &Workspace) -> Value {
    let (servers, skills) = (workspace.configured_servers().await, workspace.skill_states().await);
    workspace.view(&*workspace.catalog().await, &servers, &skills)
}

/// A workspace to create. The client sends more fields, such as its environment, which are not read.
#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
pub(super) struct NewWorkspace {
    path: String,
    client_id: Option<String>,
    yolo: bool,
    debug: bool,
    data_dir: String,
    version: String,
    channels: Option<Vec<String>>,
    keep_running: Option<bool>,
}

pub(super) async fn create(
    State(door): State<Shared>,
    JsonBody(new): JsonBody<NewWorkspace>,
) -> CrushResult<Json<Value>> {
    let client = client_key(new.client_id.as_deref())?;
    if !std::path::Path::new(&new.path).is_absolute() {
        return Err(CrushError::bad_request("path must be the absolute path of a directory"));
    }
    let settings = WorkspaceSettings {
        path: new.path,
        debug: new.debug,
        data_dir: new.data_dir,
        version: new.version,
        channels: new.channels.unwrap_or_default(),
        yolo: new.yolo,
        keep_running: new.keep_running.unwrap_or(door.options.keep_running),
        approve_runs: door.options.approve_runs,
    };
    match door.workspaces.create(client, settings).await {
        Ok(workspace) => Ok(Json(view(&workspace).await)),
        Err(CreateError::Retired) => Err(CrushError::conflict("this client id was retired; use a new one")),
        Err(CreateError::TooMany) => {
            Err(CrushError::conflict("too many workspaces are open; close some first"))
        }
        Err(CreateError::OtherChannels) => Err(CrushError::conflict(
            "the workspace is open with different channels; use the same ones, or wait until it is closed",
        )),
    }
}

pub(super) async fn show(scope: WorkspaceScope) -> Json<Value> {
    Json(view(&scope.workspace).await)
}

/// Releases a client's claim to a workspace. Has no effect if the workspace is closed.
pub(super) async fn release(
    State(door): State<Shared>,
    Path(id): Path<String>,
    ClientKey(client): ClientKey,
) -> StatusCode {
    if let Ok(id) = id.parse() {
        door.workspaces.release(id, client);
    }
    StatusCode::OK
}

#[derive(Deserialize)]
pub(super) struct CurrentSession {
    #[serde(default)]
    session_id: String,
}

/// Sets the session that a client shows. Never answers 404, also for an unknown session: the client would conclude that the
/// workspace is closed.
pub(super) async fn set_current_session(
    scope: WorkspaceScope,
    ClientKey(client): ClientKey,
    JsonBody(current): JsonBody<CurrentSession>,
) -> CrushResult<StatusCode> {
    let session = current.session_id.parse().ok();
    let shown = scope.door.workspaces.set_current_session(scope.workspace.id, client, session);
    shown.map_err(|_| CrushError::conflict("this client does not stream the events of the workspace"))?;
    Ok(StatusCode::OK)
}

/// Event stream of a client. Dropping it ends the client's claim.
struct Stream {
    reader: Reader,
    scope: WorkspaceScope,
    _claim: StreamClaim,
    _opened: OpenStream,
    /// Other servers' sessions of the directory are shown while the stream is open.
    _elsewhere: ListReader,
}

impl Stream {
    async fn next(&self) -> Option<Bytes> {
        tokio::select! {
            biased;
            event = self.reader.next() => event,
            () = self.scope.workspace.closed.cancelled() => None,
            () = self.scope.door.service.stopping().cancelled() => None,
            () = tokio::time::sleep(HEARTBEAT) => Some(Bytes::from_static(b": still here\n\n")),
        }
    }
}

pub(super) async fn events(scope: WorkspaceScope, ClientKey(client): ClientKey) -> CrushResult<Response> {
    let opened = scope.door.http.streams.open(scope.caller.person().as_ref());
    let opened =
        opened.map_err(|error| CrushError::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string()))?;
    // Subscribed before it is attached, so that an attached client misses no event.
    let reader = scope.workspace.subscribe();
    let claim = scope.door.workspaces.attach(scope.workspace.id, client);
    let closed = || CrushError::not_found("the workspace was just closed");
    let claim = claim.ok_or_else(closed)?;
    let elsewhere = scope.door.service.watch_all(&scope.caller).await?;
    let stream = Stream { reader, _claim: claim, scope, _opened: opened, _elsewhere: elsewhere };
    let events = stream::unfold(stream, |stream| async {
        let event = stream.next().await?;
        Some((Ok::<_, std::convert::Infallible>(event), stream))
    });
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")];
    let mut response = (headers, HttpBody::from_stream(events)).into_response();
    // As in HTTP/1.0, the stream ends with its connection. In chunked encoding, the client would take a stream that ends
    // without a last chunk, as when the server is killed, for an unfinished one, and would never reconnect.
    *response.version_mut() = http::Version::HTTP_10;
    Ok(response)
}
