//! Opencode: ACP for conversations, `opencode run` for single prompts.

mod exec;

pub(crate) use exec::OpencodeExec;

use crate::acp::Speaker;

/// By default opencode does whatever its model wants within the project. This makes it ask first; where nobody can be
/// asked, it then does not do it.
const ASKING: &[(&str, &str)] = &[(
    "OPENCODE_PERMISSION",
    r#"{"edit":"ask","bash":"ask","webfetch":"ask","task":"ask","external_directory":"ask"}"#,
)];

/// How opencode speaks ACP.
pub(crate) const SPEAKER: Speaker = Speaker { name: "opencode acp", args: &["acp"], asking: ASKING };
