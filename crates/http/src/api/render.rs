//! Markdown as HTML, for pages that show a model's text.

use axum::Json;
use baton_markup::html::{HeadingLevel, markdown};
use baton_protocol::event::{Body as EventBody, Event};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::extract::JsonBody;
use crate::error::{ApiError, ErrorBody};

/// Maximum length of all texts of a request, in bytes.
const MAX_TEXT: usize = 1 << 20;
/// Maximum number of texts of a request: an empty one costs time and memory, too.
const MAX_TEXTS: usize = 1000;
/// Maximum size of a request, in bytes. Escaped as JSON, a text is longer.
pub(super) const MAX_BODY: usize = 8 << 20;
/// Level of the highest heading: those above belong to the page.
const TOP: HeadingLevel = HeadingLevel::H3;

/// Texts to render.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Texts {
    markdown: Vec<String>,
}

/// Rendered texts.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Rendered {
    /// HTML without scripts, styles, images and forms, and with links to web and mail addresses only.
    html: Vec<String>,
}

/// Render Markdown as harmless HTML.
#[utoipa::path(post, path = "/api/render", operation_id = "renderMarkdown", tag = "events", request_body = Texts,
    responses((status = 200, description = "The texts as HTML, in the same order", body = Rendered),
        (status = 400, description = "Malformed request body", body = ErrorBody),
        (status = 415, description = "Request body is not JSON", body = ErrorBody),
        (status = 422, description = "Request body does not match the schema, or is too long", body = ErrorBody)))]
pub(super) async fn render(JsonBody(texts): JsonBody<Texts>) -> Result<Json<Rendered>, ApiError> {
    let Texts { markdown: texts } = texts;
    if texts.iter().map(String::len).sum::<usize>() > MAX_TEXT {
        return Err(ApiError::unprocessable("too_long", format!("more than {MAX_TEXT} bytes of text")));
    }
    if texts.len() > MAX_TEXTS {
        return Err(ApiError::unprocessable("too_long", format!("more than {MAX_TEXTS} texts")));
    }
    let html = beside(move || texts.iter().map(|text| markdown(text, TOP)).collect()).await?;
    Ok(Json(Rendered { html }))
}

/// Renders beside the threads that serve everybody: hostile text may take long.
pub(super) async fn beside<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| ApiError::internal("rendering failed; see the server log"))
}

/// Renders the text of an event, if it is a message of a model, a plan or a summary.
pub(super) fn of_event(kind: &str, body: &[u8]) -> Option<String> {
    if !matches!(kind, "assistant.message" | "session.compaction_complete") {
        return None;
    }
    let event = Event::parse(&String::from_utf8_lossy(body)).ok()?;
    let text = match event.body {
        EventBody::AssistantMessage(message) => message.content,
        EventBody::CompactionComplete(compaction) => compaction.summary_content?,
        _ => return None,
    };
    (!text.is_empty() && text.len() <= MAX_TEXT).then(|| markdown(&text, TOP))
}
