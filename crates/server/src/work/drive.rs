//! A turn that another agent's program works on: its reports become the session's events, what clients say reaches it.

use std::path::Path;

use baton_agent::tools::paths;
use baton_core::{EngineReport, WorkId, WorkResult};
use baton_engines::{Control, Engine, Outcome, Report};
use baton_model::{Message, Part};
use baton_protocol::ToolCallId;
use baton_protocol::event::{
    AssistantUsage, MessageDelta, MessageStart, ReasoningDelta, SessionError, TokenCounts, ToolPartialResult,
};
use baton_protocol::permission::{PermissionRequest, Verdict};
use baton_store::Seq;
use tokio::sync::mpsc;

use super::engine_room::{Run, Wanted};
use super::{Bench, prompt, trust};
use crate::session::Mail;
use crate::session::actor::transcript::Conversation;

/// How much of an earlier conversation a program is told that joins it, in tokens.
const ACCOUNT: u64 = 8_000;

/// Has an engine work on the running turn.
pub(super) async fn drive(
    mut bench: Bench,
    work: WorkId,
    name: &str,
    prompt: String,
    token: Option<String>,
) -> WorkResult {
    let server = bench.server.clone();
    let (Some(engine), Some(control)) = (server.engines.get(name), bench.control.take()) else {
        return WorkResult::Drive(Err(failure(format!("There is no engine named {name:?} here."))));
    };
    let facts = &bench.session.durable.facts;
    let wanted = Wanted {
        engine: engine.name(),
        model: facts.model.as_deref().and_then(|model| Some(server.engines.of_model(model)?.1?.to_owned())),
        reasoning_effort: facts.reasoning_effort.clone(),
        cwd: prompt::cwd(&bench),
        // What is refused by a rule has to be asked for, to be refused.
        allow_all: server.options.allow_all && bench.session.durable.rules.denied.is_empty(),
    };
    let held = Vec::new();
    let mut driver = Driver { scribe: Scribe::new(&bench, work), engine: &**engine, wanted, control, held };
    if let Some(refusal) = driver.refused_by_distrust().await {
        return WorkResult::Drive(Err(failure(refusal)));
    }
    let is_new = token.is_none();
    let first = if is_new { told(&bench.conversation, &prompt) } else { prompt.clone() };
    let mut outcome = driver.run(token, first).await;
    if outcome == Outcome::Forgotten {
        let text = format!("{name} did not keep the conversation, so a new one begins.");
        driver.scribe.take(Report::Note { warning: true, text });
        let mut conversation = bench.conversation.clone();
        // Without what was said so far, there is still the prompt.
        drop(conversation.load(&server, &bench.session.id, Seq(bench.session.durable.seq)).await);
        outcome = driver.run(None, told(&conversation, &prompt)).await;
    }
    WorkResult::Drive(match outcome {
        Outcome::Completed => Ok(()),
        Outcome::Interrupted => Err(failure(format!("{name} was interrupted."))),
        Outcome::Forgotten => Err(failure(format!("{name} did not keep the conversation."))),
        Outcome::Failed { message, diagnostics } => {
            Err(SessionError { stack: diagnostics, ..failure(message) })
        }
    })
}

/// A prompt as a program is told it that was not there so far: it hears what was said before.
fn told(conversation: &Conversation, prompt: &str) -> String {
    account(conversation).map_or_else(|| prompt.to_owned(), |account| format!("{account}\n\n{prompt}"))
}

/// Whoever has a program work on a prompt, and passes on what is said in both directions.
struct Driver<'a> {
    scribe: Scribe<'a>,
    engine: &'a dyn Engine,
    wanted: Wanted,
    control: mpsc::UnboundedReceiver<Control>,
    /// What was said before the program was started.
    held: Vec<Control>,
}

