//! Single settings of a repository's configuration file, without running `git`.
//!
//! Not a parser of all that git accepts: includes, conditions and continued lines are not followed. What is not
//! understood is not there.

/// The last value of a setting: `value(text, "remote \"origin\"", "url")`.
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

/// A value without its quotes, escapes and comment.
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
    fn settings_are_found_in_their_section() {
        let text = "[core]\n\tworktree = \"../../a b\" ; here\n[remote \"origin\"]\n\turl=one\n\turl = two # last\n[x]\nurl = y";
        assert_eq!(value(text, "core", "worktree").as_deref(), Some("../../a b"));
        assert_eq!(value(text, "remote \"origin\"", "url").as_deref(), Some("two"));
        assert_eq!(value(text, "core", "url"), None);
    }
}
