//! The user message that a prompt becomes: date, prompt and attachments.
//!
//! Images are not handled here: they stay with the message as attachments, and the [transcript](crate::transcript)
//! makes them parts of it.

use std::path::Path;

use baton_protocol::Timestamp;
use baton_protocol::attachment::{Attachment, KnownAttachment, LineRange, Selection};

use baton_disk::untrusted::{self, UntrustedDirectory};

/// Lines of larger files are not counted.
const MAX_COUNTED: usize = 16 << 20;
/// Entries of larger directories are not counted.
const MAX_ENTRIES: usize = 100_000;

/// Composes the user message for a prompt. `tagged` is the block of [`tagged_files`].
#[must_use]
pub fn compose(
    prompt: &str,
    attachments: &[Attachment],
    tagged: Option<String>,
    now: Option<Timestamp>,
    tools_gone: &[String],
) -> String {
    let mut blocks = selections(attachments);
    blocks.extend(now.map(|now| format!("<current_datetime>{now}</current_datetime>")));
    if !tools_gone.is_empty() {
        blocks.push(tools_changed(tools_gone));
    }
    blocks.push(prompt.to_owned());
    let attached = [tagged, github_references(attachments), others(attachments)];
    let attached: Vec<String> = attached.into_iter().flatten().collect();
    if !attached.is_empty() {
        blocks.push(
            "<reminder>What follows was attached by the user. Look at it if the request needs it.</reminder>"
                .into(),
        );
        blocks.extend(attached);
    }
    blocks.join("\n\n")
}

fn known(attachments: &[Attachment]) -> impl Iterator<Item = &KnownAttachment> {
    attachments.iter().filter_map(|attachment| match attachment {
        Attachment::Known(known) => Some(known),
        Attachment::Other(_) => None,
    })
}

fn selections(attachments: &[Attachment]) -> Vec<String> {
    known(attachments)
        .filter_map(|attachment| match attachment {
            KnownAttachment::Selection { file_path, display_name, text, selection } => {
                Some(ide_selection(display_name.as_deref().unwrap_or(file_path), text, *selection))
            }
            _ => None,
        })
        .collect()
}

fn ide_selection(name: &str, text: &str, selection: Option<Selection>) -> String {
    // An empty range is that of a client that did not send one.
    let range = selection.filter(|selection| selection.start != selection.end);
    let lines = match range.map(|s| (s.start.line.saturating_add(1), s.end.line.saturating_add(1))) {
        Some((start, end)) if start == end => format!(" (line {start})"),
        Some((start, end)) => format!(" (lines {start}-{end})"),
        None => String::new(),
    };
    format!(
        "<ide_selection>\nThe user has the following text selected in their IDE. This may or may not be related to their \
         request.\nFile: {name}{lines}\n```\n{text}\n```\n</ide_selection>"
    )
}

/// Whether files or directories are attached.
#[must_use]
pub fn has_files(attachments: &[Attachment]) -> bool {
    known(attachments).any(|attachment| {
        matches!(attachment, KnownAttachment::File { .. } | KnownAttachment::Directory { .. })
    })
}

/// Lists the attached files and directories with their sizes. Blocks.
#[must_use]
pub fn tagged_files(attachments: &[Attachment], cwd: &Path) -> Option<String> {
    let lines: Vec<String> = known(attachments)
        .filter_map(|attachment| match attachment {
            KnownAttachment::File { path, line_range, .. } => Some(file_line(&cwd.join(path), *line_range)),
            KnownAttachment::Directory { path, .. } => Some(directory_line(&cwd.join(path))),
            _ => None,
        })
        .collect();
    (!lines.is_empty()).then(|| format!("<tagged_files>\n{}\n</tagged_files>", lines.join("\n")))
}

fn file_line(path: &Path, range: Option<LineRange>) -> String {
    let shown = path.display();
    let Ok(excerpt) = untrusted::read_named(path, MAX_COUNTED) else {
        return format!("* {shown} (cannot be read)");
    };
    if excerpt.is_cut {
        return format!("* {shown} (more than {MAX_COUNTED} bytes)");
    }
    let bytes = excerpt.bytes;
    let newlines = bytes.iter().filter(|b| **b == b'\n').count();
    let lines = newlines + usize::from(bytes.last().is_some_and(|b| *b != b'\n'));
    match range {
        Some(LineRange { start, end }) if start == end => {
            format!("* {shown} (line {start} of {lines} lines)")
        }
        Some(LineRange { start, end }) => format!("* {shown} (lines {start}-{end} of {lines} lines)"),
        None => format!("* {shown} ({lines} lines)"),
    }
}

