//! The conversation: items, folded from the events of a session.
//!
//! Durable events decide the items and their order. Streamed parts are shown until the durable event replaces them, and dropped
//! when the connection breaks; so a reader that reconnects anywhere ends up with the same items.

use std::collections::BTreeMap;

use baton_protocol::event::{Body, Event, Outcome};
use baton_protocol::permission::PermissionOutcome;
use serde_json::Value;

/// Longest live output of a tool that is kept, in bytes.
const MAX_LIVE: usize = 16 * 1024;
/// Longest result of a tool that is kept for display, in bytes.
const MAX_RESULT: usize = 512 * 1024;

/// Identity of an item, stable over reconnects.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ItemKey {
    /// A durable event.
    Seq(u64),
    /// An answer of the model.
    Message(String),
    /// Reasoning.
    Reasoning(String),
}

/// A part of the conversation.
#[derive(Debug, Clone)]
pub struct Item {
    /// Identity.
    pub key: ItemKey,
    /// The durable event; none for what is streamed.
    pub seq: Option<u64>,
    /// The sub-agent that it belongs to.
    pub agent: Option<String>,
    /// Changes with the content.
    pub revision: u64,
    /// The content.
    pub kind: Kind,
}

/// Content of an item.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// A prompt.
    Prompt {
        /// The text.
        text: String,
        /// Who sent it.
        by: Option<String>,
        /// Names of what is attached.
        attachments: Vec<String>,
        /// Id of the event, for a rewind.
        event: String,
    },
    /// An answer of the model, as Markdown.
    Answer {
        /// The text.
        text: String,
        /// Whether the beginning was missed.
        late: bool,
    },
    /// Reasoning of the model.
    Reasoning(String),
    /// A tool call.
    Tool(Tool),
    /// A sub-agent.
    Agent {
        /// Its name.
        name: String,
        /// Its id, which its items name.
        id: String,
        /// Whether it works.
        state: ToolState,
    },
    /// A note about the session.
    Note {
        /// The text.
        text: String,
        /// How bad it is.
        tone: Tone,
    },
}

/// How bad a note is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// For information.
    Quiet,
    /// To be noticed.
    Warning,
    /// Something failed.
    Error,
}

/// A tool call.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tool {
    /// Id of the call, unique only within a turn.
    pub call: String,
    /// Name, with that of the MCP server.
    pub name: String,
    /// What people recognise the call by: the command, the path and so on.
    pub what: String,
    /// Live output: the end of it.
    pub live: String,
    /// Progress, in the words of the tool.
    pub progress: String,
    /// Result, once there is one.
    pub result: String,
    /// Who decided about it, and how.
    pub decided: String,
    /// Where it stands.
    pub state: ToolState,
}

/// Where a tool call stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ToolState {
    /// It runs.
    #[default]
    Running,
    /// It waits for an answer.
    Waiting,
    /// It succeeded.
    Done,
    /// It failed.
    Failed,
}

/// What a session is doing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Doing {
    /// Nothing.
    #[default]
    Nothing,
    /// The model has not answered.
    Model,
    /// The model streams reasoning.
    Reasoning,
    /// The model streams its answer.
    Answering,
    /// The model streams the arguments of a call.
    Calling(String),
    /// A tool runs.
    Tool(String),
    /// The conversation is being compacted.
    Compacting,
}

/// What an event means for the rest of the interface.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Consequences {
    /// The state of the session may have changed.
    pub state_changed: bool,
    /// Pending requests may have changed.
    pub requests_changed: bool,
    /// A request was closed, by somebody.
    pub closed: Option<(String, Option<String>)>,
    /// A turn ended.
    pub settled: Option<Outcome>,
    /// The session is idle.
    pub idle: bool,
    /// Used and available tokens of the context.
    pub context: Option<(u64, u64)>,
}

