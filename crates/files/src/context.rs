//! The directory that a session works in, and the repository around it.

use std::path::{Path, PathBuf};

use baton_disk::beneath;
use baton_disk::blocking;
use baton_protocol::event::WorkContext;

/// Reads the work context of a directory: the repository around it, with branch and commit. Only the path is set if the
/// file system does not respond in time.
pub async fn of(directory: PathBuf) -> WorkContext {
    let cwd = directory.to_string_lossy().into_owned();
    blocking::run(move || read(&directory)).await.unwrap_or_else(|error| {
        tracing::warn!(%cwd, %error, "failed to read the git repository of the directory; its context has only the path");
        WorkContext { cwd, ..WorkContext::default() }
    })
}

fn read(directory: &Path) -> WorkContext {
    let cwd = directory.to_string_lossy().into_owned();
    let Some(repository) = baton_git::around(directory) else {
        return WorkContext { cwd, ..WorkContext::default() };
    };
    let (host, name) = repository.origin.unzip();
    WorkContext {
        cwd,
        repository_host: host.clone(),
        base_commit: None,
        git_root: Some(repository.root.to_string_lossy().into_owned()),
        repository: name,
        // The protocol has two types of hosts.
        host_type: host.and_then(|host| match host.as_str() {
            "github.com" => Some("github".to_owned()),
            "dev.azure.com" => Some("ado".to_owned()),
            _ => None,
        }),
        branch: repository.branch,
        head_commit: repository.head,
    }
}

/// Whether a path is a directory. `false` if its file system does not respond in time: a session could not work there.
pub async fn is_directory(path: PathBuf) -> bool {
    #[expect(clippy::disallowed_methods, reason = "runs on the blocking pool")]
    blocking::run(move || path.is_dir()).await.unwrap_or(false)
}

/// Returns the real path of an absolute path, with all links followed as far as it exists; the path itself if its file
/// system does not respond in time.
pub async fn resolved_in_time(path: PathBuf) -> PathBuf {
    let unresolved = path.clone();
    blocking::run(move || beneath::resolve(&path)).await.unwrap_or(unresolved)
}
