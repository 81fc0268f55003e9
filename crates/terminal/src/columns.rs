//! Columns: how wide text is on a terminal, and how it is cut to a width.

/// Returns the number of columns of a text without control characters.
pub(crate) fn width(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

/// Returns the number of columns of a text with styles.
pub(crate) fn styled_width(text: &str) -> usize {
    let mut pieces = text.split('\x1b');
    let before = width(pieces.next().unwrap_or_default());
    before + pieces.map(|piece| piece.split_once('m').map_or(0, |(_, after)| width(after))).sum::<usize>()
}

/// Cuts a text to a width. A cut text ends in `…`.
pub fn cut(text: &str, limit: usize) -> String {
    if width(text) <= limit {
        return text.to_owned();
    }
    let (mut kept, mut used) = (String::new(), 0);
    for c in text.chars() {
        used += char_width(c);
        if used >= limit {
            break;
        }
        kept.push(c);
    }
    kept.push('…');
    kept
}

/// Cuts the beginning of a text, so that the rest fits a width. A cut text begins with `…`.
pub fn cut_start(text: &str, limit: usize) -> String {
    if width(text) <= limit {
        return text.to_owned();
    }
    let (mut kept, mut used) = (Vec::new(), 0);
    for c in text.chars().rev() {
        used += char_width(c);
        if used >= limit {
            break;
        }
        kept.push(c);
    }
    kept.push('…');
    kept.iter().rev().collect()
}

/// Breaks a line between words where it exceeds a width; further rows are indented. A word that fits no row stays where it
/// is, so that a long link can be copied whole.
pub(crate) fn wrapped(line: &str, limit: usize, indent: usize) -> String {
    let (mut rows, mut used) = (String::new(), 0);
    for piece in line.split_inclusive(' ') {
        let word = width(piece.trim_end_matches(' '));
        if used > indent && used + word > limit && indent + word <= limit {
            rows.truncate(rows.trim_end_matches(' ').len());
            rows.push('\n');
            rows.push_str(&" ".repeat(indent));
            used = indent;
        }
        rows.push_str(piece);
        used += width(piece);
    }
    rows
}

/// Breaks a text into pieces of at most a width, at least one.
pub(crate) fn chunks(text: &str, limit: usize) -> Vec<String> {
    let (mut chunks, mut used) = (vec![String::new()], 0);
    for c in text.chars() {
        if used + char_width(c) > limit && used > 0 {
            chunks.push(String::new());
            used = 0;
        }
        used += char_width(c);
        if let Some(chunk) = chunks.last_mut() {
            chunk.push(c);
        }
    }
    chunks
}

/// Fills a text with spaces up to a width.
pub(crate) fn padded(text: &str, to: usize) -> String {
    format!("{text}{}", " ".repeat(to.saturating_sub(width(text))))
}

/// The width of a character by its block: terminals agree about these, and the rest is rare in titles and tables.
pub(crate) fn char_width(c: char) -> usize {
    match c {
        '\u{300}'..='\u{36f}' | '\u{200b}'..='\u{200d}' | '\u{fe00}'..='\u{fe0f}' => 0,
        '\u{1100}'..='\u{115f}'
        | '\u{2e80}'..='\u{a4cf}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe6f}'
        | '\u{ff00}'..='\u{ff60}'
        | '\u{ffe0}'..='\u{ffe6}'
        | '\u{1f300}'..='\u{1faff}'
        | '\u{20000}'..='\u{3fffd}' => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_and_padded_by_columns() {
        assert_eq!(cut("short", 5), "short");
        assert_eq!(cut("longer", 5), "long…");
        assert_eq!(cut("你好世界", 5), "你好…");
        assert_eq!(cut_start("/a/long/path", 6), "…/path");
        assert_eq!(chunks("你好ab", 3), ["你", "好a", "b"]);
        assert_eq!(chunks("", 3), [""]);
        assert_eq!(padded("你好", 6), "你好  ");
        assert_eq!(width("é👍e\u{301}"), 4);
        assert_eq!(styled_width("a\u{1b}[1;4mbc\u{1b}[0md"), 4);
    }

    #[test]
    fn lines_are_wrapped_between_words() {
        assert_eq!(wrapped("fits in", 7, 2), "fits in");
        assert_eq!(wrapped("! one two three", 9, 2), "! one two\n  three");
        assert_eq!(wrapped("link   http", 20, 2), "link   http");
        assert_eq!(wrapped("at http://a.test/long ok", 12, 2), "at http://a.test/long\n  ok");
        assert_eq!(wrapped("你好 世界", 6, 0), "你好\n世界");
        assert_eq!(wrapped("a b c", 1, 4), "a b c");
    }
}
