//! `edit`: replaces a string in a file.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use baton_disk::beneath::Directory;
use baton_disk::paths::absolute;
use baton_markup::diff;
use baton_protocol::Json;
use baton_protocol::permission::PermissionRequest;
use baton_protocol::tool::{ToolResult, ToolSpec};
use rustix::fs::FileType;
use serde::Deserialize;
use serde_json::json;

use super::{cannot, change_request, write_request};
use crate::tools::paths::CallPath;
use crate::tools::text::size;
use crate::tools::{
    Prepared, Tool, ToolContext, ToolRefusal, Working, arguments, blocking, either, lock, schema, spec,
};

const NAME: &str = "edit";

/// Largest file, in bytes. It is held in memory twice.
const LARGEST: u64 = 32 * 1024 * 1024;

#[derive(Deserialize)]
struct Arguments {
    #[serde(alias = "file_path", alias = "filePath")]
    path: String,
    #[serde(alias = "old_string", alias = "oldStr", alias = "oldString")]
    old_str: String,
    /// Default: `old_str` is removed.
    #[serde(default, alias = "new_string", alias = "newStr", alias = "newString")]
    new_str: String,
}

/// Replaces a string in a file.
#[derive(Default)]
pub(crate) struct Edit {
    locks: Arc<FileLocks>,
}

impl Tool for Edit {
    fn spec(&self) -> ToolSpec {
        spec(
            NAME,
            "Replaces one piece of a file by another. `old_str` must occur exactly once, character by \
             character, white space included: take in neighbouring lines until it does.",
            schema::object(
                &json!({
                    "path": schema::string("Path of the file, preferably absolute."),
                    "old_str": schema::string("The piece to replace."),
                    "new_str": schema::string("What to put there; nothing to remove the piece."),
                }),
                &["path", "old_str", "new_str"],
            ),
        )
    }

    fn prepare<'a>(&'a self, context: &'a ToolContext, arguments: &'a Json) -> Working<'a, Prepared> {
        Box::pin(async move {
            let prepare = async {
                let call = Call::read(context, arguments)?;
                let context = context.clone();
                blocking(move || {
                    let target = CallPath::resolve(&context, call.path.clone());
                    call.request(&context, &target)
                })
                .await
            };
            prepare.await.into()
        })
    }

    fn touches(&self, context: &ToolContext, arguments: &Json) -> Vec<PathBuf> {
        let call = Call::read(context, arguments);
        let target = call.and_then(|call| CallPath::recall(context, call.path));
        target.map(|target| target.real).into_iter().collect()
    }

    fn run<'a>(&'a self, context: &'a ToolContext, arguments: &'a Json) -> Working<'a, ToolResult> {
        Box::pin(async move {
            let run = async {
                let call = Call::read(context, arguments)?;
                let context = context.clone();
                let locks = Arc::clone(&self.locks);
                blocking(move || call.run(&CallPath::recall(&context, call.path.clone())?, &locks)).await
            };
            either(run.await)
        })
    }
}

struct Call {
    path: PathBuf,
    old: String,
    new: String,
}

struct Change {
    old: String,
    new: String,
}

impl Call {
    fn read(context: &ToolContext, arguments: &Json) -> Result<Self, ToolRefusal> {
        let Arguments { path, old_str, new_str } = arguments::read(NAME, arguments)?;
        if old_str.is_empty() {
            return Err(ToolRefusal::arguments(
                NAME,
                "old_str: must not be empty; use create for a new file",
            ));
        }
        if old_str == new_str {
            return Err(ToolRefusal::arguments(
                NAME,
                "new_str: is the same as old_str, so nothing would change",
            ));
        }
        Ok(Self { path: absolute(&context.cwd, &path), old: old_str, new: new_str })
    }

    /// Builds the permission request. Whether the string is in the file, and its context, are revealed only where reading
    /// needs no permission: elsewhere a model could read a file by requests to edit it.
    fn request(&self, context: &ToolContext, target: &CallPath) -> Result<PermissionRequest, ToolRefusal> {
        const WHAT: &str = "Edit file";
        if target.is_own(context) {
            let Change { old, new } = self.apply(target)?;
            return Ok(write_request(context, target, WHAT, Some(&old), &new));
        }
        open(target)?;
        let diff = diff::unified(&target.real, Some(&self.old), &self.new);
        Ok(change_request(context, target, WHAT, diff))
    }

