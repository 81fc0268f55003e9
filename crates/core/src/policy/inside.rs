//! Decides which requests cannot leave the session's sandbox. In assisted mode they need no approval.
//!
//! For commands the walls hold, whatever the command is. Built-in file tools run in the server, outside of all walls: for them
//! this module draws the same line, by the resolved path.

use std::path::Path;

use baton_protocol::permission::PermissionRequest;
use baton_protocol::sandbox::SandboxLevel;

use super::Situation;
use super::deny::{is_known, lexical};
use super::territory::Standing;

/// Whether a request cannot leave the sandbox.
pub(super) fn contains(request: &PermissionRequest, situation: &Situation<'_>) -> bool {
    let territory = situation.territory;
    match request {
        PermissionRequest::Shell { sandbox, .. } => sandbox.is_some_and(SandboxLevel::is_inside),
        PermissionRequest::Write { .. } if situation.sandbox == SandboxLevel::Workspace => {
            each_file(request, |file| territory.write(file) == Standing::Covered)
        }
        PermissionRequest::Read { .. } if situation.sandbox.is_inside() => {
            each_file(request, |file| territory.read(file) == Standing::Covered)
        }
        _ => false,
    }
}

/// Whether a request names at least one file, and all of them are known and pass.
fn each_file(request: &PermissionRequest, passes: impl Fn(&Path) -> bool) -> bool {
    let mut files = request.files().peekable();
    files.peek().is_some() && files.all(|file| is_known(file) && passes(&lexical(file)))
}
