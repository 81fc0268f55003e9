//! Screens as text: in files beside this one, and those of `docs/terminal.md`. `BATON_WRITE_SCREENS=1` writes both anew.
#![allow(clippy::disallowed_methods, reason = "tests may block")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot continue fails at once"
)]

mod common;

use std::path::{Path, PathBuf};

use baton_tui::event::{Event, Net};
use baton_tui::keys::{self, Code, Key};
use baton_tui::theme::Theme;
use baton_tui::wire::{Queued, Session};
use serde_json::json;

use self::common::{Person, change, command};

const SIZES: [(u16, u16); 3] = [(80, 24), (200, 60), (40, 10)];

const OLD: &str = "use std::time::Duration;\n\nconst LIMIT: usize = 10;\n\nfn main() {\n    run(LIMIT);\n}\n";
const NEW: &str = "use std::time::Duration;\n\nconst LIMIT: usize = 200;\nconst PAUSE: Duration = Duration::from_secs(1);\n\nfn main() {\n    run(LIMIT, PAUSE);\n}\n";

const ANSWER: &str = "The limit was **too small**: `LIMIT` is 200 now.\n\n## What changed\n\n1. `LIMIT` in `src/main.rs`\n2. a \
    pause between two calls\n\n```rust\nconst LIMIT: usize = 200;\n```\n\n| test | before | now |\n|---|---|---|\n| fast | 3 s | \
    1 s |\n| slow | 9 s | 2 s |\n";

type Scene = fn(&mut Person);

const SCENES: [(&str, Scene); 12] = [
    ("welcome", |_| {}),
    ("conversation", conversation),
    ("streaming", streaming),
    ("command", |person| {
        streaming(person);
        person.asks(&[command("r1", "rm -rf target && cargo build --release")]);
    }),
    ("always", |person| {
        person.asks(&[command("r1", "rm -rf target")]);
        person.sees();
        person.waits(600);
        person.presses(Key::char('a'));
    }),
    ("diff", |person| {
        conversation(person);
        person.asks(&[change("r1", "/home/ada/baton/src/main.rs", OLD, NEW)]);
    }),
    ("keys", |person| person.presses(Key::char('?'))),
    ("sessions", sessions),
    ("queue", queue),
    ("lost", |person| {
        conversation(person);
        person.happens(Event::Net(Net::Lost("connection refused".into())));
        person.waits(3000);
    }),
    ("typing", |person| {
        conversation(person);
        person.types("/re");
    }),
    ("hostile", hostile),
];

fn prompt(person: &mut Person, seq: u64, text: &str) {
    let id = format!("00000000-0000-4000-8000-{:012}", 700 + seq);
    person.tell(
        seq,
        "baton.prompt_accepted",
        json!({ "promptId": id, "prompt": { "text": text, "by": "anna" } }),
    );
    person.tell(seq + 1, "user.message", json!({ "content": text, "messageId": id }));
    person.tell(
        seq + 2,
        "assistant.turn_start",
        json!({ "turnId": "t", "interactionId": "i", "model": "gpt-5.2" }),
    );
}

fn conversation(person: &mut Person) {
    prompt(person, 1, "make the tests faster, please");
    person.tell(
        4,
        "assistant.reasoning",
        json!({ "reasoningId": "r", "content": "**Looking** at the limit first." }),
    );
    let call = json!({ "toolCallId": "c0", "toolName": "bash", "arguments": { "command": "cargo test 2>&1 | tail -3" } });
    person.tell(5, "tool.execution_start", call);
    let done = json!({ "toolCallId": "c0", "success": true, "result": { "content": "test a ... ok\ntest b ... ok\n\ntest result: ok" } });
    person.tell(6, "tool.execution_complete", done);
    let call = json!({ "toolCallId": "c2", "toolName": "edit", "arguments": { "path": "/home/ada/baton/src/main.rs" } });
    person.tell(7, "tool.execution_start", call);
    let diff = baton_markup::diff::unified(Path::new("/home/ada/baton/src/main.rs"), Some(OLD), NEW);
    let done = json!({ "toolCallId": "c2", "success": true, "result": { "content": "ok", "detailedContent": diff } });
    person.tell(8, "tool.execution_complete", done);
    person.tell(9, "assistant.message", json!({ "messageId": "m", "content": ANSWER }));
    let settled = json!({ "promptIds": ["00000000-0000-4000-8000-000000000701"], "outcome": "completed", "reason": "" });
    person.tell(10, "baton.turn_settled", settled);
    person.happens(Event::Net(Net::State(Box::new(person.session(&[])))));
    person.tell(
        0,
        "session.usage_info",
        json!({ "tokenLimit": 200_000, "currentTokens": 25_000, "messagesLength": 9 }),
    );
}

