//! One run: a prompt, and whatever was said in the middle of it that the program did not take, to the end.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Conversation;
use super::outcome;
use super::reporter::Reporter;
use crate::dialect::{Ending, Step, Steps};
use crate::limits::{Clock, Overdue};
use crate::locks::Turn;
use crate::process::{Child, Line};
use crate::{Control, Outcome, Report, ResumeToken, wants};

/// How long a program may take to stop what it does after being asked to.
const STOP_PATIENCE: Duration = Duration::from_secs(5);
/// How long a process may take to end after its last word.
const EXIT_PATIENCE: Duration = Duration::from_secs(5);

pub(super) struct Run<'a> {
    conversation: &'a mut Conversation,
    reporter: Reporter,
    control: mpsc::UnboundedReceiver<Control>,
    interrupt: CancellationToken,
    /// The right to run this conversation, once it has a name.
    turn: Option<Turn>,
    /// What is to be said to the program afterwards.
    later: VecDeque<String>,
}

/// A prompt that the program works on.
struct Attempt {
    child: Child,
    clock: Clock,
    /// Whether it has said anything about this prompt.
    has_spoken: bool,
    /// What somebody must decide or answer before it goes on.
    waits_for: HashSet<String>,
    /// How it went, as the program says; its process should end now.
    said: Option<Ending>,
    /// Whether it was asked to stop.
    stopping: bool,
}

/// What happens next.
enum Event {
    Line(Line),
    Silence,
    Control(Control),
    Interrupt,
    Abandoned,
    Overdue(Overdue),
}

/// Why nothing more is heard of an attempt.
enum Stop {
    /// The program says so, and stays.
    Said(Ending),
    /// Nothing more will come of it; its process may take so long to end.
    Silence(Duration),
    /// It has to be ended.
    ByForce(Ending),
}

impl<'a> Run<'a> {
    pub(super) fn new(
        conversation: &'a mut Conversation,
        reports: mpsc::UnboundedSender<Report>,
        control: mpsc::UnboundedReceiver<Control>,
        interrupt: CancellationToken,
    ) -> Self {
        let reporter = Reporter::new(conversation.program.facts.name, reports);
        Self { conversation, reporter, control, interrupt, turn: None, later: VecDeque::new() }
    }

    pub(super) async fn finish(mut self, prompt: String) -> Outcome {
        let mut outcome = self.prompt(&prompt).await;
        while outcome == Outcome::Completed
            && let Some(prompt) = self.later.pop_front()
        {
            outcome = self.prompt(&prompt).await;
        }
        self.reporter.close(match outcome {
            Outcome::Interrupted => "Interrupted.",
            _ => "The run ended before this did.",
        });
        outcome
    }

    async fn prompt(&mut self, prompt: &str) -> Outcome {
        loop {
            if !self.wait_for_turn().await {
                return Outcome::Interrupted;
            }
            let kept = self.conversation.kept().await;
            let was_kept = kept.is_some();
            if std::mem::take(&mut self.conversation.was_lost) {
                let name = self.conversation.program.facts.name;
                self.reporter.warn(format!("{name} did not keep the conversation, so a new one begins."));
            }
            let started = match kept {
                Some(child) => Ok(child),
                None => self.conversation.start().await,
            };
            let child = match started {
                Ok(child) => child,
                Err(message) => return Outcome::Failed { message, diagnostics: None },
            };
            let mut attempt = self.attempt(child, was_kept);
            let stop = self.follow(prompt, &mut attempt).await;
            // The process that stayed had gone before it heard of the prompt. Nothing is lost: another one will do.
            let was_stale = was_kept && !attempt.has_spoken && matches!(stop, Stop::Silence(_));
            if !was_stale {
                let was_resumed = !was_kept && self.conversation.token.is_some();
                let outcome = self.conclude(attempt, stop).await;
                return if was_resumed { self.unless_forgotten(outcome).await } else { outcome };
            }
            attempt.child.finish(Duration::ZERO).await;
            self.conversation.process_has_gone();
        }
    }