fn directory_line(path: &Path) -> String {
    let shown = path.display();
    match UntrustedDirectory::open(path).and_then(|directory| directory.names(MAX_ENTRIES)) {
        Ok(names) if names.len() == MAX_ENTRIES => format!("* {shown} ({MAX_ENTRIES} items or more)"),
        Ok(names) => format!("* {shown} ({} items)", names.len()),
        Err(_) => format!("* {shown} (cannot be read)"),
    }
}

fn github_references(attachments: &[Attachment]) -> Option<String> {
    let lines: Vec<String> = known(attachments)
        .filter_map(|attachment| match attachment {
            KnownAttachment::GithubReference { number, title, state, reference_type, url } => {
                let mark = |text: &Option<String>| text.as_ref().map_or(String::new(), |t| format!(" [{t}]"));
                let url = url.as_ref().map_or(String::new(), |url| format!(" ({url})"));
                Some(format!("#{number} - {title}{}{}{url}", mark(reference_type), mark(state)))
            }
            _ => None,
        })
        .collect();
    (!lines.is_empty()).then(|| format!("<github_references>\n{}\n</github_references>", lines.join("\n")))
}

/// Passes on attachments of unknown kinds as JSON.
fn others(attachments: &[Attachment]) -> Option<String> {
    let lines: Vec<&str> = attachments
        .iter()
        .filter_map(|attachment| match attachment {
            Attachment::Other(json) => Some(json.as_str()),
            Attachment::Known(_) => None,
        })
        .collect();
    (!lines.is_empty()).then(|| format!("<attachments>\n{}\n</attachments>", lines.join("\n")))
}

/// The wording is compared byte for byte by the replay suite of the SDKs.
fn tools_changed(gone: &[String]) -> String {
    format!(
        "<tools_changed_notice>\nTools no longer available: {}\n\nImportant: Do not attempt to call tools that are no longer \
         available unless you've been notified that they're available again.\n</tools_changed_notice>",
        gone.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compose_json(prompt: &str, attachments: &str, cwd: &Path) -> String {
        let attachments: Vec<Attachment> = baton_json::from_str(attachments).unwrap();
        let tagged = tagged_files(&attachments, cwd);
        assert_eq!(tagged.is_some(), has_files(&attachments));
        compose(prompt, &attachments, tagged, Some(Timestamp(1_794_774_653_223)), &[])
    }

    #[test]
    fn date_precedes_the_prompt() {
        let text = compose_json("Hello", "[]", Path::new("/"));
        assert_eq!(text, "<current_datetime>2026-11-15T20:30:53.223Z</current_datetime>\n\nHello");
    }

    #[test]
    fn files_and_directories_are_listed_with_their_size() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.txt"), "one\ntwo\nthree").unwrap();
        std::fs::create_dir(dir.path().join("d")).unwrap();
        let text = compose_json(
            "Read",
            r#"[{"type":"file","path":"a.txt","lineRange":{"start":1,"end":1}},{"type":"file","path":"a.txt"},
                {"type":"file","path":"none"},{"type":"directory","path":"d"}]"#,
            dir.path(),
        );
        let at = dir.path().display();
        let block = format!(
            "<tagged_files>\n* {at}/a.txt (line 1 of 3 lines)\n* {at}/a.txt (3 lines)\n* {at}/none (cannot be read)\n* {at}/d (0 items)\n</tagged_files>"
        );
        assert!(text.ends_with(&block), "{text}");
    }

    #[test]
    fn attached_devices_and_fifos_are_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
            .unwrap();
        std::os::unix::fs::symlink("/dev/zero", dir.path().join("zero")).unwrap();
        for name in ["fifo", "zero"] {
            let line = file_line(&dir.path().join(name), None);
            assert!(line.ends_with("(cannot be read)"), "{line}");
        }
    }

    #[test]
    fn selection_precedes_the_prompt_and_references_follow_it() {
        let text = compose_json(
            "Explain",
            r#"[{"type":"selection","filePath":"/x/a.cs","displayName":"a.cs","text":"int i;",
                 "selection":{"start":{"line":1,"character":0},"end":{"line":3,"character":1}}},
                {"type":"github_reference","number":7,"title":"T","referenceType":"issue","state":"open","url":"https://e/7"}]"#,
            Path::new("/"),
        );
        assert!(
            text.starts_with("<ide_selection>\n")
                && text.contains("File: a.cs (lines 2-4)\n```\nint i;\n```\n</ide_selection>\n\n<current")
        );
        assert!(
            text.ends_with("<github_references>\n#7 - T [issue] [open] (https://e/7)\n</github_references>")
        );
    }

    #[test]
    fn removed_tools_are_listed() {
        let text = compose("Go", &[], None, Some(Timestamp(0)), &["a".into(), "b".into()]);
        assert!(
            text.contains("no longer available: a, b\n") && text.ends_with("</tools_changed_notice>\n\nGo")
        );
    }
}
