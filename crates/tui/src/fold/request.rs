//! Answers to requests. What was typed for something else must never approve: `y`, `n` and `a` count only with an empty box,
//! half a second after the request was drawn and after the last key, in a window that has the focus, for the request that is
//! shown. Enter, Space, Esc, pastes and the mouse never approve.

use serde_json::Value;

use crate::event::{Drawn, Effect, Ms};
use crate::keys::{Action, Key};
use crate::state::{Panel, Stage, State};
use crate::wire::Request;

/// Time for which a request has to be on the screen, and no key pressed, before a key answers it.
pub(crate) const CALM: Ms = 500;

impl State {
    /// Takes over the pending requests of the session.
    pub(crate) fn set_requests(&mut self, requests: Vec<Request>) {
        self.requests = requests;
        self.requests.retain(|request| !self.answered.contains(&request.request_id));
    }

    /// Shows the first request that waits. One that is shown stays until it is answered.
    pub(crate) fn choose_panel(&mut self) {
        if let Some(panel) = &self.panel {
            let here = panel.request.session_id.as_ref().is_none_or(|id| *id == self.session.id);
            let list = if here { &self.requests } else { &self.inbox };
            if list.iter().any(|request| request.request_id == panel.request.request_id) {
                return;
            }
            self.panel = None;
        }
        if let Some(request) = self.requests.iter().find(|request| request.is_for_people()) {
            self.panel = Some(Panel::new(request.clone()));
        }
    }

    /// Notes what was on the screen.
    pub(super) fn note_drawn(&mut self, drawn: &Drawn) {
        let now = self.now;
        let is_empty = self.editor.is_empty();
        let Some(panel) = &mut self.panel else { return };
        if drawn.request.as_ref() != Some(&panel.request.request_id) {
            return;
        }
        panel.since.get_or_insert(now);
        panel.end_seen |= drawn.end_seen;
        panel.typed_for |= is_empty;
        if let Stage::Confirm(_, since @ None) = &mut panel.stage
            && drawn.confirms
        {
            *since = Some(now);
        }
    }

    /// Handles a key that may answer the request. Returns none if it is for something else.
    pub(super) fn key_for_request(&mut self, key: &Key, action: Option<Action>) -> Option<Vec<Effect>> {
        let stage = self.panel.as_ref()?.stage;
        if self.overlay.is_some() || stage == Stage::Sending {
            return None;
        }
        if action == Some(Action::RejectWithReason) {
            return Some(self.reject_with_reason());
        }
        if let Stage::Confirm(offer, _) = stage
            && self.editor.is_empty()
            && action == Some(Action::Complete)
        {
            self.next_offer(offer);
            return Some(Vec::new());
        }
        let answers = key.text().filter(|c| self.is_answer_key(*c))?;
        if !self.editor.is_empty() {
            return None;
        }
        if let Err(why) = self.is_calm(key) {
            // It was typed for the box, where it goes; the request stays.
            self.hint(why);
            return None;
        }
        Some(self.answer_key(answers))
    }

    fn is_answer_key(&self, c: char) -> bool {
        let Some(panel) = &self.panel else { return false };
        match c {
            'y' => panel.request.yes().is_some(),
            'n' => panel.request.no(None).is_some(),
            'a' => panel.request.always_means(0).is_some(),
            '1'..='9' => panel.request.choose(c as usize - '1' as usize).is_some(),
            _ => false,
        }
    }

