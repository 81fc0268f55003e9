//! Citations in the form for SDKs: sources, and the spans of the response that cite them.

use baton_protocol::Json;
use serde::Serialize;
use serde_with::skip_serializing_none;

use crate::{Citation, SourceRange};

/// Citations of a message.
#[derive(Serialize)]
struct Citations<'a> {
    sources: Vec<Source<'a>>,
    spans: Vec<Span<'a>>,
}

#[skip_serializing_none]
#[derive(Serialize)]
struct Source<'a> {
    id: String,
    provider: &'static str,
    title: Option<&'a str>,
    url: Option<&'a str>,
}

/// Span of the response, in UTF-16 code units.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Span<'a> {
    start_index: usize,
    end_index: usize,
    references: Vec<Reference<'a>>,
}

#[skip_serializing_none]
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Reference<'a> {
    source_id: String,
    cited_text: Option<&'a str>,
    location: Option<Location>,
    provider_metadata: &'a Json,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "lowercase", rename_all_fields = "camelCase")]
enum Location {
    Char { start_index: u64, end_index: u64 },
    Page { start_page: u64, end_page: u64 },
    Block { start_block: u64, end_block: u64 },
}

impl From<&SourceRange> for Location {
    fn from(place: &SourceRange) -> Self {
        match place {
            SourceRange::Chars(chars) => Self::Char { start_index: chars.start, end_index: chars.end },
            SourceRange::Pages(pages) => Self::Page { start_page: *pages.start(), end_page: *pages.end() },
            SourceRange::Blocks(blocks) => Self::Block { start_block: blocks.start, end_block: blocks.end },
        }
    }
}

/// Returns the citations of a message; `None` if it has none. Ids of sources begin with that of the message, because they
/// must be unique in a turn, which can have several messages.
#[must_use]
pub fn to_json(message: &str, endpoint: &str, text: &str, citations: &[Citation]) -> Option<Json> {
    let provider = if endpoint.ends_with("/messages") { "anthropic" } else { "openai" };
    let mut result = Citations { sources: Vec::new(), spans: Vec::new() };
    for citation in citations {
        let source_id = result.source(message, provider, citation);
        let reference = Reference {
            source_id,
            cited_text: citation.quote.as_deref(),
            location: citation.place.as_ref().map(Location::from),
            provider_metadata: &citation.raw,
        };
        let [start, end] = [citation.span.start, citation.span.end].map(|at| utf16_offset(text, at));
        result.span(start, end.max(start)).references.push(reference);
    }
    let is_empty = result.spans.is_empty();
    (!is_empty).then(|| serde_json::to_value(result).ok().map(Json::from)).flatten()
}

impl<'a> Citations<'a> {
    /// Returns the id of a citation's source, adding the source if it is new.
    fn source(&mut self, message: &str, provider: &'static str, citation: &'a Citation) -> String {
        let (title, url) = (citation.title.as_deref(), citation.url.as_deref());
        let known = self.sources.iter().find(|source| (source.title, source.url) == (title, url));
        if let Some(source) = known {
            return source.id.clone();
        }
        let id = format!("{message}-{}", self.sources.len() + 1);
        self.sources.push(Source { id: id.clone(), provider, title, url });
        id
    }

    /// Returns a span, adding it if it is new.
    fn span(&mut self, start_index: usize, end_index: usize) -> &mut Span<'a> {
        let known = self.spans.iter().position(|s| (s.start_index, s.end_index) == (start_index, end_index));
        let at = known.unwrap_or_else(|| {
            self.spans.push(Span { start_index, end_index, references: Vec::new() });
            self.spans.len() - 1
        });
        &mut self.spans[at]
    }
}

/// Converts a character index to UTF-16 code units. An index beyond the end gives the length of the text.
fn utf16_offset(text: &str, characters: usize) -> usize {
    text.chars().take(characters).map(char::len_utf16).sum()
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use serde_json::{Value, json};

    use super::*;

    fn citation(span: Range<usize>, title: &str, place: Option<SourceRange>) -> Citation {
        let raw = Json::from(json!({"document_index": 0}));
        Citation { span, title: Some(title.into()), url: None, quote: Some("q".into()), place, raw }
    }

    #[test]
    fn repeated_sources_and_spans_are_merged() {
        let citations = [
            citation(1..3, "a", Some(SourceRange::Pages(2..=4))),
            citation(1..3, "b", Some(SourceRange::Chars(0..9))),
            citation(3..99, "a", Some(SourceRange::Blocks(1..2))),
        ];
        // The first character takes two code units.
        let json: Value = to_json("m", "/v1/messages", "😀abc", &citations).unwrap().parse().unwrap();
        let reference = |source: &str, location: Value| {
            let meta = json!({"document_index": 0});
            json!({"sourceId": source, "citedText": "q", "location": location, "providerMetadata": meta})
        };
        let expected = json!({
            "sources": [
                {"id": "m-1", "provider": "anthropic", "title": "a"},
                {"id": "m-2", "provider": "anthropic", "title": "b"},
            ],
            "spans": [
                {"startIndex": 2, "endIndex": 4, "references": [
                    reference("m-1", json!({"type": "page", "startPage": 2, "endPage": 4})),
                    reference("m-2", json!({"type": "char", "startIndex": 0, "endIndex": 9})),
                ]},
                {"startIndex": 4, "endIndex": 5, "references": [
                    reference("m-1", json!({"type": "block", "startBlock": 1, "endBlock": 2})),
                ]},
            ],
        });
        assert_eq!(json, expected);
    }

    #[test]
    fn message_without_citations_gives_none() {
        assert_eq!(to_json("m", "/responses", "text", &[]), None);
    }
}
