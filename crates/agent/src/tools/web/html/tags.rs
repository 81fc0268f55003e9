//! Tokens of a page.

use super::characters::decode;

/// A tag, or text that looked like one.
pub(super) enum Token<'a> {
    /// Name, and unparsed attributes.
    Open(String, &'a str),
    Close(String),
    /// A comment or a declaration.
    Nothing,
    Text(&'a str),
}

/// Longest tag, in bytes. An unclosed quote must neither swallow the page nor cause repeated scans to its end.
const LONGEST_TAG: usize = 8192;

/// Returns the text after the end tag of `name`, an element without markup inside.
pub(super) fn skip_raw<'a>(html: &'a str, name: &str) -> &'a str {
    let mut from = 0;
    while let Some(found) = html[from..].find("</") {
        let after = &html[from + found + 2..];
        if after.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name)) {
            return after.split_once('>').map_or("", |(_, rest)| rest);
        }
        from += found + 2;
    }
    ""
}

/// Parses the tag at the start of `html`, and returns the rest.
pub(super) fn next_tag(html: &str) -> (Token<'_>, &str) {
    if let Some(comment) = html.strip_prefix("<!--") {
        return (Token::Nothing, comment.split_once("-->").map_or("", |(_, rest)| rest));
    }
    let body = &html[1..];
    if body.starts_with(['!', '?']) {
        return (Token::Nothing, body.split_once('>').map_or("", |(_, rest)| rest));
    }
    let closes = body.starts_with('/');
    let body = body.strip_prefix('/').unwrap_or(body);
    if !body.starts_with(|c: char| c.is_ascii_alphabetic()) {
        // A bare `<`, as in "a < b".
        return (Token::Text("<"), &html[1..]);
    }
    let end = tag_end(body);
    let (tag, rest) = (&body[..end], body.get(end + 1..).unwrap_or(""));
    let name_end = tag.find(|c: char| c.is_ascii_whitespace() || c == '/').unwrap_or(tag.len());
    let name = tag[..name_end].to_ascii_lowercase();
    (if closes { Token::Close(name) } else { Token::Open(name, &tag[name_end..]) }, rest)
}

/// Returns the end of the tag: the first `>` outside quotes.
fn tag_end(tag: &str) -> usize {
    let mut quote = None;
    for (index, byte) in tag.bytes().enumerate().take(LONGEST_TAG) {
        match (quote, byte) {
            (None, b'>') => return index,
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), byte) if open == byte => quote = None,
            _ => {}
        }
    }
    tag.find('>').unwrap_or(tag.len())
}

/// Returns the value of an attribute.
pub(super) fn attribute(attributes: &str, wanted: &str) -> Option<String> {
    let space = |c: char| c.is_ascii_whitespace();
    let mut rest = attributes;
    loop {
        rest = rest.trim_start_matches(|c: char| space(c) || c == '/');
        let end = rest.find(|c: char| space(c) || c == '=').unwrap_or(rest.len());
        let name = if rest.is_empty() { return None } else { &rest[..end.max(1)] };
        rest = rest[name.len()..].trim_start();
        let mut value = "";
        if let Some(after) = rest.strip_prefix('=') {
            let after = after.trim_start();
            (value, rest) = match after.chars().next() {
                Some(quote @ ('"' | '\'')) => after[1..].split_once(quote).unwrap_or((&after[1..], "")),
                _ => after.split_at(after.find(space).unwrap_or(after.len())),
            };
        }
        if name.eq_ignore_ascii_case(wanted) {
            return Some(decode(value));
        }
    }
}
