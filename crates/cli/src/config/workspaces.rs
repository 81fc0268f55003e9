//! `[workspaces]` of the configuration file: how long workspaces of crush's client live, and how their runs are treated.

use std::time::Duration;

use anyhow::Context;
use baton_crush::WorkspaceOptions;
use serde::Deserialize;

use super::show::TableRows;

/// The `[workspaces]` table.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct WorkspaceTable {
    create_grace_seconds: Option<f64>,
    detach_grace_seconds: Option<f64>,
    keep_running: Option<bool>,
    approve_runs: Option<bool>,
}

impl WorkspaceTable {
    /// Adds the values in force to those that `baton config` shows.
    pub(super) fn show(&self, mut rows: TableRows<'_>) {
        let Self { create_grace_seconds, detach_grace_seconds, keep_running, approve_runs } = self;
        let default = WorkspaceOptions::default();
        rows.add("create_grace_seconds", *create_grace_seconds, &default.create_grace.as_secs_f64());
        rows.add("detach_grace_seconds", *detach_grace_seconds, &default.detach_grace.as_secs_f64());
        rows.add("keep_running", *keep_running, &default.keep_running);
        rows.add("approve_runs", *approve_runs, &default.approve_runs);
    }

    pub(crate) fn options(&self) -> anyhow::Result<WorkspaceOptions> {
        let default = WorkspaceOptions::default();
        let seconds = |name: &str, value: Option<f64>, default: Duration| match value {
            None => Ok(default),
            Some(value) => Duration::try_from_secs_f64(value)
                .with_context(|| format!("workspaces.{name} = {value} is not a number of seconds")),
        };
        Ok(WorkspaceOptions {
            create_grace: seconds("create_grace_seconds", self.create_grace_seconds, default.create_grace)?,
            detach_grace: seconds("detach_grace_seconds", self.detach_grace_seconds, default.detach_grace)?,
            keep_running: self.keep_running.unwrap_or(default.keep_running),
            approve_runs: self.approve_runs.unwrap_or(default.approve_runs),
        })
    }
}
