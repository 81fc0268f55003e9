//! A conversation with a program: one run at a time, one outcome each, and no process left when it is gone.

mod outcome;
mod reporter;
mod run;

use std::ffi::OsString;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use baton_agent::blocking;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::dialect::{Dialect, Launch, Opening, Step, Steps};
use crate::process::{Child, Line, Start};
use crate::program::Program;
use crate::{Control, Report, ResumeToken, Running, Thread, ThreadSpec};
use run::Run;

/// A conversation with a program.
pub(crate) struct Conversation {
    program: Arc<Program>,
    spec: ThreadSpec,
    dialect: Box<dyn Dialect>,
    /// The program's name for the conversation, once it has one.
    token: Option<ResumeToken>,
    /// The process, between runs, if it stays for the next.
    kept: Option<Child>,
    /// Whether the program has forgotten what was said so far.
    was_lost: bool,
}

impl Conversation {
    pub(crate) fn new(program: Arc<Program>, mut spec: ThreadSpec) -> Self {
        let dialect = program.dialect();
        Self { program, token: spec.resume.take(), spec, dialect, kept: None, was_lost: false }
    }

    /// The process that stayed after the last run, if it is still alive. What it has said since then counts for nothing.
    async fn kept(&mut self) -> Option<Child> {
        loop {
            let mut child = self.kept.take()?;
            match child.heard_already() {
                Poll::Pending => return Some(child),
                Poll::Ready(None) => {
                    child.finish(Duration::ZERO).await;
                    self.process_has_gone();
                    return None;
                }
                Poll::Ready(Some(line)) => {
                    self.overhear(&line, &mut child);
                    self.kept = Some(child);
                }
            }
        }
    }

    /// With some programs the conversation has gone, too.
    fn process_has_gone(&mut self) {
        if !self.dialect.can_be_resumed() {
            self.was_lost |= self.token.take().is_some();
        }
    }

    /// The program may ask something at any time, and waits for an answer.
    fn overhear(&mut self, line: &Line, child: &mut Child) {
        let Line::Json(line) = line else { return };
        let mut steps = Steps::default();
        self.dialect.hear(line, &mut steps);
        while let Some(step) = steps.pop() {
            if let Step::Say(line) = step {
                child.say(&line);
            }
        }
    }

    /// Starts the program, or says why it cannot be started.
    async fn start(&mut self) -> Result<Child, String> {
        let cwd = self.spec.cwd.clone();
        let (program, directory) = (self.program.clone(), cwd.clone());
        #[expect(clippy::disallowed_methods, reason = "runs on the blocking pool")]
        let looked = blocking::run(move || (directory.is_dir(), program.path())).await;
        let program = &self.program;
        let name = program.facts.name;
        let (is_directory, path) =
            looked.map_err(|error| format!("{name} cannot work in {}: {error}.", cwd.display()))?;
        if !is_directory {
            return Err(format!("{name} cannot work in {}: there is no such directory.", cwd.display()));
        }
        if let Some(refusal) = program.refusal() {
            return Err(refusal);
        }
        let path = path.ok_or_else(|| program.not_installed())?;
        let opening = Opening {
            spec: &self.spec,
            settings: &program.settings,
            token: self.token.as_ref(),
            scratch: &program.surroundings.scratch,
        };
        let Launch { args, environment, file } = self.dialect.launch(&opening);
        if let Some((path, content)) = file {
            let to = path.clone();
            let provided = tokio::task::spawn_blocking(move || provide(&to, content)).await;
            provided
                .map_err(std::io::Error::other)
                .flatten()
                .map_err(|error| format!("{} cannot be written: {error}.", path.display()))?;
        }
        let start = Start {
            args: args.into_iter().map(OsString::from).collect(),
            environment: program.environment(&environment),
            cwd,
            // A tag of its own: whatever carries it is ended with this process, and nothing else is.
            tag: format!("{}{}/", self.spec.tag, Uuid::new_v4()),
            processes: self.spec.processes.clone(),
            program: path.clone(),
        };
        Child::start(start).map_err(|error| {
            format!("{} ({}) cannot be started: {error}.", program.facts.name, path.display())
        })
    }
}

impl Thread for Conversation {
    fn run<'a>(
        &'a mut self,
        prompt: String,
        reports: mpsc::UnboundedSender<Report>,
        control: mpsc::UnboundedReceiver<Control>,
        interrupt: CancellationToken,
    ) -> Running<'a> {
        Box::pin(Run::new(self, reports, control, interrupt).finish(prompt))
    }

    fn close<'a>(&'a mut self) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(async {
            if let Some(child) = self.kept.take() {
                child.finish(Duration::ZERO).await;
                self.process_has_gone();
            }
        })
    }
}

/// Makes sure that a file has this content. Several conversations may do that at the same time, and a program may be
/// reading it. Blocks.
#[expect(clippy::disallowed_methods, reason = "runs on a blocking thread; the file is in Baton's own home")]
fn provide(path: &Path, content: &str) -> std::io::Result<()> {
    if std::fs::read(path).is_ok_and(|there| there == content.as_bytes()) {
        return Ok(());
    }
    if let Some(directory) = path.parent() {
        baton_private::create_dir_all(directory)?;
    }
    let unfinished = path.with_extension(Uuid::new_v4().to_string());
    baton_private::write(&unfinished, content)?;
    std::fs::rename(unfinished, path)
}
