//! The world outside of the terminal: clipboard, bell, the user's editor, the file of earlier prompts.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use base64::Engine as _;

/// Largest text that is copied, in bytes.
const MAX_COPY: usize = 100 * 1024;
/// Most prompts of earlier runs that are read.
const MAX_HISTORY: usize = 500;

/// What the environment says about the terminal.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    /// `TERM`.
    pub term: String,
    /// `TERM_PROGRAM`.
    pub program: String,
    /// Whether tmux is in between.
    pub in_tmux: bool,
    /// `VISUAL`, or `EDITOR`.
    pub editor: Option<String>,
}

impl Environment {
    /// Returns the bytes that draw attention: a notification where the terminal has them, else the bell.
    pub(super) fn notification(&self, text: &str) -> Vec<u8> {
        let text: String = text.chars().filter(|c| !c.is_control()).collect();
        let has = |names: &[&str], of: &str| names.iter().any(|name| of.contains(name));
        if self.in_tmux {
            return b"\x07".to_vec();
        }
        if has(&["kitty", "ghostty"], &self.term)
            || has(&["iTerm", "WezTerm", "ghostty", "Warp"], &self.program)
        {
            return format!("\x1b]9;{text}\x07").into_bytes();
        }
        if has(&["foot", "rxvt"], &self.term) {
            return format!("\x1b]777;notify;Baton;{text}\x07").into_bytes();
        }
        b"\x07".to_vec()
    }

    /// Returns the bytes that copy a text; none if tmux does it.
    pub(super) fn copy(&self, text: &str) -> Option<Vec<u8>> {
        let text = &text[..text.floor_char_boundary(MAX_COPY)];
        if self.in_tmux && copy_with_tmux(text) {
            return None;
        }
        let encoded = base64::engine::general_purpose::STANDARD.encode(text);
        Some(format!("\x1b]52;c;{encoded}\x07").into_bytes())
    }
}

#[expect(clippy::disallowed_methods, reason = "called on a thread of its own")]
fn copy_with_tmux(text: &str) -> bool {
    let mut command = Command::new("tmux");
    command
        .args(["load-buffer", "-w", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let Ok(mut child) = command.spawn() else { return false };
    let written = child.stdin.take().is_some_and(|mut stdin| stdin.write_all(text.as_bytes()).is_ok());
    written && child.wait().is_ok_and(|status| status.success())
}

/// Lets the user edit a text. Returns none if the editor failed.
#[expect(clippy::disallowed_methods, reason = "called on a thread of its own")]
pub(super) fn edit(editor: &str, text: &str, directory: &Path) -> Option<String> {
    let path = directory.join(format!("prompt-{}.md", std::process::id()));
    baton_disk::private::write(&path, text).ok()?;
    // As git does: the variable is a shell command, to which the file is added.
    let status = Command::new("sh").arg("-c").arg(format!("{editor} \"$1\"")).arg(editor).arg(&path).status();
    let edited = status.is_ok_and(|status| status.success()).then(|| std::fs::read_to_string(&path).ok());
    let _ = std::fs::remove_file(&path);
    edited.flatten()
}

/// Reads the prompts of earlier runs, oldest first.
#[expect(clippy::disallowed_methods, reason = "called on a thread of its own")]
pub(super) fn read_history(file: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let mut prompts: Vec<String> = text.lines().filter_map(|line| baton_json::from_str(line).ok()).collect();
    let surplus = prompts.len().saturating_sub(MAX_HISTORY);
    prompts.drain(..surplus);
    if surplus > MAX_HISTORY {
        let kept: String = prompts.iter().map(|prompt| format!("{}\n", serde_json::json!(prompt))).collect();
        let _ = baton_disk::private::replace(file, kept);
    }
    prompts
}

/// Adds a prompt to the file.
pub(super) fn remember(file: &Path, prompt: &str) {
    if let Ok(mut file) = baton_disk::private::append(file) {
        let _ = writeln!(file, "{}", serde_json::json!(prompt));
    }
}

/// Writes the conversation to a new file in a directory. Returns its path.
#[expect(clippy::disallowed_methods, reason = "called on a thread of its own")]
pub(super) fn export(directory: &Path, session: &str, text: &str) -> std::io::Result<PathBuf> {
    let id: String = session.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(8).collect();
    for number in 0..100 {
        let number = if number == 0 { String::new() } else { format!("-{number}") };
        let path = directory.join(format!("baton-{id}{number}.md"));
        match std::fs::File::create_new(&path) {
            Ok(mut file) => return file.write_all(text.as_bytes()).map(|()| path),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(std::io::ErrorKind::AlreadyExists.into())
}
