//! `view`: shows a file, an image or a directory.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use baton_disk::beneath::Directory;
use baton_disk::paths::absolute;
use baton_protocol::Json;
use baton_protocol::tool::{BinaryResult, ToolResult, ToolSpec};
use rustix::fs::FileType;
use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{cannot, missing, read_request};
use crate::tools::paths::CallPath;
use crate::tools::text::{readable, size};
use crate::tools::{
    Prepared, Tool, ToolContext, ToolRefusal, Working, arguments, blocking, either, reading, schema, spec,
};

const NAME: &str = "view";

/// Bytes of a file that are shown at once: below the limit above which outputs are stored in a file, which would be
/// pointless for a file.
const MOST: usize = 48 * 1024;
/// Largest image, in bytes; about what providers accept.
const LARGEST_IMAGE: u64 = 10 * 1024 * 1024;
const MOST_ENTRIES: usize = 2000;

#[derive(Deserialize)]
struct Arguments {
    #[serde(alias = "file_path", alias = "filePath")]
    path: String,
    #[serde(alias = "viewRange")]
    view_range: Option<[i64; 2]>,
}

/// A range of lines, counted from 1; without `last`, to the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    first: u64,
    last: Option<u64>,
}

/// Shows a file, an image or a directory.
pub(crate) struct View;

impl Tool for View {
    fn spec(&self) -> ToolSpec {
        spec(
            NAME,
            "Shows a file with numbered lines, an image, or the names in a directory. A large file is shown \
             up to 48 KB at a time: use `view_range` for the rest.",
            schema::object(
                &json!({
                    "path": schema::string("Path of a file or directory, preferably absolute."),
                    "view_range": schema::array(
                        "integer",
                        "First and last line to show, counted from 1, for example [11, 20]. -1 as the last \
                         one means the end of the file.",
                    ),
                }),
                &["path"],
            ),
        )
    }

    fn prepare<'a>(&'a self, context: &'a ToolContext, arguments: &'a Json) -> Working<'a, Prepared> {
        Box::pin(async move {
            let prepare = async {
                let (path, _) = read(context, arguments)?;
                let context = context.clone();
                blocking(move || {
                    let target = CallPath::resolve(&context, path);
                    let what = if target.real.is_dir() { "List directory" } else { "Read file" };
                    Ok(read_request(&context, &target, what))
                })
                .await
            };
            prepare.await.into()
        })
    }

    fn run<'a>(&'a self, context: &'a ToolContext, arguments: &'a Json) -> Working<'a, ToolResult> {
        Box::pin(async move {
            let run = async {
                let (path, range) = read(context, arguments)?;
                let own = context.clone();
                reading(context, move || view(&CallPath::recall(&own, path)?, range, &own.cancel)).await
            };
            either(run.await)
        })
    }
}

fn read(context: &ToolContext, arguments: &Json) -> Result<(PathBuf, Range), ToolRefusal> {
    let Arguments { path, view_range } = arguments::read(NAME, arguments)?;
    let whole = Range { first: 1, last: None };
    let range = view_range.map_or(Some(whole), |[first, last]| {
        let first = u64::try_from(first).ok().filter(|first| *first > 0)?;
        match last {
            -1 => Some(Range { first, last: None }),
            last => u64::try_from(last).ok().filter(|l| *l >= first).map(|l| Range { first, last: Some(l) }),
        }
    });
    let range = range.ok_or_else(|| {
        ToolRefusal::arguments(
            NAME,
            "view_range: must be [first, last] with 1 <= first <= last, or -1 as last",
        )
    })?;
    Ok((absolute(&context.cwd, &path), range))
}

fn view(target: &CallPath, range: Range, cancel: &CancellationToken) -> Result<ToolResult, ToolRefusal> {
    let path = &target.written;
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotADirectory => missing(path),
        _ => cannot("read", path, &error),
    };
    let root = Directory::root().map_err(failed)?;
    if root.kind(&target.real).map_err(failed)?.is_dir() {
        return list(&root, &target.real).map_err(failed);
    }
    let mut file = root.open(&target.real).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    let mut start = Vec::new();
    file.by_ref().take(8192).read_to_end(&mut start).map_err(failed)?;
    if let Some(mime_type) = image_type(&start) {
        return show_image(path, mime_type, length, file).map_err(failed);
    }
    if start.contains(&0) {
        return Err(ToolRefusal::new(format!(
            "{} is a binary file ({}). Look into it with a command such as file, strings or xxd.",
            path.display(),
            size(length)
        )));
    }
    file.rewind().map_err(failed)?;
    show_lines(BufReader::new(file), range, cancel).map_err(|stopped| match stopped {
        Stopped::Cancelled => ToolRefusal::interrupted(),
        Stopped::Failed(error) => failed(error),
        Stopped::TooShort { lines } => ToolRefusal::new(format!(
            "{} has {lines} lines, so line {} cannot be shown.",
            path.display(),
            range.first
        )),
    })
}

