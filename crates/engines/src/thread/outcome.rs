//! How a run ended: decided from what the program said, how its process ended and what we know of it, all together.
//! None of these can be trusted alone: some programs fail with exit code 0, some exit with an error after a good answer.

use std::time::Duration;

use crate::Outcome;
use crate::dialect::Ending;
use crate::limits::Overdue;
use crate::process::Exit;
use crate::program::Facts;

/// What a run came to whose process has ended.
pub(super) struct Verdict {
    pub(super) ending: Ending,
    /// Something odd that does not change it.
    pub(super) warning: Option<String>,
}

/// `at_exit` is how it went if the process ended properly and said nothing.
pub(super) fn decide(name: &str, said: Option<Ending>, exit: Exit, at_exit: Ending) -> Verdict {
    let (ending, warning) = match (said, exit) {
        (Some(Ending::Completed), Exit::Code(0)) => (Ending::Completed, None),
        // The answer is there. What went wrong afterwards is worth knowing, not worth losing it.
        (Some(Ending::Completed), exit) => {
            (Ending::Completed, Some(format!("{name} answered, but did not end properly ({exit}).")))
        }
        (Some(said), _) => (said, None),
        (None, Exit::Code(0)) => (at_exit, None),
        (None, exit) => (Ending::Failed(format!("{name} failed ({exit}).")), None),
    };
    Verdict { ending, warning }
}

/// What to tell when something has taken too long. None: it had already said how it went.
pub(super) fn too_late(facts: &Facts, overdue: Overdue) -> Option<String> {
    let program = facts.name;
    let seconds = |limit: Duration| match limit.as_secs() {
        0 => format!("{} ms", limit.as_millis()),
        s if s < 120 => format!("{s} s"),
        s => format!("{} min", s / 60),
    };
    Some(match overdue {
        Overdue::Farewell => return None,
        Overdue::Startup(limit) => format!(
            "{program} did not say anything within {} of its start and was ended. Try `{}` by hand in the same \
             directory; if it is just slow, raise the engine's startup limit.",
            seconds(limit),
            facts.command
        ),
        Overdue::Silence(limit) => format!(
            "{program} has said nothing for {} and was ended. It may be waiting for a model that does not answer, or \
             for a silent command; if that is expected, raise the engine's silence limit.",
            seconds(limit)
        ),
        Overdue::Total(limit) => format!(
            "{program} worked for {} and was ended. If that is too early, raise the engine's total limit.",
            seconds(limit)
        ),
    })
}

/// The outcome, in words for people, with advice where there is some.
pub(super) fn outcome(facts: &Facts, ending: Ending, diagnostics: Option<String>) -> Outcome {
    match ending {
        Ending::Completed => Outcome::Completed,
        Ending::Interrupted => Outcome::Interrupted,
        Ending::Failed(why) => {
            let message = match facts.advice(&why) {
                Some(advice) => format!("{why} {advice}"),
                None => why,
            };
            Outcome::Failed { message, diagnostics }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_trusted_alone() {
        use Ending::{Completed, Failed, Interrupted};
        let no_result = || Failed("none".into());
        let failed = |why: &str| Failed(why.to_owned());
        for (said, exit, at_exit, ending, has_warning) in [
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
            let case = format!("{said:?} {exit:?} {at_exit:?}");
            let verdict = decide("codex exec", said, exit, at_exit);
            assert_eq!((verdict.ending, verdict.warning.is_some()), (ending, has_warning), "{case}");
        }
    }
}
