//! Logging in and out, and secret values.

use serde::Deserialize;
use serde_json::json;

use super::{Call, Handled};
use baton_providers::github::GithubIdentity;
use baton_service::accounts;

#[derive(Deserialize)]
struct Login {
    host: String,
    token: String,
    login: Option<String>,
}

/// Logs in with a token, for sessions whose client sends none. The token is verified if there is an API to verify it with.
pub(super) fn login(call: &Call<'_>) -> Handled {
    let Login { host, token, login } = call.parse()?;
    let (service, caller) = (call.service().clone(), call.caller());
    call.later(async move {
        service.perform(&caller, accounts::LogIn { host, token, login }).await?;
        Ok(json!({ "storedInVault": false }))
    })
}

pub(super) fn current(call: &Call<'_>) -> Handled {
    let current = call.service().perform_now(&call.caller(), accounts::ShowAccount)?;
    call.now(current.map_or_else(|| json!({}), |account| json!({ "authInfo": account.described() })))
}

/// Lists stored accounts. There are none: accounts are in memory only, and their tokens are not disclosed.
pub(super) fn list_stored(call: &Call<'_>) -> Handled {
    call.now(json!([]))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Logout {
    auth_info: Option<AccountName>,
}

#[derive(Deserialize)]
struct AccountName {
    host: Option<String>,
    login: Option<String>,
}

/// Logs out of an account; of the current one if none is named.
pub(super) fn logout(call: &Call<'_>) -> Handled {
    let Logout { auth_info } = call.parse()?;
    let account = auth_info
        .map(|AccountName { host, login }| (host.unwrap_or_else(|| GithubIdentity::GITHUB.into()), login));
    let remaining = call.service().perform_now(&call.caller(), accounts::LogOut { account })?;
    call.now(json!({ "hasMoreUsers": remaining > 0 }))
}

#[derive(Deserialize)]
struct FilterValues {
    values: Vec<String>,
}

/// Adds secret values, which are redacted from the output of tools from now on.
pub(super) fn add_secrets(call: &Call<'_>) -> Handled {
    let FilterValues { values } = call.parse()?;
    call.service().perform_now(&call.caller(), accounts::HideSecrets { values })?;
    call.now(json!({ "ok": true }))
}
