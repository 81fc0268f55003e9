//! Spans of time as people write them: `12h`, `90d`, `2w`.

use std::time::Duration;

/// Parses a number of seconds, minutes, hours, days or weeks. Returns none for anything else.
#[must_use]
pub fn parse(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 24 * 3600,
        "w" => 7 * 24 * 3600,
        _ => return None,
    };
    // No sign, no fraction.
    let is_plain = !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit());
    let count: u64 = is_plain.then(|| number.parse().ok())??;
    count.checked_mul(seconds).map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_a_number_and_a_unit() {
        assert_eq!(parse("90d"), Some(Duration::from_secs(90 * 24 * 3600)));
        assert_eq!(parse("12h"), Some(Duration::from_secs(12 * 3600)));
        for bad in [
            "",
            "d",
            "90",
            "-1d",
            "+1d",
            "1.5d",
            "1 d",
            "1y",
            "ä",
            "99999999999999999999d",
            "99999999999999999w",
        ] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
    }
}