/// The conversation.
#[derive(Debug, Clone, Default)]
pub struct Conversation {
    items: Vec<Item>,
    /// Last durable event.
    cursor: u64,
    /// First durable event that was read.
    first: u64,
    /// Authors of prompts that are not shown yet.
    authors: BTreeMap<String, String>,
    /// Calls of requests.
    asked: BTreeMap<String, String>,
    /// Results of calls whose start is on an earlier page.
    orphans: BTreeMap<String, (u64, Tool)>,
    /// Parts of the history that rewinds removed: from the first event to before the second.
    removed: Vec<(u64, u64)>,
    /// Running calls, in their order.
    running: Vec<(String, String)>,
    /// Reasoning that was shown last.
    last_reasoning: String,
    doing: Doing,
    /// Id of the running turn.
    turn: Option<String>,
    /// Model of the last round.
    model: Option<String>,
    revisions: u64,
}

impl Conversation {
    /// Returns the items, oldest first.
    #[must_use]
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// Returns the last durable event.
    #[must_use]
    pub fn cursor(&self) -> u64 {
        self.cursor
    }

    /// Returns the first durable event that was read.
    #[must_use]
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Returns what the session is doing.
    #[must_use]
    pub fn doing(&self) -> Doing {
        match self.running.last() {
            Some((_, name)) => Doing::Tool(name.clone()),
            None => self.doing.clone(),
        }
    }

    /// Returns the model of the last round.
    #[must_use]
    pub fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// Returns the id of the running turn.
    #[must_use]
    pub fn turn(&self) -> Option<&str> {
        self.turn.as_deref()
    }

    /// Returns the text of the last complete answer.
    #[must_use]
    pub fn last_answer(&self) -> Option<&str> {
        self.items.iter().rev().find_map(|item| match &item.kind {
            Kind::Answer { text, .. } if item.agent.is_none() => Some(text.as_str()),
            _ => None,
        })
    }

