//! Converts arbitrary bytes to text.

/// Decodes bytes. Invalid UTF-8, and NUL, which databases refuse in text, become U+FFFD.
pub(crate) fn readable(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace('\0', "\u{fffd}")
}

/// Returns at most the first `limit` bytes, cut between characters.
pub(crate) fn clip(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}

/// Removes an incomplete character at the end, where a stream was cut.
pub(crate) fn without_partial_end(bytes: &[u8]) -> &[u8] {
    // A character has at most four bytes, so only one of the last three can start an incomplete one.
    let starts = (bytes.len().saturating_sub(3)..bytes.len()).rev();
    for start in starts {
        let needs = match bytes[start] {
            0xC0..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF7 => 4,
            0x80..=0xBF => continue,
            _ => return bytes,
        };
        return if start + needs > bytes.len() { &bytes[..start] } else { bytes };
    }
    bytes
}

/// Removes the rest of a character at the start, where a stream was cut.
pub(crate) fn without_partial_start(bytes: &[u8]) -> &[u8] {
    let rest = bytes.iter().take(3).take_while(|byte| (0x80..=0xBF).contains(*byte)).count();
    &bytes[rest..]
}

/// Whether `word` is in the space-separated `list`.
pub(crate) fn listed(list: &str, word: &str) -> bool {
    list.split_ascii_whitespace().any(|known| known == word)
}

/// Formats a number of bytes for people.
pub(crate) fn size(bytes: u64) -> String {
    // Precision is lost from 2^53 on, which no file reaches.
    let bytes = bytes as f64;
    match bytes {
        _ if bytes < 1024.0 => format!("{bytes} bytes"),
        _ if bytes < 1024.0 * 1024.0 => format!("{:.1} KB", bytes / 1024.0),
        _ if bytes < 1024.0 * 1024.0 * 1024.0 => format!("{:.1} MB", bytes / 1024.0 / 1024.0),
        _ => format!("{:.1} GB", bytes / 1024.0 / 1024.0 / 1024.0),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// However a text is cut, both halves are valid, and at most one character is lost.
        #[test]
        fn cut_loses_at_most_one_character(text in "\\PC{1,12}", at in 0usize..48) {
            let bytes = text.as_bytes();
            let (left, right) = bytes.split_at(at.min(bytes.len()));
            let (left, right) = (without_partial_end(left), without_partial_start(right));
            prop_assert!(std::str::from_utf8(left).is_ok() && std::str::from_utf8(right).is_ok());
            prop_assert!(bytes.len() - left.len() - right.len() <= 4);
        }

        #[test]
        fn any_bytes_become_text(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            prop_assert!(!readable(without_partial_end(without_partial_start(&bytes))).contains('\0'));
        }
    }

    #[test]
    fn sizes_have_units() {
        let sizes = [0, 1023, 100_000, 5 << 20, 3 << 30].map(size);
        assert_eq!(sizes, ["0 bytes", "1023 bytes", "97.7 KB", "5.0 MB", "3.0 GB"]);
    }
}
