//! What programs want to do, in the words of our own permission requests, so that every client can show and answer them.

use std::path::Path;

use baton_agent::tools::beneath::{Directory, Unusable};
use baton_agent::tools::{shell, unified_diff};
use baton_protocol::permission::{PermissionRequest, Verdict};
use baton_protocol::{Json, ToolCallId};
use serde_json::Value;

/// What was decided, as programs are told.
///
/// They are never told that something is allowed for longer. What a program finds to be like it is not what the person was
/// shown (claude would stop asking about any edit), and rules and revocations could not reach it. The session knows its
/// grants, and answers the next request by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision {
    Once,
    /// What to do instead, if somebody said so.
    No(Option<String>),
}

impl From<Verdict> for Decision {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::ApproveOnce | Verdict::ApproveForSession(_) | Verdict::ApproveForLocation { .. } => {
                Self::Once
            }
            Verdict::Reject { feedback } => Self::No(feedback.filter(|text| !text.trim().is_empty())),
            Verdict::UserNotAvailable => Self::No(Some("Nobody is there to decide.".to_owned())),
            Verdict::DeniedByRules => Self::No(Some("The rules of this session do not allow it.".to_owned())),
        }
    }
}

/// To run a command.
pub(crate) fn shell(call: &str, cwd: &Path, command: &str, intention: &str) -> PermissionRequest {
    shell::permission_request(&ToolCallId::from(call), cwd, command, intention)
}

/// The names of several files, as a request says them: one on each line. Nothing, if one of them is missing or cannot be
/// told apart from two: then nobody knows what is meant, and nothing but a person allows it.
pub(crate) fn files<'a>(names: impl IntoIterator<Item = Option<&'a str>>) -> String {
    let is_plain = |name: &&str| !name.is_empty() && !name.contains(['\n', '\r']);
    let names: Option<Vec<&str>> = names.into_iter().map(|name| name.filter(is_plain)).collect();
    names.unwrap_or_default().join("\n")
}

/// To change files. `diff` is shown as it is.
pub(crate) fn write(call: &str, file_name: &str, diff: String, intention: &str) -> PermissionRequest {
    PermissionRequest::Write {
        tool_call_id: Some(ToolCallId::from(call)),
        file_name: file_name.to_owned(),
        diff,
        intention: intention.to_owned(),
        new_file_contents: None,
        can_offer_session_approval: true,
    }
}

/// To read a file or a directory.
pub(crate) fn read(call: &str, path: &str, intention: &str) -> PermissionRequest {
    let tool_call_id = Some(ToolCallId::from(call));
    PermissionRequest::Read { tool_call_id, path: path.to_owned(), intention: intention.to_owned() }
}

/// To fetch something from the network.
pub(crate) fn url(call: &str, url: &str, intention: &str) -> PermissionRequest {
    let tool_call_id = Some(ToolCallId::from(call));
    PermissionRequest::Url { tool_call_id, url: url.to_owned(), intention: intention.to_owned() }
}

/// To call a tool of an MCP server.
pub(crate) fn mcp(call: &str, server: &str, tool: &str, args: &Value) -> PermissionRequest {
    PermissionRequest::Mcp {
        tool_call_id: Some(ToolCallId::from(call)),
        server_name: server.to_owned(),
        tool_name: tool.to_owned(),
        tool_title: tool.to_owned(),
        args: Some(Json::from(args.clone())),
        read_only: false,
    }
}

/// To do anything else.
pub(crate) fn other(call: &str, tool: &str, description: &str, args: &Value) -> PermissionRequest {
    PermissionRequest::CustomTool {
        tool_call_id: Some(ToolCallId::from(call)),
        tool_name: tool.to_owned(),
        tool_description: description.to_owned(),
        args: Some(Json::from(args.clone())),
    }
}

/// A file longer than this is not read for a diff that nobody would read either.
const LONGEST_FILE: u64 = 1024 * 1024;

/// To replace a file by `new`. The file is looked at as it is now, so that the person who decides sees what is lost; not
/// through a link, which could put any file into the request.
pub(crate) fn replace(call: &str, cwd: &Path, path: &str, new: &str, intention: &str) -> PermissionRequest {
    let full = cwd.join(path);
    let old = Directory::trusted(cwd).and_then(|here| {
        here.read_to_string(full.strip_prefix(cwd).map_err(|_| Unusable::Outside)?, LONGEST_FILE)
    });
    write(call, &files([Some(path)]), unified_diff(&full, old.ok().as_deref(), new), intention)
}

/// To replace a part of a file by another.
pub(crate) fn edit(call: &str, cwd: &Path, path: &str, parts: &[(&str, &str)]) -> PermissionRequest {
    let diffs: Vec<String> =
        parts.iter().map(|(old, new)| unified_diff(&cwd.join(path), Some(old), new)).collect();
    write(call, &files([Some(path)]), diffs.join("\n"), "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_stays_with_the_session() {
        for verdict in [
            Verdict::ApproveForSession(None),
            Verdict::ApproveForLocation { approval: None, location_key: "/w".into() },
        ] {
            assert_eq!(Decision::from(verdict), Decision::Once);
        }
    }

    #[test]
    fn files_that_cannot_be_told_are_not_named() {
        assert_eq!(files([Some("a"), Some("/b, c")]), "a\n/b, c");
        assert_eq!(files([Some("a"), None]), "");
        assert_eq!(files([Some("a"), Some("")]), "");
        assert_eq!(files([Some("sub\nlink/a")]), "");
        assert_eq!(files([]), "");
    }

    #[test]
    fn a_file_behind_a_link_is_not_put_into_a_request() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("secret"), "s3cret").unwrap();
        std::fs::create_dir(dir.path().join("work")).unwrap();
        std::fs::write(dir.path().join("work/plain"), "before").unwrap();
        std::os::unix::fs::symlink("../secret", dir.path().join("work/link")).unwrap();
        let shown = |path: &str| match replace("c", &dir.path().join("work"), path, "new", "") {
            PermissionRequest::Write { diff, .. } => diff,
            other => panic!("{other:?}"),
        };
        assert!(shown("plain").contains("before"));
        for path in ["link", "../secret", &dir.path().join("secret").display().to_string()] {
            assert!(!shown(path).contains("s3cret"), "{path}");
        }
    }
}