    /// Returns the prompts, newest first, with the ids of their events.
    pub fn prompts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.items.iter().rev().filter_map(|item| match &item.kind {
            Kind::Prompt { text, event, .. } if item.agent.is_none() => Some((event.as_str(), text.as_str())),
            _ => None,
        })
    }

    /// Returns the conversation as Markdown, for a file.
    #[must_use]
    pub fn as_markdown(&self) -> String {
        let part = |item: &Item| match &item.kind {
            Kind::Prompt { text, .. } => format!("## {}\n\n", text.trim().replace('\n', "\n## ")),
            Kind::Answer { text, .. } => format!("{}\n\n", text.trim()),
            Kind::Tool(tool) => format!("- `{}` {}\n\n", tool.name, tool.what.replace('\n', " ")),
            Kind::Agent { name, .. } => format!("- sub-agent {name}\n\n"),
            Kind::Note { text, .. } => format!("> {}\n\n", text.trim().replace('\n', "\n> ")),
            Kind::Reasoning(_) => String::new(),
        };
        self.items.iter().filter(|item| item.agent.is_none()).map(part).collect()
    }

    /// Replaces everything by the last page of the history.
    pub fn open(&mut self, events: &[(u64, Event)], head: u64) {
        *self = Self { revisions: self.revisions + 1, ..Self::default() };
        self.first = events.first().map_or(1, |(seq, _)| *seq);
        for (seq, event) in events {
            self.apply(Some(*seq), event);
        }
        self.cursor = self.cursor.max(head.min(events.last().map_or(head, |(seq, _)| *seq)));
    }

    /// Adds an earlier page.
    pub fn prepend(&mut self, events: &[(u64, Event)]) {
        let Some((first, _)) = events.first() else {
            self.first = 1;
            return;
        };
        let mut earlier =
            Self { revisions: self.revisions, removed: self.removed.clone(), ..Self::default() };
        for (seq, event) in events.iter().filter(|(seq, _)| *seq < self.first) {
            if !self.is_removed(*seq) {
                earlier.apply(Some(*seq), event);
            }
        }
        // A call that started on the page and ended after it.
        for item in &mut earlier.items {
            if let Kind::Tool(tool) = &mut item.kind
                && let Some((seq, done)) = self.orphans.remove(&tool.call)
            {
                tool.result = done.result;
                tool.state = done.state;
                self.items.retain(|item| item.seq != Some(seq) || !matches!(item.kind, Kind::Tool(_)));
            }
        }
        self.revisions = earlier.revisions;
        self.first = *first;
        self.orphans.extend(earlier.orphans);
        earlier.items.append(&mut self.items);
        self.items = earlier.items;
    }

    fn is_removed(&self, seq: u64) -> bool {
        self.removed.iter().any(|(from, to)| (*from..*to).contains(&seq))
    }

    /// The connection broke: streamed parts may be incomplete.
    pub fn lose(&mut self) {
        self.items.retain(|item| item.seq.is_some());
        self.revisions += 1;
        let revision = self.revisions;
        for item in &mut self.items {
            if let Kind::Tool(tool) = &mut item.kind
                && (!tool.live.is_empty() || !tool.progress.is_empty())
            {
                tool.live.clear();
                tool.progress.clear();
                item.revision = revision;
            }
        }
        if self.doing != Doing::Nothing {
            self.doing = Doing::Model;
        }
    }

    /// Applies an event. Durable ones that were applied before are ignored.
    pub fn apply(&mut self, seq: Option<u64>, event: &Event) -> Consequences {
        if let Some(seq) = seq {
            if seq <= self.cursor {
                return Consequences::default();
            }
            self.cursor = seq;
        }
        self.revisions += 1;
        let mut consequences = Consequences::default();
        self.track(&event.body, event.agent_id.is_some(), &mut consequences);
        self.show(seq, event);
        consequences
    }

    /// Keeps what concerns the rest of the interface.
    fn track(&mut self, body: &Body, of_agent: bool, found: &mut Consequences) {
        match body {
            Body::PromptAccepted(_)
            | Body::PromptMoved(_)
            | Body::PromptAmended(_)
            | Body::QueueHeld(_)
            | Body::PendingMessagesModified(_)
            | Body::UserMessage(_)
            | Body::ModeChanged(_)
            | Body::ModelChange(_)
            | Body::PermissionsChanged(_)
            | Body::Renamed(_)
            | Body::TitleChanged(_)
            | Body::AssistantUsage(_)
            | Body::SnapshotRewind(_)
            | Body::TurnOpened(_)
            | Body::HistoryTruncated(_) => found.state_changed = true,
            Body::Unknown { kind, .. } if kind == "baton.prompts_held" => found.state_changed = true,
            Body::TurnSettled(settled) => {
                found.state_changed = true;
                found.settled = Some(settled.outcome);
                self.doing = Doing::Nothing;
                self.running.clear();
                self.turn = None;
            }
            Body::SessionIdle(_) => {
                found.state_changed = true;
                found.idle = true;
                self.doing = Doing::Nothing;
                self.running.clear();
                self.turn = None;
            }
            Body::UsageInfo(usage) => found.context = Some((usage.current_tokens, usage.token_limit)),
            Body::PermissionCompleted(completed) => {
                found.requests_changed = true;
                let by = completed.by.as_ref().map(|by| by.0.clone());
                found.closed = Some((completed.request_id.to_string(), by));
            }
            Body::RequestClosed(closed) => {
                found.requests_changed = true;
                let by = closed.by.as_ref().map(|by| by.0.clone());
                found.closed = Some((closed.request_id.to_string(), by));
            }
            Body::PermissionRequested(_)
            | Body::RequestOpened(_)
            | Body::ExternalToolRequested(_)
            | Body::ExternalToolCompleted(_)
            | Body::SwitchOffered(_)
            | Body::AutoModeSwitchCompleted(_)
            | Body::LoginRequested(_)
            | Body::ElicitationRequested(_)
            | Body::ElicitationCompleted(_)
            | Body::SamplingRequested(_)
            | Body::SamplingCompleted(_)
            | Body::CommandQueued(_)
            | Body::CommandCompleted(_) => found.requests_changed = true,
            Body::TurnStart(start) if !of_agent => {
                self.doing = Doing::Model;
                self.turn = start.interaction_id.clone().or_else(|| self.turn.take());
                if start.model.is_some() {
                    self.model.clone_from(&start.model);
                }
            }
            Body::ReasoningDelta(_) if !of_agent => self.doing = Doing::Reasoning,
            Body::MessageDelta(_) if !of_agent => self.doing = Doing::Answering,
            Body::AssistantMessage(_) if !of_agent => self.doing = Doing::Model,
            Body::ToolCallDelta(delta) if !of_agent => {
                let known = match &self.doing {
                    Doing::Calling(name) => Some(name.clone()),
                    _ => None,
                };
                self.doing = Doing::Calling(delta.tool_name.clone().or(known).unwrap_or_default());
            }
            Body::ToolStart(start) => {
                self.running.push((start.tool_call_id.to_string(), start.tool_name.clone()));
            }
            Body::ToolComplete(complete) => {
                let id = complete.tool_call_id.to_string();
                self.running.retain(|(running, _)| *running != id);
            }
            Body::CompactionStart(_) => self.doing = Doing::Compacting,
            Body::CompactionComplete(_) => {
                self.doing = if self.turn.is_some() { Doing::Model } else { Doing::Nothing };
            }
            _ => {}
        }
    }

    fn show(&mut self, seq: Option<u64>, event: &Event) {
        let agent = event.agent_id.as_ref().map(ToString::to_string);
        match &event.body {
            Body::PromptAccepted(accepted) => {
                if let Some(by) = &accepted.prompt.by {
                    self.authors.insert(accepted.prompt_id.to_string(), by.0.clone());
                }
            }
            Body::UserMessage(message) => {
                let by = message.message_id.and_then(|id| self.authors.remove(&id.to_string()));
                let kind = Kind::Prompt {
                    text: message.content.clone(),
                    by,
                    attachments: message.attachments.iter().map(attachment_name).collect(),
                    event: event.id.to_string(),
                };
                self.add_durable(seq, agent, kind);
            }
            Body::MessageStart(start) => {
                let kind = Kind::Answer { text: String::new(), late: false };
                self.stream(ItemKey::Message(start.message_id.clone()), agent, kind, "");
            }
            Body::MessageDelta(delta) => {
                let kind = Kind::Answer { text: String::new(), late: true };
                self.stream(ItemKey::Message(delta.message_id.clone()), agent, kind, &delta.delta_content);
            }
            Body::ReasoningDelta(delta) => {
                let key = ItemKey::Reasoning(delta.reasoning_id.clone());
                self.stream(key, agent, Kind::Reasoning(String::new()), &delta.delta_content);
            }
            Body::Reasoning(reasoning) => {
                self.unstream(&ItemKey::Reasoning(reasoning.reasoning_id.clone()));
                self.last_reasoning.clone_from(&reasoning.content);
                self.add_durable(seq, agent, Kind::Reasoning(reasoning.content.clone()));
            }
            Body::AssistantMessage(message) => {
                self.unstream(&ItemKey::Message(message.message_id.clone()));
                self.items.retain(|item| item.seq.is_some() || !matches!(item.kind, Kind::Reasoning(_)));
                // Most messages repeat the reasoning of the event before them.
                let repeated = std::mem::take(&mut self.last_reasoning);
                if let Some(text) = message.reasoning_text.clone().filter(|text| *text != repeated) {
                    self.add_durable(seq, agent.clone(), Kind::Reasoning(text));
                }
                if !message.content.trim().is_empty() {
                    let kind = Kind::Answer { text: message.content.clone(), late: false };
                    self.add_durable(seq, agent, kind);
                }
            }
            Body::ToolStart(start) => {
                let name = match (&start.mcp_server_name, &start.mcp_tool_name) {
                    (Some(server), Some(tool)) => format!("{server}: {tool}"),
                    _ => start.tool_name.clone(),
                };
                let arguments = start.arguments.as_ref().map(|json| json.as_str()).unwrap_or_default();
                let call = start.tool_call_id.to_string();
                let tool = Tool { call, name, what: summary(arguments), ..Tool::default() };
                self.add_durable(seq, agent, Kind::Tool(tool));
            }
            Body::ToolPartialResult(part) => {
                self.with_tool(part.tool_call_id.as_str(), |tool| {
                    tool.live.push_str(&part.partial_output);
                    tool.live.drain(..tool_tail(&tool.live));
                });
            }
            Body::ToolProgress(progress) => {
                self.with_tool(progress.tool_call_id.as_str(), |tool| {
                    tool.progress.clone_from(&progress.progress_message);
                });
            }
            Body::ToolComplete(complete) => self.complete(seq, agent, complete),
            Body::PermissionRequested(asked) => {
                if let Some(call) = asked.permission_request.tool_call_id() {
                    self.asked.insert(asked.request_id.to_string(), call.to_string());
                    self.with_tool(call.as_str(), |tool| tool.state = ToolState::Waiting);
                }
            }
            Body::RequestOpened(opened) => {
                if let Some(call) = &opened.tool_call_id {
                    self.asked.insert(opened.request_id.to_string(), call.to_string());
                    self.with_tool(call.as_str(), |tool| tool.state = ToolState::Waiting);
                }
            }
            Body::PermissionCompleted(completed) => {
                let known = self.asked.remove(&completed.request_id.to_string());
                let call = completed.tool_call_id.as_ref().map(ToString::to_string).or(known);
                let by = completed.by.as_ref().map(|by| by.0.as_str());
                let decided = decision(&completed.result, by);
                self.with_tool(call.as_deref().unwrap_or_default(), |tool| {
                    tool.state = ToolState::Running;
                    tool.decided = decided;
                });
            }
            Body::RequestClosed(closed) => {
                if let Some(call) = self.asked.remove(&closed.request_id.to_string()) {
                    self.with_tool(&call, |tool| tool.state = ToolState::Running);
                }
            }
            Body::SubagentStarted(started) => {
                let id = agent.unwrap_or_else(|| started.tool_call_id.to_string());
                let name = Some(&started.agent_display_name).filter(|name| !name.is_empty());
                let name = name.unwrap_or(&started.agent_name).clone();
                self.add_durable(seq, None, Kind::Agent { name, id, state: ToolState::Running });
            }
            Body::SubagentCompleted(_) => self.end_agent(agent.as_deref(), ToolState::Done),
            Body::SubagentFailed(_) => self.end_agent(agent.as_deref(), ToolState::Failed),
            Body::HistoryTruncated(rewound) => {
                if let Some(seq) = seq {
                    self.removed.push((rewound.from_seq, seq));
                }
                self.items.retain(|item| item.seq.is_none_or(|seq| seq < rewound.from_seq));
                self.running.clear();
                let text = "rewound to here".to_owned();
                self.add_durable(seq, None, Kind::Note { text, tone: Tone::Quiet });
            }
            body if body.kind() == "baton.stream_so_far" => self.stream_so_far(agent, body),
            body => {
                if let Some((text, tone)) = note(body) {
                    self.add_durable(seq, agent, Kind::Note { text, tone });
                }
            }
        }
        if matches!(event.body, Body::TurnSettled(_)) {
            self.items.retain(|item| item.seq.is_some());
        }
    }

    /// Adds an item of a durable event; of an ephemeral one, a note that the next reconnect drops.
    fn add_durable(&mut self, seq: Option<u64>, agent: Option<String>, kind: Kind) {
        let key = match seq {
            // A message with reasoning has two items.
            Some(seq) if matches!(kind, Kind::Reasoning(_)) => ItemKey::Reasoning(seq.to_string()),
            Some(seq) => ItemKey::Seq(seq),
            None => ItemKey::Message(format!("note {}", self.revisions)),
        };
        self.push(Item { key, seq, agent, revision: self.revisions, kind });
    }

    /// Adds an item. Streamed ones stay behind durable ones.
    fn push(&mut self, item: Item) {
        let is_streamed = |item: &Item| item.seq.is_none();
        let at = match item.seq {
            Some(_) => {
                self.items.len() - self.items.iter().rev().take_while(|item| is_streamed(item)).count()
            }
            None => self.items.len(),
        };
        self.items.insert(at, item);
    }

    fn stream(&mut self, key: ItemKey, agent: Option<String>, begin: Kind, more: &str) {
        let revision = self.revisions;
        let at = match self.items.iter().rposition(|item| item.key == key) {
            Some(at) => at,
            None => {
                self.items.push(Item { key, seq: None, agent, revision, kind: begin });
                self.items.len() - 1
            }
        };
        let item = &mut self.items[at];
        item.revision = revision;
        match &mut item.kind {
            Kind::Answer { text, .. } | Kind::Reasoning(text) => text.push_str(more),
            _ => {}
        }
    }

    /// Replaces what is known of a stream by all of it so far: the reader joined late, or missed parts.
    fn stream_so_far(&mut self, agent: Option<String>, body: &Body) {
        let data = serde_json::to_value(body).unwrap_or_default()["data"].take();
        let text = data["text"].as_str().unwrap_or_default();
        let late = data["cut"] == true;
        if let Some(id) = data["messageId"].as_str() {
            let key = ItemKey::Message(id.to_owned());
            self.unstream(&key);
            self.stream(key, agent, Kind::Answer { text: String::new(), late }, text);
        } else if let Some(id) = data["reasoningId"].as_str() {
            let key = ItemKey::Reasoning(id.to_owned());
            self.unstream(&key);
            self.stream(key, agent, Kind::Reasoning(String::new()), text);
        } else if let Some(id) = data["toolCallId"].as_str() {
            self.with_tool(id, |tool| {
                let from = tool_tail(text);
                text[from..].clone_into(&mut tool.live);
            });
        }
    }

    fn unstream(&mut self, key: &ItemKey) {
        self.items.retain(|item| item.key != *key || item.seq.is_some());
    }

    fn with_tool(&mut self, id: &str, change: impl FnOnce(&mut Tool)) {
        let revision = self.revisions;
        let of_call = |item: &&mut Item| matches!(&item.kind, Kind::Tool(tool) if tool.call == id);
        if let Some(item) = self.items.iter_mut().rev().find(of_call) {
            if let Kind::Tool(tool) = &mut item.kind {
                change(tool);
            }
            item.revision = revision;
        }
    }

    fn complete(
        &mut self,
        seq: Option<u64>,
        agent: Option<String>,
        complete: &baton_protocol::event::ToolComplete,
    ) {
        let result = complete.result.as_ref();
        let text =
            result.and_then(|result| result.detailed_content.as_deref()).filter(|text| !text.is_empty());
        let text = text.or(result.map(|result| result.content.as_str()).filter(|text| !text.is_empty()));
        let text = text.or(complete.error.as_ref().map(|error| error.message.as_str())).unwrap_or_default();
        let text = text[..text.floor_char_boundary(MAX_RESULT)].to_owned();
        let state = if complete.success { ToolState::Done } else { ToolState::Failed };
        let id = complete.tool_call_id.to_string();
        if !self.items.iter().any(|item| matches!(&item.kind, Kind::Tool(tool) if tool.call == id)) {
            let tool = Tool { call: id.clone(), name: "tool".into(), result: text, state, ..Tool::default() };
            if let Some(seq) = seq {
                self.orphans.insert(id, (seq, tool.clone()));
            }
            return self.add_durable(seq, agent, Kind::Tool(tool));
        }
        self.with_tool(&id, |tool| {
            tool.live.clear();
            tool.progress.clear();
            tool.result = text;
            tool.state = state;
        });
    }

    fn end_agent(&mut self, id: Option<&str>, ended: ToolState) {
        let revision = self.revisions;
        for item in self.items.iter_mut().rev() {
            if let Kind::Agent { id: of, state, .. } = &mut item.kind
                && Some(of.as_str()) == id
            {
                *state = ended;
                item.revision = revision;
                return;
            }
        }
    }
}