    /// Whether a key is meant for the request, or why not.
    fn is_calm(&self, key: &Key) -> Result<(), &'static str> {
        let Some(panel) = &self.panel else { return Err("") };
        let calm_since = |since: Option<Ms>| since.is_some_and(|since| self.now >= since + CALM);
        let shown = match panel.stage {
            Stage::Confirm(_, since) => calm_since(since),
            _ => calm_since(panel.since),
        };
        let typed = self.last_key.is_some_and(|last| self.now < last + CALM);
        match () {
            () if key.repeat => Err("a held key answers nothing"),
            () if self.focused == Some(false) => Err("the window has no focus; the key went into the box"),
            () if !shown => Err("the request has just appeared; the key went into the box"),
            () if typed => Err("typed too soon after another key; it went into the box"),
            () => Ok(()),
        }
    }

    fn answer_key(&mut self, key: char) -> Vec<Effect> {
        let (width, _) = self.conversation_size();
        let fits = self.panel_rows(width).is_none_or(|rows| rows.body.lines.len() <= self.panel_room(&rows));
        let Some(panel) = &mut self.panel else { return Vec::new() };
        panel.hint = None;
        let approves = key != 'n';
        if approves && !fits && !panel.end_seen && !panel.warned {
            panel.warned = true;
            panel.hint =
                Some("the end was not shown yet: PgDn scrolls; press the key again to answer without".into());
            return Vec::new();
        }
        let answer = match (key, panel.stage) {
            ('a', Stage::Choose) => {
                panel.stage = Stage::Confirm(0, None);
                return Vec::new();
            }
            ('a', Stage::Confirm(offer, _)) => panel.request.always(offer),
            ('y', _) => panel.request.yes(),
            ('n', _) => panel.request.no(None),
            (digit, _) => panel.request.choose(digit as usize - '1' as usize),
        };
        answer.map(|answer| self.send_answer(answer)).unwrap_or_default()
    }

    fn next_offer(&mut self, offer: usize) {
        let Some(panel) = &mut self.panel else { return };
        let offers = panel.request.offers.len().max(1);
        panel.stage = Stage::Confirm((offer + 1) % offers, None);
    }

    fn reject_with_reason(&mut self) -> Vec<Effect> {
        let reason = self.editor.text().trim().to_owned();
        let reason = Some(reason).filter(|reason| !reason.is_empty());
        let Some(answer) = self.panel.as_ref().and_then(|panel| panel.request.no(reason.as_deref())) else {
            return Vec::new();
        };
        let message = self.editor.take();
        self.editor.remember(&message.text);
        self.send_answer(answer)
    }

    /// Sends what was typed as the answer, if the request takes text and the text was begun while it was shown.
    pub(super) fn answer_with_text(&mut self) -> Option<Vec<Effect>> {
        let panel = self.panel.as_ref()?;
        let is_for_it = panel.typed_for && panel.request.takes_text() && panel.stage != Stage::Sending;
        if !is_for_it || self.editor.text().trim().is_empty() {
            return None;
        }
        let typed = self.editor.clone().take().text;
        match panel.request.answer_text(typed.trim()) {
            Some(answer) => {
                self.editor.put_aside();
                Some(self.send_answer(answer))
            }
            None => {
                self.hint("the form wants another type of value");
                Some(Vec::new())
            }
        }
    }

    fn send_answer(&mut self, body: Value) -> Vec<Effect> {
        let Some(panel) = &mut self.panel else { return Vec::new() };
        panel.stage = Stage::Sending;
        panel.hint = None;
        let session = panel.request.session_id.clone().filter(|id| *id != self.session.id);
        vec![Effect::Answer { session, request: panel.request.request_id.clone(), body }]
    }

    /// An answer was recorded, or was not.
    pub(super) fn answered(&mut self, request: &str, failure: Option<String>) -> Vec<Effect> {
        match failure {
            None => self.close_request(request),
            Some(why) => {
                if let Some(panel) = self.panel.as_mut().filter(|panel| panel.request.request_id == request) {
                    // The clock starts again: the next key may be the impatient one after a silence.
                    let shown = panel.request.clone();
                    *panel = Panel { hint: Some(why), ..Panel::new(shown) };
                }
            }
        }
        vec![Effect::FetchRequests]
    }

    /// Removes a request that has an answer.
    pub(super) fn close_request(&mut self, request: &str) {
        self.answered.insert(request.to_owned());
        self.requests.retain(|pending| pending.request_id != request);
        self.inbox.retain(|pending| pending.request_id != request);
    }

    /// Says that a request was answered elsewhere, if it is the one that is shown.
    pub(super) fn closed_elsewhere(&mut self, request: &str, by: Option<&str>) {
        let is_shown = self
            .panel
            .as_ref()
            .is_some_and(|panel| panel.request.request_id == request && panel.stage != Stage::Sending);
        if is_shown {
            match by.filter(|by| *by != "HTTP API") {
                Some(by) => self.say(format!("answered elsewhere, by {}", crate::text::one_line(by))),
                None => self.say("answered elsewhere, or withdrawn"),
            }
        }
        self.close_request(request);
    }

    fn hint(&mut self, why: &str) {
        if let Some(panel) = &mut self.panel {
            panel.hint = Some(why.to_owned());
        }
    }

    /// Scrolls the body of the request.
    pub(super) fn scroll_request(&mut self, by: isize) {
        let (width, _) = self.conversation_size();
        let Some(rows) = self.panel_rows(width) else { return };
        let last = rows.body.lines.len().saturating_sub(self.panel_room(&rows));
        if let Some(panel) = &mut self.panel {
            panel.scroll = panel.scroll.saturating_add_signed(by).min(last);
        }
    }
}

impl Panel {
    pub(crate) fn new(request: Request) -> Self {
        Self {
            request,
            since: None,
            stage: Stage::Choose,
            scroll: 0,
            end_seen: false,
            warned: false,
            hint: None,
            typed_for: false,
        }
    }
}
