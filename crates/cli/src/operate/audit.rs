//! `baton audit`: who prompted, approved and changed what.

use std::process::ExitCode;

use anyhow::Context;
use baton_protocol::Timestamp;
use baton_runtime::audit;

use super::load;
use crate::args::{AuditArgs, Cli};
use crate::{setup, terminal};

pub(crate) fn audit(cli: &Cli, args: &AuditArgs) -> anyhow::Result<ExitCode> {
    let config = load(cli)?;
    let since = args.since.as_deref().map(|text| parse(text, Timestamp::now())).transpose()?;
    setup::run(async {
        let store = setup::store(&config, None)?;
        let entries = audit::audit(&*store, since).await;
        store.close().await?;
        for entry in entries? {
            if args.json {
                terminal::json_line(&serde_json::to_string(&entry)?);
                continue;
            }
            let by = entry.by.as_ref().map_or("-", |by| by.0.as_str());
            let (at, action, session) = (entry.at, entry.action.name(), &entry.session);
            // Line breaks become visible escapes: an entry stays one line.
            terminal::line(&format!("{at}  {session}  {action:<11}  {by:<16}  {}", entry.detail));
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Parses a date, a time or a span before now.
fn parse(text: &str, now: Timestamp) -> anyhow::Result<Timestamp> {
    if let Some(span) = baton_ops::span::parse(text) {
        let millis = i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
        return Ok(Timestamp(now.0.saturating_sub(millis)));
    }
    let time = text.parse().or_else(|_| format!("{text}T00:00:00Z").parse());
    time.ok()
        .with_context(|| format!("unknown time {text:?}: use 2026-11-01, 2026-11-01T08:00:00Z, 7d or 12h"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_times_and_spans_are_understood() {
        let now: Timestamp = "2026-11-08T00:00:00Z".parse().unwrap();
        let expected: Timestamp = "2026-11-01T00:00:00Z".parse().unwrap();
        for text in ["2026-11-01", "2026-11-01T00:00:00Z", "7d", "1w"] {
            assert_eq!(parse(text, now).unwrap(), expected, "{text}");
        }
        assert!(parse("yesterday", now).unwrap_err().to_string().contains("yesterday"));
    }
}
