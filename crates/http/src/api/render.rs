//! Markdown as HTML, for pages that show a model's text.

use axum::Json;
use baton_markup::html::{HeadingLevel, markdown};
use baton_protocol::event::{Body as EventBody, Event};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::extract::JsonBody;
use crate::error::{ApiError, ErrorBody};

/// Maximum length of all texts of a request, in bytes. Rendering runs on a thread that serves others.
const MAX_TEXT: usize = 1 << 20;
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
    if texts.markdown.iter().map(String::len).sum::<usize>() > MAX_TEXT {
        return Err(ApiError::unprocessable("too_long", format!("more than {MAX_TEXT} bytes of text")));
    }
    Ok(Json(Rendered { html: texts.markdown.iter().map(|text| markdown(text, TOP)).collect() }))
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
