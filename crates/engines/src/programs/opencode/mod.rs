//! Opencode: ACP for conversations, `opencode run` for single prompts.

mod exec;

use self::exec::OpencodeExec;
use crate::Mode;
use crate::acp::{Acp, AcpProgram};
use crate::login::Credentials;
use crate::program::{Keys, ProgramInfo};
use crate::retry::{FailedCall, FailureLog};

/// Facts about opencode.
pub(super) const INFO: ProgramInfo = ProgramInfo {
    name: "opencode",
    command: "opencode",
    install: "Install it with `npm install -g opencode-ai`.",
    login: "Log in with `opencode auth login`, or set the provider's API key.",
    keys: Keys::Any,
    credentials: |_| Some(CREDENTIALS),
    project_files: &[".opencode", "opencode.json", "opencode.jsonc"],
    variable_files: &[],
    user_files: &[".config/opencode"],
    state: &[".config/opencode", ".local/share/opencode", ".local/state/opencode"],
    oldest: [1, 0, 0],
    reserved_args: &["run", "acp", "serve", "--format", "--session", "-s", "--continue", "-c", "--fork"],
    adapter: |_, mode| match mode {
        Mode::Interactive => Box::new(Acp::new(ACP)),
        Mode::Exec => Box::<OpencodeExec>::default(),
    },
};

/// Paths are below the home: variables can move both directories, and name further files.
const CREDENTIALS: Credentials = Credentials {
    directory: ("", ""),
    files: &[
        (".local/share/opencode/auth.json", &["\""]),
        (".config/opencode/opencode.json", &["provider"]),
        (".config/opencode/opencode.jsonc", &["provider"]),
        (".config/opencode/config.json", &["provider"]),
    ],
    variables: &[
        "*_KEY",
        "*_TOKEN",
        "*_CREDENTIALS",
        "AWS_PROFILE",
        "XDG_DATA_HOME",
        "XDG_CONFIG_HOME",
        "OPENCODE_CONFIG",
        "OPENCODE_CONFIG_DIR",
        "OPENCODE_CONFIG_CONTENT",
    ],
    // It has models that need no login.
    without: "seems to have no provider: it uses opencode's own free models, if it can reach them",
};

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
const ACP: AcpProgram = AcpProgram {
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
