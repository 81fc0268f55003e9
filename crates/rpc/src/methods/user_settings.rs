//! Settings of the user, which apply to all sessions.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Call, Handled, void};
use baton_service::settings::{ChangeSettings, ReadSettings, ReloadSettings};

pub(super) fn get(call: &Call<'_>) -> Handled {
    let (service, caller) = (call.service().clone(), call.caller());
    call.later(async move {
        let settings = service.perform(&caller, ReadSettings).await?;
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
    let (service, caller) = (call.service().clone(), call.caller());
    call.later(async move {
        service.perform(&caller, ChangeSettings { changes: settings }).await?;
        Ok(json!({ "shadowedKeys": [] }))
    })
}

pub(super) fn reload(call: &Call<'_>) -> Handled {
    call.service().perform_now(&call.caller(), ReloadSettings)?;
    call.now(void())
}
