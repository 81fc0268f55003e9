//! Servers that are programs: one JSON message on each line of stdin and stdout, anything on stderr.

use std::process::ExitStatus;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton_process::Start;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::process::{ChildStderr, ChildStdout};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::lines::{LONGEST, OutputLine, OutputLines};
use super::message::{Failure, Message};
use super::peer::{Inlet, Outlet};
use crate::log::ServerLog;
use crate::{Working, lock};

/// How long a program may take to exit after its stdin was closed.
const CLOSE_GRACE: Duration = Duration::from_millis(500);
/// How long processes may take to exit after SIGTERM.
const TERM_GRACE: Duration = Duration::from_secs(2);
/// How long remaining output of a program that has exited is awaited.
const DRAIN: Duration = Duration::from_millis(250);
/// Messages that may wait to be written.
const QUEUE: usize = 2048;
/// The longest line of stderr.
const STDERR_LINE: usize = 64 * 1024;

/// The process of a server. Its task ends the whole process tree when the token is cancelled.
pub(super) struct Process {
    exit: Arc<Mutex<Option<ExitStatus>>>,
    /// Cancelled to end the process.
    end: CancellationToken,
    /// Cancelled when the process has exited and its output was given time to arrive.
    pub(super) exited: CancellationToken,
    /// Cancelled when no process is left.
    gone: CancellationToken,
}

impl Process {
    /// Starts a program.
    pub(super) fn start(
        start: Start,
        log: &ServerLog,
        tasks: &TaskTracker,
    ) -> std::io::Result<(Self, Stdin, Stdout)> {
        let (mut supervised, baton_process::Pipes { stdin, stdout, stderr }) = start.start()?;
        let process = Self {
            exit: Arc::default(),
            end: CancellationToken::new(),
            exited: CancellationToken::new(),
            gone: CancellationToken::new(),
        };
        let following = tasks.spawn(follow(stderr, log.clone()));
        let (exit, end, exited, gone) =
            (process.exit.clone(), process.end.clone(), process.exited.clone(), process.gone.clone());
        tasks.spawn(async move {
            let status = tokio::select! {
                status = supervised.wait() => status.ok(),
                () = end.cancelled() => timeout(CLOSE_GRACE, supervised.wait()).await.ok().and_then(Result::ok),
            };
            *lock(&exit) = status;
            if !end.is_cancelled() {
                // A process that the program left behind may hold the pipe open; what was written is read first.
                tokio::select! { () = tokio::time::sleep(DRAIN) => {}, () = end.cancelled() => {} }
            }
            exited.cancel();
            supervised.end(TERM_GRACE).await;
            following.abort();
            gone.cancel();
        });
        Ok((process, Stdin::new(stdin, tasks), Stdout::new(stdout, LONGEST, log)))
    }

    /// Returns the exit status, waiting a moment for it.
    pub(super) async fn exit(&self) -> Option<ExitStatus> {
        let _ = timeout(CLOSE_GRACE, self.exited.cancelled()).await;
        *lock(&self.exit)
    }

    /// Ends the process tree.
    pub(super) async fn end(&self) {
        self.end.cancel();
        self.gone.cancelled().await;
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

async fn follow(stderr: ChildStderr, log: ServerLog) {
    let mut lines = OutputLines::new(stderr, STDERR_LINE);
    while let Some(line) = lines.next().await {
        match line {
            OutputLine::Text(bytes) => log.add(&String::from_utf8_lossy(&bytes)),
            OutputLine::TooLong => log.add("[a line that was too long]"),
        }
    }
}

/// A message that waits to be written, and where the result goes.
type Queued = (Vec<u8>, oneshot::Sender<std::io::Result<()>>);

/// Writes messages in order, each one completely.
async fn write(
    mut stdin: impl AsyncWrite + Unpin,
    mut queued: mpsc::Receiver<Queued>,
    closing: CancellationToken,
) {
    let writing = async {
        while let Some((mut line, result)) = queued.recv().await {
            line.push(b'\n');
            let _ = result.send(stdin.write_all(&line).await);
        }
    };
    // A program that does not read would keep its pipe, and this task.
    tokio::select! {
        () = writing => {}
        () = closing.cancelled() => {}
    }
}

/// The standard input of a program. Closing it asks the program to exit.
pub(super) struct Stdin {
    queue: mpsc::Sender<Queued>,
    closing: CancellationToken,
}

impl Stdin {
    fn new(stdin: impl AsyncWrite + Send + Unpin + 'static, tasks: &TaskTracker) -> Self {
        let (queue, queued) = mpsc::channel(QUEUE);
        let closing = CancellationToken::new();
        tasks.spawn(write(stdin, queued, closing.clone()));
        Self { queue, closing }
    }
}

impl Outlet for Stdin {
    fn send(&self, message: Message) -> Working<'static, Result<(), Failure>> {
        let (sender, result) = oneshot::channel();
        let queued = self.queue.try_send((message.into_bytes(), sender));
        Box::pin(async move {
            if let Err(mpsc::error::TrySendError::Full(_)) = queued {
                return Err(Failure::NotSent("the server does not read its messages".into()));
            }
            let written = result.await.map_err(|_| Failure::Closed)?;
            written.map_err(|error| Failure::NotSent(error.to_string()))
        })
    }

    fn close(&self) -> Working<'_, ()> {
        self.closing.cancel();
        Box::pin(async {})
    }
}

