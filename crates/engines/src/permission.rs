//! Permission requests of programs, built as the built-in tools build theirs, so that every client can show and answer
//! them.

use std::path::Path;

use baton_agent::tools::shell;
use baton_disk::{blocking, untrusted};
use baton_markup::diff::unified as unified_diff;
use baton_protocol::permission::{PermissionRequest, Verdict};
use baton_protocol::{Json, ToolCallId};
use serde_json::Value;

/// Message to a program's model about a denied action, where the user gave no feedback.
pub(crate) const DENIED: &str = "The user does not allow this.";

/// A verdict, reduced to the part that is sent to programs.
///
/// A program is never told that something is allowed from now on: it would apply that to actions that the user was not
/// shown, and a deny rule that is added later would not reach it. It asks each time, and the policy answers from its
/// grants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SingleVerdict {
    Allow,
    /// With the user's feedback, if there is any.
    Deny(Option<String>),
}

impl From<Verdict> for SingleVerdict {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::ApproveOnce | Verdict::ApproveForSession(_) | Verdict::ApproveForLocation { .. } => {
                Self::Allow
            }
            Verdict::Reject { feedback } => Self::Deny(feedback.filter(|text| !text.trim().is_empty())),
            Verdict::UserNotAvailable => Self::Deny(Some("No user is available to decide.".to_owned())),
            Verdict::DeniedByRules => Self::Deny(Some("The rules of this session deny this.".to_owned())),
        }
    }
}

/// Asks to run a command.
pub(crate) fn shell(call: &str, cwd: &Path, command: &str, intention: &str) -> PermissionRequest {
    shell::permission_request(&ToolCallId::from(call), cwd, command, intention)
}

/// Joins file names as a request carries them: one on each line. Returns an empty text if a name is missing or contains
/// a line break: the request is then ambiguous, and only the user can allow it.
pub(crate) fn file_names<'a>(names: impl IntoIterator<Item = Option<&'a str>>) -> String {
    let is_plain = |name: &&str| !name.is_empty() && !name.contains(['\n', '\r']);
    let names: Option<Vec<&str>> = names.into_iter().map(|name| name.filter(is_plain)).collect();
    names.unwrap_or_default().join("\n")
}

/// Returns a command line that runs in a directory other than the session's. A grant for `make` in the session's
/// directory does not cover `make` elsewhere, where the Makefile may be a different one.
pub(crate) fn in_directory(cwd: &Path, command: &str) -> String {
    let quoted = cwd.display().to_string().replace('\'', r"'\''");
    format!("cd '{quoted}' && {command}")
}

/// Asks to run a command that the program does not disclose. Only the program's title for it is known, which no grant
/// may cover: written as a comment, it is no command to the policy.
pub(crate) fn undisclosed_shell(call: &str, cwd: &Path, title: &str) -> PermissionRequest {
    let title: String = title.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    shell(call, cwd, &format!("# {title}"), "Run a command that the program does not show")
}

/// Asks to change files. `diff` is shown as it is.
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

/// Asks to read a file or a directory.
pub(crate) fn read(call: &str, path: &str, intention: &str) -> PermissionRequest {
    let tool_call_id = Some(ToolCallId::from(call));
    PermissionRequest::Read { tool_call_id, path: path.to_owned(), intention: intention.to_owned() }
}

/// Asks to fetch a URL.
pub(crate) fn url(call: &str, url: &str, intention: &str) -> PermissionRequest {
    let tool_call_id = Some(ToolCallId::from(call));
    PermissionRequest::Url { tool_call_id, url: url.to_owned(), intention: intention.to_owned() }
}

/// Asks to call a tool of an MCP server.
pub(crate) fn mcp(call: &str, server: &str, tool: &str, args: &Value) -> PermissionRequest {
    PermissionRequest::Mcp {
        tool_call_id: Some(ToolCallId::from(call)),
        server_name: server.to_owned(),
        tool_name: tool.to_owned(),
        tool_title: tool.to_owned(),
        args: Some(Json::from(args.clone())),
        read_only: false,
        binding: None,
    }
}

/// Asks to use any other tool.
pub(crate) fn custom_tool(call: &str, tool: &str, description: &str, args: &Value) -> PermissionRequest {
    PermissionRequest::CustomTool {
        tool_call_id: Some(ToolCallId::from(call)),
        tool_name: tool.to_owned(),
        tool_description: description.to_owned(),
        args: Some(Json::from(args.clone())),
    }
}

/// Asks for something that the user decides each time. No grant covers it, because its meaning depends on its
/// arguments.
pub(crate) fn ungrantable(call: &str, tool: &str, message: &str, args: &Value) -> PermissionRequest {
    PermissionRequest::Hook {
        tool_call_id: Some(ToolCallId::from(call)),
        tool_name: tool.to_owned(),
        tool_args: Some(Json::from(args.clone())),
        hook_message: Some(message.to_owned()),
    }
}

