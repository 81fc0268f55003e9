//! Help for the tests: a session that is told as events, and a person who types.
#![allow(dead_code, reason = "each test uses a part")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot continue fails at once"
)]
#![allow(clippy::needless_pass_by_value, reason = "tests read better without references")]

use baton_protocol::event::Event as SessionEvent;
use baton_tui::draw::{Frame, draw};
use baton_tui::event::{Effect, Event, Ms, Net};
use baton_tui::keys::{Code, Key};
use baton_tui::state::{About, State};
use baton_tui::theme::Theme;
use baton_tui::wire::{Request, Session, SessionState};
use serde_json::{Value, json};

/// Parses an event of a session; `n` makes its id.
pub(crate) fn event(n: u64, kind: &str, data: &Value) -> SessionEvent {
    let id = format!("00000000-0000-4000-8000-{n:012}");
    let all = json!({ "type": kind, "data": data, "id": id, "timestamp": "2026-11-19T10:00:00.000Z", "parentId": null });
    SessionEvent::parse(&all.to_string()).unwrap_or_else(|error| panic!("{kind}: {error}"))
}

/// An interface with a clock that a test moves.
pub(crate) struct Person {
    pub(crate) state: State,
    pub(crate) now: Ms,
    pub(crate) effects: Vec<Effect>,
}

impl Person {
    /// Opens a session in a terminal of a size.
    pub(crate) fn at(columns: u16, rows: u16) -> Self {
        let about = About { version: "0.1.0".into(), home: "/home/ada".into(), ..About::default() };
        let mut person = Self {
            state: State::new((columns, rows), Theme::Terminal, about),
            now: 10_000,
            effects: Vec::new(),
        };
        person.happens(Event::Net(Net::Opened(Box::new(person.session(&[])), Vec::new(), false)));
        person.happens(Event::Net(Net::Connected));
        person.effects.clear();
        person
    }

    pub(crate) fn session(&self, requests: &[Request]) -> SessionState {
        SessionState {
            session: Session {
                id: "69a4ea27-b95e-4776-afdb-9a8f4528ded1".into(),
                title: Some("Fix the limit".into()),
                cwd: Some("/home/ada/baton".into()),
                branch: Some("main".into()),
                model: Some("gpt-5.2".into()),
                cost: Some(0.42),
                ..Session::default()
            },
            mode: "interactive".into(),
            permissions: "manual".into(),
            requests: requests.to_vec(),
            watching: 2,
            ..SessionState::default()
        }
    }

    pub(crate) fn happens(&mut self, event: Event) {
        let effects = self.state.fold(self.now, event);
        self.effects.extend(effects);
    }

    pub(crate) fn tell(&mut self, seq: u64, kind: &str, data: Value) {
        let seq_of = event(seq, kind, &data);
        let seq = (!seq_of.body.is_ephemeral()).then_some(seq);
        self.happens(Event::Net(Net::Event(seq, Box::new(seq_of))));
    }

    pub(crate) fn asks(&mut self, requests: &[Request]) {
        self.happens(Event::Net(Net::Requests(requests.to_vec())));
    }

    /// Presses keys, each some time after the one before.
    pub(crate) fn types(&mut self, text: &str) {
        for c in text.chars() {
            self.now += 100;
            self.presses(Key::char(c));
        }
    }

    pub(crate) fn presses(&mut self, key: Key) {
        self.happens(Event::Key(key));
    }

    pub(crate) fn enter(&mut self) {
        self.now += 100;
        self.presses(Key::plain(Code::Enter));
    }

    pub(crate) fn waits(&mut self, time: Ms) {
        self.now += time;
        self.happens(Event::Tick);
    }

    /// Lets a frame reach the terminal.
    pub(crate) fn sees(&mut self) -> Frame {
        let frame = draw(&self.state);
        self.happens(Event::Drawn(frame.drawn.clone()));
        frame
    }

    pub(crate) fn screen(&mut self) -> String {
        text(&self.sees())
    }

    pub(crate) fn answers(&self) -> Vec<&Value> {
        let body = |effect: &'_ Effect| matches!(effect, Effect::Answer { .. });
        self.effects
            .iter()
            .filter(|effect| body(effect))
            .map(|effect| match effect {
                Effect::Answer { body, .. } => body,
                _ => unreachable!(),
            })
            .collect()
    }

    pub(crate) fn approvals(&self) -> usize {
        let approves = |answer: &&&Value| {
            let decision = answer["decision"].as_str().unwrap_or_default();
            decision.starts_with("approve") || answer["approve"] == true || answer["response"] == "yes"
        };
        self.answers().iter().filter(approves).count()
    }
}

/// Returns the text of a frame.
pub(crate) fn text(frame: &Frame) -> String {
    let area = frame.buffer.area;
    let row = |y| {
        let mut skip = 0;
        let cells = (0..area.width).filter_map(|x| {
            let symbol = frame.buffer[(x, y)].symbol();
            if skip > 0 {
                skip -= 1;
                return None;
            }
            skip = baton_tui::text::width(symbol).saturating_sub(1);
            Some(symbol.to_owned())
        });
        cells.collect::<String>().trim_end().to_owned()
    };
    (0..area.height).map(row).collect::<Vec<_>>().join("\n") + "\n"
}

/// A request to run a command.
pub(crate) fn command(id: &str, command: &str) -> Request {
    let detail = json!({
        "kind": "shell", "toolCallId": "c1", "fullCommandText": command, "intention": "Clean up",
        "canOfferSessionApproval": true,
    });
    let offers = json!([
        { "grant": { "kind": "commands", "commandIdentifiers": ["rm"] }, "meaning": "any `rm` command in this session" },
        { "grant": { "kind": "all" }, "meaning": "every command in this session" },
    ]);
    let all = json!({ "requestId": id, "kind": "permission", "toolCallId": "c1", "toolName": "bash",
        "detail": detail, "offers": offers });
    baton_json::from_value(&all).unwrap()
}

/// A request to change a file.
pub(crate) fn change(id: &str, path: &str, old: &str, new: &str) -> Request {
    let diff = baton_markup::diff::unified(std::path::Path::new(path), Some(old), new);
    let detail = json!({
        "kind": "write", "toolCallId": "c2", "fileName": path, "diff": diff, "intention": "Edit",
        "newFileContents": new,
    });
    let all = json!({ "requestId": id, "kind": "permission", "toolCallId": "c2", "toolName": "edit", "detail": detail });
    baton_json::from_value(&all).unwrap()
}
