//! `baton audit`: who prompted, approved and changed what.

use std::process::ExitCode;

use anyhow::Context;
use baton_history::audit::{self, AuditAction, AuditEntry};
use baton_protocol::Timestamp;

use super::{grant_words, load};
use crate::args::{AuditArgs, Cli};
use crate::rows::List;
use crate::sessions::LocalTime;
use crate::{setup, terminal};

/// Characters of a session's id that are shown on a terminal.
const SHORT_ID: usize = 8;

pub(crate) fn audit(cli: &Cli, args: &AuditArgs) -> anyhow::Result<ExitCode> {
    let config = load(cli)?;
    let since = args.since.as_deref().map(|text| parse(text, Timestamp::now())).transpose()?;
    setup::run(async {
        let store = setup::store(&config, None)?;
        let entries = audit::audit(&*store, since).await;
        store.close().await?;
        let entries = entries?;
        if args.json {
            for entry in &entries {
                terminal::json_line(&serde_json::to_string(entry)?);
            }
        } else {
            let time = terminal::output_is_terminal().then(LocalTime::of_system);
            let rows: Vec<Vec<String>> = entries.iter().map(|entry| row(entry, time.as_ref())).collect();
            let header = ["TIME", "SESSION", "ACTION", "BY", "DETAIL"];
            List { header: &header, rows: &rows, notes: &[], heading: 3, flexible: &[] }.print_wrapped();
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Returns the cells of an entry: short for people at a terminal, which has a time zone, and exact otherwise.
fn row(entry: &AuditEntry, terminal: Option<&LocalTime>) -> Vec<String> {
    let by = entry.by.as_ref().map_or("-", |by| by.0.as_str());
    let (time, id) = match terminal {
        Some(local) => (
            local.format_near(entry.at, Timestamp::now()),
            entry.session.as_str().chars().take(SHORT_ID).collect(),
        ),
        None => (entry.at.to_string(), entry.session.to_string()),
    };
    vec![time, id, entry.action.name().to_owned(), by.to_owned(), detail(entry)]
}

/// Returns the detail of an entry, a grant in words.
fn detail(entry: &AuditEntry) -> String {
    let granted = (entry.action == AuditAction::GrantGiven).then(|| baton_json::from_str(&entry.detail).ok());
    granted.flatten().map_or_else(|| entry.detail.clone(), |approval| grant_words::grant(&approval))
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
    fn grant_is_told_in_words_and_its_author_is_not_cut() {
        let entry = AuditEntry {
            at: "2026-11-08T00:00:00Z".parse().unwrap(),
            session: "0190c2f0-0000-7000-8000-000000000001".parse().unwrap(),
            seq: 1,
            event: baton_json::from_str("\"0190c2f0-0000-7000-8000-000000000002\"").unwrap(),
            action: AuditAction::GrantGiven,
            by: Some(baton_protocol::Author("client that approves everything".into())),
            detail: r#"{"kind":"commands","commandIdentifiers":["echo"]}"#.into(),
        };
        let shown = row(&entry, Some(&LocalTime::of_system()));
        assert_eq!(shown[4], "`echo` with any plain arguments");
        assert_eq!((shown[1].as_str(), shown[3].as_str()), ("0190c2f0", "client that approves everything"));
        assert_eq!(row(&entry, None)[1], entry.session.as_str(), "nothing is cut in a file");
    }

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
