//! A program in a sandbox, as its helper inside reports on it.
//!
//! The process that the server has started is `bwrap`, which ends when no process is left inside. The program may have exited
//! before that.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use baton_sandbox::{Control, Ended, Report};
use process_wrap::tokio::ChildWrapper;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::net::UnixStream;

/// What the helper has reported.
#[derive(Debug)]
pub(crate) struct Inside {
    reports: Lines<BufReader<UnixStream>>,
    exit: Option<ExitStatus>,
    /// The program was started.
    has_started: bool,
    /// Processes are left after the program has exited.
    pub(crate) has_left: bool,
    /// The limit that ended the call.
    pub(crate) ended: Option<Ended>,
}

impl Inside {
    pub(crate) fn new(control: &Control) -> io::Result<Self> {
        let reports = BufReader::new(control.reports()?).lines();
        Ok(Self { reports, exit: None, has_started: false, has_left: false, ended: None })
    }

    /// Waits until the program has exited. Cancel safe.
    ///
    /// # Errors
    /// When it was not started; the error says why.
    pub(crate) async fn wait(&mut self, child: &mut dyn ChildWrapper) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = self.exit {
                if !self.has_left {
                    child.wait().await?;
                }
                return Ok(status);
            }
            // A socket that was shut down from this side is at its end, too.
            let line = self.reports.next_line().await.unwrap_or_default();
            let Some(line) = line else {
                let status = child.wait().await?;
                return if self.has_started { Ok(status) } else { Err(not_started(status)) };
            };
            match serde_json::from_str(&line)? {
                Report::Started => self.has_started = true,
                Report::Exited { status, left } => {
                    (self.exit, self.has_left) = (Some(ExitStatus::from_raw(status)), left);
                }
                Report::Ended { by } => self.ended = Some(by),
                Report::Failed { errno: Some(errno), .. } => return Err(io::Error::from_raw_os_error(errno)),
                Report::Failed { what, errno: None } => return Err(io::Error::other(what)),
                Report::Namespaces { .. } => {}
            }
        }
    }
}

fn not_started(status: ExitStatus) -> io::Error {
    io::Error::other(format!("the sandbox could not be built ({status}); its output says why"))
}
