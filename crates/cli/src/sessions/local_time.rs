//! Times in the user's time zone.
#![expect(clippy::disallowed_methods, reason = "runs on the main thread, in a command without other work")]

use std::path::{Path, PathBuf};

use baton_protocol::Timestamp;
use jiff::tz::TimeZone;

const ZONES: &str = "/usr/share/zoneinfo";

/// The time zone of the system, or of the variable `TZ`.
pub(crate) struct LocalTime(TimeZone);

impl LocalTime {
    pub(crate) fn of_system() -> Self {
        Self(zone(std::env::var("TZ").ok().as_deref()).unwrap_or(TimeZone::UTC))
    }

    /// Formats a time to the minute, without the year if it is that of `now`.
    pub(crate) fn format_near(&self, time: Timestamp, now: Timestamp) -> String {
        let (text, now) = (self.format(time), self.format(now));
        match text.get(..5) {
            Some(year) if now.starts_with(year) => text.get(5..).unwrap_or_default().to_owned(),
            _ => text,
        }
    }

    /// Formats a time to the minute.
    pub(crate) fn format(&self, time: Timestamp) -> String {
        let time = jiff::Timestamp::from_millisecond(time.as_millis()).unwrap_or_default();
        time.to_zoned(self.0.clone()).strftime("%Y-%m-%d %H:%M").to_string()
    }
}

/// Reads a time zone: the name or path of a file, a rule such as `CET-1CEST,M3.5.0,M10.5.0/3`, or else the system's.
fn zone(variable: Option<&str>) -> Option<TimeZone> {
    let name = match variable.map(|name| name.strip_prefix(':').unwrap_or(name)) {
        None => return file("Local", Path::new("/etc/localtime")),
        Some("" | "UTC") => return Some(TimeZone::UTC),
        Some(name) => name,
    };
    let path = if name.starts_with('/') { PathBuf::from(name) } else { Path::new(ZONES).join(name) };
    let is_plain = !name.contains("..");
    is_plain.then(|| file(name, &path)).flatten().or_else(|| TimeZone::posix(name).ok())
}

fn file(name: &str, path: &Path) -> Option<TimeZone> {
    TimeZone::tzif(name, &std::fs::read(path).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_in_the_zone_of_the_variable() {
        let time = Timestamp(1_794_774_653_223);
        let shown = |variable| LocalTime(zone(Some(variable)).unwrap()).format(time);
        assert_eq!(shown("UTC"), "2026-11-15 20:30");
        assert_eq!(shown("EST5EDT,M3.2.0,M11.1.0"), "2026-11-15 15:30");
        assert!(zone(Some("no such zone")).is_none());
        let utc = LocalTime(TimeZone::UTC);
        let next_year = Timestamp(time.0 + 90 * 24 * 3_600_000);
        assert_eq!(utc.format_near(time, time), "11-15 20:30");
        assert_eq!(utc.format_near(time, next_year), "2026-11-15 20:30");
    }
}
