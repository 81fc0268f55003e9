//! Turns that an engine program executes: its reports become events of the session, decisions and answers of clients
//! reach the program.

use std::collections::HashSet;
use std::path::Path;

use baton_agent::tools::shell::CommandEnvironment;
use baton_core::{WorkId, WorkResult};
use baton_disk::paths;
use baton_engines::{Engine, Report, RunOutcome};
use baton_model::{Message, Part};
use baton_protocol::engine::EngineControl;
use baton_protocol::event::SessionError;
use baton_protocol::permission::{PermissionRequest, Verdict};
use baton_protocol::sandbox::SandboxChoice;
use baton_store::Seq;
use serde_json::Value;
use tokio::sync::mpsc;

use super::engine_reports::ReportSink;
use super::engine_tools::{self, EngineCalls};
use super::session_engine::{EngineSettings, Run};
use super::{WorkScope, prompt, tools, trust};
use crate::Options;
use crate::session::actor::transcript::Transcripts;

/// Maximum size of the earlier conversation that a program receives with its first prompt, in tokens.
const MAX_EARLIER_TOKENS: u64 = 8_000;

const NOT_RECORDED: &str = "recordings are of models only; use a model, or unset BATON_RECORD";

/// Runs a turn with an engine.
pub(super) async fn run(
    mut scope: WorkScope,
    work: WorkId,
    name: &str,
    prompt: String,
    token: Option<String>,
) -> WorkResult {
    let runtime = scope.runtime.clone();
    let (Some(engine), Some(control)) = (runtime.engines.get(name), scope.control.take()) else {
        return WorkResult::Drive(Err(failure(format!("unknown engine {name:?}"))));
    };
    if runtime.options.record.is_some() {
        return WorkResult::Drive(Err(failure(format!("{name} calls its model itself: {NOT_RECORDED}"))));
    }
    let facts = &scope.session.durable.facts;
    let tools = engine_tools::ready(&scope).await;
    let SandboxChoice { policy, chosen } = scope.session.sandbox().clone();
    let settings = EngineSettings {
        engine: engine.name(),
        model: facts.model.as_deref().and_then(|model| Some(runtime.engines.of_model(model)?.1?.to_owned())),
        reasoning_effort: facts.reasoning_effort.clone(),
        cwd: prompt::cwd(&scope),
        // Deny rules apply to requests, so the program must send them.
        allow_all: runtime.options.allow_all && scope.session.durable.rules.denied.is_empty(),
        has_tools: !tools.is_empty(),
        sandbox: chosen.then_some(policy.level),
    };
    // These become arguments of the program, which reads a leading dash as an option.
    let arguments = [&token, &settings.model, &settings.reasoning_effort];
    if let Some(option) = arguments.into_iter().flatten().find(|argument| argument.starts_with('-')) {
        return WorkResult::Drive(Err(failure(format!(
            "{option:?} is not a valid name: it starts with a dash"
        ))));
    }
    let (sink, held) = (ReportSink::new(&scope, work, settings.engine), Vec::new());
    let (calls, own_calls) = (EngineCalls::default(), HashSet::new());
    let mut turn = EngineTurn { sink, engine: &**engine, settings, tools, calls, own_calls, control, held };
    if let Some(refusal) = turn.refused_by_distrust().await {
        return WorkResult::Drive(Err(failure(refusal)));
    }
    let is_new = token.is_none();
    let first = if is_new { first_prompt(&scope.conversation, &prompt) } else { prompt.clone() };
    let mut outcome = turn.run(token, first).await;
    if outcome == RunOutcome::Forgotten {
        let text = format!("{name} has lost the conversation; starting a new one");
        turn.sink.forward(Report::Note { warning: true, text }).await;
        let mut conversation = scope.conversation.clone();
        // If the conversation cannot be loaded, the program receives the prompt alone.
        drop(conversation.load(&runtime, &scope.session.id, Seq(scope.session.durable.seq)).await);
        outcome = turn.run(None, first_prompt(&conversation, &prompt)).await;
    }
    WorkResult::Drive(match outcome {
        RunOutcome::Completed => Ok(()),
        RunOutcome::Interrupted => Err(failure(format!("{name} was interrupted"))),
        RunOutcome::Forgotten => Err(failure(format!("{name} has lost the conversation"))),
        RunOutcome::Failed { message, diagnostics } => {
            Err(SessionError { stack: diagnostics, ..failure(message) })
        }
    })
}

/// Returns the first prompt for a program: preceded by the earlier conversation, if there is one.
fn first_prompt(conversation: &Transcripts, prompt: &str) -> String {
    earlier(conversation).map_or_else(|| prompt.to_owned(), |earlier| format!("{earlier}\n\n{prompt}"))
}

