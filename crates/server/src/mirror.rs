//! Files beside the store, for tools that expect them: `events.jsonl` and `workspace.yaml` in each session's directory.
//!
//! They are written from what is durable, by one thread, and never read back as truth. Losing one costs nothing: it is
//! written anew when the session is next opened. A file is opened for every batch and not kept open, so that a directory
//! which somebody empties under us simply fills again, and a thousand idle sessions hold no descriptors.
#![expect(clippy::disallowed_methods, reason = "runs on the mirror's own thread")]

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use baton_core::Session;
use baton_private as private;
use baton_protocol::event::is_public;
use baton_protocol::{SessionId, Timestamp};
use baton_store::{Record, Seq, Span, Store, StoreError};
use bytes::Bytes;
use serde::Deserialize;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::Server;
use crate::history::newest_first;
use crate::metadata;

enum Job {
    Prepare { directory: PathBuf, yaml: String },
    CatchUp(CatchUp),
    Append { file: PathBuf, line: Bytes },
    Flush(oneshot::Sender<()>),
}

/// Adds to a file what the store has up to `head` and the file has not. A job like any other, done in its turn: what is
/// appended after it was asked for is after it in the file.
struct CatchUp {
    server: Arc<Server>,
    runtime: Handle,
    session: SessionId,
    head: Seq,
    file: PathBuf,
}

/// The thread that writes; started with the first job.
#[derive(Default)]
pub(crate) struct MirrorThread {
    jobs: Mutex<Option<Sender<Job>>>,
}

impl MirrorThread {
    fn send(&self, job: Job) {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let sender = jobs.get_or_insert_with(|| {
            let (sender, receiver) = channel();
            // Without a thread there are no mirror files; the sessions themselves do not need them.
            drop(std::thread::Builder::new().name("mirror".into()).spawn(move || work(receiver)));
            sender
        });
        drop(sender.send(job));
    }

    pub(crate) fn close(&self) {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

fn work(jobs: Receiver<Job>) {
    for job in jobs {
        let done = match job {
            Job::Prepare { directory, yaml } => prepare(&directory, &yaml),
            Job::CatchUp(behind) => behind.catch_up(),
            Job::Append { file, line } => append(&file, &[line]),
            Job::Flush(done) => {
                let _ = done.send(());
                Ok(())
            }
        };
        if let Err(error) = done {
            tracing::debug!(%error, "a mirror file could not be written");
        }
    }
}

/// The mirror of one session.
pub(crate) struct Mirror {
    server: Arc<Server>,
    directory: PathBuf,
}

impl Mirror {
    pub(crate) fn new(server: &Arc<Server>, directory: PathBuf) -> Self {
        Self { server: server.clone(), directory }
    }

    /// Makes the directory of a session that was just made, or opened.
    pub(crate) fn start(&self, session: &Session) {
        let yaml = workspace_yaml(session);
        self.server.mirror.send(Job::Prepare { directory: self.directory.clone(), yaml });
    }

    /// Adds one event that SDK clients see.
    pub(crate) fn append(&self, event: Bytes) {
        self.server.mirror.send(Job::Append { file: self.events(), line: event });
    }

    /// Brings the file of events up to date with a session that is being opened, before anything is added to it. Costs
    /// what the difference costs.
    pub(crate) fn catch_up(&self, session: &SessionId, head: Seq) {
        self.server.mirror.send(Job::CatchUp(CatchUp {
            server: self.server.clone(),
            runtime: Handle::current(),
            session: session.clone(),
            head,
            file: self.events(),
        }));
    }

    /// Waits until all that was handed over is written.
    pub(crate) async fn finish(&self) {
        let (sender, receiver) = oneshot::channel();
        self.server.mirror.send(Job::Flush(sender));
        drop(receiver.await);
    }

    fn events(&self) -> PathBuf {
        self.directory.join("events.jsonl")
    }
}

/// Whether a session's file of events ends with one that the store does not have: then the store has lost its last
/// writes, because its log was cut or a power failure took them (the file is only ever written after the store). Says so,
/// and keeps the file under another name.
pub(crate) async fn lost_events(
    store: &dyn Store,
    session: &SessionId,
    head: Seq,
    file: PathBuf,
) -> Result<Option<String>, StoreError> {
    let path = file.clone();
    let last = tokio::task::spawn_blocking(move || last_event_id(&path).ok().flatten()).await;
    let Some(last) = last.ok().flatten() else { return Ok(None) };
    if is_stored(store, session, head, &last).await? {
        return Ok(None);
    }
    let kept = file.with_file_name(format!("events-lost-{head}.jsonl"));
    let (from, to) = (file, kept.clone());
    let renamed = tokio::task::spawn_blocking(move || std::fs::rename(from, to)).await;
    let copy = match renamed {
        Ok(Ok(())) => format!("; the copy that has them is kept as {}", kept.display()),
        _ => String::new(),
    };
    Ok(Some(format!(
        "the last events of the history are lost: events.jsonl ends with one that the store does not have{copy}"
    )))
}

/// Whether the store has an event, taken back or not. The newest come first: it is mostly among them.
async fn is_stored(
    store: &dyn Store,
    session: &SessionId,
    head: Seq,
    event: &str,
) -> Result<bool, StoreError> {
    let mut before = head.plus(1);
    loop {
        let page = store.read(session, Span::Before { before, limit: 256 }).await?;
        let Some(first) = page.first() else { return Ok(false) };
        before = first.seq;
        if page.iter().rev().any(|record| event_id(record).as_deref() == Some(event)) {
            return Ok(true);
        }
    }
}

impl CatchUp {
    /// Finds the last event that the file has, and writes what came after it; writes the file anew if it has none.
    fn catch_up(self) -> io::Result<()> {
        let last = last_event_id(&self.file).ok().flatten();
        let (missing, is_end) =
            self.runtime.block_on(self.missing(last.as_deref())).map_err(io::Error::other)?;
        if is_end { append(&self.file, &missing) } else { replace(&self.file, &missing) }
    }

    /// The events after `last`, and whether it was found; all events if not.
    async fn missing(&self, last: Option<&str>) -> Result<(Vec<Bytes>, bool), baton_store::StoreError> {
        let (mut missing, mut is_end) = (Vec::new(), false);
        let take = |record: Record| {
            if is_public(&record.kind) {
                is_end = last.is_some() && event_id(&record).as_deref() == last;
                if is_end {
                    return ControlFlow::Break(());
                }
                missing.push(record.body);
            }
            ControlFlow::Continue(())
        };
        newest_first(&*self.server.store, &self.session, self.head, take).await?;
        missing.reverse();
        Ok((missing, is_end))
    }
}

#[derive(Deserialize)]
struct OnlyId {
    id: String,
}

fn event_id(record: &Record) -> Option<String> {
    serde_json::from_slice::<OnlyId>(&record.body).ok().map(|event| event.id)
}

/// Opens a file without waiting for a writer: a command of the session may have put a pipe there.
fn open_regular(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("not a regular file")) }
}

