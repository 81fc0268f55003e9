//! Serialises a prompt together with its request headers.
//!
//! The stored form of a [`Prompt`] leaves the headers out, because they may hold credentials. An ask needs them: the
//! session that receives it makes the model calls.

use std::collections::BTreeMap;

use baton_protocol::event::Prompt;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize)]
struct Borrowed<'a> {
    prompt: &'a Prompt,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    request_headers: &'a BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Owned {
    prompt: Box<Prompt>,
    #[serde(default)]
    request_headers: BTreeMap<String, String>,
}

pub(super) fn serialize<S: Serializer>(prompt: &Prompt, serializer: S) -> Result<S::Ok, S::Error> {
    Borrowed { prompt, request_headers: &prompt.request_headers }.serialize(serializer)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Box<Prompt>, D::Error> {
    let Owned { mut prompt, request_headers } = Owned::deserialize(deserializer)?;
    prompt.request_headers = request_headers;
    Ok(prompt)
}
