//! One run: a prompt, then the messages that the program could not take while it worked on it.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use baton_disk::blocking;
use baton_protocol::engine::EngineControl;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::ProgramConversation;
use super::outcome;
use super::reporter::Reporter;
use crate::adapter::{RunEnding, Step, Steps};
use crate::limits::{Clock, Overdue};
use crate::locks::ConversationGuard;
use crate::process::{Child, OutputLine};
use crate::{Report, ResumeToken, RunOutcome, login, permission};

/// How long a program may take to stop its work after an interrupt.
const STOP_LIMIT: Duration = Duration::from_secs(5);
/// How long a process may take to exit after its result.
const EXIT_LIMIT: Duration = Duration::from_secs(5);

pub(super) struct Run<'a> {
    conversation: &'a mut ProgramConversation,
    reporter: Reporter,
    control: mpsc::UnboundedReceiver<EngineControl>,
    interrupt: CancellationToken,
    /// The lock of the conversation, once its id is known.
    guard: Option<ConversationGuard>,
    /// Messages to send as prompts after the current one.
    deferred: VecDeque<String>,
}

/// A prompt that a process works on.
struct Attempt {
    child: Child,
    clock: Clock,
    /// Whether the process has printed anything since the prompt.
    has_output: bool,
    /// The references of open requests and questions.
    pending: HashSet<String>,
    /// The ending that the program has reported. Its process should exit now.
    reported: Option<RunEnding>,
    /// Whether the run was interrupted.
    stopping: bool,
}

/// An event of an attempt.
enum Event {
    Line(OutputLine),
    /// The process has exited or closed its stdout.
    OutputEnded,
    Control(EngineControl),
    Interrupt,
    /// The receiver of the reports was dropped.
    Abandoned,
    Overdue(Overdue),
}

/// Why an attempt stops.
enum Stop {
    /// The program has reported the ending, and its process stays.
    Reported(RunEnding),
    /// There is no more output. The process may take this long to exit.
    OutputEnded(Duration),
    /// The process has to be killed.
    Kill(RunEnding),
}

impl<'a> Run<'a> {
    pub(super) fn new(
        conversation: &'a mut ProgramConversation,
        reports: mpsc::UnboundedSender<Report>,
        control: mpsc::UnboundedReceiver<EngineControl>,
        interrupt: CancellationToken,
    ) -> Self {
        let reporter = Reporter::new(conversation.program.info.name, reports);
        Self { conversation, reporter, control, interrupt, guard: None, deferred: VecDeque::new() }
    }

    /// Runs the prompt and all deferred ones.
    pub(super) async fn finish(mut self, prompt: String) -> RunOutcome {
        let mut outcome = self.prompt(&prompt).await;
        while outcome == RunOutcome::Completed
            && let Some(prompt) = self.deferred.pop_front()
        {
            outcome = self.prompt(&prompt).await;
        }
        self.reporter.close(match outcome {
            RunOutcome::Interrupted => "Interrupted.",
            _ => "The run ended before this call did.",
        });
        outcome
    }

    async fn prompt(&mut self, prompt: &str) -> RunOutcome {
        loop {
            if !self.lock_conversation().await {
                return RunOutcome::Interrupted;
            }
            let idle = self.conversation.take_idle().await;
            let was_idle = idle.is_some();
            if std::mem::take(&mut self.conversation.was_lost) {
                let name = self.conversation.program.info.name;
                self.reporter
                    .warn(format!("{name} lost the conversation with its process, so a new one starts."));
            }
            let started = match idle {
                Some(child) => Ok(child),
                None => self.conversation.start().await,
            };
            let child = match started {
                Ok(child) => child,
                Err(message) => return RunOutcome::Failed { message, diagnostics: None },
            };
            if !was_idle {
                self.warn_about_login().await;
            }
            let mut attempt = self.attempt(child, was_idle);
            let stop = self.follow(prompt, &mut attempt).await;
            // The idle process exited before it got the prompt. Nothing is lost: the prompt goes to a new process.
            let was_stale = was_idle && !attempt.has_output && matches!(stop, Stop::OutputEnded(_));
            if !was_stale {
                let was_resumed = !was_idle && self.conversation.token.is_some();
                let outcome = self.conclude(attempt, stop).await;
                return if was_resumed { self.check_unknown_conversation(outcome).await } else { outcome };
            }
            attempt.child.finish(Duration::ZERO).await;
            self.conversation.process_exited();
        }
    }

    /// Warns before the first prompt of a conversation if the program seems to have no credentials.
    async fn warn_about_login(&mut self) {
        if self.conversation.token.is_some() || self.conversation.adapter.reports_login() {
            return;
        }
        let program = self.conversation.program.clone();
        if let Ok(Some(warning)) = blocking::run(move || login::missing(&program)).await {
            self.reporter.warn(warning);
        }
    }