fn streaming(person: &mut Person) {
    prompt(person, 1, "run the tests");
    let call = json!({ "toolCallId": "c1", "toolName": "bash", "arguments": { "command": "make test" } });
    person.tell(4, "tool.execution_start", call);
    let output: String = (1..=9).map(|n| format!("test {n} ... ok\n")).collect();
    person.tell(0, "tool.execution_partial_result", json!({ "toolCallId": "c1", "partialOutput": output }));
    person.waits(12_000);
}

fn sessions(person: &mut Person) {
    person.presses(Key::ctrl('s'));
    let session = |id: &str, title: &str, cwd: &str, busy| Session {
        id: id.into(),
        title: Some(title.into()),
        cwd: Some(cwd.into()),
        model: Some("codex".into()),
        busy,
        ..Session::default()
    };
    let here = person.state.session.id.clone();
    person.happens(Event::Net(Net::Sessions(vec![
        session(&here, "Fix the limit", "/home/ada/baton", false),
        session("b", "Write the release notes", "/home/ada/notes", true),
        session("c", "Why is the sky dark?", "/home/ada", false),
    ])));
}

fn queue(person: &mut Person) {
    conversation(person);
    let item = |id: &str, text: &str| Queued {
        prompt_id: id.into(),
        text: text.into(),
        held: true,
        ..Queued::default()
    };
    let mut state = person.session(&[]);
    state.queue = vec![item("p1", "then update the changelog"), item("p2", "and run the linter")];
    person.happens(Event::Net(Net::State(Box::new(state))));
    person.happens(Event::Paste("a draft\nof two lines".into()));
}

fn hostile(person: &mut Person) {
    prompt(person, 1, "say something");
    let text = "\u{1b}[2J\u{1b}]0;owned\u{7}cleared? \u{202e}txet desrever\u{202c} e\u{301}\u{301} 日本語の文 👨\u{200d}👩\u{200d}👧 \
        \u{200b}end\n\n[click](javascript:alert(1)) [ok](https://a.example)\n\n- \u{9b}31mred\n";
    person.tell(4, "assistant.message", json!({ "messageId": "m", "content": text }));
    let call = json!({ "toolCallId": "c\u{1b}", "toolName": "ba\u{1b}[31msh", "arguments": { "command": "echo \u{1b}[31m\t \u{202e}" } });
    person.tell(5, "tool.execution_start", call);
    let failed = json!({ "toolCallId": "c\u{1b}", "success": false, "error": { "message": "\u{1b}[0m\rno\u{8}\u{8}" } });
    person.tell(6, "tool.execution_complete", failed);
}

fn screens() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/screens")
}

fn writes() -> bool {
    std::env::var_os("BATON_WRITE_SCREENS").is_some()
}

fn played(scene: Scene, (columns, rows): (u16, u16)) -> Person {
    let mut person = Person::at(columns, rows);
    person.waits(5000);
    scene(&mut person);
    person
}

#[test]
fn screens_are_as_recorded() {
    let mut different = Vec::new();
    for (name, scene) in SCENES {
        for size in SIZES {
            let shown = played(scene, size).screen();
            let file = screens().join(format!("{name}.{}x{}.txt", size.0, size.1));
            if writes() {
                std::fs::write(&file, &shown).unwrap();
            }
            let recorded = std::fs::read_to_string(&file).unwrap_or_default();
            if recorded != shown {
                different.push(format!("{}:\n{shown}", file.display()));
            }
        }
    }
    assert!(different.is_empty(), "BATON_WRITE_SCREENS=1 records them:\n{}", different.join("\n"));
}

#[test]
fn no_theme_and_no_size_breaks_a_scene() {
    for (name, scene) in SCENES {
        for size in [(1, 1), (20, 5), (39, 10), (41, 11), (60, 15), (300, 100)] {
            let mut person = played(scene, size);
            for theme in Theme::ALL {
                person.state.theme = theme;
                let frame = person.sees();
                assert_eq!(frame.buffer.area.as_size(), size.into(), "{name}");
            }
        }
    }
}

#[test]
fn plain_theme_has_no_colours_and_others_no_black_or_white_text() {
    use ratatui::style::Color;
    for (name, scene) in SCENES {
        let mut person = played(scene, (80, 24));
        for theme in Theme::ALL {
            person.state.theme = theme;
            for cell in person.sees().buffer.content() {
                let is_plain = cell.fg == Color::Reset && cell.bg == Color::Reset;
                assert!(theme != Theme::Plain || is_plain, "{name}: {cell:?}");
                assert!(!matches!(cell.fg, Color::Black | Color::White), "{name}: {cell:?}");
            }
        }
    }
}

