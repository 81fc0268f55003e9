//! No key that was meant for something else approves anything.
#![allow(clippy::disallowed_methods, reason = "tests may block")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot continue fails at once"
)]

mod common;

use baton_tui::event::{Asked, Effect, Event, Net};
use baton_tui::keys::{Code, Key};
use proptest::prelude::*;
use serde_json::{Value, json};

use self::common::{Person, change, command};

fn asked() -> Person {
    let mut person = Person::at(80, 24);
    person.asks(&[command("r1", "rm -rf target")]);
    person
}

/// A person who has seen the request for long enough.
fn calm() -> Person {
    let mut person = asked();
    person.sees();
    person.waits(600);
    person
}

#[test]
fn y_approves_what_is_shown() {
    let mut person = calm();
    person.presses(Key::char('y'));
    let expected = json!({ "kind": "permission", "decision": "approve" });
    assert_eq!(
        person.effects.last(),
        Some(&Effect::Answer { session: None, request: "r1".into(), body: expected })
    );
    // The answer is on its way: further keys are text.
    person.waits(600);
    person.presses(Key::char('y'));
    assert_eq!(person.answers().len(), 1);
}

#[test]
fn n_denies() {
    let mut person = calm();
    person.presses(Key::char('n'));
    assert_eq!(person.answers()[0]["decision"], "reject");
}

#[test]
fn a_shows_what_it_covers_and_wants_a_second_a() {
    let mut person = calm();
    person.presses(Key::char('a'));
    assert_eq!(person.answers().len(), 0);
    let screen = person.screen();
    assert!(screen.contains("Always: any `rm` command in this session"), "{screen}");
    person.waits(400);
    person.presses(Key::char('a'));
    assert_eq!(person.approvals(), 0, "too soon after it was shown");
    let mut person = calm();
    person.presses(Key::char('a'));
    person.sees();
    person.waits(600);
    person.presses(Key::plain(Code::Tab));
    let screen = person.screen();
    assert!(screen.contains("every command in this session (2 of 2"), "{screen}");
    person.waits(600);
    person.presses(Key::char('a'));
    assert_eq!(person.answers()[0]["decision"], "approve-for-session");
    assert_eq!(person.answers()[0]["grant"], json!({ "kind": "all" }));
}

#[test]
fn escape_goes_back_from_always() {
    let mut person = calm();
    person.presses(Key::char('a'));
    person.sees();
    person.waits(600);
    person.presses(Key::plain(Code::Esc));
    person.sees();
    person.waits(600);
    person.presses(Key::char('a'));
    assert_eq!(person.answers().len(), 0, "it asks again");
}

#[test]
fn key_within_half_a_second_of_the_frame_goes_into_the_box() {
    let mut person = asked();
    person.waits(5000);
    person.presses(Key::char('y'));
    assert_eq!((person.answers().len(), person.state.editor.text()), (0, "y"), "no frame has shown it");
    let mut person = asked();
    person.sees();
    person.waits(499);
    person.presses(Key::char('y'));
    assert_eq!((person.answers().len(), person.state.editor.text()), (0, "y"));
}

#[test]
fn key_while_somebody_types_goes_into_the_box() {
    let mut person = Person::at(80, 24);
    person.types("hell");
    person.asks(&[command("r1", "rm -rf target")]);
    person.sees();
    person.types("o y");
    person.waits(5000);
    person.presses(Key::char('y'));
    assert_eq!((person.answers().len(), person.state.editor.text()), (0, "hello yy"), "the box is not empty");
    // Emptied just now: the key behind it is too soon.
    for _ in 0..8 {
        person.presses(Key::plain(Code::Backspace));
    }
    person.waits(300);
    person.presses(Key::char('y'));
    assert_eq!(person.answers().len(), 0);
}

#[test]
fn each_request_of_a_series_starts_the_clock_again() {
    let mut person = Person::at(80, 24);
    person.asks(&[command("r1", "one"), command("r2", "two")]);
    person.sees();
    person.waits(600);
    person.presses(Key::char('y'));
    person.happens(Event::Net(Net::Done(Asked::Answer("r1".into()), Ok(Value::Null))));
    assert!(person.screen().contains("two"));
    person.waits(450);
    person.presses(Key::char('y'));
    assert_eq!(person.answers().len(), 1);
}

