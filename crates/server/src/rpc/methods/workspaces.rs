//! A session's workspace beyond its plain files: checkpoints, large pastes, and what has changed in the repository.

use baton_protocol::event::{FileOperation, WorkspaceFileChanged};
use baton_protocol::{SessionId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::history::Known;
use super::{Call, Handling};
use crate::checkpoints::Checkpoints;
use crate::git;
use crate::git::program::{Base, LARGEST_DIFF};
use crate::rpc::errors;

/// Does something with a session's checkpoints, where it may block.
fn with_checkpoints(
    call: &Call<'_>,
    work: impl FnOnce(&Checkpoints) -> std::io::Result<Value> + Send + 'static,
) -> Handling {
    let (handle, method) = (call.session()?, call.method.to_owned());
    call.later(async move {
        let directory = handle.look(|view| view.tools.directory().to_owned()).await;
        let directory = directory.map_err(|failure| errors::of(&method, &failure))?;
        let done = tokio::task::spawn_blocking(move || work(&Checkpoints::of(&directory))).await;
        done.map_err(std::io::Error::other).flatten().map_err(|error| errors::failed(&method, error))
    })
}

pub(super) fn checkpoints(call: &Call<'_>) -> Handling {
    with_checkpoints(call, |checkpoints| Ok(json!({ "checkpoints": checkpoints.list()? })))
}

#[derive(Deserialize)]
struct ReadCheckpoint {
    number: u64,
}

pub(super) fn read_checkpoint(call: &Call<'_>) -> Handling {
    let ReadCheckpoint { number } = call.parse()?;
    with_checkpoints(call, move |checkpoints| Ok(json!({ "content": checkpoints.read(number)? })))
}

#[derive(Deserialize)]
struct AddSummary {
    title: String,
    content: String,
}

/// A checkpoint that a client has written itself.
pub(super) fn add_summary(call: &Call<'_>) -> Handling {
    let AddSummary { title, content } = call.parse()?;
    with_checkpoints(call, move |checkpoints| {
        let added = checkpoints.add(&title, &content)?;
        let mut summary = json!(added);
        summary["path"] = json!(checkpoints.path(&added));
        Ok(json!({ "summary": summary }))
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct KeepSummaries {
    keep_count: usize,
}

pub(super) fn truncate_summaries(call: &Call<'_>) -> Handling {
    let KeepSummaries { keep_count } = call.parse()?;
    with_checkpoints(call, move |checkpoints| checkpoints.keep(keep_count).map(|()| json!({})))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LargePaste {
    session_id: SessionId,
    content: String,
}

/// Keeps what somebody pasted as a file of the workspace, so that the model can read it piece by piece.
pub(super) fn save_large_paste(call: &Call<'_>) -> Handling {
    let params: LargePaste = call.parse()?;
    let handle = call.attached(&params.session_id)?;
    call.with_files(handle, move |files| {
        let name = format!("paste-{}.txt", Timestamp::now().as_millis());
        files.write(&name, &params.content)?;
        let saved = json!({
            "filePath": files.path_of(&name)?,
            "filename": name,
            "sizeBytes": params.content.len(),
        });
        let event = WorkspaceFileChanged { operation: FileOperation::Create, path: name };
        Ok((json!({ "saved": saved }), Some(event.into())))
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DiffParams {
    session_id: SessionId,
    mode: DiffMode,
    #[serde(default)]
    ignore_whitespace: Option<bool>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum DiffMode {
    Unstaged,
    Branch,
    Session,
}

/// What has changed in the repository that the session works in, by git's own account.
pub(super) fn diff(call: &Call<'_>) -> Handling {
    let params: DiffParams = call.parse()?;
    let (handle, method) = (call.attached(&params.session_id)?, call.method.to_owned());
    let server = call.connection.server.clone();
    call.later(async move {
        let told = |failure| errors::of(&method, &failure);
        let cwd = handle.look(|view| view.session.durable.facts.context.cwd.clone()).await.map_err(told)?;
        let mut answer = json!({ "requestedMode": params.mode, "mode": params.mode, "isFallback": false });
        if params.mode == DiffMode::Session {
            let known = Known::of(&handle, &*server.store).await.map_err(told)?;
            match known.unavailable() {
                Some(reason) => (answer["unavailableReason"], answer["changes"]) = (json!(reason), json!([])),
                None => answer["changes"] = known.changes(cwd).await.into(),
            }
            return Ok(answer);
        }
        let base = if params.mode == DiffMode::Branch { Base::ForkPoint } else { Base::Index };
        let environment = &server.options.environment;
        let ignore_whitespace = params.ignore_whitespace.unwrap_or(false);
        let difference = git::program::difference(cwd.into(), environment, base, ignore_whitespace).await;
        if let Some(branch) = difference.branch {
            answer["baseBranch"] = json!(branch);
        } else if params.mode == DiffMode::Branch {
            answer["mode"] = json!(DiffMode::Unstaged);
            answer["isFallback"] = json!(true);
        }
        answer["changes"] = changes(&difference.text).into();
        Ok(answer)
    })
}

/// The changes of one diff, file by file.
fn changes(diff: &str) -> Vec<Value> {
    const HEAD: &str = "diff --git ";
    let mut left = LARGEST_DIFF;
    let pieces = diff.split("\ndiff --git ").enumerate().filter(|(_, piece)| !piece.is_empty());
    pieces
        .map(|(at, piece)| {
            change(&if at == 0 { piece.to_owned() } else { format!("{HEAD}{piece}") }, &mut left)
        })
        .collect()
}

fn change(diff: &str, left: &mut usize) -> Value {
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
    fn a_diff_is_told_file_by_file() {
        let diff = "diff --git a/gone.txt b/gone.txt\ndeleted file mode 100644\n--- a/gone.txt\n+++ /dev/null\n\
                    @@ -1 +0,0 @@\n-x\ndiff --git a/a b/b\nsimilarity index 100%\nrename from a\nrename to b\n\
                    diff --git a/t.txt b/t.txt\n--- a/t.txt\n+++ b/t.txt\n@@ -1 +1 @@\n-before\n+after\n";
        let told = changes(diff);
        let kinds: Vec<_> = told.iter().map(|c| (c["path"].as_str(), c["changeType"].as_str())).collect();
        let expected = [("gone.txt", "deleted"), ("b", "renamed"), ("t.txt", "modified")];
        assert_eq!(kinds, expected.map(|(path, kind)| (Some(path), Some(kind))));
        assert!(
            told[2]["diff"].as_str().is_some_and(|d| d.starts_with("diff --git") && d.ends_with("+after"))
        );
        assert_eq!(changes(""), Vec::<Value>::new());
    }
}