/// A turn of an engine: forwards its reports to the session, and clients' messages to the engine.
struct EngineTurn<'a> {
    sink: ReportSink<'a>,
    engine: &'a dyn Engine,
    settings: EngineSettings,
    /// Tools of the session, as entries of `tools/list`.
    tools: Vec<Value>,
    /// Calls of these tools, and the program's own ids for them.
    calls: EngineCalls,
    own_calls: HashSet<String>,
    control: mpsc::UnboundedReceiver<EngineControl>,
    /// Messages that arrived before the program was started.
    held: Vec<EngineControl>,
}

impl EngineTurn<'_> {
    /// Asks whether to trust the directory, if it has files that the program would act on. Returns the reason if the
    /// program must not be started.
    async fn refused_by_distrust(&mut self) -> Option<String> {
        let scope = self.sink.scope;
        let engine = self.settings.engine;
        if scope.engine.is_trusted(engine, &self.settings.cwd) {
            return None;
        }
        if let Some(untrusted) = trust::untrusted(&scope.runtime, self.engine, &self.settings.cwd).await {
            let wants = Box::new(untrusted.request(engine));
            let reference = trust::REFERENCE.to_owned();
            self.sink.forward(Report::Wants { reference, call: None, wants }).await;
            if !self.is_approved().await {
                return Some(untrusted.refusal(engine));
            }
        }
        scope.engine.trust(engine, &self.settings.cwd);
        None
    }

    async fn is_approved(&mut self) -> bool {
        loop {
            let control = tokio::select! {
                control = self.control.recv() => control,
                () = self.sink.scope.cancel.cancelled() => None,
            };
            match control {
                Some(EngineControl::Decide { reference, verdict }) if reference == trust::REFERENCE => {
                    return matches!(
                        verdict,
                        Verdict::ApproveOnce
                            | Verdict::ApproveForSession(_)
                            | Verdict::ApproveForLocation { .. }
                    );
                }
                Some(other) => self.held.push(other),
                None => return false,
            }
        }
    }

    async fn run(&mut self, token: Option<String>, prompt: String) -> RunOutcome {
        let scope = self.sink.scope;
        let (reports, mut incoming) = mpsc::unbounded_channel();
        let (outgoing, control) = mpsc::unbounded_channel();
        self.held.drain(..).for_each(|control| drop(outgoing.send(control)));
        let (requests, mut requested) = mpsc::unbounded_channel();
        let tools = self.tools.clone();
        let interrupt = scope.cancel.clone();
        let sandbox = scope.tools.sandbox().clone();
        let run = Run { prompt, tools, requests, reports, control, interrupt, sandbox };
        let runtime = &scope.runtime;
        let mut running =
            std::pin::pin!(scope.engine.run(self.engine, self.settings.clone(), token, runtime, run));
        let outcome = loop {
            tokio::select! {
                biased;
                Some(report) = incoming.recv() => self.reported(report).await,
                Some(request) = requested.recv() => {
                    if let Some(report) = self.calls.requested(scope, request) {
                        self.sink.send(report).await;
                    }
                }
                Some(control) = self.control.recv() => match control {
                    EngineControl::Returns { call, result } => self.calls.returned(&call, *result),
                    other => drop(outgoing.send(other)),
                },
                outcome = &mut running => break outcome,
            }
        };
        while let Ok(report) = incoming.try_recv() {
            self.reported(report).await;
        }
        outcome
    }

    /// Forwards a report. What the program says about calls of the session's own tools is left out: those calls are
    /// reported from where they are executed.
    async fn reported(&mut self, report: Report) {
        let is_own = match &report {
            Report::CallStarted { id, tool, .. } if self.sink.scope.engine.is_own_tool(tool) => {
                self.own_calls.insert(id.clone());
                true
            }
            Report::CallOutput { id, .. } => self.own_calls.contains(id),
            Report::CallFinished { id, .. } => self.own_calls.remove(id),
            _ => false,
        };
        if !is_own {
            let report = resolved(self.sink.scope, &self.settings, report).await;
            self.sink.forward(report).await;
        }
    }
}

/// Replaces the paths in a permission request by the real ones: absolute, with all links followed. Users then see, and rules
/// apply to, the files that the program would touch, as far as that can be determined now.
async fn resolved(scope: &WorkScope, settings: &EngineSettings, report: Report) -> Report {
    let Report::Wants { reference, call, wants } = report else { return report };
    let environment = shell_environment(&scope.runtime.options, settings.engine);
    let mut wants = Box::new(tools::inspected(scope, *wants, &settings.cwd, &environment).await);
    bind(&mut wants, settings.engine);
    if let Some(names) = path_of(&mut wants) {
        let (cwd, written) = (settings.cwd.clone(), names.clone());
        let find = tokio::task::spawn_blocking(move || real(&cwd, &written));
        let found = tokio::select! {
            found = find => found.ok().flatten(),
            // The lookup may hang in the kernel; the turn does not wait for it.
            () = scope.cancel.cancelled() => None,
        };
        *names = found.unwrap_or_else(|| UNKNOWN_PATH.to_owned());
    }
    Report::Wants { reference, call, wants }
}

