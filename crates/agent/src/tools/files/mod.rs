//! Files: `view`, `create`, `edit`.
#![allow(clippy::disallowed_methods, reason = "file tools run their work on a blocking thread")]

mod create;
mod edit;
mod view;
mod write;

pub(crate) use create::Create;
pub(crate) use edit::Edit;
pub(crate) use view::View;

use std::io;
use std::path::Path;

use baton_protocol::permission::PermissionRequest;

use super::{Refusal, ToolContext, diff, paths};

/// Contents larger than this are not repeated in a permission request; the diff shows what matters.
const LARGEST_CONTENTS: usize = 256 * 1024;

fn read_request(context: &ToolContext, path: &Path, what: &str) -> PermissionRequest {
    PermissionRequest::Read {
        tool_call_id: Some(context.call.clone()),
        intention: paths::intention(&format!("{what}: {}", path.display()), &context.cwd, path),
        path: path.display().to_string(),
    }
}

fn write_request(
    context: &ToolContext,
    path: &Path,
    what: &str,
    old: Option<&str>,
    new: &str,
) -> PermissionRequest {
    PermissionRequest::Write {
        tool_call_id: Some(context.call.clone()),
        intention: paths::intention(what, &context.cwd, path),
        file_name: path.display().to_string(),
        diff: diff::unified(path, old, new),
        new_file_contents: (new.len() <= LARGEST_CONTENTS).then(|| new.to_owned()),
        can_offer_session_approval: true,
    }
}

fn missing(path: &Path) -> Refusal {
    // The wording is compared byte for byte by the replay suite of the SDKs.
    Refusal::new(format!("Path {} does not exist. Please provide a valid path.", path.display()))
        .in_short("Path does not exist")
}

fn cannot(what: &str, path: &Path, error: &io::Error) -> Refusal {
    match error.kind() {
        io::ErrorKind::NotFound => missing(path),
        io::ErrorKind::PermissionDenied => {
            Refusal::new(format!("Could not {what} {}: the user may not do that.", path.display()))
        }
        _ => Refusal::new(format!("Could not {what} {}: {error}.", path.display())),
    }
}
