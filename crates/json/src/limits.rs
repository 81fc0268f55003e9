//! Limits on a JSON text, checked in one pass that allocates nothing.
//!
//! The size of a text does not bound the memory of what is read from it: `[[],[]]` costs three bytes a value as text, and
//! three hundred as a tree. So values are counted. The number of bytes is limited where they are received, which also decides
//! how long a sender may take.

use memchr::memchr2;

/// Maximum nesting of arrays and objects. `serde_json` reads up to 127 levels; what was accepted here is stored, sent and read
/// again inside our own objects, and must fit below that.
pub const MAX_DEPTH: usize = 100;

/// Maximum number of values and keys. A tree of so many takes 30 MB at most; the longest lists of models and tools have a
/// fifth of it.
pub const MAX_VALUES: usize = 100_000;

/// Levels that an event adds around a value from outside. Together with it, `serde_json` still reads them.
const EVENT_LEVELS: usize = 20;

/// Maximum number of values and keys of an event, which may contain several values from outside.
const EVENT_VALUES: usize = 2 * MAX_VALUES;

/// A limit that a text exceeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Excess {
    /// It is nested deeper than this.
    Depth(usize),
    /// It has more values than this.
    Values(usize),
}

impl std::fmt::Display for Excess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Depth(limit) => write!(f, "JSON that is nested more than {limit} levels deep is refused"),
            Self::Values(limit) => write!(f, "JSON with more than {limit} values is refused"),
        }
    }
}

impl std::error::Error for Excess {}

/// Checks a text against the limits. Whether it is JSON at all is for the parser to say: up to the first mistake both see the
/// same values, and nothing is built after it.
///
/// # Errors
/// The limit that the text exceeds.
pub fn check(text: &[u8]) -> Result<(), Excess> {
    // Each level and each value needs a byte.
    if text.len() <= MAX_DEPTH { Ok(()) } else { scan(text, MAX_DEPTH, MAX_VALUES) }
}

/// Checks an event in a file that anybody may have written. The limits leave room for what Baton adds to values from outside, so
/// that its own exports pass.
///
/// # Errors
/// The limit that the event exceeds.
pub fn check_event(text: &[u8]) -> Result<(), Excess> {
    scan(text, MAX_DEPTH + EVENT_LEVELS, EVENT_VALUES)
}

fn scan(text: &[u8], max_depth: usize, max_values: usize) -> Result<(), Excess> {
    // Values and keys are counted by what begins, separates or names them, so that a number needs no parsing.
    let (mut at, mut depth, mut values) = (0, 0_usize, 1_usize);
    while let Some(byte) = text.get(at) {
        at += 1;
        match byte {
            b'"' => at = end_of_string(text, at),
            b'[' | b'{' => {
                depth += 1;
                values += 1;
                if depth > max_depth {
                    return Err(Excess::Depth(max_depth));
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b',' | b':' => values += 1,
            _ => continue,
        }
        if values > max_values {
            return Err(Excess::Values(max_values));
        }
    }
    Ok(())
}

/// Returns the position behind the closing quote of a string that begins at `start`, or the end of the text.
fn end_of_string(text: &[u8], start: usize) -> usize {
    let mut at = start;
    while let Some(found) = text.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        at += found + 1;
        if text[at - 1] == b'"' {
            return at;
        }
        // The escaped character does not end the string.
        at += 1;
    }
    text.len()
}
