//! Checkpoints of a session: the summaries of its compactions, and those that clients add.

use baton_ask::files::{AddCheckpoint, KeepCheckpoints, ListCheckpoints, ReadCheckpoint};
use serde::Deserialize;
use serde_json::json;

use super::{Call, Handled};

pub(super) fn list(call: &Call<'_>) -> Handled {
    call.ask_later(&call.session()?, ListCheckpoints {}, |all| json!({ "checkpoints": all }))
}

#[derive(Deserialize)]
struct Read {
    number: u64,
}

pub(super) fn read(call: &Call<'_>) -> Handled {
    let (handle, Read { number }) = call.parse_for_session()?;
    call.ask_later(&handle, ReadCheckpoint { number }, |content| json!({ "content": content }))
}

#[derive(Deserialize)]
struct Add {
    title: String,
    content: String,
}

/// Adds a checkpoint that the client wrote.
pub(super) fn add(call: &Call<'_>) -> Handled {
    let (handle, Add { title, content }) = call.parse_for_session()?;
    call.ask_later(&handle, AddCheckpoint { title, content }, |(added, path)| {
        let mut summary = json!(added);
        summary["path"] = json!(path);
        json!({ "summary": summary })
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Truncate {
    keep_count: usize,
}

/// Deletes all checkpoints but the first ones.
pub(super) fn truncate(call: &Call<'_>) -> Handled {
    let (handle, Truncate { keep_count }) = call.parse_for_session()?;
    call.ask_later(&handle, KeepCheckpoints { count: keep_count }, |_| json!({}))
}
