//! Trust in a directory that another agent's program would take orders from.
//!
//! Such programs run hooks, servers and plugins that the directory they start in names, before anybody is asked for
//! anything. Baton itself reads nothing of the kind. So the first start of a program in a directory that has such files
//! asks a person. The answer holds as long as the session is in memory; for good, a client adds the directory to the
//! trusted folders.

use std::path::{Path, PathBuf};

use baton_agent::blocking;
use baton_protocol::Json;
use baton_protocol::permission::PermissionRequest;
use serde_json::json;

use crate::Server;
use crate::locations::Location;

/// The name under which the question is asked; no program's own name for a question can be the same.
pub(super) const REFERENCE: &str = "baton:trust";

/// A directory that is not trusted yet, and what in it would act.
pub(super) struct Untrusted {
    pub(super) directory: PathBuf,
    names: Vec<&'static str>,
}

/// The files and directories from which a program takes hooks, servers or plugins.
fn acting(engine: &str) -> &'static [&'static str] {
    match engine {
        "claude" => &[".claude", ".mcp.json"],
        "codex" => &[".codex"],
        "opencode" => &[".opencode", "opencode.json", "opencode.jsonc"],
        "pi" => &[".pi"],
        "gemini" => &[".gemini"],
        "qwen" => &[".qwen"],
        _ => &[
            ".claude",
            ".mcp.json",
            ".codex",
            ".opencode",
            "opencode.json",
            "opencode.jsonc",
            ".pi",
            ".gemini",
            ".qwen",
        ],
    }
}

/// Looks for what would act in a directory, or between it and the root of its repository. None if there is nothing, or
/// somebody trusts it. What cannot be looked at is not trusted.
pub(super) async fn untrusted(server: &Server, engine: &'static str, cwd: &Path) -> Option<Untrusted> {
    let names = match Location::of(cwd.to_owned()).await {
        Ok(Location { key, .. }) => {
            let (root, start) = (PathBuf::from(key), cwd.to_owned());
            blocking::run(move || found(engine, &start, &root)).await.ok()
        }
        Err(_) => None,
    };
    let names = names.unwrap_or_else(|| acting(engine).to_vec());
    if names.is_empty() || server.locations.is_trusted(cwd.to_owned()).await == Ok(true) {
        return None;
    }
    Some(Untrusted { directory: cwd.to_owned(), names })
}

#[expect(clippy::disallowed_methods, reason = "runs on the blocking pool")]
fn found(engine: &str, start: &Path, root: &Path) -> Vec<&'static str> {
    let start = start.canonicalize().unwrap_or_else(|_| start.to_owned());
    let places: Vec<&Path> = start.ancestors().take_while(|place| place.starts_with(root)).collect();
    let is_there =
        |name: &&'static str| places.iter().any(|place| place.join(name).symlink_metadata().is_ok());
    acting(engine).iter().copied().filter(is_there).collect()
}

impl Untrusted {
    /// The question to a person.
    pub(super) fn request(&self, engine: &str) -> PermissionRequest {
        let (directory, names) = (self.directory.display(), self.names.join(", "));
        PermissionRequest::Hook {
            tool_call_id: None,
            tool_name: "trust".into(),
            tool_args: Some(Json::from(json!({ "directory": directory.to_string(), "files": self.names }))),
            hook_message: Some(format!(
                "{directory} has {names}. {engine} runs hooks, servers and plugins that are named there, without asking. \
                 Do you trust this directory?"
            )),
        }
    }

    /// Why a program was not started.
    pub(super) fn refusal(&self, engine: &str) -> String {
        let (directory, names) = (self.directory.display(), self.names.join(", "));
        format!("{engine} was not started: {directory} has {names}, and nobody trusts this directory.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_act_are_found_up_to_the_root_of_the_repository() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap().join("repo");
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::create_dir(root.parent().unwrap().join(".claude")).unwrap();
        let look = |engine: &str| found(engine, &root.join("a/b"), &root);
        assert!(look("claude").is_empty(), "above the repository is the user's own");
        std::fs::create_dir(root.join("a/.claude")).unwrap();
        std::os::unix::fs::symlink("/nowhere", root.join(".mcp.json")).unwrap();
        assert_eq!(look("claude"), [".claude", ".mcp.json"], "also as links that lead nowhere");
        assert!(look("codex").is_empty());
        assert_eq!(look("a new one"), [".claude", ".mcp.json"]);
    }
}
