//! Trust in directories whose files engine programs act on.
//!
//! These programs run hooks, servers and plugins that are configured in the directory they start in, before the first
//! permission request. Baton itself reads no such files. Therefore the first start of a program in a directory with such
//! files asks the user. The answer is valid while the session is live; a client can add the directory to the trusted
//! folders.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use baton_disk::blocking;
use baton_engines::Engine;
use baton_files::locations::Location;
use baton_protocol::Json;
use baton_protocol::permission::PermissionRequest;
use serde_json::json;

use crate::Runtime;

/// Reference of the trust request. It differs from every reference that a program can choose.
pub(super) const REFERENCE: &str = "baton:trust";

/// A directory that is not trusted, and the files in it that a program would act on.
pub(super) struct Untrusted {
    pub(super) directory: PathBuf,
    names: Vec<&'static str>,
}

/// Looks for files that a program would act on, in a directory and its parents up to the root of the repository. Returns
/// `None` if there are none, or if the directory is trusted. A directory that cannot be read is not trusted.
pub(super) async fn untrusted(runtime: &Runtime, engine: &dyn Engine, cwd: &Path) -> Option<Untrusted> {
    let active = engine.active_files();
    let names = match Location::of(cwd.to_owned()).await {
        Ok(Location { key, .. }) => {
            let (root, start, active) = (PathBuf::from(key), cwd.to_owned(), active.clone());
            blocking::run(move || found(active, &start, &root)).await.ok()
        }
        Err(_) => None,
    };
    let names = names.unwrap_or(active);
    if names.is_empty() || runtime.locations.is_trusted(cwd.to_owned()).await == Ok(true) {
        return None;
    }
    Some(Untrusted { directory: cwd.to_owned(), names })
}

/// Returns those of the names that exist in a directory or its parents up to the root. Blocks.
#[expect(clippy::disallowed_methods, reason = "runs on the blocking pool")]
fn found(mut names: Vec<&'static str>, start: &Path, root: &Path) -> Vec<&'static str> {
    let start = start.canonicalize().unwrap_or_else(|_| start.to_owned());
    let directories: Vec<&Path> = start.ancestors().take_while(|parent| parent.starts_with(root)).collect();
    names.retain(|name| directories.iter().any(|directory| has_content(&directory.join(name))));
    names
}

/// Whether a path exists, and is not an empty directory: programs leave such directories behind when they are ended, and there
/// is nothing in them to act on. A link counts, and so does what cannot be read. Blocks.
#[expect(clippy::disallowed_methods, reason = "runs on the blocking pool")]
fn has_content(path: &Path) -> bool {
    match path.symlink_metadata() {
        Ok(found) if found.is_dir() => path.read_dir().map_or(true, |mut entries| entries.next().is_some()),
        Ok(_) => true,
        Err(error) => !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
    }
}

impl Untrusted {
    /// Builds the permission request.
    pub(super) fn request(&self, engine: &str) -> PermissionRequest {
        let (directory, names) = (self.directory.display(), self.names.join(", "));
        PermissionRequest::Hook {
            tool_call_id: None,
            tool_name: "trust".into(),
            tool_args: Some(Json::from(json!({ "directory": directory.to_string(), "files": self.names }))),
            hook_message: Some(format!(
                "{directory} has {names}. {engine} uses the hooks, servers, plugins and variables configured there without asking. \
                 Do you trust this directory?"
            )),
        }
    }

    /// Returns the error for a program that was not started.
    pub(super) fn refusal(&self, engine: &str) -> String {
        let (directory, names) = (self.directory.display(), self.names.join(", "));
        format!("{engine} was not started: {directory} has {names} and is not trusted")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn active_files_are_found_up_to_the_repository_root() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap().join("repo");
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::create_dir(root.parent().unwrap().join(".toy")).unwrap();
        let look = || found(vec![".toy", "toy.json", ".env"], &root.join("a/b"), &root);
        assert!(look().is_empty(), "files above the repository are the user's own");
        std::fs::create_dir(root.join("a/.toy")).unwrap();
        assert!(look().is_empty(), "an empty directory is nothing to trust");
        std::fs::create_dir(root.join("a/.toy/hooks")).unwrap();
        std::os::unix::fs::symlink("/nowhere", root.join("toy.json")).unwrap();
        assert_eq!(look(), [".toy", "toy.json"], "dangling links count");
        std::fs::write(root.join(".env"), "BASH_ENV=./evil.sh").unwrap();
        assert_eq!(look(), [".toy", "toy.json", ".env"]);
    }
}
