//! Who a session acts for.

use std::sync::Arc;

use baton_protocol::SessionId;
use baton_protocol::params::SessionParams;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, Handling};
use crate::Server;
use crate::github::{self, Identity};
use crate::rpc::errors;
use crate::session::Mail;

/// Whose token a client brings; an error if it is nobody's.
pub(super) async fn of(server: &Arc<Server>, params: &SessionParams) -> Result<Option<Identity>, String> {
    let Some(token) = &params.git_hub_token else { return Ok(None) };
    match &server.options.github_api {
        None => Ok(Some(Identity::unnamed())),
        Some(api) => github::identify(&server.models.network(), api, token).await.map(Some),
    }
}

/// A session's own identity, or that of the server.
pub(super) fn status(call: &Call<'_>) -> Handling {
    let account = call.connection.server.options.account.clone();
    call.view(move |view| match &view.settings.identity {
        Some(identity) => described(identity),
        None if account.authenticated => {
            let kind = account.kind.unwrap_or_else(|| "token".into());
            json!({ "isAuthenticated": true, "authType": kind, "statusMessage": format!("via {kind}") })
        }
        None => json!({ "isAuthenticated": false, "statusMessage": "Not authenticated" }),
    })
}

fn described(identity: &Identity) -> Value {
    let via = || format!("{} (via {})", identity.host, identity.kind);
    let message = identity.login.clone().filter(|_| identity.kind == "user").unwrap_or_else(via);
    let mut status = json!({
        "isAuthenticated": true,
        "authType": identity.kind,
        "host": identity.host,
        "statusMessage": message,
    });
    if let Some(login) = &identity.login {
        status["login"] = json!(login);
    }
    if let Some(plan) = identity.plan() {
        status["copilotPlan"] = json!(plan);
    }
    status
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SetCredentials {
    session_id: SessionId,
    credentials: Option<Credentials>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Credentials {
    #[serde(rename = "type")]
    kind: String,
    host: Option<String>,
    login: Option<String>,
    token: Option<String>,
    copilot_user: Option<Value>,
}

/// Other credentials from here on; without any, those of the server. They are never stored.
pub(super) fn set_credentials(call: &Call<'_>) -> Handling {
    let params: SetCredentials = call.parse()?;
    let handle = call.attached(&params.session_id)?;
    let resolved = params.credentials.as_ref().is_some_and(|credentials| credentials.copilot_user.is_some());
    let adjust = Mail::Adjust(Box::new(move |settings| match params.credentials {
        None => (settings.identity, settings.github_token) = (None, None),
        Some(credentials) => {
            settings.github_token = credentials.token;
            settings.identity = Some(Identity {
                kind: credentials.kind,
                host: credentials.host.unwrap_or_else(|| Identity::GITHUB.into()),
                login: credentials.login,
                account: credentials.copilot_user.unwrap_or_default(),
            });
        }
    }));
    handle.send(adjust).map_err(|failure| errors::of(call.method, &failure))?;
    call.now(json!({ "success": true, "copilotUserResolved": resolved }))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Quota {
    git_hub_token: Option<String>,
}

/// What GitHub says is left of an account's allowance. Without an API to ask there is nothing to tell.
pub(super) fn quota(call: &Call<'_>) -> Handling {
    let token = call.parse::<Quota>()?.git_hub_token;
    let (server, method) = (call.connection.server.clone(), call.method.to_owned());
    call.later(async move {
        let (Some(api), Some(token)) = (&server.options.github_api, token) else {
            return Ok(json!({ "quotaSnapshots": {} }));
        };
        let identity = github::identify(&server.models.network(), api, &token).await;
        let identity = identity.map_err(|why| errors::failed(&method, why))?;
        let snapshots = identity.account.get("quota_snapshots").and_then(Value::as_object);
        let told: serde_json::Map<String, Value> = snapshots
            .into_iter()
            .flatten()
            .map(|(name, snapshot)| (name.clone(), quota_of(snapshot)))
            .collect();
        Ok(json!({ "quotaSnapshots": told }))
    })
}

fn quota_of(snapshot: &Value) -> Value {
    let number = |name: &str| snapshot.get(name).and_then(Value::as_f64).unwrap_or(0.0);
    let flag = |name: &str| snapshot.get(name).and_then(Value::as_bool).unwrap_or(false);
    let (entitled, left) = (number("entitlement"), number("percent_remaining"));
    let used = (entitled * (100.0 - left) / 100.0).round().max(0.0);
    let mut quota = json!({
        "isUnlimitedEntitlement": flag("unlimited"),
        "entitlementRequests": entitled as i64,
        "usedRequests": used as i64,
        "usageAllowedWithExhaustedQuota": flag("overage_permitted"),
        "overage": number("overage_count"),
        "overageAllowedWithExhaustedQuota": flag("overage_permitted"),
        "remainingPercentage": left,
    });
    if let Some(reset) = snapshot.get("timestamp_utc").filter(|reset| reset.is_string()) {
        quota["resetDate"] = reset.clone();
    }
    quota
}