    /// Turns the failure to resume an unknown conversation into [`RunOutcome::Forgotten`], which the caller can recover
    /// from.
    async fn check_unknown_conversation(&mut self, outcome: RunOutcome) -> RunOutcome {
        let RunOutcome::Failed { message, .. } = &outcome else { return outcome };
        if !self.conversation.adapter.is_unknown_conversation(message) {
            return outcome;
        }
        if let Some(child) = self.conversation.idle.take() {
            child.finish(Duration::ZERO).await;
        }
        self.conversation.token = None;
        RunOutcome::Forgotten
    }

    fn attempt(&self, child: Child, was_idle: bool) -> Attempt {
        let limits = self.conversation.program.settings.limits;
        let clock = Clock::start(limits, was_idle || self.conversation.adapter.starts_silently());
        Attempt { child, clock, has_output: false, pending: HashSet::new(), reported: None, stopping: false }
    }

    /// Locks the conversation, if its id is known. Returns false if the run was interrupted or abandoned.
    async fn lock_conversation(&mut self) -> bool {
        if self.interrupt.is_cancelled() {
            return false;
        }
        let (None, Some(token)) = (&self.guard, &self.conversation.token) else { return true };
        let guard = tokio::select! {
            guard = self.conversation.program.locks.acquire(token) => guard,
            () = self.interrupt.cancelled() => return false,
            () = self.reporter.abandoned() => return false,
        };
        self.guard = Some(guard);
        true
    }

    /// Sends the prompt and handles events until the attempt stops.
    async fn follow(&mut self, prompt: &str, attempt: &mut Attempt) -> Stop {
        let mut steps = Steps::default();
        self.conversation.adapter.prompt(prompt, &mut steps);
        loop {
            while let Some(step) = steps.pop() {
                if let Some(stop) = self.execute(step, attempt).await {
                    return stop;
                }
            }
            let event = self.next(attempt).await;
            if let Some(stop) = self.react(event, attempt, &mut steps) {
                return stop;
            }
        }
    }

    async fn next(&mut self, attempt: &mut Attempt) -> Event {
        attempt.clock.pause(!attempt.pending.is_empty());
        tokio::select! {
            // Decisions go before further output, and so do deadlines that output does not move: a program that prints
            // without end would never reach them. Output that has arrived breaks a silence.
            biased;
            Some(control) = self.control.recv() => Event::Control(control),
            () = self.interrupt.cancelled(), if !attempt.stopping => Event::Interrupt,
            () = self.reporter.abandoned() => Event::Abandoned,
            overdue = attempt.clock.expired() => Event::Overdue(overdue),
            line = attempt.child.next_line() => line.map_or(Event::OutputEnded, Event::Line),
            overdue = attempt.clock.silent() => Event::Overdue(overdue),
        }
    }

    fn react(&mut self, event: Event, attempt: &mut Attempt, steps: &mut Steps) -> Option<Stop> {
        let adapter = &mut self.conversation.adapter;
        match event {
            // Some programs log all the time: their stderr is no sign of progress.
            Event::Line(OutputLine::Diagnostic(line)) => {
                adapter.receive_diagnostic(&line, steps);
                None
            }
            Event::Line(line) => {
                attempt.clock.output_received();
                attempt.has_output = true;
                match line {
                    // Output after the result is ignored.
                    _ if attempt.reported.is_some() => {}
                    OutputLine::Json(line) => adapter.receive(&line, steps),
                    unreadable => self.reporter.unreadable(&unreadable),
                }
                None
            }
            Event::OutputEnded => Some(Stop::OutputEnded(EXIT_LIMIT)),
            Event::Control(control) => {
                self.control(control, attempt, steps);
                None
            }
            Event::Interrupt => {
                attempt.stopping = true;
                if !(adapter.is_persistent() && adapter.interrupt(steps)) {
                    return Some(Stop::Kill(RunEnding::Interrupted));
                }
                attempt.clock.expect_exit_within(STOP_LIMIT);
                None
            }
            Event::Abandoned => Some(Stop::Kill(RunEnding::Interrupted)),
            Event::Overdue(overdue) => Some(self.overdue(overdue, attempt)),
        }
    }

    fn overdue(&self, overdue: Overdue, attempt: &mut Attempt) -> Stop {
        match outcome::limit_exceeded(&self.conversation.program.info, overdue) {
            Some(reason) => Stop::Kill(RunEnding::Failed(reason)),
            None if attempt.stopping => Stop::Kill(RunEnding::Interrupted),
            None => Stop::OutputEnded(Duration::ZERO),
        }
    }

