//! The GitHub account that a session acts for.

use baton_ask::Configure;
use baton_providers::github::GithubIdentity;
use baton_service::accounts::LookUpAccount;
use baton_settings::SettingsEdit;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, Handled};

/// Returns the account of the session, or else that of the server.
pub(super) fn status(call: &Call<'_>) -> Handled {
    let account = call.service().account().clone();
    call.inspect(move |view| match &view.settings.identity {
        Some(identity) => described(identity),
        None if account.authenticated => {
            let kind = account.kind.unwrap_or_else(|| "token".into());
            json!({ "isAuthenticated": true, "authType": kind, "statusMessage": format!("via {kind}") })
        }
        None => json!({ "isAuthenticated": false, "statusMessage": "Not authenticated" }),
    })
}

fn described(identity: &GithubIdentity) -> Value {
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
struct SetCredentials {
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

/// Sets the credentials of the session; without any, it uses those of the server. They are never stored.
pub(super) fn set_credentials(call: &Call<'_>) -> Handled {
    let (handle, SetCredentials { credentials }) = call.parse_for_session()?;
    let resolved = credentials.as_ref().is_some_and(|credentials| credentials.copilot_user.is_some());
    let credentials = credentials.map(|credentials| {
        let identity = GithubIdentity {
            kind: credentials.kind,
            host: credentials.host.unwrap_or_else(|| GithubIdentity::GITHUB.into()),
            login: credentials.login,
            account: credentials.copilot_user.unwrap_or_default(),
        };
        (identity, credentials.token)
    });
    let edit = Box::new(SettingsEdit::Credentials(credentials));
    call.ask(
        &handle,
        Configure { edit },
        move |()| json!({ "success": true, "copilotUserResolved": resolved }),
    )
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Quota {
    git_hub_token: Option<String>,
}

/// Returns the quota of an account, from GitHub's API; empty without an API or a token.
pub(super) fn quota(call: &Call<'_>) -> Handled {
    let token = call.parse::<Quota>()?.git_hub_token;
    let (service, caller) = (call.service().clone(), call.caller());
    call.later(async move {
        let found = match token {
            Some(token) => service.perform(&caller, LookUpAccount { token }).await?,
            None => None,
        };
        let Some(identity) = found else { return Ok(json!({ "quotaSnapshots": {} })) };
        let snapshots = identity.account.get("quota_snapshots").and_then(Value::as_object);
        let quotas: serde_json::Map<String, Value> = snapshots
            .into_iter()
            .flatten()
            .map(|(name, snapshot)| (name.clone(), described_quota(snapshot)))
            .collect();
        Ok(json!({ "quotaSnapshots": quotas }))
    })
}

fn described_quota(snapshot: &Value) -> Value {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn used_requests_follow_from_the_remaining_percentage() {
        let quota = described_quota(&json!({
            "entitlement": 300,
            "percent_remaining": 75.5,
            "overage_permitted": true,
            "timestamp_utc": "2026-11-16T00:00:00Z",
        }));
        assert_eq!(quota["usedRequests"], 74);
        assert_eq!(quota["entitlementRequests"], 300);
        assert_eq!(quota["usageAllowedWithExhaustedQuota"], true);
        assert_eq!(quota["resetDate"], "2026-11-16T00:00:00Z");
        assert_eq!(described_quota(&json!({}))["usedRequests"], 0);
    }
}
