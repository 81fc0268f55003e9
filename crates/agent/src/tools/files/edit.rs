//! `edit`: replaces a piece of a file.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use baton_protocol::Json;
use baton_protocol::permission::PermissionRequest;
use baton_protocol::tool::{ToolResult, ToolSpec};
use rustix::fs::FileType;
use serde::Deserialize;
use serde_json::json;

use super::{cannot, change_request, write_request};
use crate::tools::beneath::Directory;
use crate::tools::paths::Target;
use crate::tools::text::size;
use crate::tools::{
    Prepared, Refusal, Tool, ToolContext, Working, arguments, blocking, diff, either, lock, paths, schema,
    spec,
};

const NAME: &str = "edit";

/// The largest file that is edited. It is held in memory, twice.
const LARGEST: u64 = 32 * 1024 * 1024;

#[derive(Deserialize)]
struct Arguments {
    #[serde(alias = "file_path", alias = "filePath")]
    path: String,
    #[serde(alias = "old_string", alias = "oldStr", alias = "oldString")]
    old_str: String,
    /// Nothing means that the piece is removed.
    #[serde(default, alias = "new_string", alias = "newStr", alias = "newString")]
    new_str: String,
}

/// Replaces a piece of a file.
pub(crate) struct Edit;

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
                let wanted = Wanted::read(context, arguments)?;
                let context = context.clone();
                blocking(move || {
                    let target = Target::ask(&context, wanted.path.clone());
                    wanted.request(&context, &target)
                })
                .await
            };
            prepare.await.into()
        })
    }

    fn touches(&self, context: &ToolContext, arguments: &Json) -> Vec<PathBuf> {
        let wanted = Wanted::read(context, arguments);
        let target = wanted.and_then(|wanted| Target::recall(context, wanted.path));
        target.map(|target| target.real).into_iter().collect()
    }

    fn run<'a>(&'a self, context: &'a ToolContext, arguments: &'a Json) -> Working<'a, ToolResult> {
        Box::pin(async move {
            let run = async {
                let wanted = Wanted::read(context, arguments)?;
                let context = context.clone();
                blocking(move || wanted.run(&Target::recall(&context, wanted.path.clone())?)).await
            };
            either(run.await)
        })
    }
}

struct Wanted {
    path: PathBuf,
    old: String,
    new: String,
}

struct Change {
    old: String,
    new: String,
}

impl Wanted {
    fn read(context: &ToolContext, arguments: &Json) -> Result<Self, Refusal> {
        let Arguments { path, old_str, new_str } = arguments::read(NAME, arguments)?;
        if old_str.is_empty() {
            return Err(Refusal::arguments(NAME, "old_str: must not be empty; use create for a new file"));
        }
        if old_str == new_str {
            return Err(Refusal::arguments(NAME, "new_str: is the same as old_str, so nothing would change"));
        }
        Ok(Self { path: paths::absolute(&context.cwd, &path), old: old_str, new: new_str })
    }

    /// The request to edit. Whether the piece is in the file, and what is around it, is told only where reading needs no
    /// leave: elsewhere a model could find out what is in a file by asking to edit it.
    fn request(&self, context: &ToolContext, target: &Target) -> Result<PermissionRequest, Refusal> {
        const WHAT: &str = "Edit file";
        if target.is_own(context) {
            let Change { old, new } = self.apply(target)?;
            return Ok(write_request(context, target, WHAT, Some(&old), &new));
        }
        open(target)?;
        let diff = diff::unified(&target.real, Some(&self.old), &self.new);
        Ok(change_request(context, target, WHAT, diff))
    }

    /// Works on the file as it is now. It may have changed since the permission was asked for; the piece that
    /// is replaced, and what by, is what was allowed.
    fn apply(&self, target: &Target) -> Result<Change, Refusal> {
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
        Err(Refusal::new(format!(
            "No match for old_str in {}, so nothing was changed. It must match character by character; view \
             the file and copy the piece from there.",
            self.path.display()
        ))
        .in_short("No match found"))
    }

    fn run(&self, target: &Target) -> Result<ToolResult, Refusal> {
        let _turn = lock(turnstile(&target.real));
        let Change { old, new } = self.apply(target)?;
        let replaced = Directory::root().and_then(|root| root.replace(&target.real, new.as_bytes()));
        replaced.map_err(|error| cannot("edit", &self.path, &error))?;
        // The wording is compared byte for byte by the replay suite of the SDKs.
        let told = format!("File {} updated with changes.", self.path.display());
        Ok(ToolResult {
            session_log: Some(diff::unified(&self.path, Some(&old), &new)),
            ..ToolResult::success(told)
        })
    }
}

/// Edits of one file take turns: a model makes several at once, and each must see what the one before has
/// written. By where it really is, so that two names of a file are one file.
fn turnstile(path: &Path) -> &'static Mutex<()> {
    static TURNSTILES: [Mutex<()>; 64] = [const { Mutex::new(()) }; 64];
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    // The remainder is a valid index.
    &TURNSTILES[(hasher.finish() % TURNSTILES.len() as u64) as usize]
}

fn open(target: &Target) -> Result<File, Refusal> {
    let path = &target.written;
    let failed = |error: io::Error| cannot("read", path, &error);
    let root = Directory::root().map_err(failed)?;
    if root.kind(&target.real).is_ok_and(FileType::is_dir) {
        let text = format!("Path {} is a directory, not a file.", path.display());
        return Err(Refusal::new(text).in_short("Path is a directory"));
    }
    root.open(&target.real).map_err(failed)
}

fn load(target: &Target) -> Result<String, Refusal> {
    let path = &target.written;
    let mut bytes = Vec::new();
    let read = open(target)?.take(LARGEST + 1).read_to_end(&mut bytes);
    let read = read.map_err(|error| cannot("read", path, &error))?;
    if read as u64 > LARGEST {
        return Err(Refusal::new(format!(
            "{} has more than {}, too much for edit. Change it with a command.",
            path.display(),
            size(LARGEST)
        )));
    }
    String::from_utf8(bytes).map_err(|_| {
        Refusal::new(format!("{} is not a text in UTF-8. Change it with a command.", path.display()))
    })
}

/// The text with its only occurrence of `old` replaced; `None` if there is none.
fn replace_once(path: &Path, text: &str, old: &str, new: &str) -> Result<Option<String>, Refusal> {
    let mut places = occurrences(text, old);
    let Some(place) = places.next() else { return Ok(None) };
    let more = places.count();
    if more > 0 {
        return Err(Refusal::new(format!(
            "old_str occurs {} times in {}, so nothing was changed. Take in neighbouring lines until it is \
             unique.",
            more + 1,
            path.display()
        ))
        .in_short("Multiple matches found"));
    }
    Ok(Some([&text[..place], new, &text[place + old.len()..]].concat()))
}

/// Where `piece` occurs, overlaps included: replacing either would be a guess.
fn occurrences<'a>(text: &'a str, piece: &'a str) -> impl Iterator<Item = usize> + 'a {
    let step = piece.chars().next().map_or(1, char::len_utf8);
    let mut from = 0;
    std::iter::from_fn(move || {
        let place = from + text.get(from..)?.find(piece)?;
        from = place + step;
        Some(place)
    })
}

#[cfg(test)]
mod tests;
