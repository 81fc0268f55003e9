//! Extractors: bodies, client ids, and the workspace and session that a path names.

use std::sync::Arc;

use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use baton_protocol::{Author, SessionId};
use baton_service::sessions::ShowSession;
use baton_service::{Caller, LiveSession};
use baton_store::Summary;
use http::StatusCode;
use http::request::Parts;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::Shared;
use super::error::{CrushError, CrushResult};
use super::workspace::Workspace;
use baton_wire::SlowBody;

/// Extracts a JSON body. The content type is ignored: the client sends some bodies as plain text.
pub(super) struct JsonBody<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<Shared> for JsonBody<T> {
    type Rejection = CrushError;

    async fn from_request(request: Request, door: &Shared) -> CrushResult<Self> {
        decode(&read(request, door).await?).map(Self)
    }
}

/// Extracts a JSON body that may be empty.
pub(super) struct OptionalBody<T>(pub(super) T);

impl<T: DeserializeOwned + Default> FromRequest<Shared> for OptionalBody<T> {
    type Rejection = CrushError;

    async fn from_request(request: Request, door: &Shared) -> CrushResult<Self> {
        let bytes = read(request, door).await?;
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Ok(Self(T::default()));
        }
        decode(&bytes).map(Self)
    }
}

async fn read(request: Request, door: &Shared) -> CrushResult<bytes::Bytes> {
    let body = axum::body::to_bytes(request.into_body(), door.http.max_body);
    body.await.map_err(|error| {
        if let Some(slow) = SlowBody::among_causes_of(&error) {
            return CrushError::new(StatusCode::REQUEST_TIMEOUT, slow.to_string());
        }
        let too_large =
            std::error::Error::source(&error).is_some_and(|e| e.is::<http_body_util::LengthLimitError>());
        let status = if too_large { StatusCode::PAYLOAD_TOO_LARGE } else { StatusCode::BAD_REQUEST };
        CrushError::new(status, format!("failed to read the request body: {error}"))
    })
}

fn decode<T: DeserializeOwned>(bytes: &[u8]) -> CrushResult<T> {
    baton_json::from_slice(bytes)
        .map_err(|error| CrushError::bad_request(format!("failed to decode request: {error}")))
}

#[derive(Deserialize)]
struct WorkspacePath {
    id: String,
}

#[derive(Deserialize)]
struct SessionPath {
    sid: String,
}

/// Extracts the workspace that the path names.
pub(super) struct WorkspaceScope {
    pub(super) door: Shared,
    pub(super) workspace: Arc<Workspace>,
    /// Who sends the request.
    pub(super) caller: Caller,
}

impl WorkspaceScope {
    /// Returns the author of what the request changes: the person whom the door has identified, or else the client.
    pub(super) fn author(&self) -> Author {
        self.caller.author()
    }

    /// Returns a session, and loads it if it is not live.
    pub(super) fn open(&self, session: &SessionId) -> LiveSession {
        self.door.service.open_existing(&self.caller, session)
    }
}

/// Returns the sender of a request, as the door has identified it.
fn caller_of(parts: &Parts) -> CrushResult<Caller> {
    let caller = parts.extensions.get::<Caller>().cloned();
    let missing = || CrushError::new(StatusCode::INTERNAL_SERVER_ERROR, "the request was not authenticated");
    Ok(caller.ok_or_else(missing)?.as_client(Author::crush()))
}

impl FromRequestParts<Shared> for WorkspaceScope {
    type Rejection = CrushError;

    async fn from_request_parts(parts: &mut Parts, door: &Shared) -> CrushResult<Self> {
        let path = Path::<WorkspacePath>::from_request_parts(parts, door).await;
        let Path(WorkspacePath { id }) = path.map_err(|error| CrushError::bad_request(error.body_text()))?;
        let found = id.parse().ok().and_then(|id: Uuid| door.workspaces.get(id));
        let workspace = found.ok_or_else(|| CrushError::not_found(format!("no such workspace: {id:?}")))?;
        Ok(Self { door: door.clone(), workspace, caller: caller_of(parts)? })
    }
}

/// Extracts the session that the path names, with its workspace.
pub(super) struct SessionScope {
    pub(super) scope: WorkspaceScope,
    pub(super) summary: Summary,
}

impl SessionScope {
    pub(super) fn id(&self) -> &SessionId {
        &self.summary.session
    }

    /// Returns the session, and loads it if it is not live.
    pub(super) fn open(&self) -> LiveSession {
        self.scope.open(self.id())
    }
}

impl FromRequestParts<Shared> for SessionScope {
    type Rejection = CrushError;

    async fn from_request_parts(parts: &mut Parts, door: &Shared) -> CrushResult<Self> {
        let scope = WorkspaceScope::from_request_parts(parts, door).await?;
        let path = Path::<SessionPath>::from_request_parts(parts, door).await;
        let Path(SessionPath { sid }) = path.map_err(|error| CrushError::bad_request(error.body_text()))?;
        let summary = find_session(&scope, &sid).await?;
        Ok(Self { scope, summary })
    }
}

/// Finds a session of a workspace by its id. Sessions of other directories are not found.
pub(super) async fn find_session(scope: &WorkspaceScope, sid: &str) -> CrushResult<Summary> {
    let unknown = || CrushError::no_session(sid);
    let id: SessionId = sid.parse().map_err(|_| unknown())?;
    let summary = scope.door.service.perform(&scope.caller, ShowSession { id }).await?;
    if scope.workspace.contains(&summary) { Ok(summary) } else { Err(unknown()) }
}

#[derive(Deserialize)]
struct ClientQuery {
    client_id: Option<String>,
}

/// Extracts the client's id from the query.
pub(super) struct ClientKey(pub(super) Uuid);

impl FromRequestParts<Shared> for ClientKey {
    type Rejection = CrushError;

    async fn from_request_parts(parts: &mut Parts, door: &Shared) -> CrushResult<Self> {
        let query = Query::<ClientQuery>::from_request_parts(parts, door).await;
        let Query(ClientQuery { client_id }) =
            query.map_err(|error| CrushError::bad_request(error.body_text()))?;
        client_key(client_id.as_deref()).map(Self)
    }
}

/// Parses the id of a client: a UUID that the client chose.
pub(super) fn client_key(text: Option<&str>) -> CrushResult<Uuid> {
    let text = text.unwrap_or_default();
    Uuid::try_parse(text)
        .map_err(|_| CrushError::bad_request(format!("client_id must be a UUID, not {text:?}")))
}
