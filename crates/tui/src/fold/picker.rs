//! Lists to choose from: sessions, models, prompts to rewind to, the queue, the inbox, the history, commands.

use serde_json::json;

use super::commands::COMMANDS;
use crate::conversation::Kind;
use crate::event::Effect;
use crate::keys::{Action, Code, Key};
use crate::state::{Choice, Overlay, Panel, Picker, PickerOf, State};
use crate::text;
use crate::theme::Theme;
use crate::wire::Models;

impl State {
    pub(super) fn key_in_overlay(&mut self, key: &Key, action: Option<Action>) -> Vec<Effect> {
        if matches!(action, Some(Action::Close | Action::Interrupt)) {
            self.overlay = None;
            return Vec::new();
        }
        let page = usize::from(self.size.1 / 2).max(1);
        match &mut self.overlay {
            Some(Overlay::Help(scroll)) => match key.code {
                Code::Up => *scroll = scroll.saturating_sub(1),
                Code::Down => *scroll += 1,
                Code::PageUp => *scroll = scroll.saturating_sub(page),
                Code::PageDown => *scroll += page,
                _ => self.overlay = None,
            },
            Some(Overlay::Picker(picker)) => {
                let count = picker.shown().len();
                match key.code {
                    Code::Enter => return self.choose(),
                    Code::Up => picker.selected = picker.selected.saturating_sub(1),
                    Code::Down | Code::Tab => {
                        picker.selected = (picker.selected + 1).min(count.saturating_sub(1));
                    }
                    Code::PageUp => picker.selected = picker.selected.saturating_sub(page),
                    Code::PageDown => picker.selected = (picker.selected + page).min(count.saturating_sub(1)),
                    Code::Delete if picker.of == PickerOf::Queue => return self.withdraw(),
                    Code::Backspace => {
                        picker.filter.pop();
                        picker.selected = 0;
                    }
                    _ => {
                        if let Some(c) = key.text() {
                            picker.filter.push(c);
                            picker.selected = 0;
                        }
                    }
                }
            }
            None => {}
        }
        Vec::new()
    }

    pub(super) fn pick(&mut self, of: PickerOf, items: Vec<Choice>, loading: bool) {
        let picker = Picker { of, filter: String::new(), items, selected: 0, loading };
        self.overlay = Some(Overlay::Picker(picker));
    }

    fn fill(&mut self, of: PickerOf, items: Vec<Choice>) {
        if let Some(Overlay::Picker(picker)) = &mut self.overlay
            && picker.of == of
        {
            picker.items = items;
            picker.loading = false;
            let count = picker.shown().len();
            picker.selected = picker.selected.min(count.saturating_sub(1));
        }
    }

    pub(super) fn open_commands(&mut self) {
        let choice = |command: &super::Command| Choice {
            label: format!("/{}", command.name),
            detail: command.meaning.to_owned(),
            value: command.name.to_owned(),
        };
        let skills = self.skills.iter().map(|(name, about)| Choice {
            label: format!("/{}", text::one_line(name)),
            detail: text::one_line(about),
            value: name.clone(),
        });
        let items = COMMANDS.iter().map(choice).chain(skills).collect();
        self.pick(PickerOf::Commands, items, false);
    }

    pub(super) fn open_sessions(&mut self) -> Vec<Effect> {
        self.pick(PickerOf::Sessions, Vec::new(), true);
        self.list_sessions();
        vec![Effect::FetchSessions]
    }

    pub(super) fn list_sessions(&mut self) {
        let waiting =
            |id: &str| self.inbox.iter().filter(|request| request.session_id.as_deref() == Some(id)).count();
        let choice = |session: &crate::wire::Session| {
            let title = session.title.as_deref().unwrap_or("untitled");
            let place = self.short_path(session.cwd.as_deref().unwrap_or_default());
            let state = match (waiting(&session.id), session.busy) {
                (0, false) => String::new(),
                (0, true) => "busy · ".to_owned(),
                (n, _) => format!("{n} waiting · "),
            };
            let here = if session.id == self.session.id { "● " } else { "" };
            let model = session.model.as_deref().map(text::one_line).unwrap_or_default();
            Choice {
                label: format!("{here}{}", text::one_line(title)),
                detail: format!("{state}{place}  {model}"),
                value: session.id.clone(),
            }
        };
        let items: Vec<Choice> = self.sessions.iter().map(choice).collect();
        if !items.is_empty() {
            self.fill(PickerOf::Sessions, items);
        }
    }