/// Binds a call of an MCP server to the program. It is a server of the program's: a grant for it must not cover a server of
/// the session that has the same name.
fn bind(wants: &mut PermissionRequest, engine: &str) {
    if let PermissionRequest::Mcp { binding, .. } = wants {
        // The parts for the configuration and the tool, which are not known.
        let engine = engine.replace(':', "-");
        *binding = Some(format!("{engine}:{engine}"));
    }
}

/// Returns what is known about the environment of the shells of an engine.
fn shell_environment(options: &Options, engine: &str) -> CommandEnvironment {
    let configured = options.engines.get(engine).into_iter().flat_map(|settings| &settings.environment);
    let configured = configured.map(|(name, value)| (name.into(), value.into()));
    CommandEnvironment::of_engine(options.engine_environment.iter().cloned().chain(configured))
}

/// Returns the real paths of files, which are separated by newlines as in `names`; `None` if one cannot be determined.
/// Blocks.
fn real(cwd: &Path, names: &str) -> Option<String> {
    let real = |name: &str| paths::real(cwd, name)?.into_os_string().into_string().ok();
    let found: Vec<String> = names.split('\n').map(real).collect::<Option<_>>()?;
    found.iter().all(|path| !path.contains('\n')).then(|| found.join("\n"))
}

/// Replaces paths that cannot be determined: it is inside no directory, so that only the user can allow the request.
const UNKNOWN_PATH: &str = "(unknown)";

fn path_of(wants: &mut PermissionRequest) -> Option<&mut String> {
    match wants {
        PermissionRequest::Write { file_name: path, .. } | PermissionRequest::Read { path, .. } => Some(path),
        _ => None,
    }
}

/// Builds the error of a turn that the engine failed.
pub(super) fn failure(message: String) -> SessionError {
    SessionError { error_type: "engine".into(), message, ..SessionError::default() }
}

/// Returns the conversation before the prompt, for a program that takes it over; `None` if there is none.
fn earlier(conversation: &Transcripts) -> Option<String> {
    let messages = conversation.transcript().messages(false, MAX_EARLIER_TOKENS);
    let current = messages.iter().rposition(|message| matches!(**message, Message::User(_)))?;
    let lines: Vec<String> = messages[..current].iter().filter_map(|message| line(message)).collect();
    (!lines.is_empty()).then(|| {
        format!(
            "<conversation_so_far>\nYou take over from another agent. The conversation so far:\n\n{}\n</conversation_so_far>",
            lines.join("\n\n")
        )
    })
}

fn line(message: &Message) -> Option<String> {
    match message {
        Message::User(parts) => {
            let texts = parts.iter().filter_map(|part| match part {
                Part::Text(text) => Some(text.as_str()),
                Part::Image { .. } | Part::Document { .. } => None,
            });
            Some(format!("User: {}", texts.collect::<Vec<_>>().join("\n")))
        }
        Message::Assistant { text, .. } if !text.is_empty() => Some(format!("Assistant: {text}")),
        Message::Assistant { .. } | Message::System(_) | Message::Tool { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_of_a_server_of_the_program_is_bound_to_the_program() {
        let mut wants = PermissionRequest::Mcp {
            tool_call_id: None,
            server_name: "bank".into(),
            tool_name: "pay".into(),
            tool_title: "pay".into(),
            args: None,
            read_only: false,
            binding: None,
        };
        bind(&mut wants, "claude");
        // Unlike that of a server of the session, which are digests. Without one, a grant would go by names.
        let PermissionRequest::Mcp { binding, .. } = wants else { panic!("{wants:?}") };
        assert_eq!(binding.as_deref(), Some("claude:claude"));
    }

    #[test]
    fn paths_in_requests_are_resolved() {
        let dir = tempfile::tempdir().unwrap();
        let cwd = dir.path().canonicalize().unwrap();
        std::os::unix::fs::symlink("/etc", cwd.join("link")).unwrap();
        let named = |names: &str| real(&cwd, names);
        let own = cwd.join("a.txt").display().to_string();
        assert_eq!(named("a.txt"), Some(own.clone()));
        assert_eq!(named("link/passwd").as_deref(), Some("/etc/passwd"));
        assert_eq!(named("x/../../../../../../../../etc/passwd").as_deref(), Some("/etc/passwd"));
        assert_eq!(named("a.txt\nlink/new"), Some(format!("{own}\n/etc/new")));
        assert_eq!(named(""), None);
        std::fs::create_dir(cwd.join("two\nlines")).unwrap();
        std::os::unix::fs::symlink("two\nlines", cwd.join("odd")).unwrap();
        assert_eq!(named("odd/a"), None, "would read as two files");
    }
}
