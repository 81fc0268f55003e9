//! Settings of the user, which apply to all sessions.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Call, Handled, void};
use crate::errors::CallError;

pub(super) fn get(call: &Call<'_>) -> Handled {
    let runtime = call.runtime().clone();
    call.later(async move {
        let settings = runtime.preferences.described().await.map_err(CallError::failed)?;
        Ok(json!({ "settings": settings }))
    })
}

#[derive(Deserialize)]
struct Set {
    settings: Map<String, Value>,
}

/// Changes settings. No other file can override one, so none is shadowed.
pub(super) fn set(call: &Call<'_>) -> Handled {
    let Set { settings } = call.parse()?;
    let runtime = call.runtime().clone();
    call.later(async move {
        runtime.preferences.set(settings).await.map_err(CallError::failed)?;
        Ok(json!({ "shadowedKeys": [] }))
    })
}

pub(super) fn reload(call: &Call<'_>) -> Handled {
    call.runtime().preferences.forget();
    call.now(void())
}
