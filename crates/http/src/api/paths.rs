//! Completion of paths below the working directory of a session.

use axum::Json;
use axum::extract::State;
use baton_ask::files::CompletePath;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::extract::{By, PathParams, QueryParams, session_id};
use super::types::Limit;
use crate::Shared;
use crate::error::{ApiError, ErrorBody};

/// What to complete.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct CompletionQuery {
    /// Text that the paths contain: its letters in their order, upper or lower case. Default: the entries of the working directory.
    #[serde(default)]
    query: String,
    /// Maximum number of paths; default: 50.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200)]
    limit: Option<Limit<200>>,
}

/// Paths that complete a text.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PathCompletions {
    /// The paths, best match first.
    files: Vec<PathCompletion>,
    /// Whether the working directory is so large that not all of it was looked at.
    truncated: bool,
}

/// A path that completes a text.
#[derive(Debug, Serialize, ToSchema)]
struct PathCompletion {
    /// The path, relative to the working directory.
    path: String,
    /// Whether it is a directory.
    directory: bool,
}

/// Complete a path below the working directory of a session.
///
/// Files that `.gitignore` names and links are left out; hidden files are listed if the text contains their dot.
#[utoipa::path(get, path = "/api/sessions/{id}/files", operation_id = "completePath", tag = "prompts",
    params(("id" = String, Path, description = "Session id"), CompletionQuery),
    responses((status = 200, description = "The paths", body = PathCompletions),
        (status = 400, description = "Malformed query", body = ErrorBody),
        (status = 404, description = "No such session", body = ErrorBody),
        (status = 409, description = "A different server holds the session", body = ErrorBody)))]
pub(super) async fn complete(
    State(door): State<Shared>,
    By(caller): By,
    PathParams(id): PathParams<String>,
    QueryParams(CompletionQuery { query, limit }): QueryParams<CompletionQuery>,
) -> Result<Json<PathCompletions>, ApiError> {
    let session = door.service.open(&caller, &session_id(&id)?).await?;
    let cwd = session.inspect().await?.cwd().to_owned();
    let found = session.ask(CompletePath { cwd, query, limit: limit.map_or(50, Limit::get) }).await?;
    let files = found.files.into_iter();
    let files = files.map(|found| PathCompletion { path: found.path, directory: found.directory });
    Ok(Json(PathCompletions { files: files.collect(), truncated: found.truncated }))
}
