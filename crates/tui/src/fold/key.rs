//! Keys.

use crate::event::{Effect, Ms};
use crate::fold::commands;
use crate::keys::{self, Action, Code, Key, Place};
use crate::state::{Link, Overlay, Stage, State};

/// Time within which a second Esc counts as one of two.
const TWICE: Ms = 600;

impl State {
    pub(super) fn key(&mut self, key: Key) -> Vec<Effect> {
        let binding = keys::action(&key);
        let action = binding.map(|binding| binding.action);
        // Whoever goes on typing is not done.
        self.sends_later = false;
        let effects = self.handle(&key, action);
        // After it is handled: the time since the key before it decides what it may do.
        self.last_key = Some(self.now);
        if action != Some(Action::Close) {
            self.last_escape = None;
        }
        effects
    }

    fn handle(&mut self, key: &Key, action: Option<Action>) -> Vec<Effect> {
        if let Link::Fatal(_) = self.link
            && matches!(action, Some(Action::Interrupt | Action::Quit | Action::Close))
        {
            return vec![Effect::Quit];
        }
        if self.overlay.is_some() && !matches!(action, Some(Action::Quit | Action::Suspend | Action::Redraw))
        {
            return self.key_in_overlay(key, action);
        }
        if let Some(effects) = self.key_for_request(key, action) {
            return effects;
        }
        if let Some(effects) = self.key_in_completion(key) {
            return effects;
        }
        match action {
            Some(action) if self.counts(action) => self.act(action, key),
            _ => self.edit(key),
        }
    }

    /// Whether an action counts now: letters do so only with an empty box.
    fn counts(&self, action: Action) -> bool {
        match keys::binding(action).map(|binding| binding.place) {
            Some(Place::EmptyBox) => self.editor.is_empty(),
            Some(Place::Request) | None => false,
            Some(Place::Anywhere | Place::Box) => true,
        }
    }

    pub(super) fn act(&mut self, action: Action, key: &Key) -> Vec<Effect> {
        let (_, height) = self.conversation_size();
        let page = (height.saturating_sub(2)).max(1) as isize;
        match action {
            Action::Send => return self.enter(),
            Action::Steer => return self.send(true),
            Action::Newline => self.editor.insert('\n'),
            Action::Interrupt => return self.interrupt(),
            Action::Quit => return self.quit(),
            Action::Close => return self.escape(),
            Action::Help => self.overlay = Some(Overlay::Help(0)),
            Action::Palette => self.open_commands(),
            Action::Sessions => return self.open_sessions(),
            Action::Models => return self.open_models(),
            Action::Inbox => return self.open_inbox(),
            Action::Mode => return self.next_mode(),
            Action::HistorySearch => self.open_history(),
            Action::EditQueued => self.open_queue(),
            Action::Release => return self.release(),
            Action::Editor => return vec![Effect::Edit(self.editor.text().to_owned())],
            Action::Unfold => self.unfolded = !self.unfolded,
            Action::Rewind => self.open_rewind(),
            Action::Suspend => return vec![Effect::Suspend],
            Action::Redraw => return vec![Effect::Redraw],
            Action::PageUp if self.request_overflows() => self.scroll_request(-self.request_page()),
            Action::PageDown if self.request_overflows() => self.scroll_request(self.request_page()),
            Action::PageUp => self.scroll(-page),
            Action::PageDown => self.scroll(page),
            Action::Follow => {
                self.view = crate::state::View::default();
            }
            Action::Top => {
                let first = self.conversation.items().iter().find(|item| self.is_shown(item));
                self.view.top = first.map(|item| (item.key.clone(), 0));
            }
            Action::RequestUp => self.scroll_request(-3),
            Action::RequestDown => self.scroll_request(3),
            Action::Search => self.open_search(),
            Action::Copy => return self.copy_answer(),
            Action::NewSession => return vec![Effect::Create],
            Action::Complete => return self.complete(),
            Action::LineStart => self.editor.to_line_start(),
            Action::LineEnd => {
                if self.editor.is_empty() && key.code == Code::End {
                    self.view = crate::state::View::default();
                }
                self.editor.to_line_end();
            }
            Action::WordLeft => self.editor.step_word(true),
            Action::WordRight => self.editor.step_word(false),
            Action::DeleteWord => self.editor.delete_word(),
            Action::DeleteToEnd => self.editor.delete_to_end(),
            Action::DeleteToStart => self.editor.delete_to_start(),
            Action::Approve | Action::Reject | Action::RejectWithReason | Action::Always => {}
        }
        Vec::new()
    }

    fn request_overflows(&self) -> bool {
        let (width, _) = self.conversation_size();
        self.panel_rows(width).is_some_and(|rows| rows.body.lines.len() > self.panel_room(&rows))
    }

    fn request_page(&self) -> isize {
        let (width, _) = self.conversation_size();
        self.panel_rows(width).map_or(1, |rows| self.panel_room(&rows).saturating_sub(1).max(1) as isize)
    }

