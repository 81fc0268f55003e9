//! What each event changes, and what it causes. Pure: time, size, focus and keys are events.

mod commands;
mod complete;
mod key;
mod net;
mod picker;
mod request;

pub use self::commands::{COMMANDS, Command};

use crate::event::{Drawn, Effect, Event, Ms, Pointer};
use crate::state::State;

/// Rows that a turn of the wheel scrolls.
const WHEEL: isize = 3;

impl State {
    /// Applies an event that happened at a time. Returns what it causes.
    pub fn fold(&mut self, now: Ms, event: Event) -> Vec<Effect> {
        self.now = self.now.max(now);
        if self.toast.as_ref().is_some_and(|toast| toast.until <= self.now) {
            self.toast = None;
        }
        let mut effects = match event {
            Event::Key(key) => self.key(key),
            Event::Paste(text) => self.paste(&text),
            Event::Wheel { up, row } => self.wheel(up, row),
            Event::Pointer(what, column, row) => self.pointer(what, (column, row)),
            Event::Resize(columns, rows) => {
                self.selection = None;
                self.size = (columns, rows);
                Vec::new()
            }
            Event::Focus(focused) => {
                self.focused = Some(focused);
                Vec::new()
            }
            Event::Tick => Vec::new(),
            Event::Drawn(drawn) => self.drawn(drawn),
            Event::Net(net) => self.net(net),
            Event::Edited(text) => {
                if let Some(text) = text {
                    self.editor.set(text.trim_end_matches('\n'));
                }
                vec![Effect::Redraw]
            }
            Event::Highlighted(hash, lines) => {
                self.highlights.insert(hash, lines.map(std::rc::Rc::new));
                Vec::new()
            }
            Event::Files(prefix, files) => {
                self.show_files(&prefix, files);
                Vec::new()
            }
            Event::History(history) => {
                self.editor.set_history(history);
                Vec::new()
            }
        };
        self.choose_panel();
        effects.extend(self.earlier());
        effects
    }

    /// Returns when the interface changes by itself, if nothing happens until then.
    #[must_use]
    pub fn deadline(&self) -> Option<Ms> {
        const SPINNER: Ms = 250;
        let toast = self.toast.as_ref().map(|toast| toast.until);
        let waits = self.panel.as_ref().is_some_and(|panel| panel.stage != crate::state::Stage::Sending);
        let moves = (self.is_busy() && !waits) || matches!(self.link, crate::state::Link::Lost(..));
        // Nobody looks at a window without the focus: its seconds may stand still.
        let spinner = (moves && self.focused != Some(false)).then(|| (self.now / SPINNER + 1) * SPINNER);
        toast.into_iter().chain(spinner).min()
    }

    fn wheel(&mut self, up: bool, row: u16) -> Vec<Effect> {
        let by = if up { -WHEEL } else { WHEEL };
        let areas = self.areas();
        if areas.panel.is_some_and(|panel| (panel.top()..panel.bottom()).contains(&row)) {
            self.scroll_request(by);
        } else {
            self.scroll(by);
        }
        Vec::new()
    }

    /// Selects cells while the button is down, and copies their text when it goes up.
    fn pointer(&mut self, what: Pointer, at: (u16, u16)) -> Vec<Effect> {
        match (what, self.selection) {
            (Pointer::Down, _) => self.selection = Some((at, at)),
            (Pointer::Drag, Some((from, _))) => self.selection = Some((from, at)),
            (Pointer::Up, Some((from, _))) if from == at => self.selection = None,
            (Pointer::Up, Some((from, _))) => {
                self.selection = Some((from, at));
                let text = crate::draw::selected(self);
                self.selection = None;
                if !text.trim().is_empty() {
                    self.say("the selection was sent to the terminal's clipboard");
                    return vec![Effect::Copy(text)];
                }
            }
            _ => {}
        }
        Vec::new()
    }

    fn drawn(&mut self, drawn: Drawn) -> Vec<Effect> {
        self.note_drawn(&drawn);
        let mut effects = Vec::new();
        for (hash, language, text) in drawn.plain_code {
            if let std::collections::hash_map::Entry::Vacant(entry) = self.highlights.entry(hash) {
                entry.insert(None);
                effects.push(Effect::Highlight(hash, language, text));
            }
        }
        effects
    }

    /// Asks for the page before the first event that was read, when the view comes near it.
    fn earlier(&mut self) -> Option<Effect> {
        const NEAR: usize = 5;
        let (width, height) = self.conversation_size();
        let is_near = || self.first_row(width, height).is_none_or(|(at, _)| at < NEAR);
        let wanted = self.has_earlier && !self.reading_earlier && self.conversation.first() > 1;
        if !wanted || !is_near() {
            return None;
        }
        self.reading_earlier = true;
        Some(Effect::FetchEarlier(self.conversation.first()))
    }
}
