//! The user's own settings.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Call, Handling, void};
use crate::rpc::errors;

pub(super) fn get(call: &Call<'_>) -> Handling {
    let (server, method) = (call.connection.server.clone(), call.method.to_owned());
    call.later(async move {
        let settings = server.preferences.described().await.map_err(|why| errors::failed(&method, why))?;
        Ok(json!({ "settings": settings }))
    })
}

#[derive(Deserialize)]
struct Set {
    settings: Map<String, Value>,
}

/// No other file is read that could have a say, so that nothing set here is without effect.
pub(super) fn set(call: &Call<'_>) -> Handling {
    let Set { settings } = call.parse()?;
    let (server, method) = (call.connection.server.clone(), call.method.to_owned());
    call.later(async move {
        server.preferences.set(settings).await.map_err(|why| errors::failed(&method, why))?;
        Ok(json!({ "shadowedKeys": [] }))
    })
}

pub(super) fn reload(call: &Call<'_>) -> Handling {
    call.connection.server.preferences.forget();
    call.now(void())
}
