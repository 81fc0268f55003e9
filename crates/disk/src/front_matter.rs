//! Front matter: the YAML block at the top of a Markdown file.
//!
//! A strict subset of YAML of our own, and not a library: front matter is one level of keys with texts and lists of texts,
//! and everything else that YAML has is a way to be attacked (aliases that multiply, tags, nesting) or surprised
//! (`no` as a boolean, a colon in a sentence). Keys that hold anything else, such as nested `metadata`, are skipped.
//! Unlike YAML, a plain text may contain `: `, because people write sentences there.

use std::collections::BTreeMap;

/// Largest front matter, in bytes.
const MAX_BYTES: usize = 32 * 1024;

/// Value of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A text, also one that looks like a number or a boolean.
    Text(String),
    /// A list of texts.
    List(Vec<String>),
    /// Anything else: a nested mapping, nothing at all.
    Other,
}

/// Why front matter cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MalformedFrontMatter {
    /// The block does not end.
    #[error("the front matter does not end: close it with a line of three dashes")]
    Unterminated,
    /// The block is too long.
    #[error("the front matter is longer than {MAX_BYTES} bytes")]
    TooLong,
    /// A line is not understood.
    #[error("line {line} of the front matter: {why}")]
    Line {
        /// Number of the line, from 1.
        line: usize,
        /// Reason.
        why: &'static str,
    },
}

/// Parsed front matter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FrontMatter(BTreeMap<String, Value>);

impl FrontMatter {
    /// Returns the text of a key, with control characters removed; none if it is empty.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<String> {
        match self.0.get(key)? {
            Value::Text(text) => Some(printable(text)).filter(|text| !text.is_empty()),
            Value::List(_) | Value::Other => None,
        }
    }

    /// Returns the list of a key. A text is a list that is separated by commas.
    #[must_use]
    pub fn list(&self, key: &str) -> Option<Vec<String>> {
        let texts: Vec<String> = match self.0.get(key)? {
            Value::Text(text) => text.split(',').map(printable).collect(),
            Value::List(texts) => texts.iter().map(|text| printable(text)).collect(),
            Value::Other => return None,
        };
        Some(texts.into_iter().filter(|text| !text.is_empty()).collect())
    }

    /// Returns the boolean of a key; none if it is neither true nor false.
    #[must_use]
    pub fn flag(&self, key: &str) -> Option<bool> {
        match self.text(key)?.to_ascii_lowercase().as_str() {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        }
    }

    /// Whether a key has any value.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }
}

/// Replaces control characters, which a terminal would obey, by spaces.
#[must_use]
pub fn printable(text: &str) -> String {
    let clean: String = text.chars().map(|c| if c.is_control() && c != '\n' { ' ' } else { c }).collect();
    clean.trim().to_owned()
}

/// Splits a file into its front matter, if it has any, and the rest without leading blank lines.
///
/// # Errors
/// When the front matter cannot be read.
pub fn split(text: &str) -> Result<(Option<FrontMatter>, &str), MalformedFrontMatter> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = text.split_inclusive('\n');
    if lines.next().is_none_or(|first| first.trim_end() != "---") {
        return Ok((None, text));
    }
    let begin = text.find('\n').map_or(text.len(), |end| end + 1);
    let mut end = begin;
    for line in lines {
        if line.trim_end() == "---" {
            let body = text[end + line.len()..].trim_start_matches(['\r', '\n']);
            return Ok((Some(parse(&text[begin..end])?), body));
        }
        end += line.len();
        if end - begin > MAX_BYTES {
            return Err(MalformedFrontMatter::TooLong);
        }
    }
    Err(MalformedFrontMatter::Unterminated)
}

fn parse(text: &str) -> Result<FrontMatter, MalformedFrontMatter> {
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    let mut fields = BTreeMap::new();
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at];
        let wrong = |why| MalformedFrontMatter::Line { line: at + 2, why };
        if line.is_empty() || line.starts_with('#') {
            at += 1;
            continue;
        }
        let (key, rest) = line.split_once(':').ok_or_else(|| wrong("expected `key: value`"))?;
        let is_key = |key: &str| {
            !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
        };
        if !is_key(key) || !(rest.is_empty() || rest.starts_with(' ') || rest.starts_with('\t')) {
            return Err(wrong("expected `key: value`, with a key of letters, digits and dashes"));
        }
        // Lines that belong to the key: indented, blank, or items of a list.
        let more = lines[at + 1..].iter().take_while(|line| belongs(line)).count();
        let value = value(rest.trim(), &lines[at + 1..=at + more]).map_err(wrong)?;
        if fields.insert(key.to_owned(), value).is_some() {
            return Err(wrong("the key occurs twice"));
        }
        at += 1 + more;
    }
    Ok(FrontMatter(fields))
}

