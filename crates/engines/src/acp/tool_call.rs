//! Tool calls of the Agent Client Protocol, and their updates.

use std::path::PathBuf;

use serde::Serialize;
use serde_json::Value;

use super::schema::{content_text, string};

/// A tool call, as far as it has been reported.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct ToolCall {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) name: Option<String>,
    pub(super) kind: ToolKind,
    pub(super) status: ToolCallStatus,
    pub(super) content: Vec<ToolCallContent>,
    pub(super) locations: Vec<Location>,
    pub(super) raw_input: Option<Value>,
    pub(super) raw_output: Option<Value>,
}

impl ToolCall {
    /// Reads the announcement of a call, which has a title.
    pub(super) fn read(value: &Value) -> Option<Self> {
        string(value, "title")?;
        let update = ToolCallUpdate::read(value)?;
        let mut call = Self { id: update.id.clone(), ..Self::default() };
        call.update(update);
        Some(call)
    }

    /// Replaces what the update has. A kind that says nothing is not an update: some agents announce the kind of a call and
    /// omit it later.
    pub(super) fn update(&mut self, update: ToolCallUpdate) {
        fn replace<T>(field: &mut T, new: Option<T>) {
            if let Some(new) = new {
                *field = new;
            }
        }
        replace(&mut self.title, update.title);
        replace(&mut self.kind, update.kind.filter(|kind| *kind != ToolKind::Other));
        replace(&mut self.status, update.status);
        replace(&mut self.content, update.content);
        replace(&mut self.locations, update.locations);
        self.name = update.name.or(self.name.take());
        self.raw_input = update.raw_input.or(self.raw_input.take());
        self.raw_output = update.raw_output.or(self.raw_output.take());
    }
}

/// Changes of a tool call.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ToolCallUpdate {
    pub(super) id: String,
    title: Option<String>,
    name: Option<String>,
    kind: Option<ToolKind>,
    status: Option<ToolCallStatus>,
    content: Option<Vec<ToolCallContent>>,
    locations: Option<Vec<Location>>,
    raw_input: Option<Value>,
    raw_output: Option<Value>,
}

impl ToolCallUpdate {
    pub(super) fn read(value: &Value) -> Option<Self> {
        let owned = |name: &str| string(value, name).map(str::to_owned);
        let raw = |name: &str| value.get(name).filter(|value| !value.is_null()).cloned();
        Some(Self {
            id: owned("toolCallId")?,
            title: owned("title"),
            name: owned("name"),
            kind: string(value, "kind").map(ToolKind::read),
            status: string(value, "status").and_then(ToolCallStatus::read),
            content: items(value, "content", ToolCallContent::read),
            locations: items(value, "locations", Location::read),
            raw_input: raw("rawInput"),
            raw_output: raw("rawOutput"),
        })
    }
}

/// Reads the items of a list that can be read; `None` without a list.
fn items<T>(value: &Value, name: &str, read: fn(&Value) -> Option<T>) -> Option<Vec<T>> {
    Some(value[name].as_array()?.iter().filter_map(read).collect())
}

/// What a tool does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum ToolKind {
    Read,
    Edit,
    Delete,
    Move,
    Search,
    Execute,
    Think,
    Fetch,
    #[default]
    Other,
}

impl ToolKind {
    fn read(name: &str) -> Self {
        match name {
            "read" => Self::Read,
            "edit" => Self::Edit,
            "delete" => Self::Delete,
            "move" => Self::Move,
            "search" => Self::Search,
            "execute" => Self::Execute,
            "think" => Self::Think,
            "fetch" => Self::Fetch,
            _ => Self::Other,
        }
    }
}

/// The state of a call. The arguments of a pending one may still be streaming.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum ToolCallStatus {
    #[default]
    Pending,
    InProgress,
    Completed,
    Failed,
}

impl ToolCallStatus {
    fn read(name: &str) -> Option<Self> {
        match name {
            "pending" => Some(Self::Pending),
            "in_progress" => Some(Self::InProgress),
            "completed" => Some(Self::Completed),
            "failed" => Some(Self::Failed),
            _ => None,
        }
    }
}

/// What the agent displays of a call. Terminals are the client's, and Baton offers none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ToolCallContent {
    Text(String),
    Diff(Diff),
}

/// A change of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Diff {
    pub(super) path: PathBuf,
    pub(super) old_text: Option<String>,
    pub(super) new_text: String,
}

impl ToolCallContent {
    fn read(value: &Value) -> Option<Self> {
        match string(value, "type")? {
            "content" => content_text(&value["content"]).map(Self::Text),
            "diff" => Some(Self::Diff(Diff {
                path: string(value, "path")?.into(),
                old_text: string(value, "oldText").map(str::to_owned),
                new_text: string(value, "newText")?.to_owned(),
            })),
            _ => None,
        }
    }
}

/// A file that a call works on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Location {
    pub(super) path: PathBuf,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

impl Location {
    fn read(value: &Value) -> Option<Self> {
        let line = value["line"].as_u64().and_then(|line| line.try_into().ok());
        Some(Self { path: string(value, "path")?.into(), line })
    }
}
