//! Citations, as clients are told them: sources, and the spans of the answer that rest on them.

use baton_model::{Citation, Place};
use baton_protocol::Json;
use serde::Serialize;
use serde_with::skip_serializing_none;

/// What clients are told with a message.
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

/// A piece of the answer, in UTF-16 code units.
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

impl From<&Place> for Location {
    fn from(place: &Place) -> Self {
        match place {
            Place::Chars(chars) => Self::Char { start_index: chars.start, end_index: chars.end },
            Place::Pages(pages) => Self::Page { start_page: *pages.start(), end_page: *pages.end() },
            Place::Blocks(blocks) => Self::Block { start_block: blocks.start, end_block: blocks.end },
        }
    }
}

/// The citations of a message; `None` if it has none. Names of sources begin with that of the message, because they have
/// to be unique in a turn, which has several.
pub(super) fn told(message: &str, endpoint: &str, text: &str, citations: &[Citation]) -> Option<Json> {
    let provider = if endpoint.ends_with("/messages") { "anthropic" } else { "openai" };
    let mut told = Citations { sources: Vec::new(), spans: Vec::new() };
    for citation in citations {
        let source_id = told.source(message, provider, citation);
        let reference = Reference {
            source_id,
            cited_text: citation.quote.as_deref(),
            location: citation.place.as_ref().map(Location::from),
            provider_metadata: &citation.raw,
        };
        let [start, end] = [citation.span.start, citation.span.end].map(|at| utf16_offset(text, at));
        told.span(start, end.max(start)).references.push(reference);
    }
    let is_empty = told.spans.is_empty();
    (!is_empty).then(|| serde_json::to_value(told).ok().map(Json::from)).flatten()
}

impl<'a> Citations<'a> {
    /// The name of a citation's source, which may be known already.
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

    /// A span; citations of the same one share it.
    fn span(&mut self, start_index: usize, end_index: usize) -> &mut Span<'a> {
        let known = self.spans.iter().position(|s| (s.start_index, s.end_index) == (start_index, end_index));
        let at = known.unwrap_or_else(|| {
            self.spans.push(Span { start_index, end_index, references: Vec::new() });
            self.spans.len() - 1
        });
        &mut self.spans[at]
    }
}

/// How many UTF-16 code units stand before a character; the end of the text for one that does not exist.
fn utf16_offset(text: &str, characters: usize) -> usize {
    text.chars().take(characters).map(char::len_utf16).sum()
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use serde_json::{Value, json};

    use super::*;

    fn citation(span: Range<usize>, title: &str, place: Option<Place>) -> Citation {
        let raw = Json::from(json!({"document_index": 0}));
        Citation { span, title: Some(title.into()), url: None, quote: Some("q".into()), place, raw }
    }

    #[test]
    fn sources_and_spans_are_told_once() {
        let citations = [
            citation(1..3, "a", Some(Place::Pages(2..=4))),
            citation(1..3, "b", Some(Place::Chars(0..9))),
            citation(3..99, "a", Some(Place::Blocks(1..2))),
        ];
        // The first character takes two code units.
        let told: Value = told("m", "/v1/messages", "😀abc", &citations).unwrap().parse().unwrap();
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
        assert_eq!(told, expected);
    }

    #[test]
    fn a_message_without_citations_has_none() {
        assert_eq!(told("m", "/responses", "text", &[]), None);
    }
}
