//! The sandbox of a session: which policy counts, and the files that programs inside created and that act.
//!
//! The walls themselves are built by `baton-sandbox`.

use std::io;
use std::path::Path;
use std::sync::Arc;

use baton_core::{SandboxBase, Session};
use baton_files::held::HeldFiles;
use baton_protocol::sandbox::SandboxChoice;

use super::{WorkScope, prompt};
use crate::Runtime;

/// Returns the policy for the next call of a session: that of the session, else that of the configuration, else the default.
#[must_use]
pub fn choice_for(session: &Session) -> &SandboxChoice {
    session.sandbox()
}

/// Returns what this server contributes to the sandbox of its sessions.
pub(crate) fn base(runtime: &Runtime) -> SandboxBase {
    let options = &runtime.options;
    SandboxBase { default: Arc::new(options.sandbox.clone()), missing: options.sandbox_status.missing() }
}

/// Moves a held file back to its path in the working directory.
pub(super) async fn restore_file(scope: &WorkScope, path: String, kept: String) -> Result<(), String> {
    let cwd = prompt::cwd(scope);
    with_held(scope, move |held| held.restore(&kept, &cwd, Path::new(&path))).await
}

/// Deletes a held file.
pub(super) async fn drop_file(scope: &WorkScope, kept: String) -> Result<(), String> {
    with_held(scope, move |held| held.discard(&kept)).await
}

async fn with_held(
    scope: &WorkScope,
    act: impl FnOnce(HeldFiles) -> io::Result<()> + Send + 'static,
) -> Result<(), String> {
    let held = scope.tools.files().held();
    match tokio::task::spawn_blocking(move || act(held)).await {
        Ok(done) => done.map_err(|error| error.to_string()),
        Err(_) => Err("internal error; see the server log".to_owned()),
    }
}
