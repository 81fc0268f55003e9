//! Differences of the working directory: by git, or by the snapshots of a session.

use baton_ask::files::CompareFiles;
use baton_ask::{ComparedFile, GitDiff};
use baton_git::program::LARGEST_DIFF;
use baton_service::LiveSession;
use baton_store::Seq;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::rewind::RewindState;
use super::{Call, Handled};
use crate::errors::CallError;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DiffParams {
    mode: DiffMode,
    #[serde(default)]
    ignore_whitespace: Option<bool>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum DiffMode {
    /// Against git's index.
    Unstaged,
    /// Against the commit where the branch forked.
    Branch,
    /// Against the files before the session changed them.
    Session,
}

/// Compares the working directory of a session, file by file.
pub(super) fn diff(call: &Call<'_>) -> Handled {
    let (handle, DiffParams { mode, ignore_whitespace }) = call.parse_for_session()?;
    let (service, caller) = (call.service().clone(), call.caller());
    call.later(async move {
        let mut result = json!({ "requestedMode": mode, "mode": mode, "isFallback": false });
        if mode == DiffMode::Session {
            let cwd = handle.inspect().await?.cwd().to_owned();
            let state = RewindState::load(&service, &caller, &handle).await?;
            match state.files_unavailable() {
                Some(reason) => (result["unavailableReason"], result["changes"]) = (json!(reason), json!([])),
                None => result["changes"] = session_changes(&handle, state, cwd).await?.into(),
            }
            return Ok(result);
        }
        let (from_fork, ignore_whitespace) = (mode == DiffMode::Branch, ignore_whitespace.unwrap_or(false));
        let (branch, text) = handle.ask(GitDiff { from_fork, ignore_whitespace }).await?;
        if let Some(branch) = branch {
            result["baseBranch"] = json!(branch);
        } else if mode == DiffMode::Branch {
            result["mode"] = json!(DiffMode::Unstaged);
            result["isFallback"] = json!(true);
        }
        result["changes"] = git_changes(&text).into();
        Ok(result)
    })
}

/// Lists the files that the session changed, with paths relative to its working directory.
async fn session_changes(
    handle: &LiveSession,
    state: RewindState,
    cwd: String,
) -> Result<Vec<Value>, CallError> {
    let touched = state.file_history.touched_since(Seq::ZERO);
    let changed = handle.ask(CompareFiles { touched, cwd }).await?;
    Ok(changed.iter().map(session_change).collect())
}

fn session_change(file: &ComparedFile) -> Value {
    let diff = file.diff.as_deref().unwrap_or_default();
    let mut change = json!({ "path": file.path, "changeType": file.change, "diff": diff });
    if file.diff.is_none() {
        change["isTruncated"] = json!(true);
    }
    change
}

/// Splits a diff of git into files.
fn git_changes(diff: &str) -> Vec<Value> {
    const HEAD: &str = "diff --git ";
    let mut left = LARGEST_DIFF;
    let files = diff.split("\ndiff --git ").enumerate().filter(|(_, file)| !file.is_empty());
    files
        .map(|(at, file)| {
            git_change(&if at == 0 { file.to_owned() } else { format!("{HEAD}{file}") }, &mut left)
        })
        .collect()
}

fn git_change(diff: &str, left: &mut usize) -> Value {
    let head: Vec<&str> = diff.lines().take_while(|line| !line.starts_with("@@")).collect();
    let after = |prefix: &str| head.iter().find_map(|line| line.strip_prefix(prefix));
    let kind = if after("new file mode").is_some() {
        "added"
    } else if after("deleted file mode").is_some() {
        "deleted"
    } else if after("rename from ").is_some() {
        "renamed"
    } else {
        "modified"
    };
    let named = after("rename to ").or_else(|| after("+++ b/")).or_else(|| after("--- a/"));
    let path = named.or_else(|| diff.lines().next()?.rsplit_once(" b/").map(|(_, path)| path));
    let text = diff.strip_suffix('\n').unwrap_or(diff);
    let shown: String =
        if text.len() <= *left { text.to_owned() } else { text.chars().take(*left).collect() };
    *left = left.saturating_sub(shown.len());
    let mut change = json!({ "path": path.unwrap_or_default(), "changeType": kind, "diff": shown });
    if let Some(old) = after("rename from ") {
        change["oldPath"] = json!(old);
    }
    if shown.len() < text.len() {
        change["isTruncated"] = json!(true);
    }
    change
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diff_of_git_is_split_into_files() {
        let diff = "diff --git a/gone.txt b/gone.txt\ndeleted file mode 100644\n--- a/gone.txt\n+++ /dev/null\n\
                    @@ -1 +0,0 @@\n-x\ndiff --git a/a b/b\nsimilarity index 100%\nrename from a\nrename to b\n\
                    diff --git a/t.txt b/t.txt\n--- a/t.txt\n+++ b/t.txt\n@@ -1 +1 @@\n-before\n+after\n";
        let changes = git_changes(diff);
        let kinds: Vec<_> = changes.iter().map(|c| (c["path"].as_str(), c["changeType"].as_str())).collect();
        let expected = [("gone.txt", "deleted"), ("b", "renamed"), ("t.txt", "modified")];
        assert_eq!(kinds, expected.map(|(path, kind)| (Some(path), Some(kind))));
        assert!(
            changes[2]["diff"].as_str().is_some_and(|d| d.starts_with("diff --git") && d.ends_with("+after"))
        );
        assert_eq!(git_changes(""), Vec::<Value>::new());
    }

    #[test]
    fn diff_beyond_the_limit_is_truncated() {
        let change = git_change("diff --git a/t b/t\n+++ b/t\n@@ -1 +1 @@\n+after\n", &mut 10);
        assert_eq!(change["diff"], "diff --git");
        assert_eq!(change["isTruncated"], true);
        assert_eq!(change["path"], "t");
    }
}
