//! Keys and what they do: one table makes the bindings, the help, the palette and the table of `docs/terminal.md`.

/// A key, without the modifiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "named as on the keyboard")]
pub enum Code {
    Char(char),
    Enter,
    Esc,
    Tab,
    BackTab,
    Backspace,
    Delete,
    Left,
    Right,
    Up,
    Down,
    Home,
    End,
    PageUp,
    PageDown,
}

/// A key that was pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    /// The key.
    pub code: Code,
    /// Whether Ctrl was held.
    pub ctrl: bool,
    /// Whether Alt was held.
    pub alt: bool,
    /// Whether Shift was held. Not set for characters, which have a case.
    pub shift: bool,
    /// Whether the terminal reports that the key is held down.
    pub repeat: bool,
}

impl Key {
    /// A key without modifiers.
    #[must_use]
    pub const fn plain(code: Code) -> Self {
        Self { code, ctrl: false, alt: false, shift: false, repeat: false }
    }

    /// A character without modifiers.
    #[must_use]
    pub const fn char(c: char) -> Self {
        Self::plain(Code::Char(c))
    }

    /// A character with Ctrl.
    #[must_use]
    pub const fn ctrl(c: char) -> Self {
        Self { ctrl: true, ..Self::char(c) }
    }

    /// A key with Alt.
    #[must_use]
    pub const fn alt(code: Code) -> Self {
        Self { alt: true, ..Self::plain(code) }
    }

    /// A key with Shift.
    #[must_use]
    pub const fn shift(code: Code) -> Self {
        Self { shift: true, ..Self::plain(code) }
    }

    /// Whether it is text for the input box.
    #[must_use]
    pub fn text(&self) -> Option<char> {
        match self.code {
            Code::Char(c) if !self.ctrl && !self.alt => Some(c),
            _ => None,
        }
    }
}

/// What a key does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the table of bindings says what each does")]
pub enum Action {
    Send,
    Newline,
    Interrupt,
    Quit,
    Close,
    Help,
    Approve,
    Reject,
    RejectWithReason,
    Always,
    Palette,
    Sessions,
    Models,
    Inbox,
    Mode,
    HistorySearch,
    EditQueued,
    Release,
    Steer,
    Editor,
    Unfold,
    Rewind,
    Suspend,
    Redraw,
    PageUp,
    PageDown,
    Follow,
    Top,
    RequestUp,
    RequestDown,
    Search,
    Copy,
    NewSession,
    Complete,
    LineStart,
    LineEnd,
    WordLeft,
    WordRight,
    DeleteWord,
    DeleteToEnd,
    DeleteToStart,
}

/// Where a binding counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Everywhere.
    Anywhere,
    /// While the input box is empty.
    EmptyBox,
    /// While a request is shown and the input box is empty.
    Request,
    /// In the input box.
    Box,
}

/// Keys with what they do.
#[derive(Debug, Clone, Copy)]
pub struct Binding {
    /// The keys; any of them.
    pub keys: &'static [Key],
    /// The keys, for people.
    pub shown: &'static str,
    /// What they do.
    pub action: Action,
    /// Where they do it.
    pub place: Place,
    /// What they do, for people.
    pub meaning: &'static str,
}

const fn bind(
    keys: &'static [Key],
    shown: &'static str,
    action: Action,
    place: Place,
    meaning: &'static str,
) -> Binding {
    Binding { keys, shown, action, place, meaning }
}