fn belongs(line: &str) -> bool {
    line.is_empty() || line.starts_with([' ', '\t']) || line == "-" || line.starts_with("- ")
}

fn value(first: &str, more: &[&str]) -> Result<Value, &'static str> {
    let head = first.chars().next();
    match head {
        None | Some('#') => Ok(list_or_other(more)),
        Some('|' | '>') if is_block(first) => Ok(Value::Text(block(first, more))),
        Some('&' | '*' | '!') => Err("anchors, aliases and tags are not supported; quote the text"),
        Some('{') => Ok(Value::Other),
        Some('[') => flow_list(&joined(first, more)),
        Some(quote @ ('"' | '\'')) => {
            let text = joined(first, more);
            match quoted(&text, quote) {
                Some((text, rest)) if is_comment(rest) => Ok(Value::Text(text)),
                Some(_) => Err("there is text after the closing quote"),
                None => Err("the quote does not end"),
            }
        }
        Some(_) => Ok(Value::Text(plain(first, more))),
    }
}

/// Reads `- item` lines as a list.
fn list_or_other(more: &[&str]) -> Value {
    let items: Vec<&str> = more.iter().map(|line| line.trim()).filter(|line| !line.is_empty()).collect();
    let item = |line: &&str| {
        let text = line.strip_prefix("- ")?.trim();
        Some(match text.chars().next() {
            Some(quote @ ('"' | '\'')) => quoted(text, quote)?.0,
            _ => without_comment(text).to_owned(),
        })
    };
    match items.iter().map(item).collect::<Option<Vec<String>>>() {
        Some(items) if !items.is_empty() => Value::List(items),
        _ => Value::Other,
    }
}

fn is_block(first: &str) -> bool {
    let style = without_comment(first);
    style.len() <= 3 && style[1..].chars().all(|c| matches!(c, '+' | '-' | '1'..='9'))
}

/// Reads a block text: `|` keeps the lines, `>` joins them into paragraphs.
fn block(first: &str, more: &[&str]) -> String {
    let indent = more.iter().filter(|line| !line.is_empty()).map(|line| indentation(line)).min().unwrap_or(0);
    let lines = more.iter().map(|line| line.get(indent..).unwrap_or_default());
    if first.starts_with('|') {
        return lines.collect::<Vec<_>>().join("\n").trim_matches('\n').to_owned();
    }
    fold(lines)
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start_matches([' ', '\t']).len()
}

/// Joins lines with spaces; blank lines separate paragraphs.
fn fold<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    let mut text = String::new();
    for line in lines.map(str::trim) {
        if line.is_empty() {
            if !text.is_empty() {
                text.push('\n');
            }
            continue;
        }
        if !text.is_empty() && !text.ends_with('\n') {
            text.push(' ');
        }
        text.push_str(line);
    }
    text.trim_end().to_owned()
}

fn plain(first: &str, more: &[&str]) -> String {
    let first = without_comment(first);
    fold(std::iter::once(first).chain(more.iter().map(|line| without_comment(line))))
}

fn joined(first: &str, more: &[&str]) -> String {
    std::iter::once(first).chain(more.iter().map(|line| line.trim())).collect::<Vec<_>>().join(" ")
}

/// Reads a quoted text. Returns it with the rest behind the closing quote; none if it does not end.
fn quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let mut out = String::new();
    let mut chars = text[1..].char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' if quote == '"' => match chars.next()?.1 {
                'n' => out.push('\n'),
                't' => out.push('\t'),
                other => out.push(other),
            },
            _ if c != quote => out.push(c),
            // Two single quotes are one.
            '\'' if chars.peek().is_some_and(|(_, next)| *next == '\'') => {
                chars.next();
                out.push('\'');
            }
            _ => return Some((out, &text[1 + at + 1..])),
        }
    }
    None
}

fn flow_list(text: &str) -> Result<Value, &'static str> {
    const UNENDED: &str = "the list does not end: close it with `]`";
    let mut items = Vec::new();
    let mut rest = text[1..].trim_start();
    loop {
        if let Some(after) = rest.strip_prefix(']') {
            return if is_comment(after) {
                Ok(Value::List(items))
            } else {
                Err("there is text after the list")
            };
        }
        rest = match rest.chars().next().ok_or(UNENDED)? {
            quote @ ('"' | '\'') => {
                let (item, after) = quoted(rest, quote).ok_or("the quote does not end")?;
                items.push(item);
                after.trim_start()
            }
            '[' | '{' => return Err("lists contain texts only"),
            _ => {
                let end = rest.find([',', ']']).ok_or(UNENDED)?;
                items.push(rest[..end].trim().to_owned());
                &rest[end..]
            }
        };
        rest = match rest.strip_prefix(',') {
            Some(after) => after.trim_start(),
            None if rest.starts_with(']') => rest,
            None => return Err("expected a comma between the items"),
        };
    }
}