/// Returns where the end of an output begins that is kept.
fn tool_tail(output: &str) -> usize {
    output.ceil_char_boundary(output.len().saturating_sub(MAX_LIVE))
}

/// Returns the one line by which people recognise a call.
fn summary(arguments: &str) -> String {
    const KEYS: [&str; 9] =
        ["command", "path", "file_path", "pattern", "query", "url", "question", "description", "prompt"];
    match baton_json::from_str::<Value>(arguments) {
        Ok(Value::Object(given)) => {
            let known = KEYS.iter().find_map(|key| given.get(*key)?.as_str().map(str::to_owned));
            known.unwrap_or_else(|| if given.is_empty() { String::new() } else { arguments.to_owned() })
        }
        Ok(Value::String(text)) => text,
        _ => arguments.to_owned(),
    }
}

fn attachment_name(attachment: &baton_protocol::attachment::Attachment) -> String {
    let value = serde_json::to_value(attachment).unwrap_or_default();
    let text = |name: &str| value[name].as_str().map(str::to_owned);
    let name = text("displayName").or_else(|| text("path")).or_else(|| text("filePath"));
    name.or_else(|| text("mimeType")).unwrap_or_else(|| "attachment".to_owned())
}

fn decision(outcome: &PermissionOutcome, by: Option<&str>) -> String {
    let what = match outcome {
        PermissionOutcome::Approved {} => "allowed",
        PermissionOutcome::ApprovedForSession { .. } | PermissionOutcome::ApprovedForLocation { .. } => {
            "always allowed"
        }
        PermissionOutcome::Cancelled { .. } => "withdrawn",
        _ => "denied",
    };
    match by {
        // Whoever has the server's token is meant by this name, which tells nobody anything.
        Some(by) if by != "HTTP API" => format!("{what} by {by}"),
        Some(_) => what.to_owned(),
        None if what == "denied" || what == "withdrawn" => what.to_owned(),
        None => String::new(),
    }
}