    /// Edits the box.
    fn edit(&mut self, key: &Key) -> Vec<Effect> {
        let width = self.editor_width();
        match key.code {
            Code::Backspace => self.editor.backspace(),
            Code::Delete => self.editor.delete(),
            Code::Left => self.editor.step(true),
            Code::Right => self.editor.step(false),
            Code::Up => self.editor.vertical(true, width),
            Code::Down => self.editor.vertical(false, width),
            _ => {
                if let Some(c) = key.text() {
                    self.editor.insert(c);
                }
            }
        }
        self.suggest()
    }

    pub(super) fn paste(&mut self, text: &str) -> Vec<Effect> {
        match &mut self.overlay {
            Some(Overlay::Picker(picker)) => {
                picker.filter.extend(text.chars().filter(|c| !c.is_control()).take(200));
                picker.selected = 0;
            }
            Some(Overlay::Help(_)) => {}
            None => self.editor.paste(text),
        }
        // Type-ahead behind a paste belongs to it.
        self.last_key = Some(self.now);
        Vec::new()
    }

    fn enter(&mut self) -> Vec<Effect> {
        if self.editor.before_cursor().ends_with('\\') {
            self.editor.backspace();
            self.editor.insert('\n');
            return Vec::new();
        }
        if let Some(effects) = self.answer_with_text() {
            return effects;
        }
        self.send(false)
    }

    /// Sends what is in the box.
    pub(super) fn send(&mut self, immediate: bool) -> Vec<Effect> {
        self.completion = None;
        if self.editor.text().trim().is_empty() {
            return Vec::new();
        }
        if self.link == Link::Connecting {
            self.sends_later = true;
            self.say("sent as soon as the server answers");
            return Vec::new();
        }
        if !matches!(self.link, Link::Connected) {
            self.say("not connected: what you typed stays in the box");
            return Vec::new();
        }
        if let Some(effects) = commands::run(self) {
            return effects;
        }
        let message = self.editor.take();
        self.editor.remember(&message.text);
        self.view = crate::state::View::default();
        let immediate = immediate && self.is_busy();
        // Ctrl-C right behind it cancels it.
        self.set_busy(true);
        vec![
            Effect::Remember(message.text.clone()),
            Effect::Send { text: message.text, files: message.files, immediate },
        ]
    }

    /// In a turn: cancels it and holds the queue, and nothing else. Without one: puts the draft into the history.
    pub(super) fn interrupt(&mut self) -> Vec<Effect> {
        if self.is_busy() {
            if std::mem::replace(&mut self.cancelling, true) {
                return Vec::new();
            }
            let turn = self.conversation.turn().or(self.turn.as_deref());
            return vec![Effect::Cancel(turn.map(str::to_owned))];
        }
        if self.editor.is_empty() {
            self.say("Ctrl-D quits; the session stays");
        } else {
            self.editor.put_aside();
            self.completion = None;
            self.say("the draft is in the history (Up)");
        }
        Vec::new()
    }

    fn escape(&mut self) -> Vec<Effect> {
        if self.completion.take().is_some() {
            return Vec::new();
        }
        if let Some(panel) = &mut self.panel
            && matches!(panel.stage, Stage::Confirm(..))
        {
            panel.stage = Stage::Choose;
            return Vec::new();
        }
        if self.search.take().is_some() {
            return Vec::new();
        }
        let twice = self.last_escape.is_some_and(|last| self.now < last + TWICE);
        self.last_escape = Some(self.now);
        match (twice, self.is_busy(), self.editor.is_empty()) {
            (true, true, _) => {
                self.last_escape = None;
                self.interrupt()
            }
            (true, false, true) => {
                self.last_escape = None;
                self.open_rewind();
                Vec::new()
            }
            (false, true, _) => {
                self.say("Esc again cancels the turn");
                Vec::new()
            }
            (false, false, true) if self.view.top.is_some() => {
                self.view = crate::state::View::default();
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// Leaves. A draft goes into the history.
    fn quit(&mut self) -> Vec<Effect> {
        let draft = self.editor.clone().take().text;
        let kept = (!draft.trim().is_empty()).then_some(Effect::Remember(draft));
        kept.into_iter().chain([Effect::Quit]).collect()
    }

    pub(super) fn release(&mut self) -> Vec<Effect> {
        if self.is_held() { vec![Effect::Release] } else { Vec::new() }
    }

    pub(super) fn copy_answer(&mut self) -> Vec<Effect> {
        match self.conversation.last_answer().map(str::to_owned) {
            Some(answer) => {
                self.say("the last answer was sent to the terminal's clipboard");
                vec![Effect::Copy(answer)]
            }
            None => {
                self.say("no answer to copy yet");
                Vec::new()
            }
        }
    }

    fn next_mode(&mut self) -> Vec<Effect> {
        let next = match self.modes.agent.as_str() {
            "interactive" => "plan",
            "plan" => "autopilot",
            _ => "interactive",
        };
        vec![Effect::Patch(serde_json::json!({ "mode": next }), format!("mode: {next}"))]
    }
}
