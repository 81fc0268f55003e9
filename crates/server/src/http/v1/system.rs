//! The server itself, and workspaces as clients come and go.

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

use super::error::{Answer, V1Error};
use super::extract::{Body, ClientKey, Here, client_key};
use super::feed::Reader;
use super::register::{Attached, Refusal};
use super::workspace::{Founding, Workspace};
use crate::http::Shared;

/// How often a quiet stream says that it lives, so that a client that is gone without a word is noticed.
const HEARTBEAT: Duration = Duration::from_secs(60);

pub(super) async fn health() -> StatusCode {
    StatusCode::OK
}

/// What we are. It is never what the client is, so the client asks us to make room for its own server next.
pub(super) async fn version(State(door): State<Shared>) -> Json<Value> {
    let platform = format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH);
    let version = format!("baton-{}", door.server.options.version);
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

/// A client may ask us to stop, which is not for it to decide: other doors lead here too. It keeps using a server that
/// says so.
pub(super) async fn control(Body(control): Body<Control>) -> V1Error {
    match control.command.as_str() {
        "shutdown" | "shutdown_if_idle" => V1Error::conflict(
            "this server is shared and is not stopped by its clients; stop it where it was started",
        ),
        other => V1Error::bad_request(format!("unknown command {other:?}")),
    }
}

pub(super) async fn retire(State(door): State<Shared>, Path(client): Path<String>) -> Answer<StatusCode> {
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
    workspace.shown(&*workspace.offer().await)
}

/// A workspace that a client wants. It sends much more, its whole environment among it: that is not read.
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

pub(super) async fn create(State(door): State<Shared>, Body(new): Body<NewWorkspace>) -> Answer<Json<Value>> {
    let client = client_key(new.client_id.as_deref())?;
    if !std::path::Path::new(&new.path).is_absolute() {
        return Err(V1Error::bad_request("path must be the absolute path of a directory"));
    }
    let founding = Founding {
        path: new.path,
        debug: new.debug,
        data_dir: new.data_dir,
        version: new.version,
        channels: new.channels.unwrap_or_default(),
        yolo: new.yolo,
        keep_running: new.keep_running.unwrap_or(door.options.workspaces.keep_running),
        approve_runs: door.options.workspaces.approve_runs,
    };
    match door.workspaces.create(client, founding).await {
        Ok(workspace) => Ok(Json(view(&workspace).await)),
        Err(Refusal::Retired) => Err(V1Error::conflict("this client has said goodbye; start a new one")),
        Err(Refusal::TooMany) => Err(V1Error::conflict("too many workspaces are open; close some first")),
        Err(Refusal::OtherChannels) => Err(V1Error::conflict(
            "the workspace is in use with other channels; use the same, or wait for its end",
        )),
    }
}

pub(super) async fn show(here: Here) -> Json<Value> {
    Json(view(&here.workspace).await)
}

/// Lets go of a workspace. One that is gone already is let go of.
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
pub(super) struct Looking {
    #[serde(default)]
    session_id: String,
}

/// Which session a client looks at. Not answered with 404 whatever it is: the client would take the workspace for gone.
pub(super) async fn look_at(
    here: Here,
    ClientKey(client): ClientKey,
    Body(looking): Body<Looking>,
) -> Answer<StatusCode> {
    let session = looking.session_id.parse().ok();
    let looked = here.door.workspaces.look_at(here.workspace.id, client, session);
    looked.map_err(|_| V1Error::conflict("this client does not stream the events of the workspace"))?;
    Ok(StatusCode::OK)
}

/// One client's stream. Dropping it is leaving.
struct Stream {
    reader: Reader,
    here: Here,
    _attached: Attached,
    _place: tokio::sync::OwnedSemaphorePermit,
}

impl Stream {
    async fn next(&self) -> Option<Bytes> {
        tokio::select! {
            biased;
            piece = self.reader.next() => piece,
            () = self.here.workspace.over.cancelled() => None,
            () = self.here.door.server.stopping.cancelled() => None,
            () = tokio::time::sleep(HEARTBEAT) => Some(Bytes::from_static(b": still here\n\n")),
        }
    }
}

pub(super) async fn events(here: Here, ClientKey(client): ClientKey) -> Answer<Response> {
    let busy = || V1Error::new(StatusCode::SERVICE_UNAVAILABLE, "too many event streams are open");
    let place = here.door.streams.clone().try_acquire_owned().map_err(|_| busy())?;
    // Reads before it counts as attached: who is attached misses nothing.
    let reader = here.workspace.subscribe();
    let attached = here.door.workspaces.attach(here.workspace.id, client);
    let gone = || V1Error::not_found("the workspace has just been closed");
    let stream = Stream { reader, _attached: attached.ok_or_else(gone)?, here, _place: place };
    let pieces = stream::unfold(stream, |stream| async {
        let piece = stream.next().await?;
        Some((Ok::<_, std::convert::Infallible>(piece), stream))
    });
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")];
    let mut response = (headers, HttpBody::from_stream(pieces)).into_response();
    // The end of the connection is the end of the stream, as in HTTP/1.0. The client takes a stream in chunks that breaks
    // off without a last one, as when a server is killed, for one that may go on, and never connects again.
    *response.version_mut() = http::Version::HTTP_10;
    Ok(response)
}
