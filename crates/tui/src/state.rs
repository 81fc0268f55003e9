//! Everything that the interface shows, and everything that it needs to know to react.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use baton_markup::highlight::Pieces;

use crate::conversation::{Conversation, ItemKey};
use crate::editor::Editor;
use crate::event::Ms;
use crate::layout::RowCache;
use crate::theme::Theme;
use crate::wire::{Attached, Queued, Request, Session, SessionState};

/// The interface.
#[derive(Debug, Default)]
pub struct State {
    /// Columns and rows of the terminal.
    pub size: (u16, u16),
    /// The time of the last event.
    pub now: Ms,
    /// Whether the window has the focus, if the terminal says so.
    pub focused: Option<bool>,
    /// What does not change.
    pub about: About,
    /// Colours.
    pub theme: Theme,
    /// The session.
    pub session: Session,
    /// Its modes.
    pub modes: Modes,
    /// The connection.
    pub link: Link,
    /// What was said and done.
    pub conversation: Conversation,
    /// Whether there are earlier events than those that were read.
    pub has_earlier: bool,
    /// Whether they are being read.
    pub reading_earlier: bool,
    /// Which part of the conversation is shown.
    pub view: View,
    /// Whether output and reasoning are unfolded.
    pub unfolded: bool,
    /// When the running turn was first seen.
    pub turn_since: Option<Ms>,
    /// The running turn, as the server names it.
    pub turn: Option<String>,
    /// Whether a cancel is on its way.
    pub cancelling: bool,
    /// Prompts that have not started.
    pub queue: Vec<Queued>,
    /// Whether the queue is paused.
    pub paused: bool,
    /// Whether a stopped server left work.
    pub left: bool,
    /// Who receives the events of the session.
    pub attached: Vec<Attached>,
    /// Pending requests of the session.
    pub requests: Vec<Request>,
    /// The request that is shown.
    pub panel: Option<Panel>,
    /// Requests that were answered here; lists that still have them are older.
    pub answered: BTreeSet<String>,
    /// Pending requests of other sessions.
    pub inbox: Vec<Request>,
    /// Sessions of the server, as far as they were listed.
    pub sessions: Vec<Session>,
    /// The input box.
    pub editor: Editor,
    /// Whether what is in the box is sent as soon as there is a connection.
    pub sends_later: bool,
    /// Completions of the word before the cursor.
    pub completion: Option<Completion>,
    /// Names and descriptions of the session's skills.
    pub skills: Vec<(String, String)>,
    /// What is on top, the last one first.
    pub overlay: Option<Overlay>,
    /// A short message.
    pub toast: Option<Toast>,
    /// Used and available tokens of the context.
    pub context: Option<(u64, u64)>,
    /// When the last key was pressed.
    pub last_key: Option<Ms>,
    /// When Esc was pressed last.
    pub last_escape: Option<Ms>,
    /// Cells that are selected: the column and row of the first and the last one, in the order of the drag.
    pub selection: Option<((u16, u16), (u16, u16))>,
    /// The text that is searched for in the conversation.
    pub search: Option<String>,
    /// Highlighted code, by its hash; none while it is being highlighted, or if it cannot be.
    pub highlights: HashMap<u64, Option<Rc<Vec<Pieces>>>>,
    /// Rows of items. A cache: it changes nothing of what is shown.
    pub rows: RefCell<RowCache>,
}

/// What does not change while the program runs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct About {
    /// Version of this program.
    pub version: String,
    /// What was noted at the start, such as that a server was started.
    pub notes: Vec<String>,
    /// Home directory of the user, shown as `~`.
    pub home: String,
    /// What prompts and answers from here are signed with.
    pub author: String,
    /// Whether the demo model answers.
    pub is_demo: bool,
}

/// Modes of the session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Modes {
    /// Agent mode.
    pub agent: String,
    /// Permission mode.
    pub permissions: String,
    /// Effort of reasoning.
    pub effort: Option<String>,
}

/// The connection to the server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Link {
    /// It is being made for the first time.
    #[default]
    Connecting,
    /// It stands.
    Connected,
    /// It broke: when and why.
    Lost(Ms, String),
    /// It cannot be made.
    Fatal(String),
}

/// Which part of the conversation is shown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct View {
    /// The first row on the screen, as an item and a row of it; none to follow the end.
    pub top: Option<(ItemKey, usize)>,
    /// Items that have come since.
    pub unseen: usize,
}

