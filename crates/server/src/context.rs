//! Where a session works, as its events tell.

use std::path::Path;

use baton_protocol::event::WorkContext;

use crate::git;

/// The place around `directory`.
pub(crate) fn of(directory: &Path) -> WorkContext {
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