/// The id of the last whole event in the file. A torn last line means that the file is written anew.
fn last_event_id(file: &Path) -> io::Result<Option<String>> {
    const TAIL: u64 = 1 << 20;
    let mut file = open_regular(file)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
    let mut tail = Vec::new();
    file.take(TAIL).read_to_end(&mut tail)?;
    if tail.pop() != Some(b'\n') {
        return Ok(None);
    }
    let last = tail.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    Ok(serde_json::from_slice::<OnlyId>(last).ok().map(|event| event.id))
}

/// The facts of a session in the form that tools beside us read. JSON strings are YAML strings.
fn workspace_yaml(session: &Session) -> String {
    let facts = &session.durable.facts;
    let text = |value: &str| serde_json::to_string(value).unwrap_or_default();
    let mut lines =
        vec![format!("id: {}", text(session.id.as_str())), format!("cwd: {}", text(&facts.context.cwd))];
    for (key, value) in metadata::place(facts).into_iter().chain([("summary", &facts.title)]) {
        if let Some(value) = value {
            lines.push(format!("{key}: {}", text(value)));
        }
    }
    lines.push(format!("user_named: {}", facts.named_by_user));
    lines.push(format!("summary_count: {}", facts.summaries));
    lines.push(format!("created_at: {}", session.durable.started));
    lines.push(format!("updated_at: {}", Timestamp::now()));
    lines.join("\n") + "\n"
}

fn prepare(directory: &Path, yaml: &str) -> io::Result<()> {
    private::create_dir_all(directory.join("files"))?;
    private::create_dir_all(directory.join("checkpoints"))?;
    let index = directory.join("checkpoints/index.md");
    if !index.exists() {
        private::write(index, "# Checkpoints\n")?;
    }
    private::write(directory.join("workspace.yaml"), yaml)
}

fn append(file: &Path, lines: &[Bytes]) -> io::Result<()> {
    let mut out = match private::append(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            private::create_dir_all(file.parent().unwrap_or(file))?;
            private::append(file)?
        }
        other => other?,
    };
    out.write_all(&joined(lines))
}

fn replace(file: &Path, lines: &[Bytes]) -> io::Result<()> {
    private::create_dir_all(file.parent().unwrap_or(file))?;
    private::write(file, joined(lines))
}

fn joined(lines: &[Bytes]) -> Vec<u8> {
    let mut text = Vec::with_capacity(lines.iter().map(|line| line.len() + 1).sum());
    for line in lines {
        text.extend_from_slice(line);
        text.push(b'\n');
    }
    text
}