/// The request that is shown above the input box.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// The request, at the session that waits.
    pub request: Request,
    /// When a frame first showed it.
    pub since: Option<Ms>,
    /// What is being decided.
    pub stage: Stage,
    /// First row of the body on the screen.
    pub scroll: usize,
    /// Whether the last row was on the screen.
    pub end_seen: bool,
    /// Whether the user knows that it was not.
    pub warned: bool,
    /// What went wrong, or why a key did not count.
    pub hint: Option<String>,
    /// Whether the box was empty while it was shown: what is typed after that is about it.
    pub typed_for: bool,
}

/// What is being decided about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Whether to allow it.
    Choose,
    /// Whether to always allow what an offer covers, shown since a moment.
    Confirm(usize, Option<Ms>),
    /// The answer is on its way.
    Sending,
}

/// A short message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toast {
    /// The text.
    pub text: String,
    /// When it goes away.
    pub until: Ms,
}

/// Completions of the word before the cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// Where the word begins.
    pub from: usize,
    /// The completions, each with what it is.
    pub items: Vec<(String, String)>,
    /// The selected one.
    pub selected: usize,
    /// Whether they are files.
    pub of_files: bool,
}

/// What is on top of the conversation.
#[derive(Debug, Clone, PartialEq)]
pub enum Overlay {
    /// The keys.
    Help(usize),
    /// A list to choose from.
    Picker(Picker),
}

/// A list to choose from.
#[derive(Debug, Clone, PartialEq)]
pub struct Picker {
    /// What is chosen.
    pub of: PickerOf,
    /// What is typed to filter it.
    pub filter: String,
    /// The choices.
    pub items: Vec<Choice>,
    /// Index of the selected one, among those that pass the filter.
    pub selected: usize,
    /// Whether the choices are on their way.
    pub loading: bool,
}

/// What a picker chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "named by what they list")]
pub enum PickerOf {
    Sessions,
    Models,
    Modes,
    Permissions,
    Themes,
    Rewind,
    Queue,
    Inbox,
    History,
    Commands,
    Search,
}

/// A choice of a picker.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Choice {
    /// What it is.
    pub label: String,
    /// More about it.
    pub detail: String,
    /// What it stands for.
    pub value: String,
}

impl Picker {
    /// Returns the choices that pass the filter.
    #[must_use]
    pub fn shown(&self) -> Vec<&Choice> {
        let words: Vec<String> = self.filter.split_whitespace().map(str::to_lowercase).collect();
        let passes = |choice: &&Choice| {
            let text = format!("{} {}", choice.label, choice.detail).to_lowercase();
            words.iter().all(|word| text.contains(word))
        };
        self.items.iter().filter(passes).collect()
    }

    /// Returns the selected choice.
    #[must_use]
    pub fn choice(&self) -> Option<&Choice> {
        self.shown().get(self.selected).copied()
    }
}

impl State {
    /// Creates the state of a program that has just started.
    #[must_use]
    pub fn new(size: (u16, u16), theme: Theme, about: About) -> Self {
        Self { size, theme, about, ..Self::default() }
    }

    /// Returns the names of other people who are attached.
    #[must_use]
    pub fn attached_users(&self) -> Vec<String> {
        let names = self.attached.iter().filter_map(|other| other.user.as_deref());
        let mut names: Vec<String> = names.map(crate::text::one_line).collect();
        names.dedup();
        names
    }

    /// Whether a turn runs or is about to.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.turn_since.is_some()
    }

    /// Whether something of the queue waits for a release.
    #[must_use]
    pub fn is_held(&self) -> bool {
        !self.queue.is_empty() && (self.paused || self.queue.iter().any(|item| item.held))
    }

    /// Takes over what the server says about the session.
    pub(crate) fn set_state(&mut self, state: SessionState) {
        let SessionState { session, mode, permissions, reasoning_effort, running, .. } = state;
        self.session = session;
        self.session.watching = state.watching;
        self.modes = Modes { agent: mode, permissions, effort: reasoning_effort };
        self.queue = state.queue;
        self.paused = state.paused;
        self.left = state.left;
        self.turn = state.turn.map(|turn| turn.id).filter(|id| !id.is_empty());
        self.attached = state.attached;
        self.set_busy(running);
        self.set_requests(state.requests);
    }

    /// Notes whether a turn runs.
    pub(crate) fn set_busy(&mut self, busy: bool) {
        self.turn_since = busy.then(|| self.turn_since.unwrap_or(self.now));
        self.cancelling &= busy;
    }

    /// Shows a short message.
    pub(crate) fn say(&mut self, text: impl Into<String>) {
        const LASTING: Ms = 4000;
        self.toast = Some(Toast { text: text.into(), until: self.now + LASTING });
    }
}
