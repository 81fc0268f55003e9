//! Pi: `pi --mode rpc` for conversations, `pi --print --mode json` for single prompts. Both print the same events.
//!
//! Pi itself has no permissions: it runs every tool that its model calls. A conversation therefore loads an extension
//! of Baton that asks first, and a single prompt, in which the user cannot be asked, gets only tools that read.

mod events;
mod exec;
mod rpc;
mod ui_requests;

use self::exec::PiExec;
use self::rpc::PiRpc;
use crate::Mode;
use crate::adapter::{LaunchContext, RunEnding};
use crate::login::{Credentials, NO_CREDENTIALS};
use crate::program::{Keys, ProgramInfo};

/// Facts about pi.
pub(super) const INFO: ProgramInfo = ProgramInfo {
    name: "pi",
    command: "pi",
    install: "Install it with `npm install -g @mariozechner/pi-coding-agent`.",
    login: "Log in with `/login` in `pi`, or set the provider's API key.",
    keys: Keys::Any,
    credentials: |_| {
        Some(Credentials {
            directory: ("PI_CODING_AGENT_DIR", ".pi/agent"),
            // Without a login, the first file is an empty object.
            files: &[("auth.json", &["\""]), ("models.json", &[])],
            variables: &["*_KEY", "*_TOKEN", "*_CREDENTIALS", "AWS_PROFILE"],
            without: NO_CREDENTIALS,
        })
    },
    project_files: &[".pi"],
    variable_files: &[],
    user_files: &[],
    state: &[".pi"],
    oldest: [0, 70, 0],
    reserved_args: &[
        "-p",
        "--print",
        "--mode",
        "--session",
        "--resume",
        "-r",
        "--continue",
        "-c",
        "--fork",
        "--no-session",
    ],
    adapter: |_, mode| match mode {
        Mode::Interactive => Box::<PiRpc>::default(),
        Mode::Exec => Box::<PiExec>::default(),
    },
};

/// Returns the arguments that both modes append to their own.
fn common_args(context: &LaunchContext<'_>) -> Vec<String> {
    context.args("--session", "--model", "--thinking")
}

/// Returns the ending of a run without an answer.
fn no_answer() -> RunEnding {
    RunEnding::Failed("pi ended without an answer.".to_owned())
}
