//! `baton mcp trust`: approves the servers that files of the workspace declare, as they are now.

use std::collections::BTreeSet;
use std::process::ExitCode;

use baton_addons::mcp::{Declared, describe};
use serde_json::json;

use super::{NO_SUCH_SERVER, Surroundings};
use crate::{changes, terminal};

pub(super) async fn trust(around: &Surroundings, yes: bool, as_json: bool) -> anyhow::Result<ExitCode> {
    let pending = around.catalogue.workspace(&around.cwd, &BTreeSet::new()).await.pending;
    if pending.is_empty() {
        terminal::note("no file of this workspace declares MCP servers that are not trusted");
        return Ok(ExitCode::from(NO_SUCH_SERVER));
    }
    // With --json, standard output is for the result only.
    let show = if as_json { terminal::note } else { terminal::line };
    for file in &pending {
        show(&file.path.display().to_string());
        for line in file.servers.iter().map(shown).collect::<Vec<_>>().join("\n").lines() {
            show(&format!("  {line}"));
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
    let files: Vec<_> = pending.iter().map(|file| file.path.clone()).collect();
    let approved = pending.into_iter().map(|file| (file.path, file.digest)).collect();
    around.catalogue.approve(approved).await.map_err(anyhow::Error::msg)?;
    changes::report(as_json, "trusted, until a file changes", &json!({ "trusted": files }));
    Ok(ExitCode::SUCCESS)
}

/// Describes a server completely: its values are those of a file, and no secrets of the user.
fn shown(server: &Declared) -> String {
    match &server.config {
        Ok(config) => describe(&server.name, config),
        Err(error) => format!("{:?}: {:?}", server.name, error.problem),
    }
}

#[cfg(test)]
mod tests {
    use baton_addons::mcp::Origin;

    use super::*;

    #[test]
    fn variables_are_shown_with_their_values() {
        let origin = Origin::Workspace { file: "/w/.mcp.json".into(), root: "/w".into() };
        let value = json!({ "command": "x", "env": { "LD_PRELOAD": "./evil.so" }, "cwd": "/elsewhere" });
        let text = shown(&Declared::parse("s", &value, origin));
        assert!(text.contains("LD_PRELOAD=./evil.so x") && text.contains("cwd: /elsewhere"), "{text}");
    }
}
