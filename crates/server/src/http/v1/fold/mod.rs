//! A session's events as crush's messages: a fold, without a clock and without I/O.
//!
//! The same fold makes the stream of changes and the list of messages, so they cannot disagree. Names of messages come
//! from the events, so folding again gives the same ones. One assistant message stands for one answer of the model; the
//! result of each tool call is a message of its own.
//!
//! Streamed pieces only grow the message that is being made; whoever drives the fold decides how often that is worth
//! telling ([`Fold::flush`]). They are not in the history, so what a cancelled answer had got to is remembered here
//! ([`Fold::partials`]) for as long as somebody watches.

mod answer;
mod turn;

use std::collections::{BTreeMap, VecDeque};

use baton_protocol::attachment::{Attachment, KnownAttachment};
use baton_protocol::event::{
    Body, Event, Question as Asks, RequestOpened, ShellRun, ToolComplete, UserMessage, UserQuestion,
    WorkContext,
};
use baton_protocol::{PromptId, SessionId, Timestamp, ToolCallId};

use self::answer::Answer;
pub(crate) use self::answer::Partial;
use self::turn::Turn;
use super::tools::{self, Call};
use super::wire::{
    Choice, Finish, FinishReason, Message, Part, PermissionRequest, Question, QuestionBatch, Role,
    RunComplete, Session, What, seconds,
};

/// What the key of a prompt begins with that was sent with a run id.
pub(crate) const RUN_KEY: &str = "run/";

/// Who provides models, as far as this client is concerned.
pub(crate) const PROVIDER: &str = "baton";

/// How many cut-off answers are remembered.
const MOST_PARTIALS: usize = 32;

/// How much of the first prompt becomes the title.
const TITLE_LENGTH: usize = 60;

/// One thing that a client is told.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Change {
    Message(What, Message),
    /// What lists show of the session is another.
    Session(What),
    Run(RunComplete),
    /// A run has ended well.
    Finished,
    /// Something failed that no message tells of.
    Trouble(String),
    Asked(Pending),
    Closed(Closed),
}

/// Something that waits for an answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Pending {
    Permission(PermissionRequest),
    Question(QuestionBatch),
}

impl Pending {
    pub(crate) fn id(&self) -> &str {
        match self {
            Self::Permission(request) => &request.id,
            Self::Question(batch) => &batch.id,
        }
    }
}

/// Something that waits no longer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Closed {
    pub(crate) id: String,
    pub(crate) tool_call_id: String,
    /// Whether a permission was granted; none for a question.
    pub(crate) granted: Option<bool>,
}

/// What lists show.
#[derive(Debug, Clone, Default, PartialEq)]
struct Row {
    name: Option<String>,
    title: Option<String>,
    messages: u64,
    prompt_tokens: u64,
    completion_tokens: u64,
    created: Timestamp,
    updated: Timestamp,
    context: WorkContext,
    /// The name of the newest summary.
    summary: String,
}

/// A message, finished or growing.
#[derive(Debug, Clone, PartialEq)]
enum Item {
    Fixed(Message),
    Answer(Answer),
}

/// See the module.
pub(crate) struct Fold {
    session: SessionId,
    row: Row,
    /// The run ids of prompts that have had no outcome.
    runs: BTreeMap<PromptId, String>,
    items: Vec<Item>,
    turn: Option<Turn>,
    pending: Vec<Pending>,
    partials: VecDeque<(String, Partial)>,
    /// Whether the answer has grown since it was last told.
    grown: bool,
}

impl Fold {
    pub(crate) fn new(session: SessionId) -> Self {
        Self {
            session,
            row: Row::default(),
            runs: BTreeMap::new(),
            items: Vec::new(),
            turn: None,
            pending: Vec::new(),
            partials: VecDeque::new(),
            grown: false,
        }
    }

