//! Gemini CLI, which speaks ACP.

use crate::acp::{Acp, AcpProgram};
use crate::login::{Credentials, NO_CREDENTIALS};
use crate::program::{Keys, ProgramInfo};

/// Facts about Gemini CLI.
pub(super) const INFO: ProgramInfo = ProgramInfo {
    name: "gemini",
    command: "gemini",
    install: "Install it with `npm install -g @google/gemini-cli`.",
    login: "Log in by running `gemini` once, or set GEMINI_API_KEY.",
    keys: Keys::Own(&["GEMINI_API_KEY", "GOOGLE_API_KEY"]),
    credentials: |_| {
        Some(Credentials {
            directory: ("", ".gemini"),
            files: &[("oauth_creds.json", &[]), ("settings.json", &["auth"]), (".env", &[])],
            variables: &[
                "GEMINI_API_KEY",
                "GOOGLE_API_KEY",
                "GOOGLE_GENAI_USE_VERTEXAI",
                "GOOGLE_GENAI_USE_GCA",
            ],
            without: NO_CREDENTIALS,
        })
    },
    project_files: &[".gemini"],
    variable_files: &[".env"],
    user_files: &[],
    state: &[".gemini"],
    oldest: [0, 30, 0],
    reserved_args: &["--acp", "--experimental-acp", "--output-format", "-o", "--resume", "-r"],
    adapter: |_, _| {
        Box::new(Acp::new(AcpProgram {
            name: "gemini --acp",
            args: &["--acp"],
            permissions: &[],
            failure_log: None,
        }))
    },
};