fn list(root: &Directory, path: &Path) -> io::Result<ToolResult> {
    let mut names = Vec::new();
    for entry in root.list(path)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy();
        if !matches!(name.as_ref(), "." | "..") {
            let kind = match entry.file_type() {
                FileType::Unknown => root.kind(&path.join(name.as_ref())).unwrap_or(FileType::Unknown),
                known => known,
            };
            let slash = if kind.is_dir() { "/" } else { "" };
            names.push(format!("{name}{slash}"));
        }
    }
    names.sort_unstable();
    let more = names.len().saturating_sub(MOST_ENTRIES);
    names.truncate(MOST_ENTRIES);
    if names.is_empty() {
        names.push("The directory is empty.".to_owned());
    } else if more > 0 {
        names.push(format!("[{more} more entries are not shown.]"));
    }
    Ok(ToolResult::success(names.join("\n")))
}

/// Detects an image format that models accept.
fn image_type(start: &[u8]) -> Option<&'static str> {
    match start {
        [0x89, b'P', b'N', b'G', 0x0D, 0x0A, 0x1A, 0x0A, ..] => Some("image/png"),
        [0xFF, 0xD8, 0xFF, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

fn show_image(path: &Path, mime_type: &str, length: u64, mut file: File) -> io::Result<ToolResult> {
    if length > LARGEST_IMAGE {
        let refusal = ToolRefusal::new(format!(
            "The image {} has {}; images of up to {} can be viewed.",
            path.display(),
            size(length),
            size(LARGEST_IMAGE)
        ));
        return Ok(refusal.into());
    }
    let mut bytes = Vec::new();
    file.rewind()?;
    file.take(LARGEST_IMAGE).read_to_end(&mut bytes)?;
    let image = BinaryResult {
        kind: "image".into(),
        data: BASE64_STANDARD.encode(bytes),
        mime_type: mime_type.into(),
        description: Some(format!("Image file at path {}", path.display())),
    };
    Ok(ToolResult {
        session_log: Some(format!("Viewed image file at path {}", path.display())),
        binary_results_for_llm: vec![image],
        // The wording is compared byte for byte by the replay suite of the SDKs.
        ..ToolResult::success("Viewed image file successfully.")
    })
}

enum Stopped {
    Cancelled,
    Failed(io::Error),
    TooShort { lines: u64 },
}

/// Renders the lines of `range`, each as `N. text`. The text after the last line feed is a line, even if it is empty.
fn show_lines(
    mut file: impl BufRead,
    range: Range,
    cancel: &CancellationToken,
) -> Result<ToolResult, Stopped> {
    let mut shown = String::new();
    for number in 1.. {
        let in_range = number >= range.first;
        let line = next_line(&mut file, if in_range { MOST } else { 0 }, cancel)?;
        if in_range && !shown.is_empty() && shown.len() as u64 + line.length > MOST as u64 {
            shown += &format!("[The file goes on: use view_range [{number}, -1] to see more.]");
            break;
        }
        if in_range {
            shown +=
                &format!("{number}. {}", readable(line.start.strip_suffix(b"\r").unwrap_or(&line.start)));
            let rest = line.length - line.start.len() as u64;
            if rest > 0 {
                shown += &format!("\n[Line {number} has {} more, too much to show.]", size(rest));
            }
        }
        match (line.is_last, in_range) {
            (true, false) => return Err(Stopped::TooShort { lines: number }),
            (true, true) => break,
            (false, _) if range.last == Some(number) => break,
            (false, true) => shown.push('\n'),
            (false, false) => {}
        }
    }
    Ok(ToolResult::success(shown))
}

struct Line {
    /// Beginning of the line, as far as it fits.
    start: Vec<u8>,
    length: u64,
    /// Not followed by a line feed.
    is_last: bool,
}

/// Reads a line of any length in bounded memory.
fn next_line(file: &mut impl BufRead, room: usize, cancel: &CancellationToken) -> Result<Line, Stopped> {
    let mut line = Line { start: Vec::new(), length: 0, is_last: false };
    loop {
        if cancel.is_cancelled() {
            return Err(Stopped::Cancelled);
        }
        let buffer = file.fill_buf().map_err(Stopped::Failed)?;
        line.is_last = buffer.is_empty();
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let part = &buffer[..end.unwrap_or(buffer.len())];
        line.start.extend_from_slice(&part[..part.len().min(room.saturating_sub(line.start.len()))]);
        line.length += part.len() as u64;
        let consumed = part.len() + usize::from(end.is_some());
        file.consume(consumed);
        if end.is_some() || line.is_last {
            return Ok(line);
        }
    }
}

#[cfg(test)]
mod tests;
