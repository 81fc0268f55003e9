//! Folds a session's events into crush's messages, without a clock and without I/O.
//!
//! The same fold computes the stream of changes and the list of messages, so they cannot disagree. Message ids come from the
//! events, so folding again gives the same ids. Each response of the model is one assistant message, and each tool result is
//! one message.
//!
//! Deltas extend the message of the current response; the caller decides how often to report that ([`Fold::flush`]). The
//! history does not contain them, so the fold remembers the streamed part of cancelled responses ([`Fold::partials`]).

mod requests;
mod response;
mod row;
mod turn;

use std::collections::{BTreeMap, VecDeque};

use baton_protocol::attachment::{Attachment, KnownAttachment};
use baton_protocol::event::{Body, Event, ShellRun, ToolComplete, UserMessage};
use baton_protocol::{PromptId, SessionId, Timestamp, ToolCallId};

pub(crate) use self::requests::{ClosedRequest, PendingRequest};
use self::response::ModelResponse;
pub(crate) use self::response::Partial;
use self::row::Row;
pub(crate) use self::row::title;
use self::turn::Turn;
use super::tools::{self, Call};
use super::wire::{ChangeKind, Finish, FinishReason, Message, MessageRole, Part, RunComplete, seconds};

/// Prefix of the idempotency key of a prompt with a run id.
pub(crate) const RUN_KEY_PREFIX: &str = "run/";

/// The provider of all models, for this client.
pub(crate) const PROVIDER: &str = "baton";

/// Number of incomplete responses to remember.
const MAX_PARTIALS: usize = 32;

/// A change to report to clients.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Change {
    Message(ChangeKind, Message),
    /// The session's list entry changed.
    Session(ChangeKind),
    Run(RunComplete),
    /// A turn has completed.
    TurnCompleted,
    /// An error that no message contains.
    Error(String),
    RequestOpened(PendingRequest),
    RequestClosed(ClosedRequest),
}

/// A message.
#[derive(Debug, Clone, PartialEq)]
enum Item {
    Fixed(Message),
    /// A message that can still change.
    Response(ModelResponse),
}

/// State of the fold.
pub(crate) struct Fold {
    session: SessionId,
    row: Row,
    /// The run ids of prompts without an outcome.
    runs: BTreeMap<PromptId, String>,
    items: Vec<Item>,
    turn: Option<Turn>,
    pending: Vec<PendingRequest>,
    partials: VecDeque<(String, Partial)>,
    /// Whether deltas have extended the response since it was last reported.
    has_unreported_deltas: bool,
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
            has_unreported_deltas: false,
        }
    }

    /// Applies an event. Returns the changes, except those by deltas, which [`Self::flush`] returns.
    pub(crate) fn apply(&mut self, event: &Event) -> Vec<Change> {
        // A sub-agent's events belong to the call that started it; only its permission requests are shown.
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
                let run = accepted.prompt.key.as_deref().and_then(|key| key.strip_prefix(RUN_KEY_PREFIX));
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
            Body::SessionError(error) if event.ephemeral => vec![Change::Error(error.message.clone())],
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

    /// Applies an event whose changes need no report.
    pub(crate) fn apply_reported(&mut self, event: &Event) {
        self.apply(event);
        self.drop_settled();
    }

    /// Drops messages of settled turns, which are in the history.
    pub(crate) fn drop_settled(&mut self) {
        if self.turn.is_none() {
            self.items.clear();
        }
    }

    /// Whether there are deltas for [`Self::flush`].
    pub(crate) fn has_unreported_deltas(&self) -> bool {
        self.has_unreported_deltas
    }

    /// Returns the change by deltas since the last change of the response.
    pub(crate) fn flush(&mut self) -> Option<Change> {
        if !std::mem::take(&mut self.has_unreported_deltas) {
            return None;
        }
        let response = self.response()?;
        Some(Change::Message(ChangeKind::Updated, response.message()))
    }

    /// Returns all messages that were not dropped, in order.
    pub(crate) fn messages(&self) -> Vec<Message> {
        let message = |item: &Item| match item {
            Item::Fixed(message) => message.clone(),
            Item::Response(response) => response.message(),
        };
        self.items.iter().map(message).collect()
    }

    /// Returns the number of messages that were not dropped.
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// Removes all but the first `length` messages.
    pub(crate) fn rewind_to(&mut self, length: usize) {
        let removed = self.items.len().saturating_sub(length);
        self.items.truncate(length);
        self.row.messages = self.row.messages.saturating_sub(removed as u64);
    }

    /// Returns the pending requests, oldest first.
    pub(crate) fn pending(&self) -> &[PendingRequest] {
        &self.pending
    }

    /// Returns the streamed parts that the history does not contain, of the current response and of cancelled ones.
    pub(crate) fn partials(&self) -> Vec<(String, Partial)> {
        let current = self.response().and_then(|response| Some((response.id.clone(), response.partial()?)));
        self.partials.iter().cloned().chain(current).collect()
    }

    /// Adds the streamed parts that a live fold of the same session has seen.
    pub(crate) fn add_partials(&mut self, partials: Vec<(String, Partial)>) {
        for (id, partial) in partials {
            let responses = self.items.iter_mut().filter_map(|item| match item {
                Item::Response(response) => Some(response),
                Item::Fixed(_) => None,
            });
            if let Some(response) = responses.rev().find(|response| response.id == id) {
                response.add_partial(partial);
            }
        }
    }

    /// Whether the running turn has a run id.
    pub(crate) fn is_run(&self) -> bool {
        let prompts = self.turn.iter().flat_map(|turn| &turn.prompts);
        prompts.into_iter().any(|prompt| self.runs.contains_key(prompt))
    }

    /// Returns the working directory of the session.
    pub(crate) fn cwd(&self) -> &str {
        &self.row.context.cwd
    }

    fn user_message(&mut self, id: String, at: Timestamp, message: &UserMessage) -> Vec<Change> {
        // Text that a hook adds to continue the turn is not from the user.
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
        vec![self.add(id, MessageRole::User, at, parts), Change::Session(ChangeKind::Updated)]
    }

    fn shell_run(&mut self, id: String, at: Timestamp, run: &ShellRun) -> Vec<Change> {
        let ShellRun { command, output, exit_code, .. } = run.clone();
        vec![self.add(id, MessageRole::User, at, vec![Part::ShellCommand { command, output, exit_code }])]
    }

    fn tool_complete(&mut self, id: String, at: Timestamp, complete: &ToolComplete) -> Vec<Change> {
        let call = self.call(&complete.tool_call_id);
        let result = tools::result(call, complete, at, self.cwd());
        vec![self.add(id, MessageRole::Tool, at, vec![Part::ToolResult(result)])]
    }

    /// Adds the summary of a compaction, which replaces the conversation before it.
    fn summary(&mut self, id: String, at: Timestamp, text: &str) -> Vec<Change> {
        self.row.summary = id.clone();
        let text = Part::Text { text: text.to_owned() };
        vec![self.add(id, MessageRole::Assistant, at, vec![text]), Change::Session(ChangeKind::Updated)]
    }

    /// Adds a message that does not change.
    fn add(&mut self, id: String, role: MessageRole, at: Timestamp, mut parts: Vec<Part>) -> Change {
        let time = seconds(at);
        let reason = if role == MessageRole::Assistant { FinishReason::EndTurn } else { FinishReason::Stop };
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
        Change::Message(ChangeKind::Created, message)
    }

    fn call(&self, id: &ToolCallId) -> Option<&Call> {
        self.turn.as_ref()?.calls.get(id)
    }
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
