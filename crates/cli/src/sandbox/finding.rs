//! What `baton doctor` says about the sandbox.

use std::sync::Arc;

use baton_protocol::sandbox::{SandboxChoice, SandboxLevel};
use baton_sandbox::{Features, Support};

use crate::doctor::{Finding, State};

/// Finds out what the system can enforce, and whether that is what the configuration wants.
pub(crate) async fn finding(choice: &SandboxChoice) -> Finding {
    let what = "sandbox";
    let Some(host) = super::host().map(Arc::new) else {
        let detail = "cannot find the path of this program, which builds the walls".to_owned();
        return Finding { what, state: State::Bad, detail, advice: None };
    };
    let found = tokio::task::spawn_blocking(move || (host.support().clone(), Features::find())).await;
    match found {
        Ok((support, features)) => {
            let (state, possible, advice) = judge(&support, choice);
            Finding { what, state, detail: format!("{possible}; {features}"), advice }
        }
        Err(error) => Finding { what, state: State::Bad, detail: error.to_string(), advice: None },
    }
}

/// Compares what is possible with what is wanted.
fn judge(support: &Support, choice: &SandboxChoice) -> (State, String, Option<String>) {
    let level = choice.policy.level;
    let (possible, reason) = match support {
        Support::Full { .. } => {
            let source = if choice.chosen { "" } else { " by default" };
            return (State::Good, format!("level {level}{source}"), None);
        }
        Support::ReadOnly { reason } => ("only the level read-only is possible", reason),
        Support::None { reason } => ("none is possible", reason),
    };
    let is_enforced = match level {
        SandboxLevel::Off => true,
        SandboxLevel::ReadOnly => matches!(support, Support::ReadOnly { .. }),
        SandboxLevel::Workspace => false,
    };
    let (state, effect) = match (is_enforced, choice.chosen) {
        (true, _) => (State::Note, ""),
        (false, true) => (State::Bad, ", so commands are refused"),
        (false, false) => (State::Note, ", so commands run outside, and are asked about"),
    };
    (state, format!("{possible}; the configuration has {level}{effect}"), Some(reason.clone()))
}

#[cfg(test)]
mod tests {
    use baton_protocol::sandbox::SandboxPolicy;

    use super::*;

    #[test]
    fn chosen_level_that_cannot_be_enforced_is_bad() {
        let missing = Support::ReadOnly { reason: "install it".into() };
        let chosen = |level| SandboxChoice::of_user(SandboxPolicy::of(level));
        let (state, text, advice) = judge(&missing, &chosen(SandboxLevel::Workspace));
        assert_eq!((state, advice.as_deref()), (State::Bad, Some("install it")));
        assert!(text.contains("commands are refused"), "{text}");
        let (state, text, _) = judge(&missing, &SandboxChoice::default());
        assert!(state == State::Note && text.contains("commands run outside"), "{text}");
        assert_eq!(judge(&missing, &chosen(SandboxLevel::ReadOnly)).0, State::Note);
        let full = Support::Full { bwrap: "/usr/bin/bwrap".into() };
        assert_eq!(judge(&full, &chosen(SandboxLevel::Workspace)).0, State::Good);
    }
}
