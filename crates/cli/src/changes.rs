//! Results of commands that change something: a note for people, or with `--json` one object for programs.

use serde_json::Value;

use crate::terminal;

/// Reports a change: `note` on standard error, or `change` on standard output, on one line.
pub(crate) fn report(as_json: bool, note: &str, change: &Value) {
    match as_json {
        true => terminal::json_line(&change.to_string()),
        false => terminal::note(note),
    }
}
