//! Words for people.

use std::fmt::Display;

/// Returns a number with its noun: `1 session`, `2 sessions`.
pub(crate) fn counted<N: Copy + Display + PartialEq + From<u8>>(number: N, noun: &str) -> String {
    let ending = if number == N::from(1) { "" } else { "s" };
    format!("{number} {noun}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nouns_agree_with_their_numbers() {
        assert_eq!([0_u64, 1, 2].map(|n| counted(n, "session")), ["0 sessions", "1 session", "2 sessions"]);
    }
}
