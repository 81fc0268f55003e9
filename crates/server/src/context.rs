//! Where a session works, as its events tell.

use std::path::{Path, PathBuf};

use baton_agent::blocking;
use baton_protocol::event::WorkContext;

use crate::git;

/// The location around `directory`. Where its file system does not answer, only its name is known.
pub(crate) async fn of(directory: PathBuf) -> WorkContext {
    let cwd = directory.to_string_lossy().into_owned();
    blocking::run(move || read(&directory)).await.unwrap_or_else(|error| {
        tracing::warn!(%cwd, %error, "cannot tell whether the directory is a git repository");
        WorkContext { cwd, ..WorkContext::default() }
    })
}

fn read(directory: &Path) -> WorkContext {
    let cwd = directory.to_string_lossy().into_owned();
    let Some(repository) = git::around(directory) else {
        return WorkContext { cwd, ..WorkContext::default() };
    };
    let (host, name) = repository.origin.unzip();
    WorkContext {
        cwd,
        repository_host: host.clone(),
        base_commit: None,
        git_root: Some(repository.root.to_string_lossy().into_owned()),
        repository: name,
        // The wire knows two kinds of hosts.
        host_type: host.and_then(|host| match host.as_str() {
            "github.com" => Some("github".to_owned()),
            "dev.azure.com" => Some("ado".to_owned()),
            _ => None,
        }),
        branch: repository.branch,
        head_commit: repository.head,
    }
}

/// Whether there is a directory of that name. One whose file system does not answer is none that could be worked in.
pub(crate) async fn is_directory(path: PathBuf) -> bool {
    #[expect(clippy::disallowed_methods, reason = "runs on the blocking pool")]
    blocking::run(move || path.is_dir()).await.unwrap_or(false)
}

/// The path without links; as it is named, where there is nothing of that name.
pub(crate) async fn resolved(path: PathBuf) -> PathBuf {
    let named = path.clone();
    #[expect(clippy::disallowed_methods, reason = "runs on the blocking pool")]
    let resolved = blocking::run(move || path.canonicalize()).await;
    resolved.ok().and_then(Result::ok).unwrap_or(named)
}