#[test]
fn request_that_replaces_another_under_the_finger_is_not_answered() {
    let mut person = Person::at(80, 24);
    person.asks(&[command("r1", "one"), command("r2", "two")]);
    person.sees();
    person.waits(2000);
    let closed = json!({ "requestId": "r1", "result": { "kind": "approved" }, "batonBy": "terminal (eve)" });
    person.tell(5, "permission.completed", closed);
    person.presses(Key::char('y'));
    assert_eq!(person.answers().len(), 0);
    assert!(person.screen().contains("answered elsewhere, by terminal (eve)"));
}

#[test]
fn window_without_focus_answers_nothing() {
    let mut person = calm();
    person.happens(Event::Focus(false));
    person.presses(Key::char('y'));
    assert_eq!(person.answers().len(), 0);
}

#[test]
fn held_key_answers_nothing() {
    let mut person = calm();
    person.presses(Key { repeat: true, ..Key::char('y') });
    assert_eq!(person.answers().len(), 0);
}

#[test]
fn end_that_was_not_shown_is_said_before_a_yes_counts() {
    let new: String = (0..300).map(|n| format!("line {n}\n")).collect();
    let mut person = Person::at(80, 24);
    person.asks(&[change("r1", "/home/ada/baton/a.txt", "", &new)]);
    let screen = person.screen();
    assert!(screen.contains("/home/ada/baton/a.txt") && screen.contains("of 30"), "{screen}");
    person.waits(600);
    person.presses(Key::char('y'));
    assert_eq!(person.answers().len(), 0);
    assert!(person.screen().contains("the end was not shown yet"));
    for _ in 0..100 {
        person.waits(100);
        person.presses(Key::plain(Code::PageDown));
    }
    let screen = person.screen();
    assert!(screen.contains("line 299") && screen.contains("/home/ada/baton/a.txt"), "{screen}");
    person.waits(600);
    person.presses(Key::char('y'));
    assert_eq!(person.approvals(), 1);
}

#[test]
fn denial_takes_the_box_as_its_reason() {
    let mut person = asked();
    person.types("use cargo clean");
    person.presses(Key::alt(Code::Char('n')));
    assert_eq!(person.answers()[0]["feedback"], "use cargo clean");
    assert!(person.state.editor.is_empty());
}

#[test]
fn failed_answer_is_said_and_starts_the_clock_again() {
    let mut person = calm();
    person.presses(Key::char('y'));
    let lost = Err("cannot reach the server".to_owned());
    person.happens(Event::Net(Net::Done(Asked::Answer("r1".into()), lost)));
    assert!(person.screen().contains("cannot reach the server"));
    person.waits(100);
    person.presses(Key::char('y'));
    assert_eq!(person.answers().len(), 1);
    person.state.editor.set("");
    person.waits(600);
    person.presses(Key::char('y'));
    assert_eq!(person.answers().len(), 2);
}

#[test]
fn request_of_another_session_is_answered_from_here() {
    let mut person = Person::at(80, 24);
    let mut other = command("r9", "make deploy");
    other.session_id = Some("other".into());
    person.happens(Event::Net(Net::AllRequests(vec![other])));
    assert!(person.screen().contains("1 waiting elsewhere, Alt-A"));
    person.presses(Key::alt(Code::Char('a')));
    person.enter();
    assert!(person.screen().contains("make deploy"));
    person.waits(600);
    person.presses(Key::char('y'));
    let Some(Effect::Answer { session, request, .. }) = person.effects.last() else { panic!("no answer") };
    assert_eq!((session.as_deref(), request.as_str()), (Some("other"), "r9"));
}

#[test]
fn typed_answer_goes_to_the_question_only_if_it_was_begun_for_it() {
    let question = json!({ "requestId": "q", "kind": "question", "detail": { "question": "Which colour?" } });
    let question: baton_tui::wire::Request = baton_json::from_value(&question).unwrap();
    let mut person = Person::at(80, 24);
    person.types("next prompt");
    person.asks(&[question]);
    person.sees();
    person.enter();
    assert!(matches!(person.effects.last(), Some(Effect::Send { .. })), "it was meant for the model");
    person.sees();
    person.types("blue");
    person.enter();
    assert_eq!(person.answers()[0]["answer"], "blue");
}

