//! The mirror: `events.jsonl` and `workspace.yaml` in each session directory, for tools that expect them.
//!
//! One thread writes the files, from durable events only, and nothing reads them back as truth. A lost file costs nothing:
//! it is written again when the session is next opened. Files are opened for each write, so that a directory that was
//! emptied fills again, and a thousand idle sessions hold no descriptors.
#![expect(clippy::disallowed_methods, reason = "runs on the mirror's own thread")]

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use baton_core::Session;
use baton_disk::private;
use baton_history::{metadata, newest_first};
use baton_protocol::event::is_public;
use baton_protocol::{SessionId, Timestamp};
use baton_store::{Record, Seq, Span, Store, StoreError};
use bytes::Bytes;
use serde::Deserialize;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::SessionFiles;

/// A write for the mirror thread.
enum Job {
    Prepare { directory: PathBuf, yaml: String },
    CatchUp(CatchUp),
    Append { file: PathBuf, line: Bytes },
    Flush(oneshot::Sender<()>),
}

/// Appends the events up to `head` that a file does not have yet. Jobs run in order, so later appends come after them in
/// the file.
struct CatchUp {
    store: Arc<dyn Store>,
    tokio: Handle,
    session: SessionId,
    head: Seq,
    file: PathBuf,
}

/// The mirrors of all sessions, and the thread that writes them; it is started with the first job.
#[derive(Clone)]
pub struct Mirrors {
    store: Arc<dyn Store>,
    jobs: Arc<Mutex<Option<Sender<Job>>>>,
}

impl Mirrors {
    /// Creates the mirrors of sessions in a store.
    #[must_use]
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, jobs: Arc::default() }
    }

    /// Returns the mirror of a session.
    #[must_use]
    pub fn of(&self, session: &SessionId, files: &SessionFiles) -> Mirror {
        Mirror { mirrors: self.clone(), session: session.clone(), files: files.clone() }
    }

    fn send(&self, job: Job) {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let sender = jobs.get_or_insert_with(|| {
            let (sender, receiver) = channel();
            // Without the thread there is no mirror; sessions do not need it.
            drop(std::thread::Builder::new().name("mirror".into()).spawn(move || work(receiver)));
            sender
        });
        drop(sender.send(job));
    }

    /// Lets the thread end after the jobs it has.
    pub fn close(&self) {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

fn work(jobs: Receiver<Job>) {
    for job in jobs {
        let done = match job {
            Job::Prepare { directory, yaml } => prepare(&directory, &yaml),
            Job::CatchUp(job) => job.run(),
            Job::Append { file, line } => append(&file, &[line]),
            Job::Flush(done) => {
                let _ = done.send(());
                Ok(())
            }
        };
        if let Err(error) = done {
            tracing::debug!(%error, "failed to write a mirror file");
        }
    }
}

/// The mirror of one session.
pub struct Mirror {
    mirrors: Mirrors,
    session: SessionId,
    files: SessionFiles,
}

impl Mirror {
    /// Creates the session directory and its `workspace.yaml`.
    pub fn start(&self, session: &Session) {
        let yaml = workspace_yaml(session);
        self.mirrors.send(Job::Prepare { directory: self.files.path().to_owned(), yaml });
    }

    /// Appends a public event.
    pub fn append(&self, event: Bytes) {
        self.mirrors.send(Job::Append { file: self.files.events(), line: event });
    }

    /// Appends the events that `events.jsonl` does not have yet, when a session is opened. The cost grows with their number
    /// only.
    pub fn catch_up(&self, head: Seq) {
        self.mirrors.send(Job::CatchUp(CatchUp {
            store: self.mirrors.store.clone(),
            tokio: Handle::current(),
            session: self.session.clone(),
            head,
            file: self.files.events(),
        }));
    }

    /// Waits until all earlier jobs are done.
    pub async fn finish(&self) {
        let (sender, receiver) = oneshot::channel();
        self.mirrors.send(Job::Flush(sender));
        drop(receiver.await);
    }
}

/// Detects events that the store has lost; [`SessionFiles::lost_events`] says how.
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
    let saved = file.with_file_name(format!("events-lost-{head}.jsonl"));
    let (from, to) = (file, saved.clone());
    let renamed = tokio::task::spawn_blocking(move || std::fs::rename(from, to)).await;
    let copy = match renamed {
        Ok(Ok(())) => format!("; the file that has them was renamed to {}", saved.display()),
        _ => String::new(),
    };
    Ok(Some(format!(
        "the last events of the history are lost: events.jsonl ends with one that the store does not have{copy}"
    )))
}

/// Whether the store has an event, rewound or not. Searches newest first, where it usually is.
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
    /// Appends the events after the last one in the file; replaces the file if that one is not found.
    fn run(self) -> io::Result<()> {
        let last = last_event_id(&self.file).ok().flatten();
        let (missing, is_end) =
            self.tokio.block_on(self.missing(last.as_deref())).map_err(io::Error::other)?;
        if is_end { append(&self.file, &missing) } else { replace(&self.file, &missing) }
    }

    /// Returns the events after `last`, and whether `last` was found; all events if not.
    async fn missing(&self, last: Option<&str>) -> Result<(Vec<Bytes>, bool), StoreError> {
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
        newest_first(&*self.store, &self.session, self.head, take).await?;
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

/// Opens a regular file without blocking: a command of the session may have put a named pipe there.
fn open_regular(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("not a regular file")) }
}

/// Returns the id of the last event in the file; none if the last line is incomplete, so that the file is replaced.
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

/// Formats a session's metadata as other tools read it. JSON strings are YAML strings.
fn workspace_yaml(session: &Session) -> String {
    let facts = &session.durable.facts;
    let text = |value: &str| serde_json::to_string(value).unwrap_or_default();
    let mut lines =
        vec![format!("id: {}", text(session.id.as_str())), format!("cwd: {}", text(&facts.context.cwd))];
    for (key, value) in metadata::labels(facts).into_iter().chain([("summary", &facts.title)]) {
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
