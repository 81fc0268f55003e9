//! The hidden commands that build the walls: the same program, started again, with one thread and no other task.
//!
//! Their standard input is the socket to the server ([`crate::control`]), so that no descriptor has to be inherited by number.

mod confine;
mod enter;
mod filter;
mod inside;
mod network;
mod watch;

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::process::ExitCode;

use crate::control::{Report, report};

/// Joins the network of the session, and becomes `bwrap`.
pub(crate) const ENTER: &str = "internal-sandbox-enter";
/// Runs as PID 1 inside.
pub(crate) const INSIDE: &str = "internal-sandbox-inside";
/// Creates the network of a session.
pub(crate) const NETWORK: &str = "internal-sandbox-network";

/// Runs a hidden command if `arguments` (without the name of the program) name one.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut arguments = arguments.into_iter();
    let command = arguments.next()?;
    let rest: Vec<OsString> = arguments.collect();
    let input = io::stdin();
    let socket = input.as_fd();
    let done = match command.to_str()? {
        ENTER => enter::run(socket, &rest),
        INSIDE => inside::run(socket),
        NETWORK => network::run(socket),
        _ => return None,
    };
    Some(match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            fail(socket, &error);
            ExitCode::FAILURE
        }
    })
}

/// Why a helper gives up.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {error}")]
pub(crate) struct Failure {
    what: String,
    error: io::Error,
    /// Whether the program is what cannot be started, not a wall.
    is_program: bool,
}

/// Names what failed.
trait Context<T> {
    fn context(self, what: impl Into<String>) -> Result<T, Failure>;
}

impl<T, E: Into<io::Error>> Context<T> for Result<T, E> {
    fn context(self, what: impl Into<String>) -> Result<T, Failure> {
        self.map_err(|error| Failure { what: what.into(), error: error.into(), is_program: false })
    }
}

fn fail(socket: BorrowedFd<'_>, failure: &Failure) {
    let errno = failure.error.raw_os_error().filter(|_| failure.is_program);
    drop(report(socket, &Report::Failed { what: failure.to_string(), errno }, &[]));
}
