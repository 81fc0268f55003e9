//! Settings of a repository's configuration file, without running `git`.
//!
//! Not a parser of all that git accepts: includes, conditions and continued lines are not followed. [`value`] ignores lines
//! that it does not understand; [`settings`] refuses the file.

use std::fmt;

/// Returns the last value of a setting: `value(text, "remote \"origin\"", "url")`.
pub(super) fn value(text: &str, section: &str, key: &str) -> Option<String> {
    let mut is_inside = false;
    let mut found = None;
    for line in text.lines().map(str::trim) {
        if let Some(header) = line.strip_prefix('[') {
            is_inside =
                header.split_once(']').is_some_and(|(name, _)| name.trim().eq_ignore_ascii_case(section));
        } else if is_inside
            && let Some((name, value)) = line.split_once('=')
            && name.trim().eq_ignore_ascii_case(key)
        {
            found = Some(plain(value.trim()));
        }
    }
    found
}

/// One setting, as git would read it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Setting {
    /// In lower case.
    pub(super) section: String,
    pub(super) subsection: Option<String>,
    /// In lower case.
    pub(super) key: String,
    /// None for a key without a value, which means true.
    pub(super) value: Option<String>,
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.subsection {
            Some(subsection) => write!(f, "{}.{subsection}.{}", self.section, self.key),
            None => write!(f, "{}.{}", self.section, self.key),
        }
    }
}

/// Parses all settings of a configuration file. None if git might read any part of it differently: continued lines,
/// control characters, sections of the old form `[a.b]`.
pub(super) fn settings(text: &str) -> Option<Vec<Setting>> {
    let mut settings = Vec::new();
    let mut section: Option<(String, Option<String>)> = None;
    for line in text.split('\n') {
        let line = line.strip_suffix('\r').unwrap_or(line);
        if line.ends_with('\\') || line.chars().any(|c| c.is_control() && c != '\t') {
            return None;
        }
        let mut rest = line.trim_matches(BLANKS);
        if let Some(header) = rest.strip_prefix('[') {
            let (name, after) = section_name(header)?;
            section = Some(name);
            rest = after.trim_start_matches(BLANKS);
        }
        if rest.is_empty() || rest.starts_with(['#', ';']) {
            continue;
        }
        let (name, subsection) = section.clone()?;
        let (key, value) = match rest.split_once('=') {
            Some((key, value)) => (key.trim_end_matches(BLANKS), Some(unquoted(value)?)),
            None => (rest, None),
        };
        if !is_key(key) {
            return None;
        }
        settings.push(Setting { section: name, subsection, key: key.to_ascii_lowercase(), value });
    }
    Some(settings)
}

const BLANKS: [char; 2] = [' ', '\t'];

/// Parses section and subsection of a header, without its first bracket. Returns them and the rest of the line.
fn section_name(header: &str) -> Option<((String, Option<String>), &str)> {
    let end = header.find(|c: char| !c.is_ascii_alphanumeric() && c != '-')?;
    let (name, rest) = header.split_at(end);
    let name = name.to_ascii_lowercase();
    if name.is_empty() {
        return None;
    }
    if let Some(after) = rest.strip_prefix(']') {
        return Some(((name, None), after));
    }
    let quoted = rest.trim_start_matches(BLANKS).strip_prefix('"')?;
    let (mut subsection, mut characters) = (String::new(), quoted.char_indices());
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => {
                let after = quoted[at + 1..].strip_prefix(']')?;
                return Some(((name, Some(subsection)), after));
            }
            '\\' => subsection.push(characters.next()?.1),
            other => subsection.push(other),
        }
    }
    None
}

fn is_key(key: &str) -> bool {
    key.starts_with(|c: char| c.is_ascii_alphabetic())
        && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Returns the text of a value, exactly as git reads it; none if a quote is open at the end of the line, or if versions of
/// git read it differently.
fn unquoted(value: &str) -> Option<String> {
    let (mut text, mut is_quoted, mut blanks) = (String::new(), false, 0);
    let mut characters = value.trim_start_matches(BLANKS).chars();
    while let Some(character) = characters.next() {
        match character {
            '#' | ';' if !is_quoted => break,
            // Git drops trailing blanks outside quotes.
            ' ' if !is_quoted => {
                blanks += 1;
                continue;
            }
            // Some versions of git replace a tab by a blank, others keep it.
            '\t' if !is_quoted => {
                let rest = characters.as_str().trim_start_matches(BLANKS);
                return (rest.is_empty() || rest.starts_with(['#', ';'])).then_some(text);
            }
            _ => text.extend(std::iter::repeat_n(' ', std::mem::take(&mut blanks))),
        }
        match character {
            '"' => is_quoted = !is_quoted,
            '\\' => text.push(characters.next().filter(|c| matches!(c, '"' | '\\'))?),
            other => text.push(other),
        }
    }
    (!is_quoted).then_some(text)
}

/// Removes quotes, escapes and comment from a value.
fn plain(value: &str) -> String {
    let (mut plain, mut is_quoted) = (String::new(), false);
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => is_quoted = !is_quoted,
            '\\' => plain.extend(characters.next()),
            '#' | ';' if !is_quoted => break,
            other => plain.push(other),
        }
    }
    plain.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ambiguous_files_are_refused_and_all_settings_of_others_are_found() {
        let text =
            "# c \\ \n[Core] bare = false ; x\n\tFileMode\n[remote \"a \\\"b\"]\r\n url = \"x;#\" # y\n";
        let found: Vec<(String, Option<String>)> =
            settings(text).unwrap().into_iter().map(|one| (one.to_string(), one.value)).collect();
        let expected =
            [("core.bare", Some("false")), ("core.filemode", None), ("remote.a \"b.url", Some("x;#"))];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.map(str::to_owned)));
        assert_eq!(found, expected);
        for text in [
            "[core]\n\tbare = a\\\nfsmonitor = x",
            "[core\n]bare = x",
            "[filter.x]\nclean = y",
            "[core]\nbare = \"x\nfsmonitor = y\"",
            "bare = x",
            "[core]\nba re = x",
            "[core]\n\u{b}fsmonitor = x",
            "[core]\nbare = x\rfsmonitor = y",
            "\u{feff}[core]\nbare = x",
            "[core \"x\" ]\nbare = x",
            "[]\nx = y",
            "[core] [filter \"x\"] clean = y",
        ] {
            assert_eq!(settings(text), None, "{text:?}");
        }
    }

    #[test]
    fn values_are_read_as_git_reads_them() {
        for (value, text) in [
            ("a", "a"),
            (" a  b  ", "a  b"),
            ("\"a \"", "a "),
            ("a \"b\" # c", "a b"),
            ("a\t", "a"),
            ("a \t; c", "a"),
            ("\\\"", "\""),
        ] {
            assert_eq!(unquoted(value).as_deref(), Some(text), "{value:?}");
        }
        for value in ["a\\tb", "a\tb", "a\\qb", "\"a"] {
            assert_eq!(unquoted(value), None, "{value:?}");
        }
    }

    #[test]
    fn settings_are_found_in_their_section() {
        let text = "[core]\n\tworktree = \"../../a b\" ; here\n[remote \"origin\"]\n\turl=one\n\turl = two # last\n[x]\nurl = y";
        assert_eq!(value(text, "core", "worktree").as_deref(), Some("../../a b"));
        assert_eq!(value(text, "remote \"origin\"", "url").as_deref(), Some("two"));
        assert_eq!(value(text, "core", "url"), None);
    }
}
