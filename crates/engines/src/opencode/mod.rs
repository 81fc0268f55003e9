//! Opencode: ACP for conversations, `opencode run` for single prompts.

mod exec;

pub(crate) use exec::OpencodeExec;

use crate::acp::AcpProgram;
use crate::retry::{FailedCall, FailureLog};

/// By default opencode runs every tool that its model calls within the project. With this variable it asks first, and
/// denies the call in exec mode, in which it cannot ask.
const PERMISSIONS: &[(&str, &str)] = &[(
    "OPENCODE_PERMISSION",
    r#"{"edit":"ask","bash":"ask","webfetch":"ask","task":"ask","external_directory":"ask"}"#,
)];

/// While opencode retries, it tells so in its log only. Its log file has errors only, too, with these variables.
const FAILURE_LOG: FailureLog = FailureLog {
    program: "opencode",
    environment: &[("OPENCODE_PRINT_LOGS", "1"), ("OPENCODE_LOG_LEVEL", "ERROR")],
    read: failed_call,
};

/// Opencode as a program that speaks ACP.
pub(crate) const ACP: AcpProgram = AcpProgram {
    name: "opencode acp",
    args: &["acp"],
    permissions: PERMISSIONS,
    failure_log: Some(FAILURE_LOG),
};

/// Reads a failed model call from a line of the log: `... message="stream error" ... session.id=ses_1 small=false ...
/// error.error="AI_APICallError: reason (cause: ...)"`. Calls of the small model are about titles.
fn failed_call(line: &str) -> Option<FailedCall<'_>> {
    if !line.contains(r#" message="stream error" "#) || !line.contains(" small=false ") {
        return None;
    }
    let conversation = line.split_once(" session.id=")?.1.split(' ').next()?;
    let reason = line.split_once(r#" error.error=""#)?.1;
    let reason = reason.split(" (cause: ").next()?.trim_end_matches('"');
    let reason = match reason.split_once(": ") {
        Some((kind, reason)) if !kind.contains(' ') => reason,
        _ => reason,
    };
    Some(FailedCall { conversation, reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_calls_are_read_from_the_log() {
        let line = |small: &str, error: &str| {
            format!(
                "timestamp=2026-11-17T22:35:17.123Z level=ERROR run=2b message=\"stream error\" providerID=opencode \
                 modelID=m session.id=ses_1 small={small} agent=build mode=primary error.error=\"{error}\""
            )
        };
        let read = |line: &str| failed_call(line).map(|failed| format!("{failed:?}"));
        let expected = |reason| Some(format!("{:?}", FailedCall { conversation: "ses_1", reason }));
        let failed =
            line("false", "AI_APICallError: Cannot connect to API: No route (cause: Error: No route)");
        assert_eq!(read(&failed), expected("Cannot connect to API: No route"));
        assert_eq!(read(&line("false", "Too busy: wait")), expected("Too busy: wait"));
        assert_eq!(read(&line("true", "AI_RetryError: Failed after 3 attempts")), None);
        assert_eq!(
            read("level=ERROR message=\"Failed to fetch models.dev\" small=false error.error=\"x\""),
            None
        );
        assert_eq!(read(" message=\"stream error\"  small=false "), None);
    }
}