fn without_comment(text: &str) -> &str {
    let cut = text.find(" #").or(if text.starts_with('#') { Some(0) } else { None });
    cut.map_or(text, |cut| &text[..cut]).trim_end()
}

fn is_comment(rest: &str) -> bool {
    rest.trim().is_empty() || rest.trim().starts_with('#')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fields(text: &str) -> FrontMatter {
        split(&format!("---\n{text}\n---\nbody")).unwrap().0.unwrap()
    }

    #[test]
    fn texts_lists_and_flags_are_read() {
        let matter = fields(
            "name: pdf\ndescription: Use when: a file ends in .pdf # comment\nallowed-tools:\n  - bash\n  - 'view'\n\
             tools: [a, \"b, c\", 'd''e']\nmetadata:\n  version: 1.0\n  deep:\n    er: x\nuser-invocable: false\n# note\nempty:",
        );
        assert_eq!(matter.text("name").as_deref(), Some("pdf"));
        assert_eq!(matter.text("description").as_deref(), Some("Use when: a file ends in .pdf"));
        assert_eq!(matter.list("allowed-tools").unwrap(), ["bash", "view"]);
        assert_eq!(matter.list("tools").unwrap(), ["a", "b, c", "d'e"]);
        assert_eq!(matter.flag("user-invocable"), Some(false));
        assert_eq!((matter.text("metadata"), matter.text("empty")), (None, None));
        assert!(matter.has("metadata") && !matter.has("deep"), "nested keys are skipped");
        assert_eq!(fields("allowed-tools: bash, view,").list("allowed-tools").unwrap(), ["bash", "view"]);
    }

    #[test]
    fn long_texts_take_several_lines() {
        let matter = fields(
            "a: one\n  two\nb: >-\n  one\n  two\n\n  three\nc: |\n  one\n    two\nd: \"one\n  two\"\ne: [x,\n  y]",
        );
        let text = |key| matter.text(key).unwrap();
        assert_eq!((text("a"), text("b")), ("one two".into(), "one two\nthree".into()));
        assert_eq!((text("c"), text("d")), ("one\n  two".into(), "one two".into()));
        assert_eq!(matter.list("e").unwrap(), ["x", "y"]);
    }

    #[test]
    fn body_follows_without_leading_blank_lines() {
        let (matter, body) = split("\u{feff}---\r\nname: a\r\n---\r\n\r\n# Title\n\ntext\n").unwrap();
        assert_eq!((matter.unwrap().text("name").unwrap().as_str(), body), ("a", "# Title\n\ntext\n"));
        assert_eq!(split("# Title\n").unwrap(), (None, "# Title\n"));
        assert_eq!(split("").unwrap(), (None, ""));
    }

    #[test]
    fn malformed_front_matter_names_its_line() {
        let error = |text: &str| split(text).unwrap_err().to_string();
        assert!(error("---\nname: a\n").contains("three dashes"));
        assert!(error("---\nname: a\nnonsense\n---\n").starts_with("line 3"));
        assert!(error("---\nname: a\nname: b\n---\n").contains("twice"));
        assert!(error("---\nname: *alias\n---\n").contains("aliases"));
        assert!(error("---\nname: \"open\n---\n").contains("quote"));
        assert!(error("---\nname: [a\n---\n").contains("]"));
        assert!(error(&format!("---\n{}---\n", "#\n".repeat(MAX_BYTES))).contains("longer"));
    }

    #[test]
    fn control_characters_are_removed() {
        assert_eq!(fields("a: \u{1b}[31mred\u{7}").text("a").unwrap(), "[31mred");
    }

    proptest! {
        /// Any text gives fields or an error that explains itself, and the body is always a part of the text.
        #[test]
        fn any_text_is_handled(text in "(---\n)?(\\PC|[\n\r\t:#'\"\\[\\]>|-]){0,200}(\n---\n)?\\PC{0,40}") {
            match split(&text) {
                Ok((_, body)) => prop_assert!(text.ends_with(body)),
                Err(error) => prop_assert!(!error.to_string().is_empty()),
            }
        }

        /// What is written in double quotes is read back.
        #[test]
        fn quoted_texts_round_trip(text in "[ -~]{0,60}") {
            let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
            let read = fields(&format!("a: \"{escaped}\"")).text("a").unwrap_or_default();
            prop_assert_eq!(read, text.trim());
        }
    }
}
