//! What comes in: bodies, ids, and the workspace and session that an address names. Checked here, once.

use std::sync::Arc;

use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use baton_protocol::SessionId;
use baton_store::Summary;
use http::StatusCode;
use http::request::Parts;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::error::{Answer, V1Error};
use super::workspace::Workspace;
use crate::http::Shared;

/// A body that is JSON of a type, whatever its content type says: the client sends some of them as plain text.
pub(super) struct Body<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<Shared> for Body<T> {
    type Rejection = V1Error;

    async fn from_request(request: Request, door: &Shared) -> Answer<Self> {
        decode(&read(request, door).await?).map(Self)
    }
}

/// A body that may be left out.
pub(super) struct Maybe<T>(pub(super) T);

impl<T: DeserializeOwned + Default> FromRequest<Shared> for Maybe<T> {
    type Rejection = V1Error;

    async fn from_request(request: Request, door: &Shared) -> Answer<Self> {
        let bytes = read(request, door).await?;
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Ok(Self(T::default()));
        }
        decode(&bytes).map(Self)
    }
}

async fn read(request: Request, door: &Shared) -> Answer<bytes::Bytes> {
    let body = axum::body::to_bytes(request.into_body(), door.options.max_body);
    body.await.map_err(|error| {
        if let Some(slow) = crate::http::body::too_slow(&error) {
            return V1Error::new(StatusCode::REQUEST_TIMEOUT, slow.to_string());
        }
        let too_large =
            std::error::Error::source(&error).is_some_and(|e| e.is::<http_body_util::LengthLimitError>());
        let status = if too_large { StatusCode::PAYLOAD_TOO_LARGE } else { StatusCode::BAD_REQUEST };
        V1Error::new(status, format!("the body cannot be read: {error}"))
    })
}

fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Answer<T> {
    serde_json::from_slice(bytes)
        .map_err(|error| V1Error::bad_request(format!("failed to decode request: {error}")))
}

#[derive(Deserialize)]
struct WorkspacePath {
    id: String,
}

#[derive(Deserialize)]
struct SessionPath {
    sid: String,
}

/// The workspace that an address names.
pub(super) struct Here {
    pub(super) door: Shared,
    pub(super) workspace: Arc<Workspace>,
}

impl FromRequestParts<Shared> for Here {
    type Rejection = V1Error;

    async fn from_request_parts(parts: &mut Parts, door: &Shared) -> Answer<Self> {
        let path = Path::<WorkspacePath>::from_request_parts(parts, door).await;
        let Path(WorkspacePath { id }) = path.map_err(|error| V1Error::bad_request(error.body_text()))?;
        let found = id.parse().ok().and_then(|id: Uuid| door.workspaces.get(id));
        let workspace = found.ok_or_else(|| V1Error::not_found(format!("there is no workspace {id:?}")))?;
        Ok(Self { door: door.clone(), workspace })
    }
}

/// The session of a workspace that an address names.
pub(super) struct SessionHere {
    pub(super) here: Here,
    pub(super) summary: Summary,
}

impl SessionHere {
    pub(super) fn id(&self) -> &SessionId {
        &self.summary.session
    }
}

impl FromRequestParts<Shared> for SessionHere {
    type Rejection = V1Error;

    async fn from_request_parts(parts: &mut Parts, door: &Shared) -> Answer<Self> {
        let here = Here::from_request_parts(parts, door).await?;
        let path = Path::<SessionPath>::from_request_parts(parts, door).await;
        let Path(SessionPath { sid }) = path.map_err(|error| V1Error::bad_request(error.body_text()))?;
        let summary = find(&here, &sid).await?;
        Ok(Self { here, summary })
    }
}

/// A session of a workspace, by its id. One of another directory is none of ours.
pub(super) async fn find(here: &Here, sid: &str) -> Answer<Summary> {
    let unknown = || V1Error::no_session(sid);
    let id: SessionId = sid.parse().map_err(|_| unknown())?;
    let summary = here.door.server.store.summary(&id).await?.ok_or_else(unknown)?;
    if here.workspace.holds(&summary) { Ok(summary) } else { Err(unknown()) }
}

#[derive(Deserialize)]
struct ClientQuery {
    client_id: Option<String>,
}

/// The client that says who it is in the query.
pub(super) struct ClientKey(pub(super) Uuid);

impl FromRequestParts<Shared> for ClientKey {
    type Rejection = V1Error;

    async fn from_request_parts(parts: &mut Parts, door: &Shared) -> Answer<Self> {
        let query = Query::<ClientQuery>::from_request_parts(parts, door).await;
        let Query(ClientQuery { client_id }) =
            query.map_err(|error| V1Error::bad_request(error.body_text()))?;
        client_key(client_id.as_deref()).map(Self)
    }
}

/// A client's name: a UUID that it has made for itself.
pub(super) fn client_key(text: Option<&str>) -> Answer<Uuid> {
    let text = text.unwrap_or_default();
    Uuid::try_parse(text).map_err(|_| V1Error::bad_request(format!("client_id must be a UUID, not {text:?}")))
}
