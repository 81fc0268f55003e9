//! Large outputs: the model gets a preview and the path of a file with the whole text.
#![allow(clippy::disallowed_methods, reason = "blocking by design; callers run it on a blocking thread")]

use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use baton_disk::beneath::{Directory, Unusable};
use uuid::Uuid;

use super::text::size;

/// Default size in bytes above which an output is large.
pub const DEFAULT_LIMIT: usize = 51_200;

const PREVIEW_CHARS: usize = 500;

/// Replacement for a text that is too large for the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spilled {
    /// File for the whole text.
    pub path: PathBuf,
    /// Text for the model.
    pub message: String,
}

/// Plans the replacement of `text`, if it is too large. Writes nothing, because a client may hold the session's files.
#[must_use]
pub fn plan(text: &str, limit: usize, dir: &Path) -> Option<Spilled> {
    (text.len() > limit).then(|| {
        let path = dir.join(file_name());
        let message = message(text, &path);
        Spilled { path, message }
    })
}

/// Returns the text for the model, after storing `text` in `dir` if it is too large. Blocks.
///
/// # Errors
/// When the file cannot be written.
pub fn apply(text: String, limit: usize, dir: &Path) -> io::Result<String> {
    let Some(spilled) = plan(&text, limit, dir) else { return Ok(text) };
    baton_disk::private::create_dir_all(dir)?;
    let name = spilled.path.file_name().map(Path::new).ok_or(Unusable::Outside)?;
    Directory::trusted(dir)?.private().create(name, text.as_bytes())?;
    Ok(spilled.message)
}

/// Returns a unique name for a stored output.
pub(crate) fn file_name() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{}-copilot-tool-output-{}.txt", now.as_millis(), Uuid::new_v4().simple())
}

// The wording is compared byte for byte by the replay suite of the SDKs.
fn message(text: &str, path: &Path) -> String {
    let preview: String = text.chars().take(PREVIEW_CHARS).collect();
    format!(
        "Output too large to read at once ({size}). Saved to: {path}\n\
         Consider using tools like grep (for searching), head/tail (for viewing start/end), view with \
         view_range (for specific sections), or jq (for JSON) to examine portions of the output.\n\n\
         Preview (first {PREVIEW_CHARS} chars):\n{preview}",
        size = size(text.len() as u64),
        path = path.display(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_text_is_unchanged() {
        let dir = tempfile::tempdir().unwrap();
        let text = "x".repeat(DEFAULT_LIMIT);
        assert_eq!(apply(text.clone(), DEFAULT_LIMIT, dir.path()).unwrap(), text);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn large_text_is_stored_and_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("temp");
        let text = "ü".to_owned() + &"x".repeat(99_998);
        let message = apply(text.clone(), DEFAULT_LIMIT, &dir).unwrap();

        let file = std::fs::read_dir(&dir).unwrap().next().unwrap().unwrap().path();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
        let expected = format!(
            "Output too large to read at once (97.7 KB). Saved to: {}\nConsider using tools like grep (for \
             searching), head/tail (for viewing start/end), view with view_range (for specific sections), or \
             jq (for JSON) to examine portions of the output.\n\nPreview (first 500 chars):\nü{}",
            file.display(),
            "x".repeat(499)
        );
        assert_eq!(message, expected);
        let name = file.file_name().unwrap().to_str().unwrap();
        let (ms, id) = name.split_once("-copilot-tool-output-").unwrap();
        assert!(
            ms.parse::<u64>().is_ok() && id.trim_end_matches(".txt").chars().all(char::is_alphanumeric),
            "{name}"
        );
    }
}