    /// A program that does not know the conversation any more has not failed: there is a way to go on.
    async fn unless_forgotten(&mut self, outcome: Outcome) -> Outcome {
        let Outcome::Failed { message, .. } = &outcome else { return outcome };
        if !self.conversation.dialect.has_forgotten(message) {
            return outcome;
        }
        if let Some(child) = self.conversation.kept.take() {
            child.finish(Duration::ZERO).await;
        }
        self.conversation.token = None;
        Outcome::Forgotten
    }

    fn attempt(&self, child: Child, was_kept: bool) -> Attempt {
        let limits = self.conversation.program.settings.limits;
        let clock = Clock::start(limits, was_kept || self.conversation.dialect.starts_silently());
        Attempt { child, clock, has_spoken: false, waits_for: HashSet::new(), said: None, stopping: false }
    }

    /// Waits until nobody else runs this conversation. False: nobody wants to run it any more.
    async fn wait_for_turn(&mut self) -> bool {
        if self.interrupt.is_cancelled() {
            return false;
        }
        let (None, Some(token)) = (&self.turn, &self.conversation.token) else { return true };
        let turn = tokio::select! {
            turn = self.conversation.program.locks.wait_for(token) => turn,
            () = self.interrupt.cancelled() => return false,
            () = self.reporter.abandoned() => return false,
        };
        self.turn = Some(turn);
        true
    }