/// The standard output of a program.
pub(super) struct Stdout<R = ChildStdout> {
    lines: OutputLines<R>,
    longest: usize,
    log: ServerLog,
}

impl<R: AsyncRead + Unpin> Stdout<R> {
    fn new(output: R, longest: usize, log: &ServerLog) -> Self {
        Self { lines: OutputLines::new(output, longest), longest, log: log.clone() }
    }

    async fn message(&mut self) -> Option<Message> {
        loop {
            match self.lines.next().await? {
                OutputLine::Text(bytes) => {
                    if let Some(message) = Message::parse(&bytes, &self.log) {
                        return Some(message);
                    }
                }
                OutputLine::TooLong => {
                    // It may have been the answer to any call, so no call can be answered any more with certainty.
                    let longest = self.longest;
                    self.log
                        .add(&format!("sent a message of more than {longest} bytes; closing the connection"));
                    return None;
                }
            }
        }
    }
}

impl Inlet for Stdout {
    fn next(&mut self) -> Working<'_, Option<Message>> {
        Box::pin(self.message())
    }
}

/// Reads the messages of a program's output, for the fuzz target: as bytes that could be sent on. Nothing else calls it.
#[doc(hidden)]
pub async fn read_messages(output: impl AsyncRead + Unpin, longest: usize, log: &ServerLog) -> Vec<Vec<u8>> {
    let (mut output, mut messages) = (Stdout::new(output, longest, log), Vec::new());
    while let Some(message) = output.message().await {
        messages.push(message.into_bytes());
    }
    messages
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tokio::io::{AsyncBufReadExt, BufReader, duplex};

    use super::*;

    fn message(params: Value) -> Message {
        Message::Notification { method: "m".into(), params }
    }

    #[tokio::test]
    async fn messages_are_written_completely_and_in_order_though_their_senders_left() {
        let (server, client) = duplex(64);
        let tasks = TaskTracker::new();
        let stdin = Stdin::new(client, &tasks);
        let long = message(json!("x".repeat(1000)));
        let mut first = stdin.send(long.clone());
        let begun = timeout(Duration::ZERO, &mut first).await;
        assert!(begun.is_err(), "the pipe holds less than the message");
        drop(first);
        drop(stdin.send(message(json!(2))));
        let third = stdin.send(message(json!(3)));
        let mut lines = BufReader::new(server).lines();
        for expected in [long, message(json!(2)), message(json!(3))] {
            let line = lines.next_line().await.unwrap().unwrap();
            assert_eq!(Message::parse(line.as_bytes(), &ServerLog::default()), Some(expected));
        }
        assert_eq!(third.await, Ok(()));
        stdin.close().await;
        assert_eq!(lines.next_line().await.unwrap(), None, "stdin is closed");
        tasks.close();
        tasks.wait().await;
    }

    #[tokio::test]
    async fn program_that_does_not_read_keeps_no_task() {
        let (_server, client) = duplex(1);
        let tasks = TaskTracker::new();
        let stdin = Stdin::new(client, &tasks);
        let unread = stdin.send(message(json!(1)));
        stdin.close().await;
        assert_eq!(unread.await, Err(Failure::Closed));
        tasks.close();
        tasks.wait().await;
    }
}
