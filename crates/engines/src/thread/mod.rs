//! A conversation with a program: one run at a time, one outcome for each, and no process left after it is dropped.

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

use baton_disk::blocking;
use baton_process::Start;
use baton_protocol::engine::EngineControl;
use baton_sandbox::{Place, Ready};
use run::Run;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::adapter::{Adapter, Launch, LaunchContext, Step, Steps};
use crate::process::{Child, OutputLine};
use crate::program::Program;
use crate::{EngineConversation, Placing, Report, ResumeToken, Running, ThreadSpec};

/// A conversation with a program.
pub(crate) struct ProgramConversation {
    program: Arc<Program>,
    spec: ThreadSpec,
    adapter: Box<dyn Adapter>,
    /// The program's id of the conversation, once it is known.
    token: Option<ResumeToken>,
    /// The process of a persistent adapter, between runs.
    idle: Option<Child>,
    /// Whether the conversation was lost with its process.
    was_lost: bool,
}

impl ProgramConversation {
    pub(crate) fn new(program: Arc<Program>, mut spec: ThreadSpec) -> Self {
        let adapter = program.adapter();
        Self { program, token: spec.resume.take(), spec, adapter, idle: None, was_lost: false }
    }

    /// Takes the process of the last run, if it is still alive. Its output since then is handled and not reported.
    async fn take_idle(&mut self) -> Option<Child> {
        loop {
            let mut child = self.idle.take()?;
            match child.heard_already() {
                Poll::Pending => return Some(child),
                Poll::Ready(None) => {
                    child.finish(Duration::ZERO).await;
                    self.process_exited();
                    return None;
                }
                Poll::Ready(Some(line)) => {
                    self.handle_idle_line(&line, &mut child);
                    self.idle = Some(child);
                }
            }
        }
    }

    /// Forgets a conversation that does not survive its process.
    fn process_exited(&mut self) {
        if !self.adapter.is_resumable() {
            self.was_lost |= self.token.take().is_some();
        }
    }

    /// Handles a line between runs. The program may send a request at any time, and waits for the response.
    fn handle_idle_line(&mut self, line: &OutputLine, child: &mut Child) {
        let OutputLine::Json(line) = line else { return };
        let mut steps = Steps::default();
        self.adapter.receive(line, &mut steps);
        while let Some(step) = steps.pop() {
            if let Step::Send(line) = step {
                child.say(&line);
            }
        }
    }

    /// Starts the program. The error is a message to the user.
    async fn start(&mut self) -> Result<Child, String> {
        let cwd = self.spec.cwd.clone();
        let (program, directory) = (self.program.clone(), cwd.clone());
        #[expect(clippy::disallowed_methods, reason = "runs on the blocking pool")]
        let checked = blocking::run(move || (directory.is_dir(), program.path())).await;
        let program = &self.program;
        let name = program.info.name;
        let (is_directory, path) =
            checked.map_err(|error| format!("{name} cannot work in {}: {error}.", cwd.display()))?;
        if !is_directory {
            return Err(format!("{name} cannot work in {}: there is no such directory.", cwd.display()));
        }
        if let Some(error) = program.settings_error() {
            return Err(error);
        }
        let path = path.ok_or_else(|| program.not_installed())?;
        let sandbox = place(program, self.spec.placing.as_ref()).await?;
        if sandbox.is_some() {
            // They are reached through a socket of the server, which is outside.
            self.spec.tools = None;
        }
        let program = &self.program;
        let context = LaunchContext {
            spec: &self.spec,
            settings: &program.settings,
            token: self.token.as_ref(),
            scratch: &program.resources.scratch,
        };
        let Launch { args, environment, file } = self.adapter.launch(&context);
        if let Some((path, content)) = file {
            let to = path.clone();
            let written = tokio::task::spawn_blocking(move || write_if_changed(&to, content)).await;
            written
                .map_err(std::io::Error::other)
                .flatten()
                .map_err(|error| format!("cannot write {}: {error}.", path.display()))?;
        }
        let start = Start {
            args: args.into_iter().map(OsString::from).collect(),
            environment: program.environment(&environment),
            cwd,
            // A unique tag: exactly the processes that carry it are ended with this one.
            tag: format!("{}{}/", self.spec.tag, Uuid::new_v4()),
            ledger: self.spec.ledger.clone(),
            sandbox,
            program: path.clone().into(),
        };
        Child::start(start).map_err(|error| {
            format!("{} ({}) cannot be started: {error}.", program.info.name, path.display())
        })
    }
}

impl EngineConversation for ProgramConversation {
    fn run<'a>(
        &'a mut self,
        prompt: String,
        reports: mpsc::UnboundedSender<Report>,
        control: mpsc::UnboundedReceiver<EngineControl>,
        interrupt: CancellationToken,
    ) -> Running<'a> {
        Box::pin(Run::new(self, reports, control, interrupt).finish(prompt))
    }

    fn close<'a>(&'a mut self) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(async {
            if let Some(child) = self.idle.take() {
                child.finish(Duration::ZERO).await;
                self.process_exited();
            }
        })
    }
}

/// Returns the sandbox that a whole program runs in; none outside. The error is a message to the user.
async fn place(program: &Program, placing: Option<&Placing>) -> Result<Option<Arc<Ready>>, String> {
    let Some(Placing(placing)) = placing.filter(|_| program.settings.inside) else { return Ok(None) };
    let name = program.info.name;
    match placing(program.state()).await {
        Ok(Place::Inside(ready)) => Ok(Some(ready)),
        Ok(Place::Outside) => Err(format!("{name} has to run in a sandbox, and the session has none.")),
        Err(why) => Err(format!("{name} cannot run in the sandbox: {why}.")),
    }
}

/// Writes a file unless it has this content already. Atomic, because other conversations may write it and programs may
/// read it at the same time. Blocks.
#[expect(clippy::disallowed_methods, reason = "runs on a blocking thread; the file is in Baton's own home")]
fn write_if_changed(path: &Path, content: &str) -> std::io::Result<()> {
    if std::fs::read(path).is_ok_and(|current| current == content.as_bytes()) {
        return Ok(());
    }
    if let Some(directory) = path.parent() {
        baton_disk::private::create_dir_all(directory)?;
    }
    baton_disk::private::replace(path, content)
}