    async fn follow(&mut self, prompt: &str, attempt: &mut Attempt) -> Stop {
        let mut steps = Steps::default();
        self.conversation.dialect.prompt(prompt, &mut steps);
        loop {
            while let Some(step) = steps.pop() {
                if let Some(stop) = self.take(step, attempt).await {
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
        attempt.clock.pause(!attempt.waits_for.is_empty());
        tokio::select! {
            // What was decided goes before what it is about; what the program has said goes before its end by force.
            biased;
            Some(control) = self.control.recv() => Event::Control(control),
            () = self.interrupt.cancelled(), if !attempt.stopping => Event::Interrupt,
            () = self.reporter.abandoned() => Event::Abandoned,
            line = attempt.child.hear() => line.map_or(Event::Silence, Event::Line),
            overdue = attempt.clock.overdue() => Event::Overdue(overdue),
        }
    }

    fn react(&mut self, event: Event, attempt: &mut Attempt, steps: &mut Steps) -> Option<Stop> {
        let dialect = &mut self.conversation.dialect;
        match event {
            Event::Line(line) => {
                attempt.clock.heard();
                attempt.has_spoken = true;
                match line {
                    // Nothing counts after the last word.
                    _ if attempt.said.is_some() => {}
                    Line::Json(line) => dialect.hear(&line, steps),
                    unreadable => self.reporter.unreadable(&unreadable),
                }
                None
            }
            Event::Silence => Some(Stop::Silence(EXIT_PATIENCE)),
            Event::Control(control) => {
                self.control(control, attempt, steps);
                None
            }
            Event::Interrupt => {
                attempt.stopping = true;
                if !(dialect.stays() && dialect.interrupt(steps)) {
                    return Some(Stop::ByForce(Ending::Interrupted));
                }
                attempt.clock.say_farewell(STOP_PATIENCE);
                None
            }
            Event::Abandoned => Some(Stop::ByForce(Ending::Interrupted)),
            Event::Overdue(overdue) => Some(self.overdue(overdue, attempt)),
        }
    }

    fn overdue(&self, overdue: Overdue, attempt: &mut Attempt) -> Stop {
        match outcome::too_late(&self.conversation.program.facts, overdue) {
            Some(why) => Stop::ByForce(Ending::Failed(why)),
            None if attempt.stopping => Stop::ByForce(Ending::Interrupted),
            None => Stop::Silence(Duration::ZERO),
        }
    }

    fn control(&mut self, control: Control, attempt: &mut Attempt, steps: &mut Steps) {
        let dialect = &mut self.conversation.dialect;
        match control {
            Control::Decide { reference, verdict } => {
                if attempt.waits_for.remove(&reference) {
                    dialect.decide(&reference, verdict, steps);
                }
            }
            Control::Answer { reference, answer, .. } => {
                if attempt.waits_for.remove(&reference) {
                    dialect.answer(&reference, &answer, steps);
                }
            }
            Control::Steer(text) => {
                if attempt.said.is_some() || attempt.stopping || !dialect.steer(&text, steps) {
                    self.later.push_back(text);
                }
            }
        }
    }

    async fn take(&mut self, step: Step, attempt: &mut Attempt) -> Option<Stop> {
        match step {
            Step::Say(line) => attempt.child.say(&line),
            Step::SayAll(text) => attempt.child.say_all(&text),
            Step::Named { token, model } => return self.named(token, model, attempt).await,
            Step::Report(Report::Wants { reference, call, wants }) => {
                let wants = Box::new(wants::with_difference(*wants, &self.conversation.spec.cwd).await);
                self.report(Report::Wants { reference, call, wants }, attempt);
            }
            Step::Report(report) => self.report(report, attempt),
            Step::Later(text) => self.later.push_back(text),
            Step::End(ending) if self.conversation.dialect.stays() => return Some(Stop::Said(ending)),
            Step::End(ending) => {
                attempt.said.get_or_insert(ending);
                attempt.clock.say_farewell(EXIT_PATIENCE);
            }
        }
        None
    }

    fn report(&mut self, report: Report, attempt: &mut Attempt) {
        match &report {
            // Nobody would hear of it.
            Report::Wants { .. } | Report::Asks { .. } if !self.reporter.has_started() => return,
            Report::Wants { reference, .. } | Report::Asks { reference, .. } => {
                attempt.waits_for.insert(reference.clone());
            }
            Report::Withdrawn { reference } if !attempt.waits_for.remove(reference) => return,
            _ => {}
        }
        self.reporter.report(report);
    }

    /// The program has named the conversation. One that was asked to go on with another is stopped; one that turns out
    /// to go on with a known one waits for its turn before anybody hears of it.
    async fn named(
        &mut self,
        token: ResumeToken,
        model: Option<String>,
        attempt: &mut Attempt,
    ) -> Option<Stop> {
        match &self.conversation.token {
            Some(known) if *known != token => {
                let name = self.conversation.program.facts.name;
                return Some(Stop::ByForce(Ending::Failed(format!(
                    "{name} was asked to go on with the conversation {} and opened {} instead, so it was stopped. \
                     Start a new session.",
                    known.0, token.0
                ))));
            }
            Some(_) => {}
            None => self.conversation.token = Some(token.clone()),
        }
        attempt.clock.pause(true);
        if !self.wait_for_turn().await {
            return Some(Stop::ByForce(Ending::Interrupted));
        }
        attempt.clock.pause(false);
        self.reporter.started(token, model);
        None
    }

    async fn conclude(&mut self, attempt: Attempt, stop: Stop) -> Outcome {
        let Attempt { child, said, stopping, .. } = attempt;
        let (ending, diagnostics) = match stop {
            Stop::Said(ending) => {
                let diagnostics = child.diagnostics();
                self.conversation.kept = Some(child);
                (ending, diagnostics)
            }
            Stop::ByForce(ending) => (ending, child.finish(Duration::ZERO).await.1),
            Stop::Silence(patience) => {
                let (exit, diagnostics) = child.finish(patience).await;
                let dialect = &self.conversation.dialect;
                let verdict = outcome::decide(dialect.name(), said, exit, dialect.at_exit());
                if let Some(warning) = verdict.warning {
                    self.reporter.warn(warning);
                }
                (verdict.ending, diagnostics)
            }
        };
        if self.conversation.kept.is_none() {
            self.conversation.process_has_gone();
        }
        let ending = match ending {
            Ending::Completed if !self.reporter.has_started() => {
                Ending::Failed(format!("{} ended without a conversation.", self.conversation.dialect.name()))
            }
            ending => ending,
        };
        // Whatever a program says when it is stopped: somebody wanted it to stop.
        let ending = if stopping { Ending::Interrupted } else { ending };
        outcome::outcome(&self.conversation.program.facts, ending, diagnostics)
    }
}