    /// Takes one more event, and says what changed. Streamed pieces say nothing here: see [`Self::flush`].
    pub(crate) fn apply(&mut self, event: &Event) -> Vec<Change> {
        // What a sub-agent does belongs to the call that started it; what it needs to be allowed concerns everybody.
        if event.agent_id.is_some() {
            return match &event.body {
                Body::PermissionRequested(_) | Body::PermissionCompleted(_) => {
                    self.request_event(&event.body)
                }
                _ => Vec::new(),
            };
        }
        if !event.ephemeral {
            self.row.updated = event.timestamp;
        }
        let id = event.id.to_string();
        let at = event.timestamp;
        match &event.body {
            Body::PromptAccepted(accepted) => {
                let run = accepted.prompt.key.as_deref().and_then(|key| key.strip_prefix(RUN_KEY));
                self.runs.extend(run.map(|run| (accepted.prompt_id, run.to_owned())));
                Vec::new()
            }
            Body::UserMessage(message) => self.user_message(id, at, message),
            Body::ShellRun(run) => self.shell_run(id, at, run),
            Body::ToolComplete(complete) => self.tool_complete(id, at, complete),
            Body::CompactionComplete(complete) => match &complete.summary_content {
                Some(summary) if complete.success => self.summary(id, at, summary),
                _ => Vec::new(),
            },
            Body::TurnStart(_)
            | Body::AssistantMessage(_)
            | Body::ToolStart(_)
            | Body::CallAmended(_)
            | Body::TurnEnd(_)
            | Body::TurnSettled(_)
            | Body::MessageDelta(_)
            | Body::ReasoningDelta(_)
            | Body::ToolCallDelta(_) => self.turn_event(id, at, &event.body),
            Body::SessionError(error) if event.ephemeral => vec![Change::Trouble(error.message.clone())],
            Body::SessionError(error) => {
                if let Some(turn) = &mut self.turn {
                    turn.error = Some(error.clone());
                }
                Vec::new()
            }
            Body::PermissionRequested(_)
            | Body::PermissionCompleted(_)
            | Body::RequestOpened(_)
            | Body::RequestClosed(_) => self.request_event(&event.body),
            body => self.row_event(at, body),
        }
    }

    /// Takes what happened before anybody watched.
    pub(crate) fn pass_over(&mut self, event: &Event) {
        self.apply(event);
        self.forget_settled();
    }

    /// Forgets messages of turns that are over. They are in the history for whoever asks.
    pub(crate) fn forget_settled(&mut self) {
        if self.turn.is_none() {
            self.items.clear();
        }
    }

    /// Whether streamed pieces have come that nobody was told of.
    pub(crate) fn has_grown(&self) -> bool {
        self.grown
    }

    /// Tells of the pieces that have come.
    pub(crate) fn flush(&mut self) -> Option<Change> {
        if !std::mem::take(&mut self.grown) {
            return None;
        }
        let answer = self.answer()?;
        Some(Change::Message(What::Updated, answer.message()))
    }

    /// All messages that are remembered, in order.
    pub(crate) fn messages(&self) -> Vec<Message> {
        let message = |item: &Item| match item {
            Item::Fixed(message) => message.clone(),
            Item::Answer(answer) => answer.message(),
        };
        self.items.iter().map(message).collect()
    }

    /// How many messages are remembered.
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// Takes back all messages but the first ones.
    pub(crate) fn take_back(&mut self, kept: usize) {
        let taken = self.items.len().saturating_sub(kept);
        self.items.truncate(kept);
        self.row.messages = self.row.messages.saturating_sub(taken as u64);
    }

    /// What waits for an answer, oldest first.
    pub(crate) fn pending(&self) -> &[Pending] {
        &self.pending
    }

    /// What was streamed and is in no history: of the answer that is being made, and of answers that were cut off.
    pub(crate) fn partials(&self) -> Vec<(String, Partial)> {
        let open = self.answer().and_then(|answer| Some((answer.id.clone(), answer.partial()?)));
        self.partials.iter().cloned().chain(open).collect()
    }