    pub(super) fn open_models(&mut self) -> Vec<Effect> {
        self.pick(PickerOf::Models, Vec::new(), true);
        vec![Effect::FetchModels]
    }

    pub(super) fn list_models(&mut self, models: &Models) {
        let current = self.session.model.clone().unwrap_or_default();
        let choice = |model: &crate::wire::Model| Choice {
            label: text::one_line(&model.id),
            detail: format!(
                "{}{}",
                text::one_line(model.name.as_deref().filter(|name| **name != model.id).unwrap_or_default()),
                if model.id == current { "  (in use)" } else { "" }
            ),
            value: model.id.clone(),
        };
        self.fill(PickerOf::Models, models.models.iter().map(choice).collect());
    }

    pub(super) fn open_inbox(&mut self) -> Vec<Effect> {
        self.pick(PickerOf::Inbox, Vec::new(), true);
        self.refresh_inbox();
        vec![Effect::FetchAllRequests, Effect::FetchSessions]
    }

    pub(super) fn refresh_inbox(&mut self) {
        let choice = |request: &crate::wire::Request| Choice {
            label: text::cut(&what_waits(request), 60),
            detail: self.title_of(request.session_id.as_deref().unwrap_or_default()),
            value: request.request_id.clone(),
        };
        let items = self.inbox.iter().map(choice).collect();
        self.fill(PickerOf::Inbox, items);
    }

    pub(super) fn open_history(&mut self) {
        let choice =
            |text: &String| Choice { label: text::one_line(text), value: text.clone(), ..Choice::default() };
        let items = self.editor.history().iter().rev().map(choice).collect();
        self.pick(PickerOf::History, items, false);
    }

    pub(super) fn open_queue(&mut self) {
        if self.queue.is_empty() {
            self.say("the queue is empty");
            return;
        }
        let choice = |item: &crate::wire::Queued| Choice {
            label: text::one_line(&item.text),
            detail: if item.held { "held".to_owned() } else { String::new() },
            value: item.prompt_id.clone(),
        };
        let items = self.queue.iter().map(choice).collect();
        self.pick(PickerOf::Queue, items, false);
    }

    pub(super) fn open_rewind(&mut self) {
        let choice = |(event, text): (&str, &str)| Choice {
            label: text::one_line(text),
            value: event.to_owned(),
            ..Choice::default()
        };
        let items: Vec<Choice> = self.conversation.prompts().map(choice).collect();
        if items.is_empty() {
            self.say("nothing to rewind to yet");
        } else {
            self.pick(PickerOf::Rewind, items, false);
        }
    }

    pub(super) fn open_search(&mut self) {
        let items = self.conversation.items().iter().enumerate().rev();
        let choice = |(at, item): (usize, &crate::conversation::Item)| {
            let (label, detail) = match &item.kind {
                Kind::Prompt { text, .. } => (text, "prompt"),
                Kind::Answer { text, .. } => (text, "answer"),
                Kind::Reasoning(text) => (text, "reasoning"),
                Kind::Tool(tool) if tool.what.is_empty() => (&tool.name, "tool"),
                Kind::Tool(tool) => (&tool.what, "tool"),
                Kind::Note { text, .. } => (text, "note"),
                Kind::Agent { name, .. } => (name, "sub-agent"),
            };
            Choice { label: text::one_line(label), detail: detail.to_owned(), value: at.to_string() }
        };
        let items = items.filter(|(_, item)| self.is_shown(item)).map(choice).collect();
        self.pick(PickerOf::Search, items, false);
    }

