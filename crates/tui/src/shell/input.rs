//! Keys, pastes and the mouse, from the terminal's words into ours.

use crossterm::event::{
    Event as Raw, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEventKind,
};

use crate::event::{Event, Pointer};
use crate::keys::{Code, Key};

/// Translates events that arrived together. An Enter between characters that arrived with it was pasted: it is a new line.
pub(super) fn events(batch: Vec<Raw>) -> Vec<Event> {
    let events: Vec<Event> = batch.into_iter().filter_map(translated).collect();
    let is_text = |event: Option<&Event>| matches!(event, Some(Event::Key(key)) if key.text().is_some());
    let pasted = |at: usize| is_text(events.get(at.wrapping_sub(1))) && is_text(events.get(at + 1));
    let breaks: Vec<bool> = (0..events.len()).map(pasted).collect();
    let translate = |(event, is_pasted): (Event, bool)| match event {
        Event::Key(key) if is_pasted && key == Key::plain(Code::Enter) => Event::Key(Key::alt(Code::Enter)),
        event => event,
    };
    events.into_iter().zip(breaks).map(translate).collect()
}

fn translated(event: Raw) -> Option<Event> {
    Some(match event {
        Raw::Key(key) => Event::Key(key_of(&key)?),
        Raw::Paste(text) => Event::Paste(text),
        Raw::Resize(columns, rows) => Event::Resize(columns, rows),
        Raw::FocusGained => Event::Focus(true),
        Raw::FocusLost => Event::Focus(false),
        Raw::Mouse(mouse) => match mouse.kind {
            MouseEventKind::ScrollUp => Event::Wheel { up: true, row: mouse.row },
            MouseEventKind::ScrollDown => Event::Wheel { up: false, row: mouse.row },
            MouseEventKind::Down(MouseButton::Left) => Event::Pointer(Pointer::Down, mouse.column, mouse.row),
            MouseEventKind::Drag(MouseButton::Left) => Event::Pointer(Pointer::Drag, mouse.column, mouse.row),
            MouseEventKind::Up(MouseButton::Left) => Event::Pointer(Pointer::Up, mouse.column, mouse.row),
            _ => return None,
        },
    })
}

fn key_of(key: &KeyEvent) -> Option<Key> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    let has = |modifier| key.modifiers.contains(modifier);
    let code = match key.code {
        KeyCode::Char(c) => Code::Char(c),
        KeyCode::Enter => Code::Enter,
        KeyCode::Esc => Code::Esc,
        KeyCode::Tab => Code::Tab,
        KeyCode::BackTab => Code::BackTab,
        KeyCode::Backspace => Code::Backspace,
        KeyCode::Delete => Code::Delete,
        KeyCode::Left => Code::Left,
        KeyCode::Right => Code::Right,
        KeyCode::Up => Code::Up,
        KeyCode::Down => Code::Down,
        KeyCode::Home => Code::Home,
        KeyCode::End => Code::End,
        KeyCode::PageUp => Code::PageUp,
        KeyCode::PageDown => Code::PageDown,
        _ => return None,
    };
    let is_char = matches!(code, Code::Char(_) | Code::BackTab);
    let (ctrl, alt) = (has(KeyModifiers::CONTROL), has(KeyModifiers::ALT));
    // AltGr arrives as both, and makes text.
    let is_alt_gr = ctrl && alt && matches!(code, Code::Char(c) if !c.is_ascii_alphabetic());
    let code = match code {
        Code::Char(c) if ctrl || alt => Code::Char(c.to_ascii_lowercase()),
        code => code,
    };
    Some(Key {
        code,
        ctrl: ctrl && !is_alt_gr,
        alt: alt && !is_alt_gr,
        shift: has(KeyModifiers::SHIFT) && !is_char,
        repeat: key.kind == KeyEventKind::Repeat,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(text: &str) -> Vec<Raw> {
        let key = |c| match c {
            '\r' => KeyCode::Enter,
            c => KeyCode::Char(c),
        };
        text.chars().map(|c| Raw::Key(KeyEvent::new(key(c), KeyModifiers::NONE))).collect()
    }

    #[test]
    fn enter_between_characters_of_one_read_is_a_new_line() {
        let keys: Vec<Key> = events(typed("a\rb\r"))
            .into_iter()
            .filter_map(|event| match event {
                Event::Key(key) => Some(key),
                _ => None,
            })
            .collect();
        assert_eq!(keys[1], Key::alt(Code::Enter));
        assert_eq!(keys[3], Key::plain(Code::Enter), "the last one sends");
    }

    #[test]
    fn alt_gr_is_text() {
        let modifiers = KeyModifiers::CONTROL | KeyModifiers::ALT;
        let key = key_of(&KeyEvent::new(KeyCode::Char('@'), modifiers)).unwrap();
        assert_eq!(key.text(), Some('@'));
    }
}
