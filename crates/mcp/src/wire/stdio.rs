//! Servers that are programs: one JSON message on each line of stdin and stdout, anything on stderr.

use std::process::ExitStatus;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton_process::Start;
use baton_tasks::TaskTracker;
use rmcp::RoleClient;
use rmcp::model::{ErrorData, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::service::TxJsonRpcMessage;
use rmcp::transport::Transport;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::lines::{LONGEST, OutputLine, OutputLines};
use crate::lock;
use crate::log::ServerLog;

/// How long a program may take to exit after its stdin was closed.
const CLOSE_GRACE: Duration = Duration::from_millis(500);
/// How long processes may take to exit after SIGTERM.
const TERM_GRACE: Duration = Duration::from_secs(2);
/// How long remaining output of a program that has exited is awaited.
const DRAIN: Duration = Duration::from_millis(250);
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
    ) -> std::io::Result<(Self, Pipes)> {
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
        let pipes = Pipes {
            stdin: Arc::new(AsyncMutex::new(stdin)),
            lines: OutputLines::new(stdout, LONGEST),
            log: log.clone(),
            closed: false,
        };
        Ok((process, pipes))
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

/// The pipes of a program, as a transport.
pub(super) struct Pipes {
    stdin: Arc<AsyncMutex<ChildStdin>>,
    lines: OutputLines<ChildStdout>,
    log: ServerLog,
    closed: bool,
}

impl Transport<RoleClient> for Pipes {
    type Error = std::io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let stdin = self.stdin.clone();
        async move {
            let mut line = serde_json::to_vec(&item)?;
            line.push(b'\n');
            let mut stdin = stdin.lock().await;
            stdin.write_all(&line).await?;
            stdin.flush().await
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        while !self.closed {
            match self.lines.next().await? {
                OutputLine::Text(bytes) => {
                    if let Some(message) = understand(&bytes, &self.log) {
                        return Some(message);
                    }
                }
                OutputLine::TooLong => {
                    // It may have been the answer to any call, so no call can be answered any more with certainty.
                    self.log
                        .add(&format!("sent a message of more than {LONGEST} bytes; closing the connection"));
                    return None;
                }
            }
        }
        None
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.closed = true;
        Ok(())
    }
}

/// Parses a message. One that cannot be used is logged; if it is the answer to a request, the request fails.
pub(super) fn understand(bytes: &[u8], log: &ServerLog) -> Option<ServerJsonRpcMessage> {
    let error = match serde_json::from_slice::<ServerJsonRpcMessage>(bytes) {
        Ok(message) => return Some(message),
        Err(error) => error,
    };
    let Ok(head) = serde_json::from_slice::<Head>(bytes) else {
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned();
        log.add(&format!("stdout: {text}"));
        return None;
    };
    log.add(&format!("sent a message that cannot be used: {error}"));
    head.failure()
}

/// The part of a message that tells what it is for. Everything else is skipped, however deeply it is nested.
#[derive(Deserialize)]
struct Head {
    id: Option<Value>,
    method: Option<IgnoredAny>,
}

impl Head {
    /// Returns the failure of the request that the message responds to, if it is a response.
    fn failure(self) -> Option<ServerJsonRpcMessage> {
        let id = self.id.filter(|_| self.method.is_none())?;
        let id = serde_json::from_value(id).ok()?;
        let problem = ErrorData::internal_error("the response of the server cannot be used", None);
        Some(JsonRpcMessage::error(problem, Some(id)))
    }
}

/// Replaces a response that cannot be parsed by a failure: the library drops it, and its call would wait for another one.
pub(super) fn usable(data: String) -> String {
    if serde_json::from_str::<ServerJsonRpcMessage>(&data).is_ok() {
        return data;
    }
    let failure = serde_json::from_str::<Head>(&data).ok().and_then(Head::failure);
    failure.and_then(|failure| serde_json::to_string(&failure).ok()).unwrap_or(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn response_that_is_nested_too_deeply_fails_its_request() {
        let deep = format!(
            r#"{{"jsonrpc":"2.0","result":{}{},"id":7}}"#,
            r#"{"a":"#.repeat(10_000),
            "1".to_owned() + &"}".repeat(10_000)
        );
        let JsonRpcMessage::Error(error) = understand(deep.as_bytes(), &ServerLog::default()).unwrap() else {
            panic!("not an error")
        };
        assert_eq!(serde_json::to_value(&error.id).unwrap(), 7);
        assert!(usable(deep).contains("cannot be used"));
        let fine = r#"{"jsonrpc":"2.0","id":7,"result":{"content":[]}}"#;
        assert_eq!(usable(fine.to_owned()), fine);
        assert_eq!(usable(String::new()), "");
    }
}