/// Returns the note for an event that has no other item.
fn note(body: &Body) -> Option<(String, Tone)> {
    Some(match body {
        Body::SessionError(error) => (error.message.clone(), Tone::Error),
        Body::SessionWarning(warning) => (warning.message.clone(), Tone::Warning),
        Body::SessionInfo(info) => (info.message.clone(), Tone::Quiet),
        Body::ModelCallFailure(failure) => {
            let why = failure.error_message.as_deref().unwrap_or("the model call failed");
            let again = match failure.retry_in_ms {
                None => return None,
                Some(0) => "trying again".to_owned(),
                Some(pause) => format!("trying again in {:.1} s", pause as f64 / 1000.0),
            };
            (format!("{why} ({again})"), Tone::Warning)
        }
        Body::Abort(abort) => match &abort.by {
            Some(by) if by.0 != "HTTP API" => (format!("cancelled by {}", by.0), Tone::Quiet),
            _ => ("cancelled".to_owned(), Tone::Quiet),
        },
        Body::TurnSettled(settled) => match settled.outcome {
            Outcome::Completed | Outcome::Cancelled => return None,
            Outcome::Failed => (format!("failed: {}", settled.reason), Tone::Error),
            Outcome::Interrupted => (format!("interrupted: {}", settled.reason), Tone::Warning),
        },
        Body::CompactionComplete(_) => ("earlier conversation compacted".to_owned(), Tone::Quiet),
        Body::ShellRun(run) => (format!("! {}\n{}", run.command, run.output), Tone::Quiet),
        Body::ShellStarted(run) => (format!("! {}", run.command), Tone::Quiet),
        Body::Renamed(renamed) if renamed.by_user => (format!("renamed: {}", renamed.name), Tone::Quiet),
        _ => return None,
    })
}