#[test]
fn control_characters_reach_no_cell() {
    let mut person = played(hostile, (120, 40));
    for unfold in [false, true] {
        if unfold {
            person.presses(Key::ctrl('o'));
        }
        let frame = person.sees();
        for cell in frame.buffer.content() {
            let hidden =
                |c: char| baton_markup::visible::is_hidden(c) && !matches!(c, '\u{200d}' | '\u{fe0f}');
            assert!(!cell.symbol().chars().any(hidden), "{:?}", cell.symbol());
        }
        let screen = common::text(&frame);
        assert!(screen.contains("\\x1b[2J") && screen.contains("\\u{202e}"), "{screen}");
        assert!(!screen.contains("javascript"), "{screen}");
    }
}

#[test]
fn name_of_a_file_stays_in_sight_in_a_long_diff() {
    let mut person = Person::at(80, 24);
    prompt(&mut person, 1, "change it");
    let new: String = (0..300).map(|n| format!("line {n}\n")).collect();
    let call = json!({ "toolCallId": "c", "toolName": "create", "arguments": { "path": "/w/long.txt" } });
    person.tell(4, "tool.execution_start", call);
    let diff = baton_markup::diff::unified(Path::new("/w/long.txt"), None, &new);
    let done =
        json!({ "toolCallId": "c", "success": true, "result": { "content": "ok", "detailedContent": diff } });
    person.tell(5, "tool.execution_complete", done);
    person.presses(Key::ctrl('o'));
    for _ in 0..6 {
        let screen = person.screen();
        assert!(screen.lines().next().unwrap().contains("w/long.txt"), "{screen}");
        person.presses(Key::plain(Code::PageUp));
    }
}

#[test]
fn dragged_text_is_copied_without_margins() {
    use baton_tui::event::{Effect, Pointer};
    let mut person = Person::at(80, 24);
    prompt(&mut person, 1, "copy");
    person.tell(4, "assistant.message", json!({ "messageId": "m", "content": "one 日本 two\n\nthree four" }));
    let screen = person.screen();
    let row = |text: &str| screen.lines().position(|line| line.contains(text)).unwrap() as u16;
    person.happens(Event::Pointer(Pointer::Down, 5, row("one")));
    person.happens(Event::Pointer(Pointer::Drag, 20, row("one")));
    person.happens(Event::Pointer(Pointer::Up, 5, row("three")));
    assert_eq!(person.effects.last(), Some(&Effect::Copy("日本 two\n\nthree".into())));
    person.effects.clear();
    person.happens(Event::Pointer(Pointer::Down, 5, 5));
    person.happens(Event::Pointer(Pointer::Up, 5, 5));
    assert_eq!(person.effects, [], "a click copies nothing");
}

#[test]
fn reader_who_has_scrolled_up_stays_there() {
    let mut person = Person::at(80, 24);
    prompt(&mut person, 1, "count");
    let text: String = (0..200).map(|n| format!("{n}.\n\n")).collect();
    person.tell(4, "assistant.message", json!({ "messageId": "m", "content": text }));
    person.presses(Key::plain(Code::PageUp));
    let before = person.screen();
    person.tell(5, "assistant.message", json!({ "messageId": "m2", "content": "more" }));
    let after = person.screen();
    let top = |screen: &str| screen.lines().take(15).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(top(&before), top(&after));
    assert!(after.contains("1 new"), "{after}");
    person.presses(Key { ctrl: true, ..Key::plain(Code::End) });
    assert!(person.screen().contains("more"));
}

#[test]
fn documentation_shows_these_screens_and_keys() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/terminal.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut out = String::new();
    let mut lines = text.split_inclusive('\n');
    while let Some(line) = lines.next() {
        out.push_str(line);
        let begin = line.trim();
        if let Some(name) = begin.strip_prefix("```text screen=") {
            out.push_str(&std::fs::read_to_string(screens().join(format!("{name}.txt"))).unwrap());
            out.push_str("```\n");
            lines.by_ref().find(|line| line.trim() == "```").expect("the end of the screen");
        } else if begin == "<!-- keys -->" {
            out.push_str(&keys::table());
            out.push_str("<!-- end of keys -->\n");
            lines.by_ref().find(|line| line.trim() == "<!-- end of keys -->").expect("the end of the keys");
        } else if begin == "<!-- commands -->" {
            out.push_str("| command | what it does |\n|---|---|\n");
            for command in baton_tui::COMMANDS {
                out.push_str(&format!("| `/{}` | {} |\n", command.name, command.meaning));
            }
            out.push_str("<!-- end of commands -->\n");
            lines.by_ref().find(|line| line.trim() == "<!-- end of commands -->").expect("the end");
        }
    }
    if writes() {
        std::fs::write(&path, &out).unwrap();
    }
    assert_eq!(text, out, "BATON_WRITE_SCREENS=1 writes it anew");
}
