//! Failed model calls that a program repeats, in the form in which the session shows those of its own model.

use std::time::Duration;

use baton_protocol::event::ModelCallFailure;

use crate::Report;
use crate::adapter::Steps;

/// How much of a reason is shown, in characters.
const MAX_REASON: usize = 500;

/// A failed model call that the program repeats.
#[derive(Debug, Default)]
pub(crate) struct Retry<'a> {
    /// The program, as users know it.
    pub(crate) program: &'static str,
    pub(crate) reason: &'a str,
    /// The HTTP status, if the provider has answered.
    pub(crate) status: Option<u64>,
    /// The number of the next attempt and their limit, if they are known.
    pub(crate) attempt: Option<(u64, u64)>,
    /// The pause before it. Zero if the program does not tell.
    pub(crate) pause: Duration,
}

impl Retry<'_> {
    pub(crate) fn report(self) -> Report {
        let Self { program, reason, status, attempt, pause } = self;
        let reason: String = reason.trim_end_matches('.').chars().take(MAX_REASON).collect();
        let attempt = match attempt {
            Some((number, of)) => format!(" ({number} of {of})."),
            None if reason.ends_with(['!', '?']) => String::new(),
            None => ".".to_owned(),
        };
        Report::Retries(Box::new(ModelCallFailure {
            source: "top_level".to_owned(),
            status_code: status.and_then(|status| u16::try_from(status).ok()),
            error_message: Some(format!("{program}: {reason}{attempt}")),
            retry_in_ms: Some(u64::try_from(pause.as_millis()).unwrap_or(u64::MAX)),
            ..ModelCallFailure::default()
        }))
    }
}

/// A program's log of failed model calls, on its stderr.
#[derive(Debug, Clone)]
pub(crate) struct FailureLog {
    /// The program, as users know it.
    pub(crate) program: &'static str,
    /// Environment variables that turn it on.
    pub(crate) environment: &'static [(&'static str, &'static str)],
    /// Reads a failed call from a line.
    pub(crate) read: fn(&str) -> Option<FailedCall<'_>>,
}

/// A failed model call, as a program logs it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FailedCall<'a> {
    /// The program's id of the conversation.
    pub(crate) conversation: &'a str,
    pub(crate) reason: &'a str,
}

/// Failed model calls without an answer between them. A log does not tell whether a call is repeated: the next failure does.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    last: Option<String>,
}

impl Failures {
    /// Adds a failure, and reports that the one before it was repeated.
    pub(crate) fn add(&mut self, program: &'static str, reason: &str, steps: &mut Steps) {
        if let Some(before) = self.last.replace(reason.chars().take(MAX_REASON).collect()) {
            steps.report(Retry { program, reason: &before, ..Retry::default() }.report());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_have_the_form_of_failed_model_calls() {
        let retry = Retry {
            program: "codex",
            reason: "no route to host.",
            status: Some(503),
            attempt: Some((2, 5)),
            pause: Duration::from_millis(1500),
        };
        let Report::Retries(failure) = retry.report() else { panic!("not a retry") };
        assert_eq!(failure.error_message.as_deref(), Some("codex: no route to host (2 of 5)."));
        assert_eq!((failure.status_code, failure.retry_in_ms), (Some(503), Some(1500)));
    }

    #[test]
    fn reasons_stay_sentences() {
        let shown = |reason: &str| {
            let retry = Retry { program: "opencode", reason, ..Retry::default() };
            let Report::Retries(failure) = retry.report() else { panic!("not a retry") };
            failure.error_message.unwrap_or_default()
        };
        assert_eq!(shown("Busy..."), "opencode: Busy.");
        assert_eq!(shown("Is it on?"), "opencode: Is it on?");
    }

    #[test]
    fn reasons_and_statuses_of_programs_are_limited() {
        let reason = "é".repeat(10_000);
        let retry = Retry { program: "pi", reason: &reason, status: Some(100_000), ..Retry::default() };
        let Report::Retries(failure) = retry.report() else { panic!("not a retry") };
        assert_eq!(failure.error_message.map(|text| text.chars().count()), Some(MAX_REASON + 5));
        assert_eq!((failure.status_code, failure.retry_in_ms), (None, Some(0)));
    }
}