#[test]
fn prompt_that_is_sent_before_there_is_a_connection_waits_for_it() {
    use baton_tui::state::Link;
    let mut person = Person::at(80, 24);
    person.state.link = Link::Connecting;
    person.types("hello");
    person.enter();
    assert_eq!((person.effects.len(), person.state.editor.text()), (0, "hello"));
    person.happens(Event::Net(Net::Connected));
    assert!(
        person.effects.iter().any(|effect| matches!(effect, Effect::Send { text, .. } if text == "hello"))
    );
    person.effects.clear();
    person.state.link = Link::Connecting;
    person.types("hello");
    person.enter();
    person.types("!");
    person.happens(Event::Net(Net::Connected));
    assert_eq!(person.state.editor.text(), "hello!", "whoever goes on typing is not done");
}

/// Something that is not a deliberate answer.
#[derive(Debug, Clone)]
enum Accident {
    Key(Key),
    Paste(String),
    Wheel,
    Frame,
    Wait(u64),
    Focus(bool),
    Resize(u16, u16),
    Request(u8),
}

fn accident() -> impl Strategy<Value = Accident> {
    let codes = prop_oneof![
        Just(Code::Enter),
        Just(Code::Esc),
        Just(Code::Tab),
        Just(Code::Char(' ')),
        Just(Code::Up),
        Just(Code::PageDown),
        Just(Code::Char('y')),
        Just(Code::Char('a')),
        Just(Code::Char('x')),
    ];
    prop_oneof![
        6 => codes.prop_map(|code| Accident::Key(Key::plain(code))),
        1 => "[ya\n ]{0,5}".prop_map(Accident::Paste),
        1 => Just(Accident::Wheel),
        4 => Just(Accident::Frame),
        // Never calm: no pause lasts half a second.
        4 => (0_u64..499).prop_map(Accident::Wait),
        1 => any::<bool>().prop_map(Accident::Focus),
        1 => (20_u16..120, 5_u16..50).prop_map(|(columns, rows)| Accident::Resize(columns, rows)),
        2 => (0_u8..4).prop_map(Accident::Request),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Keys less than half a second apart approve nothing, whatever else happens between them.
    #[test]
    fn hurried_keys_never_approve(accidents in prop::collection::vec(accident(), 0..80)) {
        let mut person = Person::at(80, 24);
        let mut since_key = 0;
        for accident in accidents {
            match accident {
                Accident::Key(key) => {
                    since_key = 0;
                    person.presses(key);
                }
                Accident::Paste(text) => {
                    since_key = 0;
                    person.happens(Event::Paste(text));
                }
                Accident::Wheel => person.happens(Event::Wheel { up: false, row: 3 }),
                Accident::Frame => drop(person.sees()),
                Accident::Wait(time) if since_key + time < 500 => {
                    since_key += time;
                    person.waits(time);
                }
                Accident::Wait(_) => {}
                Accident::Focus(focused) => person.happens(Event::Focus(focused)),
                Accident::Resize(columns, rows) => person.happens(Event::Resize(columns, rows)),
                Accident::Request(n) => person.asks(&[command(&format!("r{n}"), "rm")]),
            }
            // The first key has no key before it; the frame before it still counts.
            if person.state.last_key.is_none() {
                since_key = 0;
                person.presses(Key::plain(Code::Left));
            }
        }
        prop_assert_eq!(person.approvals(), 0);
    }

    /// Enter, Space, Esc, pastes and the mouse approve nothing, however calm.
    #[test]
    fn nothing_but_y_and_a_approves(accidents in prop::collection::vec(accident(), 0..60)) {
        let mut person = calm();
        for accident in accidents {
            match accident {
                Accident::Key(Key { code: Code::Char('y' | 'a'), .. }) | Accident::Request(_) => {}
                Accident::Key(key) => person.presses(key),
                Accident::Paste(text) => person.happens(Event::Paste(text)),
                Accident::Wheel => person.happens(Event::Wheel { up: true, row: 20 }),
                Accident::Frame => drop(person.sees()),
                Accident::Wait(time) => person.waits(time * 10),
                Accident::Focus(focused) => person.happens(Event::Focus(focused)),
                Accident::Resize(columns, rows) => person.happens(Event::Resize(columns, rows)),
            }
        }
        prop_assert_eq!(person.approvals(), 0);
    }
}
