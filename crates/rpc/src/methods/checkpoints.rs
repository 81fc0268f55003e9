//! Checkpoints of a session: the summaries of its compactions, and those that clients add.

use std::io;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, Handled, blocking};
use crate::errors::CallError;
use baton_runtime::checkpoints::Checkpoints;

/// Runs work on the checkpoints of the session, on a thread that may block.
fn with_checkpoints(
    call: &Call<'_>,
    work: impl FnOnce(&Checkpoints) -> io::Result<Value> + Send + 'static,
) -> Handled {
    let handle = call.session()?;
    call.later(async move {
        let checkpoints = handle.inspect().await?.files.checkpoints();
        blocking(move || work(&checkpoints)).await?.map_err(CallError::failed)
    })
}

pub(super) fn list(call: &Call<'_>) -> Handled {
    with_checkpoints(call, |checkpoints| Ok(json!({ "checkpoints": checkpoints.list()? })))
}

#[derive(Deserialize)]
struct Read {
    number: u64,
}

pub(super) fn read(call: &Call<'_>) -> Handled {
    let Read { number } = call.parse()?;
    with_checkpoints(call, move |checkpoints| Ok(json!({ "content": checkpoints.read(number)? })))
}

#[derive(Deserialize)]
struct Add {
    title: String,
    content: String,
}

/// Adds a checkpoint that the client wrote.
pub(super) fn add(call: &Call<'_>) -> Handled {
    let Add { title, content } = call.parse()?;
    with_checkpoints(call, move |checkpoints| {
        let added = checkpoints.add(&title, &content)?;
        let mut summary = json!(added);
        summary["path"] = json!(checkpoints.path(&added));
        Ok(json!({ "summary": summary }))
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Truncate {
    keep_count: usize,
}

/// Deletes all checkpoints but the first ones.
pub(super) fn truncate(call: &Call<'_>) -> Handled {
    let Truncate { keep_count } = call.parse()?;
    with_checkpoints(call, move |checkpoints| checkpoints.keep(keep_count).map(|()| json!({})))
}
