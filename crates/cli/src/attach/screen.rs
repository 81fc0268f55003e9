//! What a person sees of a session.

use baton_protocol::event::{Body, Outcome};

use crate::terminal::Question;
use crate::{show, terminal};

/// See the module.
pub(super) struct Screen {
    /// Whether events are printed as they are, for programs.
    pub(super) json: bool,
    /// The beginning of the answer that is being streamed, as far as it is on the screen.
    streamed: String,
    answer: terminal::Answer,
}

impl Screen {
    pub(super) fn new(json: bool) -> Self {
        Self { json, streamed: String::new(), answer: terminal::Answer::default() }
    }

    /// Shows an event. `own` says whether the person has just typed it.
    pub(super) fn show(&mut self, body: &Body, own: bool) {
        match body {
            Body::MessageDelta(delta) => {
                self.answer.piece(&delta.delta_content);
                self.streamed.push_str(&delta.delta_content);
            }
            Body::AssistantMessage(message) => self.finish_answer(&message.content),
            Body::UserMessage(message) if !own => {
                self.end_line();
                terminal::paragraph("> ", &message.content);
            }
            Body::ToolStart(start) => self.note(&format!("▸ {}", show::call(start))),
            Body::ToolComplete(complete) if !complete.success => {
                let why = complete.error.as_ref().map(|error| error.message.as_str()).unwrap_or_default();
                self.note(&format!("✗ {}", why.lines().next().unwrap_or_default()));
            }
            Body::SessionError(error) => self.note(&format!("! {}", error.message)),
            Body::TurnSettled(settled) if settled.outcome != Outcome::Completed => {
                self.note(&format!("({})", settled.reason));
            }
            Body::SessionIdle(_) => self.end_line(),
            _ => {}
        }
    }

    /// The whole answer is there. What of it was streamed is on the screen already, unless some of it was missed.
    fn finish_answer(&mut self, content: &str) {
        match content.strip_prefix(self.streamed.as_str()) {
            Some(rest) => self.answer.piece(rest),
            None => {
                self.end_line();
                self.answer.piece(content);
            }
        }
        self.streamed = content.to_owned();
        self.end_line();
    }

    /// A remark, on a line of its own.
    pub(super) fn note(&mut self, text: &str) {
        if !self.json {
            self.end_line();
            terminal::note(text);
        }
    }

    /// A question that waits for an answer.
    pub(super) fn pose(&mut self, question: &Question, hint: &str) {
        if !self.json {
            self.end_line();
            terminal::pose(question, hint);
        }
    }

    fn end_line(&mut self) {
        let streamed = std::mem::take(&mut self.streamed);
        if !streamed.is_empty() && !streamed.ends_with('\n') {
            self.answer.end_line();
        }
    }
}