/// Larger files are not read for a diff, which would be too long to be read by the user.
const MAX_FILE_BYTES: usize = 1024 * 1024;

/// Asks to replace the content of a file with `new`. [`with_diff`] adds the difference.
pub(crate) fn replace(call: &str, path: &str, new: &str, intention: &str) -> PermissionRequest {
    let mut request = write(call, &file_names([Some(path)]), String::new(), intention);
    if let PermissionRequest::Write { new_file_contents, .. } = &mut request {
        *new_file_contents = Some(new.to_owned());
    }
    request
}

/// Adds the diff to a request that replaces a file. The current file is read, so that the user sees what would be lost.
/// A file that is not a regular file of the working directory, or that is too large, is not read: a link could otherwise put
/// any file into the request. The request then says that the file exists.
pub(crate) async fn with_diff(mut request: PermissionRequest, cwd: &Path) -> PermissionRequest {
    if let PermissionRequest::Write { file_name, diff, new_file_contents, intention, .. } = &mut request
        && diff.is_empty()
        && let Some(new) = new_file_contents.take()
    {
        let (cwd, full) = (cwd.to_owned(), cwd.join(&*file_name));
        let read = blocking::run(move || {
            let old = full.strip_prefix(&cwd).ok().and_then(|name| {
                untrusted::UntrustedDirectory::open(&cwd)
                    .ok()?
                    .read(name, MAX_FILE_BYTES)
                    .ok()
                    .filter(|old| !old.is_cut)
            });
            let old = old.and_then(|old| old.into_text().ok());
            let is_hidden = old.is_none() && exists(&full);
            (unified_diff(&full, old.as_deref(), &new), is_hidden)
        });
        let (shown, is_hidden) = read.await.unwrap_or_else(|error| (format!("(no diff: {error})"), false));
        *diff = shown;
        if is_hidden {
            *intention = REPLACES.to_owned();
        }
    }
    request
}

/// What a request says that replaces a file whose content it does not show.
const REPLACES: &str = "Replace a file that exists; what it contains now is not shown";

/// Whether there is anything at a path. Blocks.
#[expect(clippy::disallowed_methods, reason = "runs on the blocking pool")]
fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Asks to replace parts of a file: pairs of old and new text.
pub(crate) fn edit(call: &str, cwd: &Path, path: &str, parts: &[(&str, &str)]) -> PermissionRequest {
    let diffs: Vec<String> =
        parts.iter().map(|(old, new)| unified_diff(&cwd.join(path), Some(old), new)).collect();
    write(call, &file_names([Some(path)]), diffs.join("\n"), "")
}

#[cfg(test)]
mod tests {
    use baton_protocol::permission::Approval;

    use super::*;

    #[test]
    fn ambiguous_file_names_yield_none() {
        assert_eq!(file_names([Some("a"), Some("/b, c")]), "a\n/b, c");
        assert_eq!(file_names([Some("a"), None]), "");
        assert_eq!(file_names([Some("a"), Some("")]), "");
        assert_eq!(file_names([Some("sub\nlink/a")]), "");
        assert_eq!(file_names([]), "");
    }

    #[tokio::test]
    async fn diff_does_not_follow_links_out_of_the_working_directory() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("secret"), "s3cret").unwrap();
        std::fs::create_dir(dir.path().join("work")).unwrap();
        std::fs::write(dir.path().join("work/plain"), "before").unwrap();
        std::os::unix::fs::symlink("../secret", dir.path().join("work/link")).unwrap();
        let work = dir.path().join("work");
        let shown = async |path: &str| match with_diff(replace("c", path, "new", ""), &work).await {
            PermissionRequest::Write { diff, intention, .. } => intention + &diff,
            other => panic!("{other:?}"),
        };
        assert!(shown("plain").await.contains("before") && !shown("plain").await.contains(REPLACES));
        assert!(!shown("new").await.contains(REPLACES) && shown("link").await.contains(REPLACES));
        for path in ["link", "../secret", &dir.path().join("secret").display().to_string()] {
            assert!(!shown(path).await.contains("s3cret"), "{path}");
        }
    }

    #[test]
    fn lasting_approvals_reach_the_program_as_single_ones() {
        let approval = Some(Approval::Commands { command_identifiers: vec!["echo".into()] });
        assert_eq!(SingleVerdict::from(Verdict::ApproveForSession(approval.clone())), SingleVerdict::Allow);
        let for_location = Verdict::ApproveForLocation { approval, location_key: "/w".into() };
        assert_eq!(SingleVerdict::from(for_location), SingleVerdict::Allow);
    }

    #[test]
    fn undisclosed_commands_cannot_be_approved_for_the_session() {
        let asked = undisclosed_shell("c", Path::new("/w"), "ls\nrm x");
        let PermissionRequest::Shell { full_command_text, can_offer_session_approval, .. } = asked else {
            panic!("not a shell request")
        };
        assert_eq!((full_command_text.as_str(), can_offer_session_approval), ("# ls rm x", false));
    }
}
