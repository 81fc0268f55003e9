//! What programs want to do, in the words of our own permission requests, so that every client can show and answer
//! them.

use std::path::Path;

use baton_agent::tools::{shell, unified_diff};
use baton_agent::{blocking, untrusted};
use baton_protocol::permission::{PermissionRequest, Verdict};
use baton_protocol::{Json, ToolCallId};
use serde_json::Value;

/// What was decided, as far as programs are told.
///
/// A program is never told that something is allowed from now on: what it finds to be like it is not what a person
/// was shown, and a deny rule that comes later would not reach it. It asks each time, and the policy answers from
/// its grants.
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

/// A command in another directory than the session's, as a person is shown it. A grant for `make` here is none for `make`
/// there, where another Makefile may be.
pub(crate) fn moved(cwd: &Path, command: &str) -> String {
    let quoted = cwd.display().to_string().replace('\'', r"'\''");
    format!("cd '{quoted}' && {command}")
}

/// To run a command that the program does not show. Only its own title for it is known, which no grant may cover: as a
/// comment it is no command to the policy.
pub(crate) fn hidden_shell(call: &str, cwd: &Path, title: &str) -> PermissionRequest {
    let title: String = title.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    shell(call, cwd, &format!("# {title}"), "Run a command that the program does not show")
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

/// To do what a person has to decide about each time: no grant covers it, because its arguments say what it means.
pub(crate) fn ungrantable(call: &str, tool: &str, message: &str, args: &Value) -> PermissionRequest {
    PermissionRequest::Hook {
        tool_call_id: Some(ToolCallId::from(call)),
        tool_name: tool.to_owned(),
        tool_args: Some(Json::from(args.clone())),
        hook_message: Some(message.to_owned()),
    }
}

/// A file longer than this is not read for a diff that nobody would read either.
const LONGEST_FILE: usize = 1024 * 1024;

/// To replace a file by `new`. [`with_difference`] shows what is lost.
pub(crate) fn replace(call: &str, path: &str, new: &str, intention: &str) -> PermissionRequest {
    let mut request = write(call, &files([Some(path)]), String::new(), intention);
    if let PermissionRequest::Write { new_file_contents, .. } = &mut request {
        *new_file_contents = Some(new.to_owned());
    }
    request
}

/// The request with the difference that replacing a file makes. The file is looked at as it is now, so that the person who
/// decides sees what is lost. One that is no regular file of the working directory, or too long, is shown as if it were
/// new: a link could put any file into the request.
pub(crate) async fn with_difference(mut request: PermissionRequest, cwd: &Path) -> PermissionRequest {
    if let PermissionRequest::Write { file_name, diff, new_file_contents, .. } = &mut request
        && diff.is_empty()
        && let Some(new) = new_file_contents.take()
    {
        let (cwd, full) = (cwd.to_owned(), cwd.join(&*file_name));
        let read = blocking::run(move || {
            let old = full.strip_prefix(&cwd).ok().and_then(|name| {
                untrusted::Directory::open(&cwd).ok()?.read(name, LONGEST_FILE).ok().filter(|old| !old.is_cut)
            });
            let old = old.and_then(|old| old.into_text().ok());
            unified_diff(&full, old.as_deref(), &new)
        });
        *diff = read.await.unwrap_or_else(|error| format!("(cannot be shown: {error})"));
    }
    request
}

/// To replace a part of a file by another.
pub(crate) fn edit(call: &str, cwd: &Path, path: &str, parts: &[(&str, &str)]) -> PermissionRequest {
    let diffs: Vec<String> =
        parts.iter().map(|(old, new)| unified_diff(&cwd.join(path), Some(old), new)).collect();
    write(call, &files([Some(path)]), diffs.join("\n"), "")
}

#[cfg(test)]
mod tests {
    use baton_protocol::permission::Approval;

    use super::*;

    #[test]
    fn files_that_cannot_be_told_are_not_named() {
        assert_eq!(files([Some("a"), Some("/b, c")]), "a\n/b, c");
        assert_eq!(files([Some("a"), None]), "");
        assert_eq!(files([Some("a"), Some("")]), "");
        assert_eq!(files([Some("sub\nlink/a")]), "");
        assert_eq!(files([]), "");
    }

    #[tokio::test]
    async fn a_file_behind_a_link_is_not_put_into_a_request() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("secret"), "s3cret").unwrap();
        std::fs::create_dir(dir.path().join("work")).unwrap();
        std::fs::write(dir.path().join("work/plain"), "before").unwrap();
        std::os::unix::fs::symlink("../secret", dir.path().join("work/link")).unwrap();
        let work = dir.path().join("work");
        let shown = async |path: &str| match with_difference(replace("c", path, "new", ""), &work).await {
            PermissionRequest::Write { diff, .. } => diff,
            other => panic!("{other:?}"),
        };
        assert!(shown("plain").await.contains("before"));
        for path in ["link", "../secret", &dir.path().join("secret").display().to_string()] {
            assert!(!shown(path).await.contains("s3cret"), "{path}");
        }
    }

    #[test]
    fn programs_are_allowed_one_thing_at_a_time() {
        let approval = Some(Approval::Commands { command_identifiers: vec!["echo".into()] });
        assert_eq!(Decision::from(Verdict::ApproveForSession(approval.clone())), Decision::Once);
        let for_location = Verdict::ApproveForLocation { approval, location_key: "/w".into() };
        assert_eq!(Decision::from(for_location), Decision::Once);
    }

    #[test]
    fn commands_that_are_not_shown_are_not_offered_for_a_session() {
        let asked = hidden_shell("c", Path::new("/w"), "ls\nrm x");
        let PermissionRequest::Shell { full_command_text, can_offer_session_approval, .. } = asked else {
            panic!("not a shell request")
        };
        assert_eq!((full_command_text.as_str(), can_offer_session_approval), ("# ls rm x", false));
    }
}