    /// Puts in what another fold of the same session has seen streamed.
    pub(crate) fn fill_in(&mut self, partials: Vec<(String, Partial)>) {
        for (id, partial) in partials {
            let answers = self.items.iter_mut().filter_map(|item| match item {
                Item::Answer(answer) => Some(answer),
                Item::Fixed(_) => None,
            });
            if let Some(answer) = answers.rev().find(|answer| answer.id == id) {
                answer.fill_in(partial);
            }
        }
    }

    /// Whether somebody waits for the turn that runs by its run id.
    pub(crate) fn is_run(&self) -> bool {
        let prompts = self.turn.iter().flat_map(|turn| &turn.prompts);
        prompts.into_iter().any(|prompt| self.runs.contains_key(prompt))
    }

    /// The directory that the session works in.
    pub(crate) fn cwd(&self) -> &str {
        &self.row.context.cwd
    }

    /// What lists show. Whether it is busy and who looks at it is not in the history.
    pub(crate) fn row(&self) -> Session {
        let row = &self.row;
        Session {
            id: self.session.clone(),
            parent_session_id: String::new(),
            title: title(row.name.as_deref(), row.title.as_deref()),
            message_count: row.messages,
            prompt_tokens: row.prompt_tokens,
            completion_tokens: row.completion_tokens,
            summary_message_id: row.summary.clone(),
            cost: 0.0,
            created_at: seconds(row.created),
            updated_at: seconds(row.updated),
            is_busy: false,
            attached_clients: 0,
        }
    }

    fn row_event(&mut self, at: Timestamp, body: &Body) -> Vec<Change> {
        match body {
            Body::SessionStart(start) => {
                self.row.created = at;
                self.row.context = start.context.clone().unwrap_or_default();
                return vec![Change::Session(What::Created)];
            }
            Body::SessionResume(resume) => {
                self.row.context = resume.context.clone().unwrap_or_else(|| self.row.context.clone());
                return Vec::new();
            }
            Body::ContextChanged(change) => self.row.context = change.0.clone(),
            Body::Renamed(renamed) => self.row.name = Some(renamed.name.clone()),
            _ => return Vec::new(),
        }
        vec![Change::Session(What::Updated)]
    }

    fn user_message(&mut self, id: String, at: Timestamp, message: &UserMessage) -> Vec<Change> {
        // What a hook adds to keep the model going was not said by anybody.
        if message.source.as_deref() == Some("hook") {
            return Vec::new();
        }
        self.row.title.get_or_insert_with(|| message.content.clone());
        let mut parts = vec![Part::Text { text: message.content.clone() }];
        parts.extend(message.attachments.iter().filter_map(binary));
        if let Some(prompt) = message.message_id {
            self.turn.get_or_insert_default().prompts.push(prompt);
        }
        let id = message.message_id.map_or(id, |prompt| prompt.to_string());
        vec![self.add(id, Role::User, at, parts), Change::Session(What::Updated)]
    }

    fn shell_run(&mut self, id: String, at: Timestamp, run: &ShellRun) -> Vec<Change> {
        let ShellRun { command, output, exit_code } = run.clone();
        vec![self.add(id, Role::User, at, vec![Part::ShellCommand { command, output, exit_code }])]
    }

    fn tool_complete(&mut self, id: String, at: Timestamp, complete: &ToolComplete) -> Vec<Change> {
        let call = self.call(&complete.tool_call_id);
        let result = tools::result(call, complete, at, self.cwd());
        vec![self.add(id, Role::Tool, at, vec![Part::ToolResult(result)])]
    }

    /// What stands for the conversation before it from here on.
    fn summary(&mut self, id: String, at: Timestamp, text: &str) -> Vec<Change> {
        self.row.summary = id.clone();
        let text = Part::Text { text: text.to_owned() };
        vec![self.add(id, Role::Assistant, at, vec![text]), Change::Session(What::Updated)]
    }