    pub(super) fn open_names(&mut self, of: PickerOf) {
        let names: Vec<(&str, &str)> = match of {
            PickerOf::Modes => vec![
                ("interactive", "the model works, and asks"),
                ("plan", "the model plans, and changes nothing"),
                ("autopilot", "the model goes on until it is done"),
            ],
            PickerOf::Permissions => vec![
                ("manual", "each permission is asked for"),
                ("assisted", "a model judges what is harmless"),
                ("allow-all", "everything runs without asking"),
            ],
            _ => Theme::ALL.iter().map(|theme| (theme.name(), "")).collect(),
        };
        let choice = |(name, about): (&str, &str)| Choice {
            label: name.to_owned(),
            detail: about.to_owned(),
            value: name.to_owned(),
        };
        self.pick(of, names.into_iter().map(choice).collect(), false);
    }

    /// Takes the selected choice.
    fn choose(&mut self) -> Vec<Effect> {
        let Some(Overlay::Picker(picker)) = self.overlay.take() else { return Vec::new() };
        let Some(choice) = picker.choice().cloned() else { return Vec::new() };
        let value = choice.value;
        match picker.of {
            PickerOf::Sessions if value == self.session.id => {}
            PickerOf::Sessions => return vec![Effect::Open(value)],
            PickerOf::Models => {
                let said = format!("model: {}", text::one_line(&value));
                return vec![Effect::Patch(json!({ "model": value }), said)];
            }
            PickerOf::Modes => {
                return vec![Effect::Patch(json!({ "mode": value }), format!("mode: {value}"))];
            }
            PickerOf::Permissions => {
                return vec![Effect::Patch(json!({ "permissions": value }), format!("permissions: {value}"))];
            }
            PickerOf::Themes => self.theme = Theme::named(&value).unwrap_or_default(),
            PickerOf::Rewind => {
                let prompts: Vec<_> = self.conversation.prompts().collect();
                let text =
                    prompts.iter().find(|(event, _)| *event == value).map(|(_, text)| (*text).to_owned());
                return text.map(|text| Effect::Rewind(value, text)).into_iter().collect();
            }
            PickerOf::Queue => {
                let text =
                    self.queue.iter().find(|item| item.prompt_id == value).map(|item| item.text.clone());
                if let Some(text) = text {
                    // Out of the queue and back into the box: no two editors have the same prompt.
                    self.editor.put_aside();
                    self.editor.set(&text);
                    return vec![Effect::Withdraw(value)];
                }
            }
            PickerOf::Inbox => {
                if let Some(request) = self.inbox.iter().find(|request| request.request_id == value) {
                    self.panel = Some(Panel::new(request.clone()));
                }
            }
            PickerOf::History => {
                self.editor.put_aside();
                self.editor.set(&value);
            }
            PickerOf::Commands => {
                self.editor.put_aside();
                self.editor.set(&format!("/{value}"));
                return super::commands::run(self).unwrap_or_default();
            }
            PickerOf::Search => {
                let item = value.parse::<usize>().ok().and_then(|at| self.conversation.items().get(at));
                self.view.top = item.map(|item| (item.key.clone(), 0));
                self.search = Some(picker.filter).filter(|text| !text.is_empty());
            }
        }
        Vec::new()
    }

    fn withdraw(&mut self) -> Vec<Effect> {
        let Some(Overlay::Picker(picker)) = self.overlay.take() else { return Vec::new() };
        picker.choice().map(|choice| Effect::Withdraw(choice.value.clone())).into_iter().collect()
    }
}

/// Describes a request of another session in a line.
fn what_waits(request: &crate::wire::Request) -> String {
    let detail = &request.detail;
    let keys =
        ["fullCommandText", "fileName", "path", "url", "question", "message", "toolName", "serverName"];
    let what = keys.iter().find_map(|key| detail[*key].as_str()).unwrap_or_default();
    let kind = request.tool_name.as_deref().unwrap_or(&request.kind);
    format!("{} {}", text::one_line(kind), text::one_line(what))
}
