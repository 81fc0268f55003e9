//! What happens to the interface, and what it wants to happen.

use baton_markup::highlight::Pieces;
use baton_protocol::event::Event as SessionEvent;
use serde_json::Value;

use crate::keys::Key;
use crate::wire::{Models, Request, Session, SessionState, Skill};

/// Milliseconds since the start of the program.
pub type Ms = u64;

/// Something that happened.
#[derive(Debug, Clone)]
pub enum Event {
    /// A key was pressed.
    Key(Key),
    /// Text was pasted.
    Paste(String),
    /// The mouse wheel was turned.
    Wheel {
        /// Upwards.
        up: bool,
        /// The row under the pointer.
        row: u16,
    },
    /// The left button went down, moved, or went up, at a column and a row.
    Pointer(Pointer, u16, u16),
    /// The terminal has another size, in columns and rows.
    Resize(u16, u16),
    /// The window gained or lost the focus.
    Focus(bool),
    /// A moment that the interface waits for may have come.
    Tick,
    /// A frame reached the terminal.
    Drawn(Drawn),
    /// Something about the session that was opened last, or an earlier one.
    Net(Net),
    /// The user ended the editor.
    Edited(Option<String>),
    /// A text was highlighted.
    Highlighted(u64, Option<Vec<Pieces>>),
    /// Files below the working directory were listed: for which prefix, and what was found.
    Files(String, Vec<String>),
    /// Prompts of earlier runs of the program, oldest first.
    History(Vec<String>),
}

/// What the left button of the mouse did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "named by what it did")]
pub enum Pointer {
    Down,
    Drag,
    Up,
}

/// What a frame showed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Drawn {
    /// The request that could be answered.
    pub request: Option<String>,
    /// Whether the coverage of a grant was shown for confirmation.
    pub confirms: bool,
    /// Whether the last row of the request was on the screen.
    pub end_seen: bool,
    /// Code that was shown without colours: hash, language and text.
    pub plain_code: Vec<(u64, String, String)>,
}

/// News from the server.
#[derive(Debug, Clone)]
pub enum Net {
    /// The session was opened: its state, the last events, and whether there are earlier ones.
    Opened(Box<SessionState>, Vec<(u64, SessionEvent)>, bool),
    /// Something about the server that people should know.
    Note(String),
    /// The stream of events is open.
    Connected,
    /// The connection broke, or could not be made.
    Lost(String),
    /// It cannot be made at all.
    Fatal(String),
    /// An event of the session.
    Event(Option<u64>, Box<SessionEvent>),
    /// An earlier page of events, and whether there are earlier ones still.
    Earlier(Vec<(u64, SessionEvent)>, bool),
    /// The state of the session.
    State(Box<SessionState>),
    /// The pending requests of the session.
    Requests(Vec<Request>),
    /// The pending requests of all sessions.
    AllRequests(Vec<Request>),
    /// The sessions of the server.
    Sessions(Vec<Session>),
    /// The models of the server.
    Models(Models),
    /// The skills of the session.
    Skills(Vec<Skill>),
    /// Something that was asked for is done, or failed.
    Done(Asked, Result<Value, String>),
}

/// What was asked of the server.
#[derive(Debug, Clone, PartialEq)]
pub enum Asked {
    /// To accept a prompt; the text, to put it back.
    Prompt(String),
    /// To record the answer to a request.
    Answer(String),
    /// To cancel the turn.
    Cancel,
    /// To rewind; the prompt that comes back into the box.
    Rewind(String),
    /// Anything else, in words.
    Change(String),
}

/// What the interface wants to happen.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Send a prompt.
    Send {
        /// The text.
        text: String,
        /// Attached files.
        files: Vec<String>,
        /// Whether it joins the running turn.
        immediate: bool,
    },
    /// Answer a request, of this session or another one.
    Answer {
        /// The other session.
        session: Option<String>,
        /// The request.
        request: String,
        /// The answer.
        body: Value,
    },
    /// Cancel this turn, and hold the queue.
    Cancel(Option<String>),
    /// Release the held queue.
    Release,
    /// Read the state of the session.
    FetchState,
    /// Read the pending requests of the session.
    FetchRequests,
    /// Read the page before an event.
    FetchEarlier(u64),
    /// Read the requests of all sessions.
    FetchAllRequests,
    /// List the sessions.
    FetchSessions,
    /// List the models.
    FetchModels,
    /// List the skills.
    FetchSkills,
    /// List files that begin with a prefix.
    ListFiles(String),
    /// Open another session.
    Open(String),
    /// Create a session in the directory, and open it.
    Create,
    /// Change the session.
    Patch(Value, String),
    /// Copy the session, and open the copy.
    Fork,
    /// Change the text of a queued prompt.
    Amend(String, String),
    /// Withdraw a queued prompt.
    Withdraw(String),
    /// Rewind to before the prompt of an event; the text comes back into the box.
    Rewind(String, String),
    /// Run a slash command of the server.
    Command(String),
    /// Write the conversation to a file.
    Export,
    /// Edit a text in the user's editor.
    Edit(String),
    /// Suspend the program.
    Suspend,
    /// Draw everything again.
    Redraw,
    /// Copy a text to the clipboard.
    Copy(String),
    /// Ring the bell, or show a notification of the desktop.
    Notify(String),
    /// Keep a prompt for later runs of the program.
    Remember(String),
    /// Highlight code: hash, language and text.
    Highlight(u64, String, String),
    /// Leave.
    Quit,
}