    /// Applies the edit to the present content. It may have changed since the request; the replaced string and its
    /// replacement are those that were approved.
    fn apply(&self, target: &CallPath) -> Result<Change, ToolRefusal> {
        let old = load(target)?;
        if let Some(new) = replace_once(&self.path, &old, &self.old, &self.new)? {
            return Ok(Change { old, new });
        }
        // Models write line feeds, whatever the file has.
        let crlf = |text: &str| text.replace("\r\n", "\n").replace('\n', "\r\n");
        if old.contains("\r\n")
            && let Some(new) = replace_once(&self.path, &old, &crlf(&self.old), &crlf(&self.new))?
        {
            return Ok(Change { old, new });
        }
        Err(ToolRefusal::new(format!(
            "No match for old_str in {}, so nothing was changed. It must match character by character; view \
             the file and copy the piece from there.",
            self.path.display()
        ))
        .in_short("No match found"))
    }

    fn run(&self, target: &CallPath, locks: &FileLocks) -> Result<ToolResult, ToolRefusal> {
        let _guard = lock(locks.of(&target.real));
        let Change { old, new } = self.apply(target)?;
        let replaced = Directory::root().and_then(|root| root.replace(&target.real, new.as_bytes()));
        replaced.map_err(|error| cannot("edit", &self.path, &error))?;
        // The wording is compared byte for byte by the replay suite of the SDKs.
        let text = format!("File {} updated with changes.", self.path.display());
        Ok(ToolResult {
            session_log: Some(diff::unified(&self.path, Some(&old), &new)),
            ..ToolResult::success(text)
        })
    }
}

/// Locks that serialise the edits of one file: a model makes several at once, and each must see the content that the
/// previous one has written. Shared by all sessions of a toolbox. Several files may share a lock.
struct FileLocks([Mutex<()>; 64]);

impl Default for FileLocks {
    fn default() -> Self {
        Self([const { Mutex::new(()) }; 64])
    }
}

impl FileLocks {
    /// Returns the lock of a file. `path` is its real path, so that two names of a file have one lock.
    fn of(&self, path: &Path) -> &Mutex<()> {
        let mut hasher = DefaultHasher::new();
        path.hash(&mut hasher);
        // The remainder is a valid index.
        &self.0[(hasher.finish() % self.0.len() as u64) as usize]
    }
}

fn open(target: &CallPath) -> Result<File, ToolRefusal> {
    let path = &target.written;
    let failed = |error: io::Error| cannot("read", path, &error);
    let root = Directory::root().map_err(failed)?;
    if root.kind(&target.real).is_ok_and(FileType::is_dir) {
        let text = format!("Path {} is a directory, not a file.", path.display());
        return Err(ToolRefusal::new(text).in_short("Path is a directory"));
    }
    root.open(&target.real).map_err(failed)
}

fn load(target: &CallPath) -> Result<String, ToolRefusal> {
    let path = &target.written;
    let mut bytes = Vec::new();
    let read = open(target)?.take(LARGEST + 1).read_to_end(&mut bytes);
    let read = read.map_err(|error| cannot("read", path, &error))?;
    if read as u64 > LARGEST {
        return Err(ToolRefusal::new(format!(
            "{} has more than {}, too much for edit. Change it with a command.",
            path.display(),
            size(LARGEST)
        )));
    }
    String::from_utf8(bytes).map_err(|_| {
        ToolRefusal::new(format!("{} is not a text in UTF-8. Change it with a command.", path.display()))
    })
}

/// Replaces the only occurrence of `old`; `None` if there is none.
fn replace_once(path: &Path, text: &str, old: &str, new: &str) -> Result<Option<String>, ToolRefusal> {
    let mut positions = occurrences(text, old);
    let Some(position) = positions.next() else { return Ok(None) };
    let more = positions.count();
    if more > 0 {
        return Err(ToolRefusal::new(format!(
            "old_str occurs {} times in {}, so nothing was changed. Take in neighbouring lines until it is \
             unique.",
            more + 1,
            path.display()
        ))
        .in_short("Multiple matches found"));
    }
    Ok(Some([&text[..position], new, &text[position + old.len()..]].concat()))
}

/// Returns the positions of `piece`, overlaps included: replacing either would be a guess.
fn occurrences<'a>(text: &'a str, piece: &'a str) -> impl Iterator<Item = usize> + 'a {
    let step = piece.chars().next().map_or(1, char::len_utf8);
    let mut from = 0;
    std::iter::from_fn(move || {
        let position = from + text.get(from..)?.find(piece)?;
        from = position + step;
        Some(position)
    })
}

#[cfg(test)]
mod tests;
