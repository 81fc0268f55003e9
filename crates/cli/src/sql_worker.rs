//! The hidden command that runs SQL in a process of its own. The server starts it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use baton_sql::worker::{self, COMMAND};
use baton_terminal as terminal;

/// Runs the command if the arguments of the process name it.
pub(crate) fn main() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != COMMAND {
        return None;
    }
    let arguments: Vec<OsString> = arguments.collect();
    let done = worker::run(&arguments, std::io::stdin().lock(), &mut terminal::protocol_output());
    Some(done.map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS))
}

/// Returns this program, with the arguments that name the command.
#[expect(clippy::disallowed_methods, reason = "one look at /proc, before the server starts")]
pub(crate) fn program() -> Option<(PathBuf, Vec<OsString>)> {
    // The path of the program may lead to another version after an upgrade; the link leads to this one.
    let link = Path::new("/proc/self/exe");
    let program = if link.exists() { link.to_owned() } else { std::env::current_exe().ok()? };
    Some((program, vec![COMMAND.into()]))
}