    fn control(&mut self, control: EngineControl, attempt: &mut Attempt, steps: &mut Steps) {
        let adapter = &mut self.conversation.adapter;
        match control {
            EngineControl::Decide { reference, verdict } => {
                if attempt.pending.remove(&reference) {
                    adapter.decide(&reference, verdict, steps);
                }
            }
            EngineControl::Answer { reference, answer, .. } => {
                if attempt.pending.remove(&reference) {
                    adapter.answer(&reference, &answer, steps);
                }
            }
            // Goes to the server of the session's tools, not to the program.
            EngineControl::Returns { .. } => {}
            EngineControl::Steer(text) => {
                if attempt.reported.is_some() || attempt.stopping || !adapter.steer(&text, steps) {
                    self.deferred.push_back(text);
                }
            }
        }
    }

    async fn execute(&mut self, step: Step, attempt: &mut Attempt) -> Option<Stop> {
        match step {
            Step::Send(line) => {
                if !attempt.child.say(&line) {
                    let name = self.conversation.program.info.name;
                    let reason = format!("{name} does not read what is sent to it, so it was stopped.");
                    return Some(Stop::Kill(RunEnding::Failed(reason)));
                }
            }
            Step::SendAndClose(text) => attempt.child.say_all(&text),
            Step::Identified { token, model } => return self.identified(token, model, attempt).await,
            Step::Report(Report::Wants { reference, call, wants }) => {
                let wants = Box::new(permission::with_diff(*wants, &self.conversation.spec.cwd).await);
                return self.report(Report::Wants { reference, call, wants }, attempt);
            }
            Step::Report(report) => return self.report(report, attempt),
            Step::Defer(text) => self.deferred.push_back(text),
            Step::End(ending) if self.conversation.adapter.is_persistent() => {
                return Some(Stop::Reported(ending));
            }
            Step::End(ending) => {
                attempt.reported.get_or_insert(ending);
                attempt.clock.expect_exit_within(EXIT_LIMIT);
            }
        }
        None
    }

    /// Sends a report. A program that asks for two things under one id is stopped: an answer to one of them would be an
    /// answer to the other.
    fn report(&mut self, report: Report, attempt: &mut Attempt) -> Option<Stop> {
        match &report {
            // Not reported before `Started`, so it cannot be answered.
            Report::Wants { .. } | Report::Asks { .. } if !self.reporter.has_started() => return None,
            Report::Wants { reference, .. } | Report::Asks { reference, .. }
                if !attempt.pending.insert(reference.clone()) =>
            {
                let name = self.conversation.program.info.name;
                let reason =
                    format!("{name} used the id of an open request for another one, so it was stopped.");
                return Some(Stop::Kill(RunEnding::Failed(reason)));
            }
            Report::Withdrawn { reference } if !attempt.pending.remove(reference) => return None,
            _ => {}
        }
        self.reporter.report(report);
        None
    }

    /// Handles the id of the conversation. A program that opened a different conversation than requested is stopped. A
    /// conversation that turns out to be locked by another run waits for the lock before it is reported.
    async fn identified(
        &mut self,
        token: ResumeToken,
        model: Option<String>,
        attempt: &mut Attempt,
    ) -> Option<Stop> {
        match &self.conversation.token {
            Some(known) if *known != token => {
                let name = self.conversation.program.info.name;
                return Some(Stop::Kill(RunEnding::Failed(format!(
                    "{name} was asked to resume the conversation {} and opened {} instead, so it was stopped. \
                     Start a new session.",
                    known.0, token.0
                ))));
            }
            Some(_) => {}
            None => self.conversation.token = Some(token.clone()),
        }
        attempt.clock.pause(true);
        if !self.lock_conversation().await {
            return Some(Stop::Kill(RunEnding::Interrupted));
        }
        attempt.clock.pause(false);
        self.reporter.started(token, model);
        None
    }

    async fn conclude(&mut self, attempt: Attempt, stop: Stop) -> RunOutcome {
        let Attempt { child, reported, stopping, .. } = attempt;
        let (ending, diagnostics) = match stop {
            Stop::Reported(ending) => {
                let diagnostics = child.diagnostics();
                self.conversation.idle = Some(child);
                (ending, diagnostics)
            }
            Stop::Kill(ending) => (ending, child.finish(Duration::ZERO).await.1),
            Stop::OutputEnded(limit) => {
                let (exit, diagnostics) = child.finish(limit).await;
                let adapter = &self.conversation.adapter;
                let found = outcome::at_exit(adapter.name(), reported, exit, adapter.ending_at_exit());
                if let Some(warning) = found.warning {
                    self.reporter.warn(warning);
                }
                (found.ending, diagnostics)
            }
        };
        if self.conversation.idle.is_none() {
            self.conversation.process_exited();
        }
        let ending = match ending {
            RunEnding::Completed if !self.reporter.has_started() => RunEnding::Failed(format!(
                "{} ended without a conversation.",
                self.conversation.adapter.name()
            )),
            ending => ending,
        };
        // After an interrupt the ending that the program reports does not matter.
        let ending = if stopping { RunEnding::Interrupted } else { ending };
        outcome::outcome(&self.conversation.program.info, ending, diagnostics)
    }
}
