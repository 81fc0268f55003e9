//! The file tools: `view`, `create`, `edit`.
#![allow(clippy::disallowed_methods, reason = "file tools run their work on a blocking thread")]

mod create;
mod edit;
mod view;

pub(crate) use create::Create;
pub(crate) use edit::Edit;
pub(crate) use view::View;

use std::io;
use std::path::Path;

use baton_disk::beneath::Unusable;
use baton_markup::diff;
use baton_protocol::permission::PermissionRequest;

use super::paths::CallPath;
use super::{ToolContext, ToolRefusal};

/// Larger contents are left out of a permission request; the diff shows the change.
const LARGEST_CONTENTS: usize = 256 * 1024;

fn read_request(context: &ToolContext, target: &CallPath, what: &str) -> PermissionRequest {
    PermissionRequest::Read {
        tool_call_id: Some(context.call.clone()),
        intention: target.intention(context, &format!("{what}: {}", target.real.display())),
        path: target.real.display().to_string(),
    }
}

/// Requests a change of the whole content from `old` (`None`: the file does not exist) to `new`.
fn write_request(
    context: &ToolContext,
    target: &CallPath,
    what: &str,
    old: Option<&str>,
    new: &str,
) -> PermissionRequest {
    let mut request = change_request(context, target, what, diff::unified(&target.real, old, new));
    if let PermissionRequest::Write { new_file_contents, .. } = &mut request {
        *new_file_contents = (new.len() <= LARGEST_CONTENTS).then(|| new.to_owned());
    }
    request
}

/// Requests a change of a file.
fn change_request(context: &ToolContext, target: &CallPath, what: &str, diff: String) -> PermissionRequest {
    PermissionRequest::Write {
        tool_call_id: Some(context.call.clone()),
        intention: target.intention(context, what),
        file_name: target.real.display().to_string(),
        diff,
        new_file_contents: None,
        can_offer_session_approval: true,
    }
}

pub(super) fn missing(path: &Path) -> ToolRefusal {
    // The wording is compared byte for byte by the replay suite of the SDKs.
    ToolRefusal::new(format!("Path {} does not exist. Please provide a valid path.", path.display()))
        .in_short("Path does not exist")
}

pub(super) fn cannot(what: &str, path: &Path, error: &io::Error) -> ToolRefusal {
    match Unusable::of(error) {
        Some(Unusable::Link) => return changed(what, path),
        Some(Unusable::NotRegular) => {
            return ToolRefusal::new(format!("Path {} is not a regular file.", path.display()));
        }
        Some(Unusable::Outside) | None => {}
    }
    match error.kind() {
        io::ErrorKind::NotFound => missing(path),
        io::ErrorKind::PermissionDenied => {
            ToolRefusal::new(format!("Could not {what} {}: permission denied.", path.display()))
        }
        _ => ToolRefusal::new(format!("Could not {what} {}: {error}.", path.display())),
    }
}

/// Returns the error for a link that appeared on the path after the request.
fn changed(what: &str, path: &Path) -> ToolRefusal {
    ToolRefusal::new(format!(
        "Could not {what} {}: a symbolic link appeared on the path after permission was requested. Call again to \
         request permission for its target.",
        path.display()
    ))
    .in_short("Path has changed")
}

#[cfg(test)]
mod links;
