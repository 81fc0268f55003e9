//! Checkpoints of a session: the summaries of its compactions, and those that clients add.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, Handled};
use crate::errors::CallError;
use baton_runtime::session::ask::UseFiles;
use baton_runtime::session::file_requests::{FileReply, FileRequest};

/// Sends a request about the checkpoints of the session.
fn with_checkpoints(
    call: &Call<'_>,
    request: FileRequest,
    encode: impl FnOnce(FileReply) -> Value + Send + 'static,
) -> Handled {
    let handle = call.session()?;
    call.later(async move {
        let served = handle.ask(UseFiles { request: Box::new(request) }).await?;
        served.map(encode).map_err(CallError::failed)
    })
}

pub(super) fn list(call: &Call<'_>) -> Handled {
    with_checkpoints(call, FileRequest::ListCheckpoints {}, |reply| {
        let all = if let FileReply::Checkpoints(all) = reply { all } else { Vec::new() };
        json!({ "checkpoints": all })
    })
}

#[derive(Deserialize)]
struct Read {
    number: u64,
}

pub(super) fn read(call: &Call<'_>) -> Handled {
    let Read { number } = call.parse()?;
    with_checkpoints(call, FileRequest::ReadCheckpoint { number }, |reply| {
        let content = if let FileReply::Text { content, .. } = reply { content } else { None };
        json!({ "content": content })
    })
}

#[derive(Deserialize)]
struct Add {
    title: String,
    content: String,
}

/// Adds a checkpoint that the client wrote.
pub(super) fn add(call: &Call<'_>) -> Handled {
    let Add { title, content } = call.parse()?;
    with_checkpoints(call, FileRequest::AddCheckpoint { title, content }, |reply| {
        let mut summary = Value::Null;
        if let FileReply::Added(added, path) = reply {
            summary = json!(added);
            summary["path"] = json!(path);
        }
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
    let Truncate { keep_count } = call.parse()?;
    with_checkpoints(call, FileRequest::KeepCheckpoints { count: keep_count }, |_| json!({}))
}
