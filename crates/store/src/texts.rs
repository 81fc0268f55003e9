//! The index of texts: which records contain which words.
//!
//! A store does not know what its records mean, so the texts come from outside: an indexer reads the records that follow a
//! session's index cursor, and hands over the text of each. Texts and cursor are written together, so that a text is
//! indexed exactly once, whatever dies in between. Appends do not wait for the index, and a store that was written by an
//! older version starts with all cursors at zero.
//!
//! The index holds words, not texts: excerpts are made from the records.

use std::collections::BTreeSet;

use baton_protocol::SessionId;

use crate::{Seq, StoreFuture};

/// Maximum number of characters of a word; the rest is cut off, in texts and in queries.
const MAX_WORD: usize = 64;

/// Maximum size of the indexed part of one text, in bytes. What follows is not found.
const MAX_TEXT: usize = 128 * 1024;

/// Maximum number of words of a query.
const MAX_QUERY: usize = 32;

/// A session with records after its index cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unindexed {
    /// The session.
    pub session: SessionId,
    /// Its index cursor: the last record that is indexed.
    pub indexed: Seq,
    /// Its last record.
    pub head: Seq,
}

/// The texts of a range of records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Texts {
    /// The session.
    pub session: SessionId,
    /// The index cursor as known to the indexer. If it differs from the stored one, nothing is written.
    pub after: Seq,
    /// The new index cursor.
    pub through: Seq,
    /// Words of the records in between that have a text.
    pub words: Vec<(Seq, Words)>,
}

/// A session with records that contain all words of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The session.
    pub session: SessionId,
    /// Number of records.
    pub matches: u64,
    /// The first of them.
    pub first: Seq,
}

/// The different words of a text, in lower case. Words consist of letters and digits; characters of scripts without
/// spaces are words of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words(BTreeSet<String>);

impl Words {
    /// Splits a text.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let end = text.floor_char_boundary(MAX_TEXT.min(text.len()));
        Self(split(&text[..end]).map(|(_, word)| word).collect())
    }

    /// Splits a query. Only its first words count: databases limit the size of an expression.
    #[must_use]
    pub fn of_query(text: &str) -> Self {
        Self(split(text).map(|(_, word)| word).take(MAX_QUERY).collect())
    }

    /// Whether there are none. A query without words finds nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the words, sorted.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Whether each word of a query is the beginning of a word of this text. All stores share this rule.
    #[must_use]
    pub fn contain(&self, query: &Self) -> bool {
        query.iter().all(|prefix| {
            self.0.range(prefix.to_owned()..).next().is_some_and(|word| word.starts_with(prefix))
        })
    }

    /// Returns the size in bytes.
    pub(crate) fn size(&self) -> usize {
        self.iter().map(|word| word.len() + 1).sum()
    }
}

/// Splits a text into words in lower case, each with its position in bytes.
pub fn split(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut characters = text.char_indices().peekable();
    std::iter::from_fn(move || {
        let (start, first) = characters.find(|(_, c)| c.is_alphanumeric())?;
        let mut word: String = first.to_lowercase().collect();
        if is_word_of_its_own(first) {
            return Some((start, word));
        }
        let mut length = 1;
        while let Some((_, next)) =
            characters.next_if(|(_, c)| c.is_alphanumeric() && !is_word_of_its_own(*c))
        {
            length += 1;
            if length <= MAX_WORD {
                word.extend(next.to_lowercase());
            }
        }
        // Lower case of some letters has marks, which are neither letters nor digits.
        word.retain(char::is_alphanumeric);
        Some((start, word))
    })
}

/// Whether a character belongs to a script that is written without spaces: Han, kana, Thai, Lao, Khmer, Burmese.
fn is_word_of_its_own(c: char) -> bool {
    matches!(c, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

/// An index of texts beside the records of a store.
pub trait TextIndex: Send + Sync {
    /// Returns up to `limit` sessions with records after their index cursor, most recently written first.
    fn unindexed(&self, limit: usize) -> StoreFuture<'_, Vec<Unindexed>>;

    /// Adds texts and moves the cursor. Returns `false`, and changes nothing, if another indexer was faster or the session
    /// is gone.
    fn index(&self, texts: Texts) -> StoreFuture<'_, bool>;

    /// Finds up to `limit` sessions with a record that contains each word, at least as the beginning of one; most recently
    /// written first.
    fn find(&self, query: Words, limit: usize) -> StoreFuture<'_, Vec<Hit>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        split(text).map(|(_, word)| word).collect()
    }

    #[test]
    fn text_is_split_into_words_in_lower_case() {
        assert_eq!(
            words("The retry-logic of src/Upload.rs, v2!"),
            ["the", "retry", "logic", "of", "src", "upload", "rs", "v2"]
        );
        assert_eq!(words("Ärger, ÉTÉ и Жук"), ["ärger", "été", "и", "жук"]);
        assert_eq!(words("漢字かな abc"), ["漢", "字", "か", "な", "abc"]);
        assert_eq!(words("İstanbul"), ["istanbul"]);
        assert_eq!(words(" \u{202e}-- "), [""; 0]);
        assert_eq!(words(&"x".repeat(1000)), ["x".repeat(64)]);
        assert_eq!(split("a  bc").collect::<Vec<_>>(), [(0, "a".to_owned()), (3, "bc".to_owned())]);
    }

    #[test]
    fn query_matches_beginnings_of_words_in_any_order() {
        let text = Words::of("The needle in the haystack");
        assert!(text.contain(&Words::of("NEED")) && text.contain(&Words::of("hay in")));
        assert!(!text.contain(&Words::of("eedle")) && !text.contain(&Words::of("needle pin")));
    }

    #[test]
    fn long_query_is_cut() {
        let many: String = (0..5000).map(|number| format!("w{number} ")).collect();
        assert_eq!(Words::of_query(&many).iter().count(), MAX_QUERY);
    }

    #[test]
    fn long_text_is_indexed_up_to_the_limit() {
        let text = format!("{} end", "é".repeat(MAX_TEXT));
        assert!(!Words::of(&text).contain(&Words::of("end")));
    }
}
