//! Qwen Code, which speaks ACP.

use crate::acp::{Acp, AcpProgram};
use crate::login::{Credentials, NO_CREDENTIALS};
use crate::program::{Keys, ProgramInfo};

/// Facts about Qwen Code.
pub(super) const INFO: ProgramInfo = ProgramInfo {
    name: "qwen",
    command: "qwen",
    install: "Install it with `npm install -g @qwen-code/qwen-code`.",
    login: "Log in by running `qwen` once, or set OPENAI_API_KEY and the engine's `args` to `--auth-type openai`.",
    keys: Keys::Own(&["OPENAI_API_KEY"]),
    credentials: |_| {
        Some(Credentials {
            directory: ("", ".qwen"),
            files: &[
                ("oauth_creds.json", &[]),
                ("settings.json", &["auth", "modelProviders"]),
                (".env", &[]),
            ],
            variables: &["*_API_KEY"],
            without: NO_CREDENTIALS,
        })
    },
    project_files: &[".qwen"],
    variable_files: &[".env"],
    user_files: &[],
    state: &[".qwen"],
    oldest: [0, 10, 0],
    reserved_args: &[
        "--acp",
        "--experimental-acp",
        "--output-format",
        "-o",
        "--resume",
        "-r",
        "--continue",
        "-c",
    ],
    adapter: |_, _| {
        Box::new(Acp::new(AcpProgram {
            name: "qwen --acp",
            args: &["--acp"],
            permissions: &[],
            failure_log: None,
        }))
    },
};
