//! `baton store copy`: copies sessions from one store to another, and can be repeated.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use baton_files::copy::{FilePlace, copy_files};
use baton_history::copy::{Copied, Skipped, copy};
use baton_history::owner;
use baton_postgres::{DatabaseLocation, PostgresStore};
use baton_protocol::SessionId;
use baton_store::sqlite::{Durability, SqliteStore};
use baton_store::{Owner, Store, StoreError, Take};
use serde_json::json;

use super::{ProgressNotes, load};
use crate::args::{Cli, CopyArgs, StoreCommand};
use crate::setup::SessionStore;
use crate::words::counted;
use crate::{config, setup, terminal};

pub(crate) fn store(cli: &Cli, command: &StoreCommand) -> anyhow::Result<ExitCode> {
    let config = load(cli)?;
    let StoreCommand::Copy(args) = command;
    setup::run(async {
        let (from, to) = (open(&args.from, &config)?, open(&args.to, &config)?);
        let done = copy_all(&from, &to, args).await;
        from.close().await?;
        to.close().await?;
        done
    })
}

/// Opens the store of a home, or a database.
#[allow(clippy::disallowed_methods, reason = "a command that serves nobody may block")]
fn open(name: &str, config: &config::Config) -> anyhow::Result<SessionStore> {
    if DatabaseLocation::is_url(name) {
        let mut location: DatabaseLocation = name.parse()?;
        anyhow::ensure!(
            location.password().is_none(),
            "other users of this machine can read a password in the arguments; pass it in PGPASSWORD"
        );
        if let Some(password) = config::Environment::of_process().get("PGPASSWORD") {
            location.password_if_missing(password);
        }
        return Ok(SessionStore::Database(Arc::new(PostgresStore::new(&location, &config.place.value)?)));
    }
    let home = std::path::Path::new(name);
    anyhow::ensure!(home.is_dir(), "{name} is neither a home of baton nor a URL of a database");
    Ok(SessionStore::File(Arc::new(SqliteStore::new(home.join("baton.db"), Durability::Full))))
}

async fn copy_all(from: &SessionStore, to: &SessionStore, args: &CopyArgs) -> anyhow::Result<ExitCode> {
    let all = from.list().await.context("cannot read the source")?;
    let us = owner::this_process();
    let (from_files, to_files) = (files_of(from, &args.from), files_of(to, &args.to));
    let mut notes = ProgressNotes::new(args.json);
    let (mut copied, mut records, mut current, mut skipped) = (0_u64, 0_u64, 0_u64, Vec::new());
    for (done, summary) in all.iter().enumerate() {
        notes.note("copying sessions", done as u64, all.len() as u64);
        match copy(&**from, &**to, summary, &us).await? {
            Copied::Records(count) => (copied, records) = (copied + 1, records + count),
            Copied::Nothing => current += 1,
            Copied::Skipped(why) => {
                skipped.push((summary.session.clone(), explain(&why)));
                continue;
            }
        }
        if !copy_files_of(&summary.session, &from_files, (&**to, &to_files), &us).await? {
            skipped.push((summary.session.clone(), format!("files: {}", explain(&Skipped::Open))));
        }
    }
    if args.json {
        let skipped: Vec<_> =
            skipped.iter().map(|(session, why)| json!({ "session": session, "reason": why })).collect();
        let summary =
            json!({ "copied": copied, "events": records, "unchanged": current, "skipped": skipped });
        terminal::json_line(&summary.to_string());
    } else {
        let (copied, records) = (counted(copied, "session"), counted(records, "event"));
        terminal::line(&format!("{copied} copied with {records}, {current} unchanged"));
        for (session, why) in &skipped {
            terminal::error(&format!("{session}: {why}"));
        }
    }
    Ok(if skipped.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn files_of<'a>(store: &'a SessionStore, name: &str) -> FilePlace<'a> {
    store.shared_files().map_or_else(|| FilePlace::Home(name.into()), FilePlace::Shared)
}

/// Copies the files of a session. Returns false if a server of the target has the session open.
async fn copy_files_of(
    session: &SessionId,
    from: &FilePlace<'_>,
    (target, to): (&dyn Store, &FilePlace<'_>),
    us: &Owner,
) -> anyhow::Result<bool> {
    let lease = match target.acquire(session, us.clone(), Take::IfFree).await {
        Ok(opened) => opened.lease,
        Err(StoreError::Held { .. } | StoreError::Elsewhere { .. }) => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    let copied = copy_files(from, to, &lease).await;
    target.release(lease).await?;
    copied?;
    Ok(true)
}

fn explain(why: &Skipped) -> String {
    match why {
        Skipped::Diverged => "it has continued in the target, or another session has its id there".into(),
        Skipped::Open => "a server has it open in the target; stop that server, or close the session".into(),
        Skipped::Damaged(damage) => damage.clone(),
        Skipped::Deleted => "it was deleted meanwhile".into(),
    }
}