impl Driver<'_> {
    /// Asks whether to trust the directory, if it brings something that the program would act on. Returns why the program
    /// must not be started.
    async fn refused_by_distrust(&mut self) -> Option<String> {
        let bench = self.scribe.bench;
        let engine = self.wanted.engine;
        if bench.engine.is_trusted(engine, &self.wanted.cwd) {
            return None;
        }
        if let Some(untrusted) = trust::untrusted(&bench.server, engine, &self.wanted.cwd).await {
            let wants = Box::new(untrusted.request(engine));
            let reference = trust::REFERENCE.to_owned();
            self.scribe.take(Report::Wants { reference, call: None, wants });
            if !self.is_approved().await {
                return Some(untrusted.refusal(engine));
            }
        }
        bench.engine.trust(engine, &self.wanted.cwd);
        None
    }

    async fn is_approved(&mut self) -> bool {
        loop {
            let control = tokio::select! {
                control = self.control.recv() => control,
                () = self.scribe.bench.cancel.cancelled() => None,
            };
            match control {
                Some(Control::Decide { reference, verdict }) if reference == trust::REFERENCE => {
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

    async fn run(&mut self, token: Option<String>, prompt: String) -> Outcome {
        let bench = self.scribe.bench;
        let (reports, mut heard) = mpsc::unbounded_channel();
        let (said, control) = mpsc::unbounded_channel();
        self.held.drain(..).for_each(|control| drop(said.send(control)));
        let run = Run { prompt, reports, control, interrupt: bench.cancel.clone() };
        let server = &bench.server;
        let mut running =
            std::pin::pin!(bench.engine.run(self.engine, self.wanted.clone(), token, server, run));
        let outcome = loop {
            tokio::select! {
                biased;
                Some(report) = heard.recv() => {
                    let report = resolved(bench, &self.wanted.cwd, report).await;
                    self.scribe.take(report);
                }
                Some(control) = self.control.recv() => drop(said.send(control)),
                outcome = &mut running => break outcome,
            }
        };
        while let Ok(report) = heard.try_recv() {
            let report = resolved(bench, &self.wanted.cwd, report).await;
            self.scribe.take(report);
        }
        outcome
    }
}

/// A report in which a request names the files that it is really about: absolute, with all links followed. What a person is
/// shown, and what rules are applied to, is then what the program would touch, as far as that can be told now.
async fn resolved(bench: &Bench, cwd: &Path, report: Report) -> Report {
    let Report::Wants { reference, call, mut wants } = report else { return report };
    if let Some(names) = path_of(&mut wants) {
        let (cwd, written) = (cwd.to_owned(), names.clone());
        let find = tokio::task::spawn_blocking(move || real(&cwd, &written));
        let found = tokio::select! {
            found = find => found.ok().flatten(),
            // It hangs in the kernel, and nobody waits for it any more.
            () = bench.cancel.cancelled() => None,
        };
        *names = found.unwrap_or_else(|| UNKNOWN.to_owned());
    }
    Report::Wants { reference, call, wants }
}

/// The real paths of these files, one on each line as they are; none, if that cannot be said. Blocks.
fn real(cwd: &Path, names: &str) -> Option<String> {
    let real = |name: &str| paths::real(cwd, name)?.into_os_string().into_string().ok();
    let found: Vec<String> = names.split('\n').map(real).collect::<Option<_>>()?;
    found.iter().all(|path| !path.contains('\n')).then(|| found.join("\n"))
}

/// Stands for files that are not known: inside no directory, so that nothing but a person allows it.
const UNKNOWN: &str = "(unknown)";

fn path_of(wants: &mut PermissionRequest) -> Option<&mut String> {
    match wants {
        PermissionRequest::Write { file_name: path, .. } | PermissionRequest::Read { path, .. } => Some(path),
        _ => None,
    }
}

pub(super) fn failure(message: String) -> SessionError {
    SessionError { error_type: "engine".into(), message, ..SessionError::default() }
}

/// What was said before a program joined the conversation, for it to go on from; none if it is there from the start.
fn account(conversation: &Conversation) -> Option<String> {
    let messages = conversation.transcript().messages(false, ACCOUNT);
    let now = messages.iter().rposition(|message| matches!(**message, Message::User(_)))?;
    let lines: Vec<String> = messages[..now].iter().filter_map(|message| line(message)).collect();
    (!lines.is_empty()).then(|| {
        format!(
            "<conversation_so_far>\nYou take over from another agent. This was said before:\n\n{}\n</conversation_so_far>",
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

/// Passes on what a program reports: pieces are shown as they come, what is whole goes through the core.
struct Scribe<'a> {
    bench: &'a Bench,
    work: WorkId,
    /// The name of the message that is being said.
    message_id: String,
    reasoning_id: String,
    speaking: bool,
    model: Option<String>,
}

impl<'a> Scribe<'a> {
    fn new(bench: &'a Bench, work: WorkId) -> Self {
        Self { bench, work, message_id: new_id(), reasoning_id: new_id(), speaking: false, model: None }
    }

    fn take(&mut self, report: Report) {
        let report = match report {
            Report::TextDelta(delta_content) => return self.show_text(delta_content),
            Report::ReasoningDelta(delta_content) => return self.show_reasoning(delta_content),
            Report::CallOutput { id, output } => {
                let partial = ToolPartialResult { tool_call_id: ToolCallId(id), partial_output: output };
                return self.bench.show(partial);
            }
            Report::Started { token, model } => {
                self.model = model;
                EngineReport::Thread(token.0)
            }
            Report::Message { text, reasoning } => self.said(text, reasoning),
            Report::Usage(usage) => self.used(*usage),
            Report::CallStarted { id, tool, arguments } => {
                EngineReport::CallStarted { call: ToolCallId(id), tool, arguments }
            }
            Report::CallFinished { id, result } => {
                EngineReport::CallFinished { call: ToolCallId(id), result }
            }
            Report::Wants { reference, call, wants } => {
                EngineReport::Wants { reference, call: call.map(ToolCallId), wants, cwd: None }
            }
            Report::Asks { reference, question } => EngineReport::Asks { reference, question },
            Report::Withdrawn { reference } => EngineReport::Withdrawn { reference },
            Report::Note { warning, text } => EngineReport::Note { warning, text },
        };
        drop(self.bench.mailbox.send(Mail::Report(self.work, Box::new(report))));
    }

    fn show_text(&mut self, delta_content: String) {
        if !self.bench.settings.streaming {
            return;
        }
        if !std::mem::replace(&mut self.speaking, true) {
            self.bench.show(MessageStart { message_id: self.message_id.clone() });
        }
        self.bench.show(MessageDelta { message_id: self.message_id.clone(), delta_content });
    }

    fn show_reasoning(&self, delta_content: String) {
        if self.bench.settings.streaming {
            self.bench.show(ReasoningDelta { reasoning_id: self.reasoning_id.clone(), delta_content });
        }
    }

    fn said(&mut self, text: String, reasoning: Option<String>) -> EngineReport {
        self.speaking = false;
        self.reasoning_id = new_id();
        let message_id = std::mem::replace(&mut self.message_id, new_id());
        EngineReport::Said { message_id, text, reasoning, model: self.model.clone() }
    }

    fn used(&self, usage: AssistantUsage) -> EngineReport {
        let model = Some(usage.model.clone()).filter(|model| !model.is_empty()).or(self.model.clone());
        let tokens = TokenCounts {
            input: usage.input_tokens.unwrap_or_default(),
            output: usage.output_tokens.unwrap_or_default(),
            cache_read: usage.cache_read_tokens.unwrap_or_default(),
            cache_write: usage.cache_write_tokens.unwrap_or_default(),
            reasoning: usage.reasoning_tokens.unwrap_or_default(),
            duration_ms: usage.duration.unwrap_or_default(),
        };
        self.bench.show(AssistantUsage { model: model.clone().unwrap_or_default(), ..usage });
        EngineReport::Used { model, tokens }
    }
}

fn new_id() -> String {
    uuid::Uuid::new_v4().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_request_are_named_by_their_real_paths() {
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
        assert_eq!(named("odd/a"), None, "it would look like two files");
    }
}
