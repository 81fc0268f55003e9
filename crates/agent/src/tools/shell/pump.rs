//! Moves the output of a command from its pipe to memory, to a file if it is large, and to the progress callback.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::time::{Instant, timeout_at};

use super::output::{CommandOutput, OutputFile};
use crate::tools::spill;
use crate::tools::text::{readable, without_partial_end};

/// Largest file of one command: endless output must not fill the disk.
const FILE_LIMIT: u64 = 128 * 1024 * 1024;
const CHUNK: usize = 64 * 1024;

/// Reads `source` to its end. `dir` receives the file, if one is needed.
pub(crate) async fn pump(mut source: pipe::Receiver, output: Arc<CommandOutput>, dir: PathBuf) {
    let mut throttle = Throttle::new(Arc::clone(&output));
    let mut file = FullCopy::NotNeeded(dir);
    let mut chunk = vec![0; CHUNK];
    loop {
        let read = match throttle.due() {
            Some(due) => timeout_at(due, source.read(&mut chunk)).await,
            None => Ok(source.read(&mut chunk).await),
        };
        match read {
            Err(_) => throttle.show(),
            Ok(Ok(0) | Err(_)) => break,
            Ok(Ok(length)) => {
                let bytes = &chunk[..length];
                file = file.store(bytes, &output).await;
                output.push(bytes);
                throttle.push(bytes);
            }
        }
    }
    file.close().await;
    throttle.show();
}

/// The file with the whole output, created only if the output does not fit in memory.
enum FullCopy {
    NotNeeded(PathBuf),
    Open { file: File, path: PathBuf, room: u64 },
    Ended,
}

impl FullCopy {
    async fn store(self, bytes: &[u8], output: &CommandOutput) -> Self {
        match self {
            Self::NotNeeded(dir) => match output.before_overflow(bytes.len()) {
                None => Self::NotNeeded(dir),
                Some(earlier) => {
                    let opened = Self::open(&dir, output).await;
                    opened.write(&earlier, output).await.write(bytes, output).await
                }
            },
            open => open.write(bytes, output).await,
        }
    }

    async fn open(dir: &Path, output: &CommandOutput) -> Self {
        let path = dir.join(spill::file_name());
        let (dir, new) = (dir.to_owned(), path.clone());
        let create = move || {
            baton_disk::private::create_dir_all(dir).and_then(|()| baton_disk::private::create_new(new))
        };
        let Ok(Ok(file)) = tokio::task::spawn_blocking(create).await else { return Self::Ended };
        let file = File::from_std(file);
        output.set_file(OutputFile { path: path.clone(), is_full: false });
        Self::Open { file, path, room: FILE_LIMIT }
    }

    async fn write(self, bytes: &[u8], output: &CommandOutput) -> Self {
        let Self::Open { mut file, path, room } = self else { return self };
        let fits = usize::try_from(room).unwrap_or(usize::MAX).min(bytes.len());
        let written = file.write_all(&bytes[..fits]).await;
        if written.is_err() || fits < bytes.len() {
            // Also for a full disk: the file stays as it is, and the command continues.
            let _ = file.flush().await;
            output.set_file(OutputFile { path, is_full: true });
            return Self::Ended;
        }
        Self::Open { file, path, room: room - fits as u64 }
    }

    async fn close(self) {
        if let Self::Open { mut file, .. } = self {
            let _ = file.flush().await;
        }
    }
}

/// Passes new output to the callback, with a pause in between: a command with much output must not flood clients.
struct Throttle {
    output: Arc<CommandOutput>,
    pending: Vec<u8>,
    shown_at: Option<Instant>,
}

impl Throttle {
    const PAUSE: Duration = Duration::from_millis(50);
    /// Bytes that are passed on at a time; earlier ones of the same pause are skipped.
    const MOST: usize = 4096;

    fn new(output: Arc<CommandOutput>) -> Self {
        Self { output, pending: Vec::new(), shown_at: None }
    }

    fn due(&self) -> Option<Instant> {
        let shown_at = self.shown_at?;
        (!self.pending.is_empty()).then_some(shown_at + Self::PAUSE)
    }

    fn push(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(&bytes[bytes.len().saturating_sub(Self::MOST)..]);
        let surplus = self.pending.len().saturating_sub(Self::MOST);
        self.pending.drain(..surplus);
        if self.due().is_none_or(|due| due <= Instant::now()) {
            self.show();
        }
    }

    fn show(&mut self) {
        let complete = without_partial_end(&self.pending).len();
        // Bytes that never become a character are passed on as garbage rather than kept forever.
        let shown: Vec<u8> =
            self.pending.drain(..if complete == 0 { self.pending.len() } else { complete }).collect();
        self.shown_at = Some(Instant::now());
        if let (false, Some(progress)) = (shown.is_empty(), self.output.progress()) {
            progress(&readable(&shown));
        }
    }
}
