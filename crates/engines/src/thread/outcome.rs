//! Decides how a run ended, from the program's own report, the exit of its process and the time limits.
//! None of these is reliable alone: some programs fail with exit code 0, some exit with an error after a good answer.

use std::time::Duration;

use crate::RunOutcome;
use crate::adapter::RunEnding;
use crate::limits::Overdue;
use crate::process::Exit;
use crate::program::ProgramInfo;

/// How a run ended whose process has exited.
pub(super) struct ExitEnding {
    pub(super) ending: RunEnding,
    /// An irregularity that does not change the ending.
    pub(super) warning: Option<String>,
}

/// Combines the ending that the program reported with the exit of its process. `at_exit` is the ending if the process
/// exited successfully without reporting one.
pub(super) fn at_exit(name: &str, reported: Option<RunEnding>, exit: Exit, at_exit: RunEnding) -> ExitEnding {
    let (ending, warning) = match (reported, exit) {
        (Some(RunEnding::Completed), Exit::Code(0)) => (RunEnding::Completed, None),
        // The answer is complete. What went wrong afterwards is a warning.
        (Some(RunEnding::Completed), exit) => {
            (RunEnding::Completed, Some(format!("{name} answered, but did not exit properly ({exit}).")))
        }
        (Some(reported), _) => (reported, None),
        (None, Exit::Code(0)) => (at_exit, None),
        (None, exit) => (RunEnding::Failed(format!("{name} failed ({exit}).")), None),
    };
    ExitEnding { ending, warning }
}

/// Returns the message for an exceeded time limit. None if the program had already reported its result.
pub(super) fn limit_exceeded(info: &ProgramInfo, overdue: Overdue) -> Option<String> {
    let program = info.name;
    let duration = |limit: Duration| match limit.as_secs() {
        0 => format!("{} ms", limit.as_millis()),
        s if s < 120 => format!("{s} s"),
        s => format!("{} min", s / 60),
    };
    Some(match overdue {
        Overdue::Exit => return None,
        Overdue::Startup(limit) => format!(
            "{program} printed nothing within {} of its start and was ended. Try `{}` by hand in the same \
             directory; if it is just slow, raise the engine's startup limit.",
            duration(limit),
            info.command
        ),
        Overdue::Silence(limit) => format!(
            "{program} printed nothing for {} and was ended. It may be waiting for a model that does not answer, or \
             for a silent command; if that is expected, raise the engine's silence limit.",
            duration(limit)
        ),
        Overdue::Total(limit) => format!(
            "{program} worked for {} and was ended. If that is too early, raise the engine's total limit.",
            duration(limit)
        ),
    })
}

/// Returns the outcome of a run, with advice for common failures.
pub(super) fn outcome(info: &ProgramInfo, ending: RunEnding, diagnostics: Option<String>) -> RunOutcome {
    match ending {
        RunEnding::Completed => RunOutcome::Completed,
        RunEnding::Interrupted => RunOutcome::Interrupted,
        RunEnding::Failed(reason) => {
            let message = match info.advice(&reason) {
                Some(advice) if reason.ends_with(['.', '!', '?']) => format!("{reason} {advice}"),
                Some(advice) => format!("{reason}. {advice}"),
                None => reason,
            };
            RunOutcome::Failed { message, diagnostics }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ending_combines_report_and_exit_status() {
        use RunEnding::{Completed, Failed, Interrupted};
        let no_result = || Failed("none".into());
        let failed = |reason: &str| Failed(reason.to_owned());
        for (reported, exit, silent, ending, has_warning) in [
            (Some(Completed), Exit::Code(0), no_result(), Completed, false),
            (Some(Completed), Exit::Code(1), no_result(), Completed, true),
            (Some(Completed), Exit::Ended, no_result(), Completed, true),
            (Some(failed("api")), Exit::Code(0), Completed, failed("api"), false),
            (Some(failed("api")), Exit::Code(1), Completed, failed("api"), false),
            (Some(Interrupted), Exit::Code(0), Completed, Interrupted, false),
            (None, Exit::Code(0), no_result(), no_result(), false),
            (None, Exit::Code(0), Completed, Completed, false),
            (None, Exit::Code(1), Completed, failed("codex exec failed (rc=1)."), false),
            (None, Exit::Signal(9), Completed, failed("codex exec failed (signal 9)."), false),
        ] {
            let case = format!("{reported:?} {exit:?} {silent:?}");
            let found = at_exit("codex exec", reported, exit, silent);
            assert_eq!((found.ending, found.warning.is_some()), (ending, has_warning), "{case}");
        }
    }
}
