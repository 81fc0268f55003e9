//! Prints the events of a session: answers to standard output, everything else to standard error.

use std::time::{Duration, Instant};

use baton_protocol::ToolCallId;
use baton_protocol::event::{AssistantUsage, Body, Event, MessageDelta, ModelCallFailure, Outcome};

use super::requests::{PendingRequest, TRUST_TOOL};
use crate::watch::{Activity, OutputLine, ToolOutputs};
use crate::{show, terminal};

/// How long nothing is printed before the status line says why.
const SILENCE: Duration = Duration::from_secs(5);

/// How much is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    /// Everything.
    Full,
    /// Only answers and questions.
    Answers,
    /// Nothing: events are printed as JSON instead.
    Json,
}

/// The printed part of a session.
pub(crate) struct Screen {
    detail: Detail,
    /// The printed part of the answer that is being streamed.
    streamed: String,
    /// Id of that answer, if nothing of it was missed.
    streaming: Option<String>,
    /// Whether something of that answer was missed, and the user knows.
    is_late: bool,
    /// The last complete answer, if it is on the terminal.
    said: String,
    answer: terminal::AnswerPrinter,
    /// Why the last answer is incomplete, until it is shown.
    incomplete: Option<&'static str>,
    /// Whether a hint waits for the user's line.
    hint_is_open: bool,
    /// Output of running tools.
    outputs: ToolOutputs,
    /// The call that asks to trust the workspace.
    trust: Option<ToolCallId>,
    status: terminal::StatusLine,
    /// When something was printed last.
    printed: Instant,
}

impl Screen {
    pub(crate) fn new(detail: Detail) -> Self {
        let (streamed, answer) = (String::new(), terminal::AnswerPrinter::new());
        Self {
            detail,
            streamed,
            streaming: None,
            is_late: false,
            said: String::new(),
            answer,
            incomplete: None,
            hint_is_open: false,
            outputs: ToolOutputs::default(),
            trust: None,
            status: terminal::StatusLine::new(),
            printed: Instant::now(),
        }
    }

    pub(crate) fn is_json(&self) -> bool {
        self.detail == Detail::Json
    }

    /// Prints an event. Messages of sub-agents go to the main conversation; of them, only tool calls are shown.
    pub(crate) fn show(&mut self, event: &Event) {
        if self.is_json() {
            return;
        }
        self.outputs.track(&event.body);
        match &event.body {
            // The question says what is to be trusted, and the answer whether it is.
            Body::ToolStart(start) if start.tool_name == TRUST_TOOL => {
                self.trust = Some(start.tool_call_id.clone());
            }
            Body::ToolComplete(complete) if self.trust.as_ref() == Some(&complete.tool_call_id) => {}
            Body::ToolStart(start) => {
                self.outputs.start(start);
                self.note(&format!("▸ {}", show::call(start)));
            }
            Body::ToolComplete(complete) => {
                let lines = self.outputs.finish(complete, event.agent_id.is_some());
                self.show_output(lines);
            }
            _ if event.agent_id.is_some() => {}
            Body::MessageStart(start) => {
                self.begin_answer();
                self.streaming = Some(start.message_id.clone());
            }
            Body::MessageDelta(delta) => self.continue_answer(delta),
            // The text before a call is complete, and its arguments can take long.
            Body::ToolCallDelta(_) if self.answer.line_is_open() => self.end_line(),
            Body::AssistantMessage(message) => self.finish_answer(&message.content),
            Body::ToolPartialResult(part) => {
                let lines = self.outputs.push(&part.tool_call_id, &part.partial_output);
                self.show_output(lines);
            }
            Body::ToolProgress(progress) => self.note(&format!("  {}", progress.progress_message)),
            Body::ModelCallFailure(failure) => self.show_failure(failure),
            // Arrives before the end of the answer, and is shown after it.
            Body::AssistantUsage(usage) => self.incomplete = incomplete(usage),
            Body::TurnEnd(_) => self.show_incomplete(),
            Body::LoginRequested(login) => self.note(&format!(
                "! MCP server {} needs a login: open the link of request {}",
                login.server_name, login.request_id
            )),
            Body::SessionWarning(warning) => self.note(&format!("! {}", warning.message)),
            Body::Unknown { kind, data } if kind == "session.mcp_servers_loaded" => {
                show::unavailable_servers(data).iter().for_each(|line| self.note(line));
            }
            _ => {}
        }
    }

    /// Prints the next part of an answer, if nothing before it was missed: the rest is printed when all of it is known.
    fn continue_answer(&mut self, delta: &MessageDelta) {
        if self.streaming.as_ref() == Some(&delta.message_id) {
            self.print_answer(&delta.delta_content);
            self.streamed.push_str(&delta.delta_content);
        } else if !std::mem::replace(&mut self.is_late, true) {
            self.note("in the middle of an answer; the rest is shown when it is complete");
        }
    }

    /// The connection is lost: parts of a streamed answer may be missed.
    pub(crate) fn lose(&mut self) {
        self.streaming = None;
    }

