//! Opencode: ACP for conversations, `opencode run` for single prompts.

mod exec;

pub(crate) use exec::OpencodeExec;

use crate::acp::AcpProgram;

/// By default opencode runs every tool that its model calls within the project. With this variable it asks first, and
/// denies the call in exec mode, in which it cannot ask.
const PERMISSIONS: &[(&str, &str)] = &[(
    "OPENCODE_PERMISSION",
    r#"{"edit":"ask","bash":"ask","webfetch":"ask","task":"ask","external_directory":"ask"}"#,
)];

/// Opencode as a program that speaks ACP.
pub(crate) const ACP: AcpProgram =
    AcpProgram { name: "opencode acp", args: &["acp"], permissions: PERMISSIONS };
