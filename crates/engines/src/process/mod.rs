//! A program that is controlled through lines on stdin and stdout. It runs in its own process session, and is ended
//! together with all processes that it started.

mod lines;
mod tail;

use std::fmt;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::pin::pin;
use std::process::ExitStatus;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use baton_process::{Pipes, Start, Supervised};
use tokio::io::AsyncWriteExt;
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};

pub(crate) use lines::OutputLine;
use lines::OutputLines;
use tail::Tail;

/// How long processes may take to exit after SIGTERM.
const TERM_GRACE: Duration = Duration::from_secs(2);
/// How many bytes may wait to be written when another line is queued.
const MOST_OUTGOING: usize = 16 * 1024 * 1024;
/// How long to wait for remaining output of a program that has exited.
const DRAIN: Duration = Duration::from_millis(250);
/// How long to read output that goes on after the exit. What the program itself has printed is in the pipe by then.
const LONGEST_DRAIN: Duration = Duration::from_secs(5);

/// How a program exited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Code(i32),
    Signal(i32),
    /// It had to be ended.
    Ended,
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Code(code),
            (_, Some(signal)) => Self::Signal(signal),
            _ => Self::Ended,
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "rc={code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
            Self::Ended => write!(f, "it had to be ended"),
        }
    }
}

/// A running program. Dropping it kills the program and all processes that it started.
pub(crate) struct Child {
    supervised: Supervised,
    stdin: Option<ChildStdin>,
    /// Bytes that are not written yet.
    outgoing: Vec<u8>,
    close_when_written: bool,
    lines: OutputLines<ChildStdout>,
    tail: Tail,
    /// Lines of its stderr.
    diagnostics: mpsc::Receiver<String>,
    /// The task that reads stderr into the tail.
    follower: JoinHandle<()>,
    exit: Option<Exit>,
    exited_at: Option<Instant>,
}

impl Child {
    /// Starts a program.
    pub(crate) fn start(start: Start) -> io::Result<Self> {
        let (supervised, Pipes { stdin, stdout, stderr }) = start.start()?;
        let (tail, lines, diagnostics) = Tail::with_lines();
        let follower = tokio::spawn(tail.clone().follow(stderr, lines));
        Ok(Self {
            supervised,
            stdin: Some(stdin),
            outgoing: Vec::new(),
            close_when_written: false,
            lines: OutputLines::new(stdout),
            tail,
            diagnostics,
            follower,
            exit: None,
            exited_at: None,
        })
    }

    /// Queues a line. It is written while [`Child::next_line`] is awaited, so that neither side can block the other.
    /// Returns false if too much is queued already: the program does not read.
    pub(crate) fn say(&mut self, line: &str) -> bool {
        // A single long line may exceed the limit.
        let has_room = self.outgoing.len() <= MOST_OUTGOING;
        if has_room {
            self.outgoing.extend_from_slice(line.as_bytes());
            self.outgoing.push(b'\n');
        }
        has_room
    }

    /// Queues a text as it is, after which stdin is closed.
    pub(crate) fn say_all(&mut self, text: &str) {
        self.outgoing.extend_from_slice(text.as_bytes());
        self.close_when_written = true;
    }

    /// Returns the next line. None at the end of the output. Cancel-safe.
    pub(crate) async fn next_line(&mut self) -> Option<OutputLine> {
        loop {
            if self.outgoing.is_empty() && self.close_when_written {
                self.stdin = None;
            }
            let exited_at = self.exited_at.unwrap_or_else(Instant::now);
            let end = |patience| exited_at + patience;
            tokio::select! {
                // The exit goes first: a process that the program left behind may print without end.
                biased;
                status = self.supervised.wait(), if self.exit.is_none() => {
                    self.exit = Some(status.map_or(Exit::Ended, Exit::from));
                    self.exited_at = Some(Instant::now());
                }
                () = sleep_until(end(LONGEST_DRAIN)), if self.exit.is_some() => return None,
                line = self.lines.next() => return line,
                Some(line) = self.diagnostics.recv() => return Some(OutputLine::Diagnostic(line)),
                written = write(self.stdin.as_mut(), &self.outgoing), if self.can_write() => match written {
                    Ok(length) => { self.outgoing.drain(..length); }
                    // A program that does not read its stdin may still print.
                    Err(_) => self.stdin = None,
                },
                // A process that the program left behind may hold the pipe open.
                () = sleep_until(end(DRAIN)), if self.exit.is_some() => return None,
            }
        }
    }

    fn can_write(&self) -> bool {
        self.stdin.is_some() && !self.outgoing.is_empty()
    }

    /// Returns a line that has arrived already, without waiting.
    pub(crate) fn heard_already(&mut self) -> Poll<Option<OutputLine>> {
        pin!(self.next_line()).poll(&mut Context::from_waker(Waker::noop()))
    }

    /// Returns the end of its stderr so far.
    pub(crate) fn diagnostics(&self) -> Option<String> {
        self.tail.text()
    }

    /// Waits up to `patience` for the program to exit, ends its remaining processes, and returns how it exited and the
    /// end of its stderr.
    pub(crate) async fn finish(mut self, patience: Duration) -> (Exit, Option<String>) {
        self.stdin = None;
        if self.exit.is_none()
            && let Ok(status) = timeout(patience, self.supervised.wait()).await
        {
            self.exit = Some(status.map_or(Exit::Ended, Exit::from));
        }
        self.supervised.end(TERM_GRACE).await;
        let _ = timeout(DRAIN, &mut self.follower).await;
        (self.exit.unwrap_or(Exit::Ended), self.tail.text())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // A process that is not ours may hold the pipe open forever.
        self.follower.abort();
    }
}

async fn write(stdin: Option<&mut ChildStdin>, bytes: &[u8]) -> io::Result<usize> {
    match stdin {
        Some(stdin) => stdin.write(bytes).await,
        None => Err(io::ErrorKind::BrokenPipe.into()),
    }
}
