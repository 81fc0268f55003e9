//! Search in all sessions.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::extract::{Caller, QueryParams};
use super::types::{Limit, SessionView};
use crate::Shared;
use crate::error::{ApiError, ErrorBody};

/// Longest time that a search indexes new records before it answers.
const PATIENCE: Duration = Duration::from_secs(1);

/// What to search for.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct SearchQuery {
    /// Words to find, each as the beginning of a word, in any order and letter case.
    #[param(pattern = "\\S")]
    text: String,
    /// Maximum number of sessions; default: 50.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 1000)]
    limit: Option<Limit<1000>>,
}

/// Sessions that contain the words.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SearchResult {
    found: Vec<FoundSession>,
    /// Whether histories of an older version are still being indexed, so that matches in them are missing.
    incomplete: bool,
}

/// A session that contains the words.
#[derive(Debug, Serialize, ToSchema)]
struct FoundSession {
    session: SessionView,
    /// Number of messages that contain all words, and the title if it does.
    matches: u64,
    /// Text around the first match.
    excerpt: String,
}

/// Search titles and conversations.
#[utoipa::path(get, path = "/api/search", operation_id = "searchSessions", tag = "sessions", params(SearchQuery),
    responses((status = 200, description = "Sessions, last changed first", body = SearchResult),
        (status = 400, description = "Malformed query", body = ErrorBody)))]
pub(super) async fn search(
    State(door): State<Shared>,
    Caller { identity: reader, .. }: Caller,
    QueryParams(query): QueryParams<SearchQuery>,
) -> Result<Json<SearchResult>, ApiError> {
    if query.text.trim().is_empty() {
        return Err(ApiError::bad_request("the text to search for is empty"));
    }
    let limit = query.limit.map_or(50, Limit::get);
    let _turn = door.scans.turn(reader.person()).await;
    let store = &*door.runtime.store;
    let results = baton_history::search::search(store, &query.text, limit, PATIENCE).await?;
    let found = results.found.into_iter().map(|found| FoundSession {
        session: SessionView::of(&found.summary, &door.runtime),
        matches: found.matches,
        excerpt: found.excerpt,
    });
    Ok(Json(SearchResult { found: found.collect(), incomplete: results.incomplete }))
}
