//! Slash commands of the interface: one table makes the completion, the palette and what they do.

use serde_json::json;

use crate::event::Effect;
use crate::keys::{Action, Code, Key};
use crate::state::{Overlay, PickerOf, State};
use crate::text;

/// A slash command.
#[derive(Debug, Clone, Copy)]
pub struct Command {
    /// Its name, without the slash.
    pub name: &'static str,
    /// What it does.
    pub meaning: &'static str,
    does: Does,
}

#[derive(Debug, Clone, Copy)]
enum Does {
    /// The same as a key.
    Key(Action),
    /// Something of its own, with what is typed behind it.
    Own(fn(&mut State, &str) -> Vec<Effect>),
    /// The server does it.
    Server,
}

const fn command(name: &'static str, meaning: &'static str, does: Does) -> Command {
    Command { name, meaning, does }
}

/// All slash commands.
pub const COMMANDS: &[Command] = &[
    command("help", "Show all keys", Does::Key(Action::Help)),
    command("new", "Start a new session in this directory", Does::Key(Action::NewSession)),
    command("clear", "The same as /new: nothing is deleted", Does::Key(Action::NewSession)),
    command("sessions", "Open another session", Does::Key(Action::Sessions)),
    command("resume", "Continue what a stopped server left", Does::Own(resume)),
    command("inbox", "Requests of other sessions", Does::Key(Action::Inbox)),
    command("model", "Choose a model or an engine, or name one", Does::Own(model)),
    command("engine", "The same as /model", Does::Own(model)),
    command("mode", "Choose the mode: interactive, plan, autopilot", Does::Own(mode)),
    command("plan", "Switch to plan mode", Does::Own(plan)),
    command("permissions", "Choose what runs without asking", Does::Own(permissions)),
    command("queue", "Edit or withdraw queued prompts", Does::Key(Action::EditQueued)),
    command("release", "Release a held queue", Does::Key(Action::Release)),
    command("rewind", "Rewind to an earlier prompt", Does::Key(Action::Rewind)),
    command("undo", "The same as /rewind", Does::Key(Action::Rewind)),
    command("fork", "Continue in a copy of the session", Does::Own(|_, _| vec![Effect::Fork])),
    command("rename", "Name the session", Does::Own(rename)),
    command("compact", "Summarise the conversation to free context", Does::Server),
    command("usage", "Show tokens and cost", Does::Server),
    command("copy", "Copy the last answer", Does::Key(Action::Copy)),
    command(
        "export",
        "Write the conversation to a file in this directory",
        Does::Own(|_, _| vec![Effect::Export]),
    ),
    command("search", "Search the conversation", Does::Key(Action::Search)),
    command("theme", "Choose colours: terminal, dark, light, plain", Does::Own(theme)),
    command("editor", "Edit the text in $EDITOR", Does::Key(Action::Editor)),
    command("status", "Show session, connection and versions", Does::Own(status)),
    command("quit", "Quit; the session stays", Does::Key(Action::Quit)),
    command("exit", "The same as /quit", Does::Key(Action::Quit)),
];

/// Runs the command that is in the box. Returns none if it has none.
pub(super) fn run(state: &mut State) -> Option<Vec<Effect>> {
    let typed = state.editor.text().trim().to_owned();
    let (name, rest) = typed.strip_prefix('/')?.split_once(char::is_whitespace).unwrap_or((&typed[1..], ""));
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_:".contains(c));
    if !is_name {
        return None;
    }
    let Some(command) = COMMANDS.iter().find(|command| command.name == name) else {
        state.editor.put_aside();
        return Some(vec![Effect::Command(typed)]);
    };
    state.editor.put_aside();
    state.completion = None;
    Some(match command.does {
        Does::Key(action) => state.act(action, &Key::plain(Code::Enter)),
        Does::Own(act) => act(state, rest.trim()),
        Does::Server => vec![Effect::Command(typed)],
    })
}

fn resume(state: &mut State, _: &str) -> Vec<Effect> {
    state.say("continuing");
    vec![Effect::Command("/resume".into())]
}

fn model(state: &mut State, name: &str) -> Vec<Effect> {
    if name.is_empty() {
        return state.open_models();
    }
    vec![Effect::Patch(json!({ "model": name }), format!("model: {}", text::one_line(name)))]
}

fn mode(state: &mut State, name: &str) -> Vec<Effect> {
    if name.is_empty() {
        state.open_names(PickerOf::Modes);
        return Vec::new();
    }
    vec![Effect::Patch(json!({ "mode": name }), format!("mode: {}", text::one_line(name)))]
}

fn plan(_: &mut State, _: &str) -> Vec<Effect> {
    vec![Effect::Patch(json!({ "mode": "plan" }), "mode: plan".into())]
}

fn permissions(state: &mut State, name: &str) -> Vec<Effect> {
    if name.is_empty() {
        state.open_names(PickerOf::Permissions);
        return Vec::new();
    }
    vec![Effect::Patch(json!({ "permissions": name }), format!("permissions: {}", text::one_line(name)))]
}

fn rename(state: &mut State, name: &str) -> Vec<Effect> {
    if name.is_empty() {
        state.say("type the name behind /rename");
        return Vec::new();
    }
    vec![Effect::Patch(json!({ "name": name }), format!("renamed: {}", text::one_line(name)))]
}

fn theme(state: &mut State, name: &str) -> Vec<Effect> {
    match crate::theme::Theme::named(name) {
        Some(theme) => state.theme = theme,
        None => state.open_names(PickerOf::Themes),
    }
    Vec::new()
}

fn status(state: &mut State, _: &str) -> Vec<Effect> {
    let notes = state.about.notes.join(" · ");
    let id = text::one_line(&state.session.id);
    state.say(format!(
        "baton {} · session {id} · {} attached · {notes}",
        state.about.version, state.session.watching
    ));
    state.overlay = None::<Overlay>;
    Vec::new()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique() {
        let names: BTreeSet<_> = COMMANDS.iter().map(|command| command.name).collect();
        assert_eq!(names.len(), COMMANDS.len());
    }
}
