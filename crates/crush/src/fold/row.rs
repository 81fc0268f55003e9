//! The list entry of a session.

use baton_protocol::Timestamp;
use baton_protocol::event::{Body, WorkContext};

use super::{Change, Fold};
use crate::wire::{ChangeKind, Session, seconds};

/// Maximum length of a title that is made from the first prompt, in characters.
pub(super) const TITLE_LENGTH: usize = 60;

/// Fields of the list entry that events change.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Row {
    name: Option<String>,
    /// The first prompt.
    pub(super) title: Option<String>,
    pub(super) messages: u64,
    pub(super) prompt_tokens: u64,
    pub(super) completion_tokens: u64,
    created: Timestamp,
    pub(super) updated: Timestamp,
    pub(super) context: WorkContext,
    /// The id of the newest summary.
    pub(super) summary: String,
}

impl Fold {
    /// Returns the list entry, without `is_busy` and `attached_clients`, which are not in the history.
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

    pub(super) fn row_event(&mut self, at: Timestamp, body: &Body) -> Vec<Change> {
        match body {
            Body::SessionStart(start) => {
                self.row.created = at;
                self.row.context = start.context.clone().unwrap_or_default();
                return vec![Change::Session(ChangeKind::Created)];
            }
            Body::SessionResume(resume) => {
                self.row.context = resume.context.clone().unwrap_or_else(|| self.row.context.clone());
                return Vec::new();
            }
            Body::ContextChanged(change) => self.row.context = change.0.clone(),
            Body::Renamed(renamed) => self.row.name = Some(renamed.name.clone()),
            _ => return Vec::new(),
        }
        vec![Change::Session(ChangeKind::Updated)]
    }
}

/// Returns the title of a session: the name that a client set, or the beginning of the first prompt.
pub(crate) fn title(name: Option<&str>, first_prompt: Option<&str>) -> String {
    let shorten = |text: &str| {
        let line = text.trim().lines().next().unwrap_or_default();
        let mut short: String = line.chars().take(TITLE_LENGTH).collect();
        if short.len() < line.len() {
            short.push('…');
        }
        short
    };
    name.map(str::to_owned).or_else(|| first_prompt.map(shorten)).unwrap_or_else(|| "New Session".into())
}