/// All bindings.
pub const BINDINGS: &[Binding] = &[
    bind(&[Key::plain(Code::Enter)], "Enter", Action::Send, Place::Box, "Send; while a turn runs, queue"),
    bind(
        &[Key::shift(Code::Enter), Key::alt(Code::Enter), Key::ctrl('j')],
        "Alt-Enter, Shift-Enter, Ctrl-J",
        Action::Newline,
        Place::Box,
        "Start a new line; `\\` before Enter does too",
    ),
    bind(
        &[Key::ctrl('c')],
        "Ctrl-C",
        Action::Interrupt,
        Place::Anywhere,
        "Cancel the running turn and hold the queue; without a turn, empty the box",
    ),
    bind(
        &[Key::ctrl('d')],
        "Ctrl-D",
        Action::Quit,
        Place::Anywhere,
        "Quit; the session stays, and so does its turn",
    ),
    bind(
        &[Key::plain(Code::Esc)],
        "Esc",
        Action::Close,
        Place::Anywhere,
        "Close what is on top; twice in a turn cancels it, twice in an empty box rewinds",
    ),
    bind(&[Key::char('?')], "?", Action::Help, Place::EmptyBox, "Show all keys"),
    bind(&[Key::char('y')], "y", Action::Approve, Place::Request, "Approve what is shown, once"),
    bind(&[Key::char('n')], "n", Action::Reject, Place::Request, "Deny it"),
    bind(
        &[Key::char('a')],
        "a",
        Action::Always,
        Place::Request,
        "Show what approving always covers; a second a confirms it",
    ),
    bind(
        &[Key::alt(Code::Char('n'))],
        "Alt-N",
        Action::RejectWithReason,
        Place::Anywhere,
        "Deny with the text of the box as the reason",
    ),
    bind(
        &[Key::alt(Code::PageUp), Key::shift(Code::Up)],
        "Shift-Up, Alt-PgUp",
        Action::RequestUp,
        Place::Anywhere,
        "Scroll the request up",
    ),
    bind(
        &[Key::alt(Code::PageDown), Key::shift(Code::Down)],
        "Shift-Down, Alt-PgDn",
        Action::RequestDown,
        Place::Anywhere,
        "Scroll the request down",
    ),
    bind(&[Key::alt(Code::Char('a'))], "Alt-A", Action::Inbox, Place::Anywhere, "Requests of other sessions"),
    bind(&[Key::ctrl('p')], "Ctrl-P", Action::Palette, Place::Anywhere, "All commands"),
    bind(&[Key::ctrl('s')], "Ctrl-S", Action::Sessions, Place::Anywhere, "Sessions"),
    bind(&[Key::alt(Code::Char('p'))], "Alt-P", Action::Models, Place::Anywhere, "Models and engines"),
    bind(
        &[Key::plain(Code::BackTab), Key::shift(Code::Tab)],
        "Shift-Tab",
        Action::Mode,
        Place::Anywhere,
        "Next mode: interactive, plan, autopilot",
    ),
    bind(&[Key::ctrl('r')], "Ctrl-R", Action::HistorySearch, Place::Anywhere, "Search earlier prompts"),
    bind(
        &[Key::alt(Code::Up)],
        "Alt-Up",
        Action::EditQueued,
        Place::Anywhere,
        "Edit or withdraw queued prompts",
    ),
    bind(&[Key::alt(Code::Char('r'))], "Alt-R", Action::Release, Place::Anywhere, "Release a held queue"),
    bind(
        &[Key::alt(Code::Char('s'))],
        "Alt-S",
        Action::Steer,
        Place::Anywhere,
        "Send into the running turn, instead of queueing",
    ),
    bind(&[Key::ctrl('g')], "Ctrl-G", Action::Editor, Place::Anywhere, "Edit the text in $EDITOR"),
    bind(
        &[Key::ctrl('o')],
        "Ctrl-O",
        Action::Unfold,
        Place::Anywhere,
        "Unfold or fold all output and reasoning",
    ),
    bind(&[Key::ctrl('t')], "Ctrl-T", Action::Rewind, Place::Anywhere, "Rewind to an earlier prompt"),
    bind(&[Key::ctrl('n')], "Ctrl-N", Action::NewSession, Place::Anywhere, "New session in this directory"),
    bind(&[Key::ctrl('f')], "Ctrl-F", Action::Search, Place::Anywhere, "Search the conversation"),
    bind(&[Key::ctrl('y')], "Ctrl-Y", Action::Copy, Place::Anywhere, "Copy the last answer"),
    bind(&[Key::plain(Code::PageUp)], "PgUp, wheel", Action::PageUp, Place::Anywhere, "Scroll up"),
    bind(&[Key::plain(Code::PageDown)], "PgDn, wheel", Action::PageDown, Place::Anywhere, "Scroll down"),
    bind(
        &[Key { ctrl: true, ..Key::plain(Code::Home) }],
        "Ctrl-Home",
        Action::Top,
        Place::Anywhere,
        "Scroll to the beginning",
    ),
    bind(
        &[Key { ctrl: true, ..Key::plain(Code::End) }],
        "Ctrl-End",
        Action::Follow,
        Place::Anywhere,
        "Scroll to the end and follow",
    ),
    bind(&[Key::ctrl('z')], "Ctrl-Z", Action::Suspend, Place::Anywhere, "Suspend; `fg` comes back"),
    bind(&[Key::ctrl('l')], "Ctrl-L", Action::Redraw, Place::Anywhere, "Draw everything again"),
    bind(&[Key::plain(Code::Tab)], "Tab", Action::Complete, Place::Box, "Complete a command or a file"),
    bind(
        &[Key::plain(Code::Home), Key::ctrl('a')],
        "Home, Ctrl-A",
        Action::LineStart,
        Place::Box,
        "Start of the line",
    ),
    bind(
        &[Key::plain(Code::End), Key::ctrl('e')],
        "End, Ctrl-E",
        Action::LineEnd,
        Place::Box,
        "End of the line",
    ),
    bind(
        &[Key::alt(Code::Char('b')), Key::alt(Code::Left), Key { ctrl: true, ..Key::plain(Code::Left) }],
        "Ctrl-Left, Alt-B",
        Action::WordLeft,
        Place::Box,
        "One word back",
    ),
    bind(
        &[Key::alt(Code::Char('f')), Key::alt(Code::Right), Key { ctrl: true, ..Key::plain(Code::Right) }],
        "Ctrl-Right, Alt-F",
        Action::WordRight,
        Place::Box,
        "One word forward",
    ),
    bind(
        &[Key::ctrl('w'), Key::alt(Code::Backspace)],
        "Ctrl-W",
        Action::DeleteWord,
        Place::Box,
        "Delete the word before the cursor",
    ),
    bind(&[Key::ctrl('k')], "Ctrl-K", Action::DeleteToEnd, Place::Box, "Delete to the end of the line"),
    bind(&[Key::ctrl('u')], "Ctrl-U", Action::DeleteToStart, Place::Box, "Delete to the start of the line"),
];