    /// Adds a message that is complete from the start.
    fn add(&mut self, id: String, role: Role, at: Timestamp, mut parts: Vec<Part>) -> Change {
        let time = seconds(at);
        let reason = if role == Role::Assistant { FinishReason::EndTurn } else { FinishReason::Stop };
        parts.push(Part::Finish(Finish::plain(reason, time)));
        let message = Message {
            id,
            role,
            session_id: self.session.clone(),
            parts,
            model: String::new(),
            provider: String::new(),
            created_at: time,
            updated_at: time,
        };
        self.row.messages += 1;
        self.items.push(Item::Fixed(message.clone()));
        Change::Message(What::Created, message)
    }

    fn request_event(&mut self, body: &Body) -> Vec<Change> {
        let asked = match body {
            Body::PermissionRequested(requested) => {
                let wants = &requested.permission_request;
                let call = wants.tool_call_id().and_then(|id| self.call(id));
                let request =
                    tools::permission(&requested.request_id, &self.session, wants, call, self.cwd());
                Pending::Permission(request)
            }
            // Crush's client has no way to show a plan: whoever has one is asked.
            Body::RequestOpened(RequestOpened { question: Asks::Plan(_), .. }) => return Vec::new(),
            Body::RequestOpened(RequestOpened {
                request_id,
                tool_call_id,
                question: Asks::UserInput(asked),
            }) => {
                let call = tool_call_id.as_ref().map(ToString::to_string).unwrap_or_default();
                Pending::Question(self.batch(request_id.to_string(), call, asked))
            }
            Body::PermissionCompleted(completed) => {
                let granted = super::requests::is_granted(&completed.result);
                return self.close(completed.request_id.as_str(), Some(granted));
            }
            Body::RequestClosed(closed) => return self.close(closed.request_id.as_str(), None),
            _ => return Vec::new(),
        };
        self.pending.push(asked.clone());
        vec![Change::Asked(asked)]
    }

    fn batch(&self, id: String, tool_call_id: String, asked: &UserQuestion) -> QuestionBatch {
        let choices = asked.choices.iter().flatten().enumerate();
        let choices: Vec<Choice> =
            choices.map(|(n, label)| Choice { id: format!("choice-{n}"), label: label.clone() }).collect();
        let kind = if choices.is_empty() { "free_text" } else { "single_choice" };
        let question = Question { id: "question".into(), kind, question: asked.question.clone(), choices };
        QuestionBatch { id, session_id: self.session.clone(), tool_call_id, questions: vec![question] }
    }

    fn close(&mut self, id: &str, granted: Option<bool>) -> Vec<Change> {
        let Some(at) = self.pending.iter().position(|pending| pending.id() == id) else { return Vec::new() };
        let tool_call_id = match self.pending.remove(at) {
            Pending::Permission(request) => request.tool_call_id,
            Pending::Question(batch) => batch.tool_call_id,
        };
        vec![Change::Closed(Closed { id: id.to_owned(), tool_call_id, granted })]
    }

    fn call(&self, id: &ToolCallId) -> Option<&Call> {
        self.turn.as_ref()?.calls.get(id)
    }
}

/// What a list shows for a session: the name somebody gave it, or the beginning of its first prompt.
pub(crate) fn title(name: Option<&str>, first_prompt: Option<&str>) -> String {
    let begin = |text: &str| {
        let line = text.trim().lines().next().unwrap_or_default();
        let mut short: String = line.chars().take(TITLE_LENGTH).collect();
        if short.len() < line.len() {
            short.push('…');
        }
        short
    };
    name.map(str::to_owned).or_else(|| first_prompt.map(begin)).unwrap_or_else(|| "New Session".into())
}

fn binary(attachment: &Attachment) -> Option<Part> {
    match attachment {
        Attachment::Known(KnownAttachment::Blob { data, mime_type, display_name }) => Some(Part::Binary {
            path: display_name.clone().unwrap_or_default(),
            mime_type: mime_type.clone(),
            data: data.clone(),
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
