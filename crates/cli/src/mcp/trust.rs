//! `baton mcp trust`: approves the servers that files of the workspace declare, as they are now.

use std::process::ExitCode;

use super::{NO_SUCH_SERVER, Surroundings, described};
use crate::terminal;

pub(super) async fn trust(around: &Surroundings, yes: bool) -> anyhow::Result<ExitCode> {
    let pending = around.catalogue.workspace(&around.cwd).await.pending;
    if pending.is_empty() {
        terminal::note("no file of this workspace declares MCP servers that are not trusted");
        return Ok(ExitCode::from(NO_SUCH_SERVER));
    }
    for file in &pending {
        terminal::line(&file.path.display().to_string());
        for server in &file.servers {
            let what = server.config.as_ref().map_or_else(|error| error.problem.clone(), described);
            terminal::line(&format!("  {}: {what}", server.name));
        }
    }
    if !yes {
        let answer = terminal::ask("trust these servers, and let sessions start them? [y/N]");
        anyhow::ensure!(answer.is_some(), "cannot ask without a terminal; use --yes to trust them");
        if answer.as_deref() != Some("y") {
            terminal::note("not trusted");
            return Ok(ExitCode::FAILURE);
        }
    }
    let approved = pending.into_iter().map(|file| (file.path, file.digest)).collect();
    around.catalogue.approve(approved).await.map_err(anyhow::Error::msg)?;
    terminal::note("trusted, until a file changes");
    Ok(ExitCode::SUCCESS)
}
