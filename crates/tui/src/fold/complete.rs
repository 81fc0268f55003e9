//! Completion: commands behind `/`, files behind `@`.

use super::commands::COMMANDS;
use crate::event::Effect;
use crate::keys::{Code, Key};
use crate::state::{Completion, State};

/// Most completions that are shown.
const MOST: usize = 8;

impl State {
    /// Looks for completions after the text has changed.
    pub(super) fn suggest(&mut self) -> Vec<Effect> {
        self.completion = None;
        let before = self.editor.before_cursor();
        if let Some(name) = before.strip_prefix('/').filter(|name| !name.contains(char::is_whitespace)) {
            let own = COMMANDS.iter().map(|command| (command.name.to_owned(), command.meaning.to_owned()));
            let all = own.chain(self.skills.iter().cloned());
            let items: Vec<_> = all.filter(|(known, _)| known.starts_with(name)).take(MOST).collect();
            self.show_completion(0, items, false);
            return Vec::new();
        }
        match self.file_prefix() {
            Some((_, prefix)) => vec![Effect::ListFiles(prefix)],
            None => Vec::new(),
        }
    }

    /// Returns where the name of a file begins before the cursor, and its beginning.
    fn file_prefix(&self) -> Option<(usize, String)> {
        let before = self.editor.before_cursor();
        let at = before.rfind('@')?;
        let is_word_start = before[..at].chars().next_back().is_none_or(char::is_whitespace);
        let prefix = &before[at + 1..];
        (is_word_start && !prefix.contains(char::is_whitespace)).then(|| (at, prefix.to_owned()))
    }

    pub(super) fn show_files(&mut self, prefix: &str, files: Vec<String>) {
        let Some((at, current)) = self.file_prefix() else { return };
        if current == prefix {
            let items = files.into_iter().take(MOST).map(|file| (file, String::new())).collect();
            self.show_completion(at, items, true);
        }
    }

    fn show_completion(&mut self, from: usize, items: Vec<(String, String)>, of_files: bool) {
        self.completion = (!items.is_empty()).then_some(Completion { from, items, selected: 0, of_files });
    }

    /// Handles a key while completions are shown. Returns none if it is not about them.
    pub(super) fn key_in_completion(&mut self, key: &Key) -> Option<Vec<Effect>> {
        let completion = self.completion.as_mut()?;
        let count = completion.items.len();
        match key.code {
            Code::Down if key.text().is_none() => completion.selected = (completion.selected + 1) % count,
            Code::Up => completion.selected = (completion.selected + count - 1) % count,
            Code::Tab => return Some(self.complete()),
            // A command that is typed in full runs; one that is not is completed first.
            Code::Enter if !completion.of_files && !key.alt && !key.shift => {
                let (name, _) = completion.items.get(completion.selected)?.clone();
                let typed = self.editor.text().trim_start_matches('/').to_owned();
                if COMMANDS.iter().any(|command| command.name == typed) || !name.starts_with(&typed) {
                    self.completion = None;
                    return None;
                }
                self.editor.set(&format!("/{name}"));
                self.completion = None;
                return None;
            }
            _ => return None,
        }
        Some(Vec::new())
    }

    /// Completes the word before the cursor.
    pub(super) fn complete(&mut self) -> Vec<Effect> {
        let Some(completion) = self.completion.take() else { return Vec::new() };
        let Some((chosen, _)) = completion.items.get(completion.selected) else { return Vec::new() };
        if !completion.of_files {
            self.editor.complete(0, &format!("/{chosen} "), None);
            return Vec::new();
        }
        let is_directory = chosen.ends_with('/');
        let end = if is_directory { "" } else { " " };
        self.editor.complete(completion.from, &format!("@{chosen}{end}"), (!is_directory).then_some(chosen));
        if is_directory { self.suggest() } else { Vec::new() }
    }
}