/// Returns what a key does at a place, apart from those of a request.
#[must_use]
pub fn action(key: &Key) -> Option<&'static Binding> {
    let pressed = Key { repeat: false, ..*key };
    BINDINGS.iter().find(|binding| binding.keys.contains(&pressed))
}

/// Returns the binding of an action.
#[must_use]
pub fn binding(action: Action) -> Option<&'static Binding> {
    BINDINGS.iter().find(|binding| binding.action == action)
}

/// Returns the table of keys for `docs/terminal.md`.
#[must_use]
pub fn table() -> String {
    let row = |binding: &Binding| format!("| {} | {} |\n", binding.shown, binding.meaning);
    let rows: String = BINDINGS.iter().map(row).collect();
    format!("| key | what it does |\n|---|---|\n{rows}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_key_and_each_action_is_bound_once() {
        let keys: Vec<String> =
            BINDINGS.iter().flat_map(|binding| binding.keys).map(|key| format!("{key:?}")).collect();
        assert_eq!(keys.len(), keys.iter().collect::<BTreeSet<_>>().len());
        let actions: Vec<String> = BINDINGS.iter().map(|binding| format!("{:?}", binding.action)).collect();
        assert_eq!(actions.len(), actions.iter().collect::<BTreeSet<_>>().len());
    }

    #[test]
    fn letters_without_modifiers_are_bound_for_empty_boxes_only() {
        for binding in BINDINGS {
            let is_letter = binding.keys.iter().any(|key| key.text().is_some());
            assert!(!is_letter || matches!(binding.place, Place::EmptyBox | Place::Request), "{binding:?}");
        }
    }
}
