//! Texts of servers: bounded, and without characters that a terminal or a reader would take for something else.

use baton_markup::visible::is_hidden;

/// Removes control, bidirectional and invisible formatting characters except line feeds and tabs, and cuts a text at
/// `limit` bytes.
pub(crate) fn clean(text: &str, limit: usize) -> String {
    let mut out = String::with_capacity(text.len().min(limit));
    for c in text.chars().filter(|c| !is_deceptive(*c)) {
        if out.len() + c.len_utf8() > limit {
            out.push('…');
            break;
        }
        out.push(c);
    }
    out
}

/// Whether a character has an effect that a reader does not see: control, bidirectional and invisible characters.
pub(crate) fn is_deceptive(c: char) -> bool {
    !matches!(c, '\n' | '\t') && is_hidden(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_and_invisible_characters_are_removed() {
        assert_eq!(clean("a\u{1b}[31mb\r\n\tc\u{202e}d\u{e0041}", 100), "a[31mb\n\tcd");
        // A mark of Arabic, a soft hyphen, a filler, variation selectors that smuggle text.
        assert_eq!(clean("a\u{61c}b\u{ad}c\u{3164}d\u{fe0f}e\u{e0100}f\u{e01ef}", 100), "abcdef");
    }

    #[test]
    fn long_text_is_cut_at_a_character() {
        assert_eq!(clean("ääää", 5), "ää…");
        assert_eq!(clean("abc", 3), "abc");
    }
}