    /// Prints what of a complete answer was not streamed.
    fn finish_answer(&mut self, content: &str) {
        match content.strip_prefix(self.streamed.as_str()) {
            Some(rest) => self.print_answer(rest),
            None => {
                self.end_line();
                self.print_answer(content);
            }
        }
        self.begin_answer();
        if terminal::output_is_terminal() {
            content.clone_into(&mut self.said);
        }
        self.show_incomplete();
    }

    /// Ends the answer before, if any.
    fn begin_answer(&mut self) {
        self.end_line();
        self.streamed.clear();
        self.streaming = None;
        self.is_late = false;
    }

    fn show_incomplete(&mut self) {
        if let Some(why) = self.incomplete.take() {
            self.warn(why);
        }
    }

    /// Shows a failed model call that is repeated. The last failure is the outcome of the turn.
    fn show_failure(&mut self, failure: &ModelCallFailure) {
        let Some(pause) = failure.retry_in_ms else { return };
        let why = failure.error_message.as_deref().unwrap_or("the model call failed");
        // The advice is for the last failure.
        let why = why.split_once(" Try again").map_or(why, |(why, _)| why);
        match pause {
            // Some engines do not tell the pause.
            0 => self.note(&format!("! {why} Retrying.")),
            pause => self.note(&format!("! {why} Retrying in {:.1} s.", pause as f64 / 1000.0)),
        }
    }

    fn show_output(&mut self, lines: Vec<OutputLine>) {
        for line in lines {
            match line {
                OutputLine::Output(text) => self.output_line(&text),
                OutputLine::Note(text) => self.note(&text),
            }
        }
    }

    fn output_line(&mut self, line: &str) {
        if self.detail == Detail::Full {
            self.end_line();
            terminal::output_line(line.trim_end_matches(['\n', '\r']));
        }
    }

    /// Prints an outcome other than success.
    pub(crate) fn show_outcome(&mut self, outcome: Outcome, reason: &str) {
        if outcome != Outcome::Completed {
            self.note(&format!("({reason})"));
        }
    }

    /// Prints a note on its own line.
    pub(crate) fn note(&mut self, text: &str) {
        if self.detail == Detail::Full {
            self.end_line();
            terminal::note(text);
        }
    }

    /// Prints a note that is part of the answer: also if only answers are printed.
    pub(crate) fn warn(&mut self, text: &str) {
        if !self.is_json() {
            self.end_line();
            terminal::note(text);
        }
    }

    /// Prints a prompt of another client.
    pub(crate) fn prompt(&mut self, text: &str) {
        if !self.is_json() {
            self.end_line();
            terminal::paragraph("> ", text);
        }
    }

    /// Prints a note whatever else is printed.
    pub(crate) fn always(&mut self, text: &str) {
        self.end_line();
        terminal::note(text);
    }

    /// Prints a request, and what can be done about it.
    pub(crate) fn ask(&mut self, request: &PendingRequest, hint: &str) {
        if !self.is_json() {
            self.end_line();
            terminal::print_question(&request.describe(&self.said), hint);
        }
    }

    /// Prints a request whatever else is printed: the command waits for its answer, which is typed behind the hint.
    pub(crate) fn question(&mut self, request: &PendingRequest) {
        self.end_line();
        terminal::print_open_question(&request.describe(&self.said), request.hint());
        self.hint_is_open = true;
    }

    /// Prints what is asked next about a request. The answer is typed behind it.
    pub(crate) fn ask_more(&mut self, hint: &str) {
        self.end_line();
        terminal::print_open_line(hint);
        self.hint_is_open = true;
    }

    /// The user has pressed a key that ends the command: what the terminal shows for it gets no text behind it.
    pub(crate) fn key_was_pressed(&mut self) {
        if !self.hint_is_open && !self.answer.line_is_open() {
            self.status.clear();
        }
        self.end_line();
    }

    /// Prints that a typed line is not an answer.
    pub(crate) fn ask_again(&mut self, hint: &str) {
        self.ask_more(&format!("not an answer; {hint}"));
    }

    /// The user has ended the line of the hint.
    pub(crate) fn line_was_typed(&mut self) {
        self.hint_is_open = false;
    }

    /// Says what the session is doing, if nothing was printed for a while. Called every second.
    pub(crate) fn show_activity(&mut self, activity: &Activity, now: Instant) {
        let is_quiet = now.saturating_duration_since(self.printed) >= SILENCE;
        if is_quiet && self.detail == Detail::Full && !self.hint_is_open && !self.answer.line_is_open() {
            self.status.show(&activity.describe(now));
        }
    }

    /// Prints a part of an answer.
    fn print_answer(&mut self, text: &str) {
        self.about_to_print();
        self.answer.print(text);
    }

    fn about_to_print(&mut self) {
        self.status.erase();
        self.printed = Instant::now();
    }

    pub(crate) fn end_line(&mut self) {
        self.about_to_print();
        if std::mem::take(&mut self.hint_is_open) {
            terminal::end_open_line();
        }
        self.answer.end_line();
    }
}

/// The reason why the model stopped before its answer was complete; none if it is.
fn incomplete(usage: &AssistantUsage) -> Option<&'static str> {
    match usage.finish_reason.as_deref() {
        Some("length") => Some("! the answer is cut off: the model reached its limit of output tokens"),
        Some("content_filter") => Some("! the provider's content filter stopped the answer"),
        _ => None,
    }
}
